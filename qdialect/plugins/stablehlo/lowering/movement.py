"""Any op that only moves elements, by its declared index map.

transpose, reshape       the order a value is laid out in; `reshape`
slice, broadcast, ..     dimension by dimension: `slice`, or a `gather` of what is read
a pad with a constant    `pad`
others                   a `gather` of the flat operands
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.plugins.common.lowering.emitter import element_of, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order, reordered
from qdialect.plugins.common.lowering.movement import flat_index, laid_out_as, movement
from qdialect.plugins.common.lowering.preconditions import common_order
from qdialect.plugins.stablehlo.dialect import GatherDimensionsAttr
from qdialect.plugins.stablehlo.lowering.emitter import Emitter, long, longs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams.maps import IndexMap


def _moved(e: Emitter, phi: IndexMap, operands: Sequence[LaidOut]) -> LaidOut:
    """The operands (of one storage) moved by `phi`; the result has no parameters yet."""
    from qdialect.algebra.qparams.maps import Concat, Pad
    from qdialect.algebra.qparams.maps.separable import Separable

    shape = phi.output_shape([x.shape for x in operands])
    renamed = laid_out_as(_moved, e, phi, operands, shape)
    if renamed is not None:
        return renamed
    if any(x.params is not None and not x.params.is_per_tensor for x in operands):
        raise Unlowerable("axis", "it moves what has parameters along a dimension")
    x = operands[0]
    if len(operands) == 1 and not phi.has_border and isinstance(phi, Separable):
        sources = [source for source in phi.sources(x.rank) if source is not None]
        if sources == list(range(x.rank)):
            return _by_dimension(e, phi, ranked(e, x, len(shape)), shape)
    if isinstance(phi, Pad) and phi.has_border:
        return _padded(e, phi, x, shape)
    if isinstance(phi, Concat):
        order = common_order(operands, len(shape))
        parts = [e.value_of(part, order) for part in operands]
        place = order.index(phi.axis)
        return LaidOut(shape, order, None, _joined(e, parts, place, reordered(shape, order)))
    return _gathered(e, phi, operands, shape)


def _joined(e: Emitter, parts: Sequence[SSAValue], place: int, shape: Sequence[int]) -> SSAValue:
    if len(parts) == 1:
        return parts[0]
    return e.op("concatenate", parts, shape, element_of(parts[0]), dimension=long(place))


def _by_dimension(e: Emitter, phi: Any, x: LaidOut, shape: tuple[int, ...]) -> LaidOut:
    """Each dimension by the indices that are read of it."""
    value = e.value_of(x, x.order)
    starts, limits, steps = [0] * x.rank, list(x.extents), [1] * x.rank
    others: list[tuple[int, NDArray[np.int64]]] = []
    for dimension in range(x.rank):
        indices = phi.index(dimension, x.shape[dimension])
        if indices is None:
            continue
        index, place = np.asarray(indices, np.int64), x.order.index(dimension)
        first, step = int(index[0]), int(index[1] - index[0]) if index.size > 1 else 1
        if step > 0 and np.array_equal(index, first + step * np.arange(index.size)):
            starts[place], limits[place], steps[place] = first, int(index[-1]) + 1, step
        else:
            others.append((place, index))
    extents = [-(-(b - a) // c) for a, b, c in zip(starts, limits, steps, strict=True)]
    if tuple(extents) != shape_of(value):
        bounds = {"start_indices": starts, "limit_indices": limits, "strides": steps}
        named = {name: longs(numbers) for name, numbers in bounds.items()}
        value = e.op("slice", [value], extents, element_of(value), **named)
    for place, index in others:
        value = taken(e, value, place, index)
    return LaidOut(shape, x.order, None, value)


def taken(e: Emitter, value: SSAValue, place: int, index: NDArray[np.int64]) -> SSAValue:
    """`index` of dimension `place`."""
    shape = list(shape_of(value))
    rest = tuple(d for d in range(len(shape)) if d != place)
    sizes = [1 if d == place else n for d, n in enumerate(shape)]
    shape[place] = index.size
    return e.op(
        "gather",
        [value, e.const(index.astype(np.int32).reshape(-1, 1), i32)],
        shape,
        element_of(value),
        dimension_numbers=GatherDimensionsAttr((rest, (place,), (), (), (place,), 1)),
        slice_sizes=longs(sizes),
    )


def _padded(e: Emitter, phi: Any, x: LaidOut, shape: tuple[int, ...]) -> LaidOut:
    value = e.value_of(x, x.order)
    out = e.op(
        "pad",
        [value, e.fill(x, phi.border_value)],
        reordered(shape, x.order),
        element_of(value),
        edge_padding_low=longs(reordered(phi.low, x.order)),
        edge_padding_high=longs(reordered(phi.high, x.order)),
        interior_padding=longs([0] * x.rank),
    )
    return LaidOut(shape, x.order, None, out)


def _gathered(
    e: Emitter, phi: IndexMap, operands: Sequence[LaidOut], shape: tuple[int, ...]
) -> LaidOut:
    """Each element by its place in all operands flat, one after the other; one more element
    is what stands at borders."""
    index, count = flat_index(phi, operands, shape)
    at_border = index < 0
    index = np.where(at_border, count, index).reshape(-1)
    parts = [e.reshaped(e.value_of(x), (prod(x.shape),)) for x in operands if prod(x.shape)]
    if at_border.any():
        parts.append(e.reshaped(e.fill(operands[0], phi.border_value), (1,)))
        count += 1
    source = _joined(e, parts, 0, (count,))
    return LaidOut(
        shape, identity_order(len(shape)), None, e.reshaped(taken(e, source, 0, index), shape)
    )


move = movement(_moved)
"""Any op that is declared as a movement."""
