"""Ops of StableHLO that move elements, or make them of their indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from qdialect.errors import InputError, UnsupportedError
from qdialect.interpreter.values import Array
from qdialect.ir.quant import element_type
from qdialect.plugins.stablehlo.interpreter.bits import bitcast
from qdialect.plugins.stablehlo.interpreter.bodies import body_of
from qdialect.plugins.stablehlo.interpreter.call import Call, Function
from qdialect.plugins.stablehlo.interpreter.literals import literal


def _constant(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [literal(call.require("value"), call.result_types[0], call.evaluation)]


def _iota(call: Call, operands: Sequence[Array]) -> list[Array]:
    shape = tuple(int(n) for n in operands[0]) if operands else call.shape
    dimension = call.integer("iota_dimension")
    along = [1] * len(shape)
    along[dimension] = shape[dimension]
    numbers = np.arange(shape[dimension]).reshape(along)
    kind = call.result_types[0]
    as_floats = call.dtype.kind not in "iu" or str(element_type(kind)).startswith("f")
    values = numbers.astype(np.float64) if as_floats else numbers
    return [np.array(np.broadcast_to(call.stored(values), shape))]


def _broadcast(call: Call, operands: Sequence[Array]) -> list[Array]:
    x = operands[0]
    shape = tuple(int(n) for n in operands[1]) if len(operands) > 1 else call.shape
    placed = [1] * len(shape)
    for d, n in zip(call.ints("broadcast_dimensions"), x.shape, strict=True):
        placed[d] = n
    return [np.array(np.broadcast_to(x.reshape(placed), shape))]


def _broadcast_before(call: Call, operands: Sequence[Array]) -> list[Array]:
    """`broadcast`: dimensions are put in front."""
    x = operands[0]
    return [np.array(np.broadcast_to(x, (*call.ints("broadcast_sizes"), *x.shape)))]


def _reshape(call: Call, operands: Sequence[Array]) -> list[Array]:
    shape = tuple(int(n) for n in operands[1]) if len(operands) > 1 else call.shape
    return [operands[0].reshape(shape)]


def _transpose(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [operands[0].transpose(call.ints("permutation"))]


def _reverse(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [np.flip(operands[0], call.ints("dimensions"))]


def _concatenate(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [np.concatenate(operands, call.integer("dimension"))]


def _cut(x: Array, low: Sequence[int], high: Sequence[int], step: Sequence[int]) -> Array:
    return x[tuple(slice(a, b, s) for a, b, s in zip(low, high, step, strict=True))]


def _slice(call: Call, operands: Sequence[Array]) -> list[Array]:
    names = ("start_indices", "limit_indices", "strides")
    return [_cut(operands[0], *(call.ints(name) for name in names))]


def _real_dynamic_slice(call: Call, operands: Sequence[Array]) -> list[Array]:
    x, *bounds = operands
    return [_cut(x, *([int(v) for v in b] for b in bounds))]


def _clamped(starts: Sequence[Array], sizes: Sequence[int], shape: Sequence[int]) -> list[int]:
    bounds = zip(starts, sizes, shape, strict=True)
    return [min(max(int(start), 0), n - size) for start, size, n in bounds]


def _dynamic_slice(call: Call, operands: Sequence[Array]) -> list[Array]:
    x, *starts = operands
    sizes = call.ints("slice_sizes")
    low = _clamped(starts, sizes, x.shape)
    return [_cut(x, low, [a + n for a, n in zip(low, sizes, strict=True)], [1] * x.ndim)]


def _dynamic_update_slice(call: Call, operands: Sequence[Array]) -> list[Array]:
    x, update, *starts = operands
    low = _clamped(starts, update.shape, x.shape)
    result = x.copy()
    where = zip(low, update.shape, strict=True)
    result[tuple(slice(a, a + n) for a, n in where)] = update
    return [result]


def padded(
    x: Array, value: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> Array:
    """`x` with `value` around and between its elements; negative numbers cut."""
    spread = [n + max(n - 1, 0) * i for n, i in zip(x.shape, interior, strict=True)]
    inner = np.full(spread, value, x.dtype)
    inner[tuple(slice(None, None, i + 1) for i in interior)] = x
    shape = [max(a + n + b, 0) for a, n, b in zip(low, spread, high, strict=True)]
    result = np.full(shape, value, x.dtype)
    source, target = list[slice](), list[slice]()
    for a, n, size in zip(low, spread, shape, strict=True):
        first, last = max(a, 0), max(min(a + n, size), max(a, 0))
        target.append(slice(first, last))
        source.append(slice(first - a, last - a))
    result[tuple(target)] = inner[tuple(source)]
    return result


def _pad(call: Call, operands: Sequence[Array]) -> list[Array]:
    x, value, *numbers = operands
    if not numbers:
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
        return [padded(x, value, *(call.ints(name) for name in names))]
    return [padded(x, value, *([int(v) for v in n] for n in numbers))]


def _bitcast(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [bitcast(operands[0], call.operand_types[0], call.result_types[0], call.evaluation)]


def _dimension_size(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [np.array(operands[0].shape[call.integer("dimension")], call.dtype)]


def _set_dimension_size(call: Call, operands: Sequence[Array]) -> list[Array]:
    x, size = operands
    dimension = call.integer("dimension")
    return [np.take(x, np.arange(int(size)), dimension)]


# -- gather and scatter ----------------------------------------------------------


class _Numbers:
    """The dimension numbers of a gather or scatter, by the names both share."""

    def __init__(self, call: Call, names: Sequence[str], attribute: str) -> None:
        found = cast("dict[str, object]", getattr(call.require(attribute), "values"))  # noqa: B009
        lists = [list(cast("Sequence[int]", found[name])) for name in names]
        self.window, self.dropped, self.batch, self.index_batch, self.mapped = lists
        self.vector = cast("int | None", found["index_vector_dim"]) or 0


def _starts(indices: Array, numbers: _Numbers) -> tuple[Array, tuple[int, ...]]:
    """One row of start indices for each position, and the shape of the positions."""
    if numbers.vector == indices.ndim:
        indices = indices[..., None]
    moved = np.moveaxis(indices, numbers.vector, -1)
    count = int(np.prod(moved.shape[:-1], dtype=np.int64))
    return moved.reshape(count, moved.shape[-1]).astype(np.int64), moved.shape[:-1]


def _origins(indices: Array, numbers: _Numbers, rank: int) -> tuple[Array, tuple[int, ...]]:
    """Where the window of each position begins in the operand."""
    starts, positions = _starts(indices, numbers)
    origin = np.zeros((len(starts), rank), np.int64)
    for column, d in enumerate(numbers.mapped):
        origin[:, d] = starts[:, column]
    grid = np.indices(positions).reshape(len(positions), len(starts))
    for d, place in zip(numbers.batch, numbers.index_batch, strict=True):
        origin[:, d] = grid[place - (place > numbers.vector)]
    return origin, positions


def _gather(call: Call, operands: Sequence[Array]) -> list[Array]:
    x, indices = operands[:2]
    names = (
        *("offset_dims", "collapsed_slice_dims", "operand_batching_dims"),
        *("start_indices_batching_dims", "start_index_map"),
    )
    numbers = _Numbers(call, names, "dimension_numbers")
    sizes = [int(n) for n in operands[2]] if len(operands) > 2 else call.ints("slice_sizes")
    origin, positions = _origins(indices, numbers, x.ndim)
    origin = np.clip(origin, 0, np.array(x.shape) - np.array(sizes))
    window = np.indices(sizes).reshape(x.ndim, math.prod(sizes))
    flat = x[tuple(origin[:, d, None] + window[d][None, :] for d in range(x.ndim))]
    gone = {*numbers.dropped, *numbers.batch}
    kept = [n for d, n in enumerate(sizes) if d not in gone]
    result = flat.reshape((*positions, *kept))
    rank = result.ndim
    batch = [d for d in range(rank) if d not in numbers.window]
    return [result.transpose(np.argsort([*batch, *numbers.window])) if rank else result]


def _scatter(call: Call, operands: Sequence[Array]) -> list[Array]:
    count = (len(operands) - 1) // 2
    inputs, indices = [x.copy() for x in operands[:count]], operands[count]
    updates = operands[count + 1 :]
    names = (
        *("update_window_dims", "inserted_window_dims", "input_batching_dims"),
        *("scatter_indices_batching_dims", "scatter_dims_to_operand_dims"),
    )
    numbers = _Numbers(call, names, "scatter_dimension_numbers")
    shape = inputs[0].shape
    origin, positions = _origins(indices, numbers, len(shape))
    rank = updates[0].ndim
    batch = [d for d in range(rank) if d not in numbers.window]
    gone = {*numbers.dropped, *numbers.batch}
    extents = iter([updates[0].shape[d] for d in numbers.window])
    sizes = [1 if d in gone else next(extents) for d in range(len(shape))]
    flat = [
        u.transpose([*batch, *numbers.window]).reshape(len(origin), math.prod(sizes))
        for u in updates
    ]
    window = np.indices(sizes).reshape(len(shape), math.prod(sizes))
    if positions and not len(origin):
        return inputs
    _update(call, inputs, (origin, window), flat)
    return inputs


def _update(
    call: Call, inputs: Sequence[Array], where: tuple[Array, Array], updates: Sequence[Array]
) -> None:
    """Combine updates one position after the other, windows at once; what is outside stays."""
    origin, window = where
    shape = np.array(inputs[0].shape, np.int64)[:, None]
    combine = body_of(call, call.op.regions[0])
    for row, start in enumerate(origin):
        index = start[:, None] + window
        inside = ((index >= 0) & (index < shape)).all(0)
        if not inside.any():
            continue
        place = tuple(index[:, inside])
        before = [x[place] for x in inputs]
        after = combine([*before, *(u[row][inside] for u in updates)])
        for x, value in zip(inputs, after, strict=True):
            x[place] = value


def _torch_index_select(call: Call, operands: Sequence[Array]) -> list[Array]:
    x, index = operands
    dimension, batches = call.integer("dim"), call.integer("batch_dims", 0)
    if batches:
        raise UnsupportedError(f"'{call.name}' with batches is not computed")
    return [np.take(x, index, dimension)]


def _as_read(function: Callable[[Call, Sequence[Array]], Sequence[Array]]) -> Function:
    """An index that numpy refuses is an error of the program."""

    def kernel(call: Call, operands: Sequence[Array]) -> Sequence[Array]:
        try:
            return function(call, operands)
        except IndexError as error:
            raise InputError(f"'{call.name}' op {error}", code="bad-op") from None

    return kernel


FUNCTIONS: dict[str, Function] = {
    name: _as_read(function)
    for name, function in {
        "bitcast_convert": _bitcast,
        "broadcast": _broadcast_before,
        "broadcast_in_dim": _broadcast,
        "concatenate": _concatenate,
        "constant": _constant,
        "dynamic_broadcast_in_dim": _broadcast,
        "dynamic_gather": _gather,
        "dynamic_iota": _iota,
        "dynamic_pad": _pad,
        "dynamic_reshape": _reshape,
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update_slice,
        "gather": _gather,
        "get_dimension_size": _dimension_size,
        "iota": _iota,
        "pad": _pad,
        "real_dynamic_slice": _real_dynamic_slice,
        "reshape": _reshape,
        "reverse": _reverse,
        "scatter": _scatter,
        "set_dimension_size": _set_dimension_size,
        "slice": _slice,
        "torch_index_select": _torch_index_select,
        "transpose": _transpose,
    }.items()
}
"""By name, without the dialect."""
