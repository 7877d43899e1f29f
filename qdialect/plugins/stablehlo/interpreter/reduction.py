"""Reductions, sliding windows and sorting of StableHLO.

The order in which elements are combined is the program's own business, says the specification;
here it is the order of indices, starting from the initial value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key

import numpy as np
from xdsl.ir import Region

from qdialect.interpreter.values import Array
from qdialect.plugins.stablehlo.interpreter.bodies import Body, body_of
from qdialect.plugins.stablehlo.interpreter.call import Call, Function
from qdialect.plugins.stablehlo.interpreter.movement import padded


def _folded(body: Body, inputs: Sequence[Array], inits: Sequence[Array]) -> list[Array]:
    """Arrays combined along their last dimension."""
    shape = inputs[0].shape[:-1]
    total = [np.broadcast_to(i, shape) for i in inits]
    for place in range(inputs[0].shape[-1]):
        total = body([*total, *(x[..., place] for x in inputs)])
    return [np.array(t) for t in total]


def _result_types(call: Call, results: Sequence[Array]) -> list[Array]:
    return [
        r.astype(call.evaluation.dtype(t), copy=False)
        for r, t in zip(results, call.result_types, strict=True)
    ]


def _reduce(call: Call, operands: Sequence[Array]) -> list[Array]:
    count = len(operands) // 2
    dims = call.ints("dimensions")
    inputs, inits = operands[:count], operands[count:]
    kept = [d for d in range(inputs[0].ndim) if d not in dims]
    flat: list[Array] = []
    for x in inputs:
        moved = x.transpose([*kept, *dims])
        extent = int(np.prod([x.shape[d] for d in dims], dtype=np.int64))
        flat.append(moved.reshape(*(x.shape[d] for d in kept), extent))
    body = body_of(call, call.op.regions[0])
    return _result_types(call, _folded(body, flat, inits))


class _Window:
    """How a window moves, from the attributes of an op."""

    def __init__(self, call: Call, rank: int) -> None:
        ones = (1,) * rank
        self.size = call.ints("window_dimensions", ones)
        self.strides = call.ints("window_strides", ones)
        self.base = call.ints("base_dilations", ones)
        self.dilation = call.ints("window_dilations", ones)
        self.padding = call.pairs("padding", rank)

    def laid_out(self, x: Array, value: Array) -> Array:
        """`x` as it is when padded with `value`."""
        low, high = ([int(v) for v in self.padding[:, side]] for side in (0, 1))
        return padded(x, value, low, high, [n - 1 for n in self.base])

    def extents(self, shape: Sequence[int]) -> list[int]:
        """How many windows there are in a padded array."""
        numbers = zip(shape, self.size, self.dilation, self.strides, strict=True)
        return [
            max((n - ((size - 1) * dilation + 1)) // stride + 1, 0) if n else 0
            for n, size, dilation, stride in numbers
        ]

    def view(self, x: Array, place: Sequence[int], extents: Sequence[int]) -> Array:
        """The elements at one place of all windows."""
        return x[
            tuple(
                slice(p * d, p * d + (n - 1) * s + 1, s) if n else slice(0)
                for p, d, n, s in zip(place, self.dilation, extents, self.strides, strict=True)
            )
        ]


def _reduce_window(call: Call, operands: Sequence[Array]) -> list[Array]:
    count = len(operands) // 2
    inputs, inits = operands[:count], operands[count:]
    window = _Window(call, inputs[0].ndim)
    laid = [window.laid_out(x, i) for x, i in zip(inputs, inits, strict=True)]
    extents = window.extents(laid[0].shape)
    columns = [
        np.stack([window.view(x, place, extents) for place in np.ndindex(*window.size)], -1)
        for x in laid
    ]
    body = body_of(call, call.op.regions[0])
    return _result_types(call, _folded(body, columns, inits))


def _select_and_scatter(call: Call, operands: Sequence[Array]) -> list[Array]:
    x, source, init = operands
    window = _Window(call, x.ndim)
    select, scatter = (body_of(call, region) for region in call.op.regions)
    # What is padded is never selected: its index is -1.
    index = window.laid_out(np.arange(x.size).reshape(x.shape), np.array(-1))
    values = window.laid_out(x, init)
    extents = list(source.shape)
    chosen = np.full(extents, -1)
    best = np.broadcast_to(init, extents)
    for place in np.ndindex(*window.size):
        where = window.view(index, place, extents)
        value = window.view(values, place, extents)
        first = (chosen < 0) & (where >= 0)
        keep = select([best, value])[0]
        better = (where >= 0) & (first | ~keep)
        chosen, best = np.where(better, where, chosen), np.where(better, value, best)
    result = np.full(x.size, init, x.dtype)
    for target, value in zip(chosen.reshape(-1), source.reshape(-1), strict=True):
        if target >= 0:
            result[target] = scatter([result[target : target + 1], value.reshape(1)])[0][0]
    return [result.reshape(x.shape)]


def _sort(call: Call, operands: Sequence[Array]) -> list[Array]:
    rank = operands[0].ndim
    dimension = call.integer("dimension", -1) % max(rank, 1)
    moved = [np.moveaxis(x, dimension, -1) for x in operands]
    results = [np.array(m) for m in moved]
    compare = body_of(call, call.op.regions[0])
    for row in np.ndindex(*moved[0].shape[:-1]):
        columns = [m[row] for m in moved]
        order = _order(compare, columns)
        for result, column in zip(results, columns, strict=True):
            result[row] = column[order]
    return [np.moveaxis(r, -1, dimension) for r in results]


def _order(compare: Body, columns: Sequence[Array]) -> list[int]:
    """A stable order in which `compare` holds between neighbours."""
    size = columns[0].size
    rows, others = np.indices((size, size)).reshape(2, -1)
    arguments = [side for c in columns for side in (c[rows], c[others])]
    before = compare(arguments)[0].reshape(size, size) if size else np.zeros((0, 0), bool)
    by_order: Callable[[int, int], int] = lambda a, b: int(before[b, a]) - int(before[a, b])  # noqa: E731
    return sorted(range(size), key=cmp_to_key(by_order))


def _map(call: Call, operands: Sequence[Array]) -> list[Array]:
    return _result_types(call, body_of(call, call.op.regions[0])(operands))


def _top_k(call: Call, operands: Sequence[Array]) -> list[Array]:
    (x,), k = operands, call.integer("k")
    values = x.astype(np.float64) if x.dtype.kind == "f" else x.astype(object)
    order = np.argsort(-values, -1, kind="stable")[..., :k]
    return [np.take_along_axis(x, order, -1), order.astype(np.int32)]


def _scan(call: Call, operands: Sequence[Array]) -> list[Array]:
    """The body takes a slice of each input and the carried values, and gives a slice of each
    output and the values to carry on."""
    region: Region = call.op.regions[0]
    sizes = call.ints("operandSegmentSizes")
    inputs, carried = operands[: sizes[0]], list(operands[sizes[0] :])
    dimension, backwards = call.integer("dimension"), call.flag("is_reverse")
    extent = inputs[0].shape[dimension]
    outputs = call.ints("resultSegmentSizes")[0]
    slices: list[Sequence[Array]] = []
    for place in reversed(range(extent)) if backwards else range(extent):
        parts = [np.take(x, place, dimension) for x in inputs]
        results = call.run(region, [*parts, *carried])
        slices.append(results[:outputs])
        carried = list(results[outputs:])
    if backwards:
        slices.reverse()
    stacked = [np.stack([s[i] for s in slices], dimension) for i in range(outputs)]
    return [*stacked, *carried]


FUNCTIONS: dict[str, Function] = {
    "map": _map,
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "sort": _sort,
}
"""By name, without the dialect."""

CHLO: dict[str, Function] = {"scan": _scan, "top_k": _top_k}
