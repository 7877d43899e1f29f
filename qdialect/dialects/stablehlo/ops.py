"""The operations."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import ConstantLike, IsTerminator, Pure

from qdialect.dialects.stablehlo.attributes import (
    ConvolutionDimensionsAttr,
    DotDimensionsAttr,
    GatherDimensionsAttr,
)

_TENSOR = TensorType.constr()
_I64S = DenseArrayBase.constr(i64)
_I64 = IntegerAttr.constr(i64)


class StablehloOp(IRDLOperation, ABC):
    """An operation without side effects."""

    traits = traits_def(Pure())


class UnaryOp(StablehloOp, ABC):
    """One operand, one result."""

    operand = operand_def(_TENSOR)
    result = result_def(_TENSOR)


class BinaryOp(StablehloOp, ABC):
    """Operands of one shape: nothing is broadcast."""

    lhs = operand_def(_TENSOR)
    rhs = operand_def(_TENSOR)
    result = result_def(_TENSOR)


@irdl_op_definition
class ConstantOp(StablehloOp):
    """`value`: the elements; the stored integers, of a quantized result."""

    name = "stablehlo.constant"
    value = prop_def(Attribute)
    output = result_def(_TENSOR)
    traits = traits_def(Pure(), ConstantLike())


@irdl_op_definition
class UniformQuantizeOp(UnaryOp):
    """Of floats or of quantized numbers: clamp(roundeven(x / scale + zero point))."""

    name = "stablehlo.uniform_quantize"


@irdl_op_definition
class UniformDequantizeOp(UnaryOp):
    """`stablehlo.uniform_dequantize`, as upstream defines it."""

    name = "stablehlo.uniform_dequantize"


@irdl_op_definition
class BitcastConvertOp(UnaryOp):
    """The same bits: quantized numbers as the integers that are stored, and back."""

    name = "stablehlo.bitcast_convert"


@irdl_op_definition
class ConvertOp(UnaryOp):
    """`stablehlo.convert`, as upstream defines it."""

    name = "stablehlo.convert"


@irdl_op_definition
class AddOp(BinaryOp):
    """`stablehlo.add`, as upstream defines it."""

    name = "stablehlo.add"


@irdl_op_definition
class SubtractOp(BinaryOp):
    """`stablehlo.subtract`, as upstream defines it."""

    name = "stablehlo.subtract"


@irdl_op_definition
class MultiplyOp(BinaryOp):
    """`stablehlo.multiply`, as upstream defines it."""

    name = "stablehlo.multiply"


@irdl_op_definition
class MaximumOp(BinaryOp):
    """`stablehlo.maximum`, as upstream defines it."""

    name = "stablehlo.maximum"


@irdl_op_definition
class MinimumOp(BinaryOp):
    """`stablehlo.minimum`, as upstream defines it."""

    name = "stablehlo.minimum"


@irdl_op_definition
class DivideOp(BinaryOp):
    """`stablehlo.divide`, as upstream defines it."""

    name = "stablehlo.divide"


@irdl_op_definition
class ExponentialOp(UnaryOp):
    """`stablehlo.exponential`, as upstream defines it."""

    name = "stablehlo.exponential"


@irdl_op_definition
class ClampOp(StablehloOp):
    """`stablehlo.clamp`, as upstream defines it."""

    name = "stablehlo.clamp"
    min = operand_def(_TENSOR)
    operand = operand_def(_TENSOR)
    max = operand_def(_TENSOR)
    result = result_def(_TENSOR)


@irdl_op_definition
class ConvolutionOp(StablehloOp):
    """`stablehlo.convolution`, as upstream defines it."""

    name = "stablehlo.convolution"
    lhs = operand_def(_TENSOR)
    rhs = operand_def(_TENSOR)
    window_strides = opt_prop_def(_I64S)
    padding = opt_prop_def(Attribute)
    lhs_dilation = opt_prop_def(_I64S)
    rhs_dilation = opt_prop_def(_I64S)
    window_reversal = opt_prop_def(DenseArrayBase)
    dimension_numbers = prop_def(ConvolutionDimensionsAttr)
    feature_group_count = prop_def(_I64)
    batch_group_count = prop_def(_I64)
    precision_config = opt_prop_def(Attribute)
    result = result_def(_TENSOR)


@irdl_op_definition
class DotGeneralOp(StablehloOp):
    """`stablehlo.dot_general`, as upstream defines it."""

    name = "stablehlo.dot_general"
    lhs = operand_def(_TENSOR)
    rhs = operand_def(_TENSOR)
    dot_dimension_numbers = prop_def(DotDimensionsAttr)
    precision_config = opt_prop_def(Attribute)
    algorithm = opt_prop_def(Attribute)
    result = result_def(_TENSOR)


@irdl_op_definition
class ReduceWindowOp(StablehloOp):
    """`body` combines two scalars and ends with `stablehlo.return`."""

    name = "stablehlo.reduce_window"
    inputs = var_operand_def(_TENSOR)
    window_dimensions = prop_def(_I64S)
    window_strides = opt_prop_def(_I64S)
    base_dilations = opt_prop_def(_I64S)
    window_dilations = opt_prop_def(_I64S)
    padding = opt_prop_def(Attribute)
    body = region_def("single_block")
    outputs = var_result_def(_TENSOR)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """`stablehlo.return`, as upstream defines it."""

    name = "stablehlo.return"
    values = var_operand_def(_TENSOR)
    traits = traits_def(IsTerminator(), Pure())


@irdl_op_definition
class ReshapeOp(UnaryOp):
    """`stablehlo.reshape`, as upstream defines it."""

    name = "stablehlo.reshape"


@irdl_op_definition
class TransposeOp(UnaryOp):
    """`stablehlo.transpose`, as upstream defines it."""

    name = "stablehlo.transpose"
    permutation = prop_def(_I64S)


@irdl_op_definition
class BroadcastInDimOp(UnaryOp):
    """`broadcast_dimensions`: where each dimension of the operand goes."""

    name = "stablehlo.broadcast_in_dim"
    broadcast_dimensions = prop_def(_I64S)


@irdl_op_definition
class SliceOp(UnaryOp):
    """`stablehlo.slice`, as upstream defines it."""

    name = "stablehlo.slice"
    start_indices = prop_def(_I64S)
    limit_indices = prop_def(_I64S)
    strides = prop_def(_I64S)


@irdl_op_definition
class PadOp(StablehloOp):
    """`stablehlo.pad`, as upstream defines it."""

    name = "stablehlo.pad"
    operand = operand_def(_TENSOR)
    padding_value = operand_def(_TENSOR)
    edge_padding_low = prop_def(_I64S)
    edge_padding_high = prop_def(_I64S)
    interior_padding = prop_def(_I64S)
    result = result_def(_TENSOR)


@irdl_op_definition
class ConcatenateOp(StablehloOp):
    """`stablehlo.concatenate`, as upstream defines it."""

    name = "stablehlo.concatenate"
    inputs = var_operand_def(_TENSOR)
    dimension = prop_def(_I64)
    result = result_def(_TENSOR)


@irdl_op_definition
class GatherOp(StablehloOp):
    """`stablehlo.gather`, as upstream defines it."""

    name = "stablehlo.gather"
    operand = operand_def(_TENSOR)
    start_indices = operand_def(_TENSOR)
    dimension_numbers = prop_def(GatherDimensionsAttr)
    slice_sizes = prop_def(_I64S)
    indices_are_sorted = opt_prop_def(BoolAttr)
    result = result_def(_TENSOR)


OPS: list[type[Operation]] = [
    AddOp,
    BitcastConvertOp,
    BroadcastInDimOp,
    ClampOp,
    ConcatenateOp,
    ConstantOp,
    ConvertOp,
    ConvolutionOp,
    DivideOp,
    DotGeneralOp,
    ExponentialOp,
    GatherOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    PadOp,
    ReduceWindowOp,
    ReshapeOp,
    ReturnOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
]
