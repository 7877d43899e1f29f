"""Parts of a value along its dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.plugins.common.lowering.emitter import element_of
from qdialect.plugins.tflite.lowering.emitter import Emitter

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sliced(
    e: Emitter,
    value: SSAValue,
    begin: Sequence[int],
    end: Sequence[int],
    steps: Sequence[int],
) -> SSAValue:
    """`SLICE`, or `STRIDED_SLICE`. An unknown extent is read whole (`end` is unknown)."""
    extents = [
        DYNAMIC if b == DYNAMIC else -(-(b - a) // s)
        for a, b, s in zip(begin, end, steps, strict=True)
    ]
    if tuple(extents) == shape_of(value) and not any(begin) and set(steps) <= {1}:
        return value
    if set(steps) <= {1}:
        operands = [value, e.numbers(begin), e.numbers(extents)]
        return e.node("SLICE", operands, extents, element_of(value))
    whole = sum(1 << n for n, b in enumerate(end) if b == DYNAMIC)
    return e.node(
        "STRIDED_SLICE",
        [value, e.numbers(begin), e.numbers([max(b, 0) for b in end]), e.numbers(steps)],
        extents,
        element_of(value),
        begin_mask=whole,
        end_mask=whole,
        ellipsis_mask=0,
        new_axis_mask=0,
        shrink_axis_mask=0,
        offset=False,
    )


def taken(e: Emitter, value: SSAValue, place: int, index: NDArray[np.int64]) -> SSAValue:
    """`index` of dimension `place`."""
    shape = list(shape_of(value))
    size, count = shape[place], index.size
    shape[place] = count
    every: NDArray[np.int64] = np.arange(size)
    element = element_of(value)
    if np.array_equal(index, every):
        return value
    if size > 1 and np.array_equal(index, every[::-1]):
        return e.node("REVERSE_V2", [value, e.numbers([place])], shape, element)
    if count > size and count % size == 0 and np.array_equal(index, np.resize(every, count)):
        multiples = [1] * len(shape)
        multiples[place] = count // size
        return e.node("TILE", [value, e.numbers(multiples)], shape, element)
    return e.node(
        "GATHER",
        [value, e.const(index.astype(np.int32), i32)],
        shape,
        element,
        axis=place,
        batch_dims=0,
    )
