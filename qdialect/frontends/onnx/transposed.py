"""A constant matrix [K, N], or a dequantized one, as [N, K]."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.dialects.nn import ConstantOp, constant_array, make_constant
from qdialect.dialects.quant import DCastOp, UniformType

if TYPE_CHECKING:
    from qdialect.frontends.onnx.importer import Importer


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
        element = UniformType(element.qparams.of_transposed())
    return TensorType(element, tuple(reversed(kind.get_shape())))
