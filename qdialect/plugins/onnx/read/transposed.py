"""Constants in another shape: a matrix [K, N] as [N, K], a row [1, N] as [N]."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.ir.ops import ConstantOp, constant_array, make_constant
from qdialect.ir.quant import DCastOp, UniformType, quant_element

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer


def is_constant(value: SSAValue) -> bool:
    """Whether a value is a constant or a dequantized one."""
    owner = value.owner
    producer = owner.input.owner if isinstance(owner, DCastOp) else owner
    return isinstance(producer, ConstantOp)


def transposed_constant(imp: Importer, value: SSAValue) -> SSAValue | None:
    """The transpose of `value` under the same keys; None if it is no constant and no
    dequantized constant."""
    owner = value.owner
    if isinstance(owner, ConstantOp):
        imp.replaced.append(owner)
        return _transposed(imp, owner)
    if isinstance(owner, DCastOp) and isinstance(owner.input.owner, ConstantOp):
        imp.replaced.extend((owner, owner.input.owner))
        constant = _transposed(imp, owner.input.owner)
        target = _swap(cast("TensorType[Attribute]", owner.result.type))
        return _like(imp, owner, DCastOp(constant, target))
    return None


def flat_constant(imp: Importer, value: SSAValue) -> SSAValue | None:
    """The row `value` [1, N] as [N] under the same keys; None if it is no constant and no
    dequantized constant of one scale."""
    owner = value.owner
    if isinstance(owner, ConstantOp):
        imp.replaced.append(owner)
        return _flat(imp, owner)
    if not isinstance(owner, DCastOp) or not isinstance(owner.input.owner, ConstantOp):
        return None
    element = quant_element(owner.input.type)
    if element is None or not element.qparams.is_per_tensor:
        return None
    imp.replaced.extend((owner, owner.input.owner))
    kind = cast("TensorType[Attribute]", owner.result.type)
    target = TensorType(kind.element_type, kind.get_shape()[1:])
    return _like(imp, owner, DCastOp(_flat(imp, owner.input.owner), target))


def _flat(imp: Importer, constant: ConstantOp) -> SSAValue:
    array = constant_array(constant, imp.ctx.blobs)
    element = constant.result.type.element_type
    return _like(imp, constant, make_constant(array.reshape(-1), element, imp.ctx.blobs))


def _transposed(imp: Importer, constant: ConstantOp) -> SSAValue:
    array = constant_array(constant, imp.ctx.blobs)
    element = _swap(constant.result.type).element_type
    return _like(imp, constant, make_constant(array.T, element, imp.ctx.blobs))


def _like(imp: Importer, original: Operation, op: Operation) -> SSAValue:
    """Append `op` with the attributes and location of `original`."""
    op.attributes.update(original.attributes)
    op.location = original.location
    imp.block.add_op(op)
    return op.results[0]


def _swap(kind: TensorType[Attribute]) -> TensorType[Attribute]:
    element = kind.element_type
    if isinstance(element, UniformType):
        element = UniformType(element.qparams.transposed())
    return TensorType(element, tuple(reversed(kind.get_shape())))
