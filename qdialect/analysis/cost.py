"""What values and ops cost, in elements, bytes and float operations."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from qdialect.behaviors import Behavior
from qdialect.behaviors.shapes import DYNAMIC, Shape, shape_of


def elements(value: SSAValue) -> int:
    """Number of elements, unknown extents and an unknown rank counted as 1."""
    if not isinstance(value.type, TensorType):
        return 1
    return _count(shape_of(value))


@lru_cache(maxsize=1 << 10)
def _count(shape: Shape) -> int:
    return prod(1 if n == DYNAMIC else n for n in shape)


def size(value: SSAValue) -> int:
    """Bytes of a value as float32."""
    return 4 * elements(value)


def flops(op: Operation, behavior: Behavior | None) -> int:
    """Float operations of `op`: two per product summed, one per element otherwise."""
    if not op.results:
        return 0
    per_element = 1
    if behavior is not None and behavior.accumulator is not None:
        per_element = 2 * max(behavior.accumulator.depth(op), 1)
    return per_element * elements(op.results[0])
