"""Dequantization spelled out: `Mul(Cast(q), scale)` and `Mul(Sub(Cast(q), zero), scale)`.

Older exporters and weight compressors write a DequantizeLinear so.  With integers of 16
bits or less the cast and the subtraction are exact in f32 and the product rounds once,
as `quant.dcast` does: the same function bit for bit.  So does `Mul(Cast(sums), scale)` of
a MatMulInteger or ConvInteger, whose sums have 32 bits and no zero point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams.parameters import Storage
from qdialect.ir import ops as nn
from qdialect.ir.ops import ConstantOp, constant_array
from qdialect.ir.quant import DCastOp, SCastOp, UniformType, element_type, with_element
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.read.compute import Results, same
from qdialect.plugins.onnx.read.integer_products import channels_of, is_accumulator, rescaled
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.parameter_arrays import element_of
from qdialect.plugins.onnx.read.quantization import shape_of, storage_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.read.importer import Importer

_WIDEST = 16


def multiply(imp: Importer, node: Node) -> Results:
    """`Mul`, or the dequantization it ends."""
    if len(node.inputs) == 2 and imp.opset >= 7:
        for number, name in enumerate(node.inputs):
            scale = _number(imp, node.inputs[1 - number])
            if scale is not None and name in imp.values:
                sums = _scaled_sums(imp, node, number, scale)
                if sums is not None:
                    return sums
                found = _codes(imp, imp.values[name])
                element = found and element_of(found.shape, found.storage, scale, found.zero)
                if found is not None and element is not None:
                    return _dequantized(imp, node, found, element)
    return same(nn.MulOp, 2)(imp, node)


def _number(imp: Importer, name: str) -> NDArray[Any] | None:
    """A constant, or a product of two."""
    found = imp.static(name)
    if found is not None or name not in imp.values:
        return found
    owner = imp.values[name].owner
    if not isinstance(owner, nn.MulOp):
        return None
    factors = [_constant(imp, operand) for operand in owner.operands]
    if factors[0] is None or factors[1] is None:
        return None
    imp.replaced.extend((owner, *(cast("ConstantOp", v.owner) for v in owner.operands)))
    return factors[0] * factors[1]


def _scaled_sums(imp: Importer, node: Node, number: int, scale: NDArray[Any]) -> Results:
    """`Mul(Cast(MatMulInteger(...)), scale)`: the accumulator under this scale, dequantized.

    `quant.dcast` makes the sum an f32 and multiplies, rounding as Cast and Mul do.
    """
    cast_op = imp.values[node.inputs[number]].owner
    if not _is_cast_to_f32(cast_op):
        return None
    stored = _unread(cast("NodeOp", cast_op).operands[0])
    shape, owner = shape_of(stored.type), stored.owner
    if shape is None or not isinstance(owner, Operation) or not is_accumulator(owner):
        return None
    element = element_of(shape, Storage.of("i32"), scale)
    if element is None or element.qparams.axis not in (None, channels_of(owner)):
        return None
    node.inputs = [node.inputs[number], node.inputs[1 - number]]
    node.names_inputs = node.inputs[1] in imp.statics
    imp.replaced.extend(_from(cast("NodeOp", cast_op), stored))
    sums = rescaled(imp, owner, element)
    kind = cast("TensorType[Attribute]", sums.type)
    return [imp.emit(DCastOp(sums, with_element(kind, f32))).results[0]]


def _from(last: NodeOp, value: SSAValue) -> list[Operation]:
    """`last` and the casts that lead from `value` to it, last first."""
    found: list[Operation] = [last]
    while found[-1].operands[0] is not value:
        found.append(cast("Operation", found[-1].operands[0].owner))
    return found


def _unread(value: SSAValue) -> SSAValue:
    """The quantized value whose stored integers `value` is, or itself."""
    while isinstance(value.owner, SCastOp) and isinstance(
        element_type(value.owner.operands[0].type), UniformType
    ):
        value = value.owner.operands[0]
    return value


@dataclass(frozen=True)
class _Codes:
    """Integers that a kept `Cast` makes floats, less zero points; the ops in between."""

    stored: SSAValue
    shape: tuple[int, ...]
    storage: Storage
    zero: NDArray[Any] | None
    passed: list[Any]


def _codes(imp: Importer, value: SSAValue) -> _Codes | None:
    owner, zero = value.owner, None
    passed: list[Any] = []
    if isinstance(owner, nn.SubOp):
        zero = _constant(imp, owner.rhs)
        if zero is None:
            return None
        passed.append(owner)
        owner = owner.lhs.owner
    if not _is_cast_to_f32(owner):
        return None
    stored = cast("NodeOp", owner).operands[0]
    shape, storage = shape_of(stored.type), storage_name(element_type(stored.type))
    if shape is None or storage is None or not _is_narrow(storage):
        return None
    return _Codes(stored, shape, Storage.of(storage), zero, [*passed, owner])


def _is_cast_to_f32(owner: Any) -> bool:
    return (
        isinstance(owner, NodeOp)
        and (owner.op_type.data, owner.domain.data) == ("Cast", "")
        and element_type(owner.results[0].type) == f32
    )


def _is_narrow(storage: str) -> bool:
    kind = Storage.of(storage)
    return not kind.is_float and kind.width <= _WIDEST


def _constant(imp: Importer, value: SSAValue) -> NDArray[Any] | None:
    """A constant, perhaps behind a kept `Cast` of integers to f32."""
    owner = value.owner
    if _is_cast_to_f32(owner):
        owner = cast("NodeOp", owner).operands[0].owner
    return constant_array(owner, imp.ctx.blobs) if isinstance(owner, ConstantOp) else None


def _dequantized(imp: Importer, node: Node, found: _Codes, element: UniformType) -> Results:
    """The codes read under `element`; what led to them goes, if nothing else reads it."""
    node.names_inputs = False
    stored = _unread(found.stored)
    imp.replaced.extend(found.passed)
    if isinstance(stored.owner, ConstantOp) and not isinstance(
        element_type(stored.type), UniformType
    ):
        imp.replaced.append(stored.owner)
        operand = imp.constant(nn.keys_of(stored.owner)[0], element)
    else:
        operand = imp.quantized(stored, element)
    kind = cast("TensorType[Attribute]", operand.type)
    return [imp.emit(DCastOp(operand, with_element(kind, f32))).results[0]]
