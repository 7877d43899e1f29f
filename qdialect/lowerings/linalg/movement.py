"""Ops that move elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors.shapes import shape_of
from qdialect.dialects.nn.base import NNOp
from qdialect.lowerings.errors import Unlowerable
from qdialect.lowerings.held import Held, plain
from qdialect.lowerings.linalg.emitter import Emitter
from qdialect.lowerings.operands import fill_code


def reshape(e: Emitter, op: Operation, operands: Sequence[Held]) -> Held:
    """Anything that keeps the row-major order of elements."""
    x, shape = operands[0], shape_of(op.results[0])
    params = qparams_of(op.results[0])
    if x.array is not None:
        return Held(shape, plain(len(shape)), params, None, x.array.reshape(shape))
    return e.held(e.reshaped(e.given(x), shape), plain(len(shape)), params, shape)


def transpose(e: Emitter, op: Operation, operands: Sequence[Held]) -> Held:
    """`nn.transpose`: only the order changes in which the value is held."""
    assert isinstance(op, NNOp)
    x, perm = operands[0], tuple(op.values["perm"])
    params, shape = qparams_of(op.results[0]), shape_of(op.results[0])
    if x.array is not None:
        return Held(shape, plain(x.rank), params, None, x.array.transpose(perm))
    return Held(shape, tuple(perm.index(d) for d in x.order), params, x.value)


def concat(e: Emitter, op: Operation, operands: Sequence[Held]) -> Held:
    """`nn.concat` of values with one meaning of codes."""
    assert isinstance(op, NNOp)
    shape = shape_of(op.results[0])
    value = e.joined([e.given(x) for x in operands], op.values["axis"] % len(shape))
    return e.held(value, plain(len(shape)), qparams_of(op.results[0]), shape)


def pad(e: Emitter, op: Operation, operands: Sequence[Held]) -> Held:
    """`nn.pad` with a number that is a code."""
    assert isinstance(op, NNOp)
    x, v, shape = operands[0], op.values, shape_of(op.results[0])
    if v["mode"] != "constant":
        raise Unlowerable("mode", f"tensor.pad has one value, and no {v['mode']}")
    pads = list(zip(v["low"], v["high"], strict=True))
    value = e.padded(e.given(x), pads, fill_code(x, v["value"]))
    return e.held(value, plain(x.rank), qparams_of(op.results[0]), shape)


def slices(e: Emitter, op: Operation, operands: Sequence[Held]) -> Held:
    """`nn.slice` with any positive steps."""
    assert isinstance(op, NNOp)
    x, v, shape = operands[0], op.values, shape_of(op.results[0])
    bounds = zip(x.shape, v["starts"], v["stops"], v["steps"], strict=True)
    starts = [slice(a, b, c).indices(n)[0] for n, a, b, c in bounds]
    if any(step < 1 for step in v["steps"]):
        raise Unlowerable("steps", "tensor.extract_slice goes forwards", "nn.flip and a slice")
    value = e.box(e.given(x), starts, shape, v["steps"])
    return e.held(value, plain(x.rank), qparams_of(op.results[0]), shape)
