"""Pools, reductions, and where extremes are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation

from qdialect.algebra.rounding import Rounding
from qdialect.ir import ops as nn
from qdialect.ir.dialects.attributes import integer_of, integers_of, keyword_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.quant import UniformType
from qdialect.plugins.common.lowering.laid_out import channels_last
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tosa.raising.facts import number
from qdialect.plugins.tosa.raising.movement import as_typed
from qdialect.plugins.tosa.raising.raiser import Handler, Raiser


def _windows(op: Operation) -> dict[str, Any]:
    pad = integers_of(op, "pad")
    return {
        "kernel": integers_of(op, "kernel"),
        "strides": integers_of(op, "stride"),
        "pads": (*pad[::2], *pad[1::2]),
    }


def _refuse_ignored_nan(op: Operation) -> None:
    if keyword_of(op, "nan_mode", "PROPAGATE") == "IGNORE":
        raise Unraisable("nan", "it ignores NaN")


def max_pool(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`max_pool2d`."""
    (x,), order = operands, channels_last(4)
    _refuse_ignored_nan(op)
    return Raised(
        order, r.op(nn.MaxPool2DOp, as_typed(r, x, op.operands[0], order), **_windows(op))
    )


def average_pool(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`avg_pool2d`: of integers only where the reciprocal it multiplies with gives the mean,
    rounded half away from zero, of all sums that windows can have."""
    x, order, value = operands[0], channels_last(4), op.operands[0]
    properties = _windows(op)
    if not r.meanings.is_quantized(value) and str(x.storage)[:1] in "fb":
        if str(x.storage) not in ("f32", "f16", "bf16"):
            raise Unraisable("type", "it averages floats of 8 bits")
        return Raised(order, r.op(nn.AvgPool2DOp, r.plain(x, order), **properties))
    zeros = number(op, 1, r.session), number(op, 2, r.session)
    source, target = r.meanings.params(value, zeros[0]), r.meanings.params(value, zeros[1])
    if source.storage.width > 8:
        raise Unraisable("storage", "it averages integers of 16 bits by reciprocals")
    largest = prod(integers_of(op, "kernel"))
    if not all(_is_mean(count) for count in range(1, largest + 1)):
        raise Unraisable("rounding", "its reciprocals do not give the mean")
    stored = r.typed(x, source, order)
    out = r.op(
        nn.AvgPool2DOp,
        stored,
        element=UniformType(target),
        rounding=Rounding.HALF_AWAY.value,
        **properties,
    )
    return Raised(order, out)


def _is_mean(count: int) -> bool:
    """Whether 8-bit sums of so many times 31 bits of 1/count, rounded half up, are the mean
    rounded half away from zero: the reciprocal is a little too large, so ties fall outwards."""
    reach = 256 * count
    sums = np.arange(-reach, reach + 1, dtype=np.int64)
    places = max(count - 1, 0).bit_length()
    multiplier = (((1 << 30) + 1) << places) // count
    shift = 30 + places
    found = (sums * multiplier + (1 << (shift - 1))) >> shift
    mean = np.sign(sums) * ((2 * np.abs(sums) + count) // (2 * count))
    return bool(np.array_equal(found, mean))


def _reduction(kind: type[NNOp], name: str) -> Handler:
    def raise_it(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
        (x,), value = operands, op.operands[0]
        _refuse_ignored_nan(op)
        if str(x.storage) == "i1":
            raise Unraisable("type", "it reduces booleans")
        axes = [x.order[integer_of(op, "axis")]]
        stored = as_typed(r, x, value)
        params = Raised(x.order, stored).params
        if params is not None and not params.is_per_tensor and params.axis in axes:
            raise Unraisable("axis", "it reduces a dimension of different scales")
        if name == "sum" and params is not None and any(params.zero_point_list()):
            # Codes themselves are added up: their zero point is read as 0.
            stored = r.typed(x, r.meanings.params(value, 0))
            params = r.meanings.params(value, 0)
        inner = stored.owner
        if isinstance(inner, kind) and len(list(value.uses)) == 1 and x.value is stored:
            # One dimension after the other: all at once.
            stored = inner.operands[0]
            axes = sorted((*inner.values["axes"], *axes))
        element = None if params is None else UniformType(params)
        return Raised(x.order, r.op(kind, stored, axes=axes, keepdims=True, element=element))

    return raise_it


HANDLERS: Mapping[str, Handler] = {
    "max_pool2d": max_pool,
    "avg_pool2d": average_pool,
    "reduce_sum": _reduction(nn.ReduceSumOp, "sum"),
    "reduce_max": _reduction(nn.ReduceMaxOp, "max"),
    "reduce_min": _reduction(nn.ReduceMinOp, "min"),
}
