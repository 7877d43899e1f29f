"""Reductions and sliding windows whose body is one op: sums, means, extrema and pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation

from qdialect.ir import ops as nn
from qdialect.ir.dialects.attributes import integers_of, pairs_of
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.quant import SCastOp, UniformType, element_type, quant_element, storage_type
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.stablehlo.raising.elementwise import function
from qdialect.plugins.stablehlo.raising.facts import body_name, qparams, scalar_of
from qdialect.plugins.stablehlo.raising.raiser import Handler, Raiser, result_element

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REDUCTIONS: Mapping[str, type[NNOp]] = {
    "add": nn.ReduceSumOp,
    "maximum": nn.ReduceMaxOp,
    "minimum": nn.ReduceMinOp,
}
_MAX_POOLS = {1: nn.MaxPool1DOp, 2: nn.MaxPool2DOp, 3: nn.MaxPool3DOp}
_AVERAGES = {1: nn.AvgPool1DOp, 2: nn.AvgPool2DOp, 3: nn.AvgPool3DOp}
_CLOSE = 2.0**-40


def _begins(op: Operation, x: Raised, init: Raised, name: str) -> None:
    """Unraisable unless the initial value changes nothing: 0 of a sum, the least of a maximum."""
    number = scalar_of(init)
    if number is None:
        raise Unraisable("initial-value", "where it begins is known at run time only")
    params, kind = qparams(x), element_type(op.operands[0].type)
    if name == "add":
        neutral = 0 if params is None else params.zero_point
    elif params is not None:
        neutral = params.storage.min if name == "maximum" else params.storage.max
    elif isinstance(kind, IntegerType):
        limits = np.iinfo(f"i{cast('Any', kind).width.data // 8}")
        neutral = limits.min if name == "maximum" else limits.max
    else:
        neutral = -np.inf if name == "maximum" else np.inf
    if number != neutral:
        raise Unraisable("initial-value", f"it begins with {number}")


def _body(op: Operation) -> str:
    if len(op.operands) != 2:
        raise Unraisable("results", "it reduces several values at once")
    name = body_name(op.regions[0])
    if name not in _REDUCTIONS:
        raise Unraisable("body", f"it combines with {name}")
    return name


def _reduce(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    name = _body(op)
    x, init = operands
    _begins(op, x, init, name)
    dims = integers_of(op, "dimensions")
    axes = sorted(x.order[d] for d in dims)
    params = qparams(x)
    if params is not None and params.axis is not None:
        raise Unraisable("axis", "its parameters vary along a dimension")
    left = sorted(x.order[d] for d in range(x.rank) if d not in dims)
    order = tuple(left.index(x.order[d]) for d in range(x.rank) if d not in dims)
    element = result_element(op, order)
    if params is not None:
        r.rounds_ties(op, name == "add")
    out = r.op(_REDUCTIONS[name], r.value(x), axes=axes, keepdims=False, element=element)
    return Raised(order, out)


def _reduce_window(
    r: Raiser, op: Operation, operands: Sequence[Raised], mean: Mean | None = None
) -> Raised:
    """Windows; `mean` is what divides their sums, or None."""
    name = _body(op)
    x, init = operands
    _begins(op, x, init, name)
    ones = (1,) * x.rank
    size = integers_of(op, "window_dimensions", ones)
    strides, base = integers_of(op, "window_strides", ones), integers_of(op, "base_dilations", ones)
    dilations, pads = integers_of(op, "window_dilations", ones), pairs_of(op, "padding", x.rank)
    params = qparams(x)
    if params is not None and params.axis is not None:
        raise Unraisable("axis", "its parameters vary along a dimension")
    if any(n != 1 for n in base):
        raise Unraisable("dilation", "it dilates its input")
    over = [d for d in range(x.rank) if size[d] > 1]
    if any(strides[d] != 1 or any(pads[d]) for d in range(x.rank) if d not in over):
        raise Unraisable("window", "it moves along a dimension that it does not combine")
    whole = all(size[d] == x.shape[d] and not any(pads[d]) for d in over)
    if mean is None and name == "add" and not any(map(any, pads)):
        mean = _mean_of(op, prod(size))
    if whole:
        return _whole(r, op, x, over, name, mean)
    if len(over) > 3 or (x.rank - len(over) > 2 and len(over) != x.rank - 2):
        over = _widened(x.rank, over)
    spatial = over if len(over) == x.rank - 2 else _widened(x.rank, over)
    geometry: dict[str, Any] = {
        "kernel": [size[d] for d in spatial],
        "strides": [strides[d] for d in spatial],
        "dilations": [dilations[d] for d in spatial],
        "pads": [*(pads[d][0] for d in spatial), *(pads[d][1] for d in spatial)],
    }
    if isinstance(mean, bool):
        geometry["count_include_pad"] = mean
    others = [d for d in range(x.rank) if d not in spatial]
    # The order that windows want: two dimensions, then those that they move along.
    order = tuple([*others, *spatial].index(d) for d in range(x.rank))
    rank = len(spatial)
    if rank not in _MAX_POOLS or x.rank != rank + 2:
        raise Unraisable("window", f"it moves along {rank} of {x.rank} dimensions")
    if name == "maximum":
        return Raised(order, r.op(_MAX_POOLS[rank], r.value(x, order), **geometry))
    if name == "minimum":
        raise Unraisable("body", "nn has no pool of minima")
    return _sum_pool(r, op, x, order, (rank, geometry, mean))


def _widened(rank: int, over: Sequence[int]) -> list[int]:
    """Dimensions for windows of two more: the ones combined, and 1 for each other but two."""
    others = [d for d in range(rank) if d not in over]
    return sorted([*over, *others[2:]]) if len(others) >= 2 else list(over)


Mean = Operation | bool
"""The op that reads sums of codes as means; or, of means of floats, whether they count padding."""


def average_pool(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised | None:
    """The mean pool that a division of sums of windows by the numbers of their elements is;
    None if it is none."""
    sums, counts = op.operands[0].owner, operands[1].array
    if not isinstance(sums, Operation) or sums.name != "stablehlo.reduce_window":
        return None
    if counts is None or counts.dtype.kind != "f" or any(v not in r.known for v in sums.operands):
        return None
    rank = len(shape_of(sums.operands[0]))
    size = integers_of(sums, "window_dimensions", (1,) * rank)
    if (counts == prod(size)).all():
        includes = True
    elif np.array_equal(counts, _counted(sums)):
        includes = False
    else:
        return None
    count = len(r.operations)
    try:
        return _reduce_window(r, sums, [r.known[v] for v in sums.operands], includes)
    except Unraisable:
        r.forget(count)
        return None


def _counted(op: Operation) -> NDArray[np.float64]:
    """How many elements each window has."""
    shape = shape_of(op.operands[0])
    ones = (1,) * len(shape)
    names = ("window_dimensions", "window_strides", "window_dilations")
    size, strides, dilations = (integers_of(op, name, ones) for name in names)
    counts = np.ones((), np.float64)
    for d, (low, _) in enumerate(pairs_of(op, "padding", len(shape))):
        first = np.arange(shape_of(op.results[0])[d]) * strides[d] - low
        places = first[:, None] + np.arange(size[d]) * dilations[d]
        inside = ((places >= 0) & (places < shape[d])).sum(1)
        counts = counts[..., None] * inside
    return counts


def _mean_of(op: Operation, count: int) -> Operation | None:
    """What reads sums of codes as means, on another scale: `bitcast_convert` to integers and
    back; the last of the two."""
    value, last = op.results[0], op
    for _ in range(2):
        users = [use.operation for use in value.uses]
        if len(users) != 1 or users[0].name != "stablehlo.bitcast_convert":
            return None
        last = users[0]
        value = last.results[0]
    before, after = quant_element(op.results[0].type), quant_element(value.type)
    if before is None or after is None or before.qparams.axis or after.qparams.axis:
        return None
    if before.qparams.zero_point or after.qparams.zero_point:
        return None
    ratio = before.qparams.scale / after.qparams.scale / count
    return last if abs(ratio - 1) < _CLOSE else None


def _whole(
    r: Raiser,
    op: Operation,
    x: Raised,
    over: Sequence[int],
    name: str,
    mean: Mean | None,
) -> Raised:
    """A window as large as its input."""
    axes = sorted(x.order[d] for d in over)
    kind: type[NNOp] = _REDUCTIONS[name]
    element = result_element(op, x.order)
    if mean is not None:
        kind = nn.ReduceMeanOp
        element = element if isinstance(mean, bool) else result_element(mean, x.order)
    elif qparams(x) is not None:
        r.rounds_ties(op, name == "add")
    out = r.op(kind, r.value(x), axes=axes, keepdims=True, element=element)
    return _read_again(r, op, Raised(x.order, out), mean)


def _read_again(r: Raiser, op: Operation, x: Raised, mean: Mean | None) -> Raised:
    """Means as the sums that they are read from: what reads them undoes it."""
    if mean is None or isinstance(mean, bool):
        return x
    value = r.value(x)
    element = result_element(op, x.order)
    assert isinstance(element, UniformType)
    shape = list(shape_of(value))
    plain = r.append(SCastOp(value, TensorType(storage_type(element.qparams), shape))).results[0]
    return Raised(x.order, r.append(SCastOp(plain, TensorType(element, shape))).results[0])


def _sum_pool(
    r: Raiser, op: Operation, x: Raised, order: tuple[int, ...], window: tuple[Any, ...]
) -> Raised:
    """A mean of codes that is read so; of floats the mean times the number of elements."""
    rank, geometry, mean = window
    if mean is not None:
        pool = op if isinstance(mean, bool) else mean
        element = result_element(pool, order)
        out = r.op(_AVERAGES[rank], r.value(x, order), element=element, **geometry)
        return _read_again(r, op, Raised(order, out), mean)
    if isinstance(element_type(op.operands[0].type), IntegerType) or qparams(x) is not None:
        raise Unraisable("window", "nn has no pool of sums of integers")
    channels = shape_of(r.value(x, order))[1]
    kernel = np.ones((channels, 1, *geometry["kernel"]), np.float32)
    kind = {1: nn.Conv1DOp, 2: nn.Conv2DOp, 3: nn.Conv3DOp}[rank]
    places = {name: geometry[name] for name in ("strides", "dilations", "pads")}
    if str(element_type(op.operands[0].type)) != "f32":
        raise Unraisable("type", "nn sums windows of f32")
    weight = r.constant(kernel, element_type(op.operands[0].type))
    out = r.op(kind, r.value(x, order), weight, groups=channels, **places)
    return Raised(order, out)


def _divide(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """Sums of windows by the numbers of their elements are means."""
    found = average_pool(r, op, operands)
    return function(nn.DivOp)(r, op, operands) if found is None else found


HANDLERS: Mapping[str, Handler] = {
    "stablehlo.divide": _divide,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
}
