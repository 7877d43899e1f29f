"""Any op that only moves elements, by its declared index map.

    transpose, reshape       the order a value is laid out in; `tosa.reshape`
    slice, flip, tile, ..    dimension by dimension: `tosa.slice`, `reverse`, `tile`, or
                             `tosa.gather` of the indices that are read
    a pad with a constant    `tosa.pad`
    others                   `tosa.gather` of rows of the flat operands, as long as possible

So an op that a backend declares as a movement lowers like ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.plugins.common.lowering.emitter import element_of, ranked, storage_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order, reordered
from qdialect.plugins.common.lowering.movement import LARGEST, flat_index, laid_out_as, movement
from qdialect.plugins.common.lowering.preconditions import common_order, fill_code
from qdialect.plugins.tosa.lowering.contraction import joined, sliced
from qdialect.plugins.tosa.lowering.emitter import Emitter, axis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams.maps import IndexMap, Pad


def moved(e: Emitter, phi: IndexMap, operands: Sequence[LaidOut]) -> LaidOut:
    """The operands (of one storage) moved by `phi`; the result has no parameters yet."""
    from qdialect.algebra.qparams.maps import Concat, Pad
    from qdialect.algebra.qparams.maps.separable import Separable

    shape = phi.output_shape([x.shape for x in operands])
    renamed = laid_out_as(moved, e, phi, operands, shape)
    if renamed is not None:
        return renamed
    x = operands[0]
    if len(operands) == 1 and not phi.has_border and isinstance(phi, Separable):
        return _by_dimension(e, phi, x, shape)
    if isinstance(phi, Pad):
        return _padded(e, phi, x, shape)
    if isinstance(phi, Concat):
        order = common_order(operands, len(shape))
        parts = [e.value_of(part, order) for part in operands]
        return LaidOut(shape, order, None, joined(e, parts, order.index(phi.axis)))
    return _rows(e, phi, operands, shape)


def _by_dimension(e: Emitter, phi: Any, x: LaidOut, shape: tuple[int, ...]) -> LaidOut:
    """Each dimension by the indices that are read of it, in whatever order it is laid out."""
    sources = [source for source in phi.sources(x.rank) if source is not None]
    if sources != list(range(x.rank)):
        return _rows(e, phi, [x], shape)
    # Dimensions that the operand does not have are new and in front.
    x = ranked(e, x, len(shape))
    value = e.value_of(x, x.order)
    for dimension in range(x.rank):
        index = phi.index(dimension, x.shape[dimension])
        if index is not None:
            value = taken(e, value, x.order.index(dimension), np.asarray(index, np.int64))
    return LaidOut(shape, x.order, None, value)


def taken(e: Emitter, value: SSAValue, place: int, index: NDArray[np.int64]) -> SSAValue:
    """`index` of dimension `place`."""
    shape = list(shape_of(value))
    size, count = shape[place], index.size
    shape[place] = count
    every: NDArray[np.int64] = np.arange(size)
    element = element_of(value)
    if np.array_equal(index, every):
        return value
    if count and np.array_equal(index, int(index[0]) + np.arange(count)):
        start = [0] * len(shape)
        start[place] = int(index[0])
        return sliced(e, value, start, shape)
    if np.array_equal(index, every[::-1]):
        return e.op("reverse", [value], shape, element, axis=axis(place))
    if count > size and np.array_equal(index, np.resize(every, count)) and count % size == 0:
        multiples = [1] * len(shape)
        multiples[place] = count // size
        return e.op("tile", [value, e.shape(multiples)], shape, element)
    first, step = int(index[0]), int(index[1] - index[0]) if count > 1 else 0
    if step > 0 and np.array_equal(index, first + step * np.arange(count)):
        return _every(e, value, place, index)
    before, after = prod(shape[:place]), prod(shape[place + 1 :])
    flat = e.reshaped(value, (before, size, after))
    return e.reshaped(gathered(e, flat, np.tile(index, (before, 1))), shape)


def _every(e: Emitter, value: SSAValue, place: int, index: NDArray[np.int64]) -> SSAValue:
    """An arithmetic progression of indices: the first of each of as many groups."""
    step, count = int(index[1] - index[0]), index.size
    first = int(index[0])
    read = np.arange(first, int(index[-1]) + 1)
    value = taken(e, value, place, read)
    shape = list(shape_of(value))
    element = element_of(value)
    short = count * step - shape[place]
    padding = [0] * (2 * len(shape))
    padding[2 * place + 1] = short
    shape[place] += short
    value = e.op("pad", [value, e.shape(padding), e.number(0, element, (1,))], shape, element)
    split = (*shape[:place], count, step, *shape[place + 1 :])
    start = (*shape[:place], count, 1, *shape[place + 1 :])
    value = sliced(e, e.reshaped(value, split), (0,) * len(split), start)
    return e.reshaped(value, (*shape[:place], count, *shape[place + 1 :]))


def gathered(e: Emitter, value: SSAValue, index: NDArray[Any]) -> SSAValue:
    """Rows of `value` [N, K, C] by constant `index` [N, W]."""
    if index.size > LARGEST:
        raise Unlowerable(
            "size", f"it would take {index.size} indices written out (at most {LARGEST})"
        )
    n, _, width = shape_of(value)
    indices = e.const(index.astype(np.int32), i32)
    return e.op("gather", [value, indices], (n, index.shape[1], width), element_of(value))


def _rows(
    e: Emitter, phi: IndexMap, operands: Sequence[LaidOut], shape: tuple[int, ...]
) -> LaidOut:
    """The result as rows of all operands flat, one after the other, and of a row of what
    stands at borders."""
    index, count = flat_index(phi, operands, shape)
    flat = index.reshape(-1)
    if not flat.size:
        raise Unlowerable("empty", "its result has no elements")
    width = _width(flat, [prod(x.shape) for x in operands], shape)
    rows = flat[::width]
    total = count // width
    parts = [
        e.reshaped(e.value_of(x), (1, prod(x.shape) // width, width))
        for x in operands
        if prod(x.shape)
    ]
    if (rows < 0).any():
        fill = fill_code(operands[0], phi.border_value)
        parts.append(e.number(fill, element_of(parts[0]), (1, 1, width)))
    index = np.where(rows < 0, total, rows // width).reshape(1, -1)
    out = gathered(e, joined(e, parts, 1), index)
    return LaidOut(shape, identity_order(len(shape)), None, e.reshaped(out, shape))


def _width(flat: NDArray[np.int64], sizes: Sequence[int], shape: tuple[int, ...]) -> int:
    """The longest row that is always copied as one."""
    best, width = 1, 1
    common = gcd(*sizes)
    for extent in reversed(shape):
        width *= extent
        if not width or common % width:
            break
        rows = flat.reshape(-1, width)
        first = rows[:, :1]
        whole = np.where(first < 0, -1, first + np.arange(width))
        if (rows != whole).any() or (first[first >= 0] % width).any():
            break
        best = width
    return best


def _padded(e: Emitter, phi: Pad, x: LaidOut, shape: tuple[int, ...]) -> LaidOut:
    """A constant border."""
    padding = [p for d in x.order for p in (phi.low[d], phi.high[d])]
    fill = e.number(fill_code(x, phi.border_value), storage_of(x), (1,))
    value = e.value_of(x, x.order)
    extents = reordered(shape, x.order)
    out = e.op("pad", [value, e.shape(padding), fill], extents, element_of(value))
    return LaidOut(shape, x.order, None, out)


move = movement(moved)
"""Any op that is declared as a movement."""
