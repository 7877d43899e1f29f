"""Quantizes that multiply by the reciprocal of a scale, as `write_reciprocal` writes them:

    QuantizeLinear(Mul(x, r), 1, zero point)      ->  quant.qcast %x {quant.rounding = "reciprocal"}

where all that reads the codes, moved or not, dequantizes them by one scale s (or one of each index
of a dimension) with r = fl(1 / s). The scale 1 is that of the product; it divides exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from qdialect.algebra.float_path import reciprocals
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.ir import ops as nn
from qdialect.ir.ops import ConstantOp, constant_array
from qdialect.ir.quant import ROUNDING_KEY, QCastOp, quant_element, with_element
from qdialect.plugins.onnx.read import quantization
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.quantized_inputs import read_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.read.importer import Importer


def quantize(imp: Importer, node: Node) -> list[SSAValue] | None:
    """`QuantizeLinear(x, scale, zero_point)` as `quant.qcast`."""
    found = quantization.quantize(imp, node)
    if found is None:
        return None
    cast_op = cast("QCastOp", found[0].owner)
    element = quant_element(cast_op.result.type)
    product = cast_op.input.owner
    if element is None or set(element.qparams.scale_list()) != {1.0}:
        return found
    if not isinstance(product, nn.MulOp) or not isinstance(product.rhs.owner, ConstantOp):
        return found
    x, factors = product.lhs, constant_array(product.rhs.owner, imp.ctx.blobs)
    read = read_below(imp, node.outputs[0], cast_op.result.type)
    if read is None or x.type != product.results[0].type:
        return found
    rank = cast("TensorType[Attribute]", x.type).get_num_dims()
    if not _are_reciprocals(element.qparams, read.qparams, factors, rank):
        return found
    imp.take_back()
    imp.replaced.extend((product, product.rhs.owner))
    new = QCastOp(x, with_element(x.type, read))
    new.attributes[ROUNDING_KEY] = StringAttr(Rounding.RECIPROCAL.value)
    return [imp.emit(new).results[0]]


def _are_reciprocals(unit: QParams, read: QParams, factors: NDArray[np.generic], rank: int) -> bool:
    """Whether codes of `unit`, of products with `factors`, are read by the scales whose
    reciprocals these are."""
    if {unit.expressed, read.expressed} != {"f32"} or unit.storage != read.storage:
        return False
    zeros = unit.zero_point_list() * (read.count if unit.is_per_tensor else 1)
    if read.layout.value == "block" or zeros != read.zero_point_list():
        return False
    if not unit.is_per_tensor and unit.axis != read.axis:
        return False
    shape = [1] * rank
    if read.axis is not None:
        shape[read.axis] = read.count
    known = reciprocals(read.scale_array(), np.dtype("f4")).reshape(shape)
    given = factors.reshape((1,) * (rank - factors.ndim) + factors.shape)
    return given.shape == known.shape and bool((given == known).all())
