"""Ops that move elements. Transposes cost nothing: they say in which order a value is held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors.shapes import shape_of
from qdialect.dialects.nn.base import NNOp
from qdialect.lowerings.emitter import element_of, storage_of
from qdialect.lowerings.errors import Unlowerable
from qdialect.lowerings.held import Held, plain, reordered
from qdialect.lowerings.operands import common_order, fill_code
from qdialect.lowerings.tosa.contraction import joined, sliced
from qdialect.lowerings.tosa.emitter import Emitter


def reshape(e: Emitter, op: Operation, operands: Sequence[Held]) -> Held:
    """Anything that keeps the row-major order of elements."""
    x, shape = operands[0], shape_of(op.results[0])
    params = qparams_of(op.results[0])
    if x.array is not None:
        return Held(shape, plain(len(shape)), params, None, x.array.reshape(shape))
    return e.held(e.reshaped(e.given(x), shape), plain(len(shape)), params, shape)


def transpose(e: Emitter, op: Operation, operands: Sequence[Held]) -> Held:
    """`nn.transpose`: dimension d of the result is dimension perm[d]."""
    assert isinstance(op, NNOp)
    x, perm = operands[0], tuple(op.values["perm"])
    params, shape = qparams_of(op.results[0]), shape_of(op.results[0])
    if x.array is not None:
        return Held(shape, plain(x.rank), params, None, x.array.transpose(perm))
    return Held(shape, tuple(perm.index(d) for d in x.order), params, x.value)


def concat(e: Emitter, op: Operation, operands: Sequence[Held]) -> Held:
    """`nn.concat` of values with one meaning of codes."""
    assert isinstance(op, NNOp)
    shape, params = shape_of(op.results[0]), qparams_of(op.results[0])
    order = common_order(operands, len(shape))
    dimension = op.values["axis"] % len(shape)
    parts = [e.given(x, order) for x in operands]
    return e.held(joined(e, parts, order.index(dimension)), order, params, shape)


def pad(e: Emitter, op: Operation, operands: Sequence[Held]) -> Held:
    """`nn.pad` with the real value 0 or another that is a code."""
    assert isinstance(op, NNOp)
    x, v, shape = operands[0], op.values, shape_of(op.results[0])
    if v["mode"] != "constant":
        raise Unlowerable("mode", f"TOSA pads with one value, not by {v['mode']}")
    value = e.given(x, x.order)
    padding = [p for d in x.order for p in (v["low"][d], v["high"][d])]
    fill = fill_code(x, v["value"])
    kind = storage_of(x)
    const = e.const(np.array([fill], _dtype(x)), kind)
    out = e.op(
        "pad", [value, e.shape(padding), const], reordered(shape, x.order), element_of(value)
    )
    return e.held(out, x.order, qparams_of(op.results[0]), shape)


def _dtype(x: Held) -> str:
    width = 8 if x.params is None else max(x.params.storage.width, 8)
    return f"i{width // 8}"


def slices(e: Emitter, op: Operation, operands: Sequence[Held]) -> Held:
    """`nn.slice` with any positive steps."""
    assert isinstance(op, NNOp)
    x, v, shape = operands[0], op.values, shape_of(op.results[0])
    bounds = zip(x.shape, v["starts"], v["stops"], v["steps"], strict=True)
    starts = [slice(a, b, c).indices(n)[0] for n, a, b, c in bounds]
    steps = v["steps"]
    if any(step < 1 for step in steps):
        raise Unlowerable("steps", "TOSA slices forwards", "nn.flip and a slice")
    value = e.given(x, x.order)
    extents = [n if s == 1 else (n - 1) * s + 1 for n, s in zip(shape, steps, strict=True)]
    value = sliced(e, value, reordered(starts, x.order), reordered(extents, x.order))
    for place, d in enumerate(x.order):
        if steps[d] > 1:
            value = _every(e, value, place, steps[d], shape[d])
    return e.held(value, x.order, qparams_of(op.results[0]), shape)


def _every(e: Emitter, value: SSAValue, place: int, step: int, count: int) -> SSAValue:
    """Every `step`-th element along a dimension: the first of each of `count` groups."""
    shape = list(shape_of(value))
    short = count * step - shape[place]
    if short:
        padding = [0] * (2 * len(shape))
        padding[2 * place + 1] = short
        shape[place] += short
        zero = e.const(np.zeros(1, _array_type(value)), element_of(value))
        value = e.op("pad", [value, e.shape(padding), zero], shape, element_of(value))
    split = (*shape[:place], count, step, *shape[place + 1 :])
    first = (*shape[:place], count, 1, *shape[place + 1 :])
    value = sliced(e, e.reshaped(value, split), (0,) * len(split), first)
    return e.reshaped(value, (*shape[:place], count, *shape[place + 1 :]))


def _array_type(value: SSAValue) -> str:
    element = cast("IntegerType[int]", element_of(value))
    return f"i{element.width.data // 8}"
