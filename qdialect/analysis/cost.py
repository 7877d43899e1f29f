"""What values and ops cost, in elements, bytes and float operations."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from qdialect.ir.behaviors import Behavior
from qdialect.ir.behaviors.declaration import Accumulator
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops.priced_shapes import priced_like, priced_shape


def elements(value: SSAValue) -> int:
    """Number of elements, of the shape it is priced with; 1 for an unknown rank."""
    return prod(priced_shape(value)) if isinstance(value.type, TensorType) else 1


def products(op: Operation, accumulator: Accumulator) -> int:
    """Products summed per element of a contraction, of the shapes it is priced with."""
    open_ = any(isinstance(v.type, TensorType) and DYNAMIC in shape_of(v) for v in op.operands)
    if not open_:
        return accumulator.depth(op)
    like = priced_like(op)
    depth = accumulator.depth(like)
    like.drop_all_references()
    return depth


def size(value: SSAValue) -> int:
    """Bytes of a value as float32."""
    return 4 * elements(value)


def flops(op: Operation, behavior: Behavior | None) -> int:
    """Float operations of `op`: two per product summed, one per element otherwise."""
    if not op.results:
        return 0
    per_element = 1
    if behavior is not None and behavior.accumulator is not None:
        per_element = 2 * max(products(op, behavior.accumulator), 1)
    return per_element * elements(op.results[0])
