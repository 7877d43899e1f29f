"""The two operations of IREE's `iree_linalg_ext` that quantize: those of IREE 3.13.

    quantize_affine     clamp(roundeven(x / scale) + zero_point, quant_min, quant_max)
    dequantize_affine   float(q - zero_point) * scale

Operands are the input, the scale, the zero point and what is written over; maps say which of
their elements belong together. Text is exchanged in the generic form only.
"""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Dialect
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

_TENSOR = TensorType.constr()


class AffineOp(IRDLOperation, ABC):
    """What both have."""

    input = operand_def(_TENSOR)
    scale = operand_def(AnyAttr())
    zero_point = operand_def(AnyAttr())
    init = operand_def(_TENSOR)
    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    result = result_def(_TENSOR)
    traits = traits_def(Pure())


@irdl_op_definition
class QuantizeAffineOp(AffineOp):
    """`storage_unsigned`: codes are unsigned."""

    name = "iree_linalg_ext.quantize_affine"
    quant_min = prop_def(IntegerAttr.constr(i64))
    quant_max = prop_def(IntegerAttr.constr(i64))
    storage_unsigned = opt_prop_def(UnitAttr)


@irdl_op_definition
class DequantizeAffineOp(AffineOp):
    """`input_unsigned`: codes are unsigned."""

    name = "iree_linalg_ext.dequantize_affine"
    input_unsigned = opt_prop_def(UnitAttr)


IREE_LINALG_EXT = Dialect("iree_linalg_ext", [QuantizeAffineOp, DequantizeAffineOp], [])
