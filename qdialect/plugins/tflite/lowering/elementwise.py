"""Elementwise ops on codes.

    MUL              as ONNX Runtime's kernel: one float per pair of codes, halves to even
    ADD, SUB         fixed point with 20 bits: where it gives what the op means for all 65 536 pairs
    MAXIMUM, MINIMUM, RELU, activations     codes of one type
    LOGISTIC, TANH, ...                     tables of the real function

What differs anywhere but at a tie is refused, and becomes an op on floats between casts
(`compute-in-floats`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from xdsl.ir import Operation

from qdialect.algebra.float_path import dequantize_codes
from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.quant import arithmetic_of
from qdialect.plugins.common.lowering.emitter import Lowering, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, reordered
from qdialect.plugins.common.lowering.preconditions import clamp_bounds, common_order
from qdialect.plugins.tflite.lowering.codes import (
    ACTIVATION,
    activation,
    clamped,
    finished,
    half_even,
    is_builtin,
    recoded,
    result_qparams,
    signed,
    signed_qparams,
)
from qdialect.plugins.tflite.lowering.emitter import Emitter, constant_vector, full_range
from qdialect.plugins.tflite.lowering.rescale import grid, on_scale
from qdialect.plugins.tflite.numerics import rescale as litert


def arithmetic(name: Literal["ADD", "SUB", "MUL"]) -> Lowering[Emitter]:
    """`nn.add`, `nn.sub` and `nn.mul` of codes."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        half_even(op)
        given, shape = qparams_of(op.results[0]), shape_of(op.results[0])
        wide = is_builtin(op)
        result = result_qparams(given, wide=wide)
        (x, p), (y, q) = (activation(e, part, "operand", wide=wide) for part in operands)
        assert given is not None
        if name == "MUL" and not is_builtin(op):
            _check_products(e, op, (p, q, result))
        elif not is_builtin(op):
            a, b, c = grid(p), grid(q), grid(result)
            sign = -1 if name == "SUB" else 1
            floats = arithmetic_of(op).floats(p.expressed) is not None
            meant = litert.nearest(litert.sums(a, b, sign, floats), c)
            made = litert.added(a, b, c, sign)
            if made is None or not (
                e.allows_steps or litert.agrees(made, meant, ties=e.allows_ties)
            ):
                raise Unlowerable(
                    "rounding", f"{name} of codes is a step off for some pairs", "numerics=bounded"
                )
        parts = [ranked(e, part, len(shape)) for part in (x, y)]
        order = common_order(parts, len(shape))
        values = [e.value_of(part, order) for part in parts]
        more = {"pot_scale_int16": False} if name != "MUL" else {}
        out = e.node(
            name,
            values,
            reordered(shape, order),
            e.element(result, order),
            **{ACTIVATION: "NONE"},
            **more,
        )
        return finished(e, out, order, given, shape)

    return lower


def _check_products(e: Emitter, op: Operation, params: tuple[QParams, QParams, QParams]) -> None:
    """Refuse products of which many are ties that floats round in another way."""
    a, b, c = map(grid, params)
    floats = arithmetic_of(op).floats(params[0].expressed) is not None
    meant = litert.nearest(litert.products(a, b, floats), c)
    made = litert.multiplied_pairs(a, b, c)
    near = litert.NEAR_TIE
    if not (e.allows_steps or litert.agrees(made, meant, ties=e.allows_ties, near=near)):
        raise Unlowerable("rounding", "MUL of codes rounds ties in another way", "numerics=bounded")


def extremum(name: Literal["MAXIMUM", "MINIMUM"]) -> Lowering[Emitter]:
    """`nn.maximum` and `nn.minimum` of codes on one scale."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        given, shape = qparams_of(op.results[0]), shape_of(op.results[0])
        result = result_qparams(given, wide=True)
        assert given is not None
        parts = [ranked(e, signed(e, on_scale(e, x, given)), len(shape)) for x in operands]
        order = common_order(parts, len(shape))
        values = [e.value_of(part, order) for part in parts]
        out = e.node(name, values, reordered(shape, order), e.element(result, order))
        return finished(e, out, order, given, shape)

    return lower


def clamp(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.relu` and `nn.clip` between codes: the activation of the node in front where that has
    nothing else to give, else an op."""
    given, shape = qparams_of(op.results[0]), shape_of(op.results[0])
    (x,) = operands
    if given is None or x.params is None:
        raise Unlowerable("float", "it computes floats", "quantize it (qopt quantize)")
    if x.params != given:
        raise Unlowerable("qparams", "its result is on another scale", "integerize")
    x = signed(e, x)
    result_qparams(given, wide=True)
    _, bounds = clamp_bounds(e, op, x)
    value = e.value_of(x, x.order)
    alone = op.operands[0].has_one_use() and value is x.value
    return finished(e, clamped(e, value, bounds, fuse=alone), x.order, given, shape)


# -- functions ---------------------------------------------------------------------------

_Function = Callable[[Any], Any]
_TABLES: Mapping[str, tuple[str, _Function]] = {
    "nn.sigmoid": ("LOGISTIC", lambda x: 1 / (1 + np.exp(-x))),
    "nn.tanh": ("TANH", np.tanh),
}
_NEAR = 1e-4
"""So close to a tie, in steps, floats of a kernel may fall on either side."""


def function(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """A function of codes of which a kernel has the table, of the real numbers to the nearest; or
    that a kernel defines."""
    assert isinstance(op, NNOp)
    if is_builtin(op):
        return _defined(e, op, operands)
    half_even(op)
    if op.name not in _TABLES:
        raise Unlowerable("no-integers", "no kernel gives its codes", "compute-in-floats")
    name, real = _TABLES[op.name]
    x, params = activation(e, operands[0], "operand")
    given, shape = qparams_of(op.results[0]), shape_of(op.results[0])
    result = result_qparams(given)
    assert given is not None
    a, b = grid(params), grid(result)
    values = dequantize_codes(litert.all_codes(a), a, "f32").astype(np.float64)
    steps = np.asarray(real(values)) / b.scale
    distance = np.abs(steps - np.floor(steps) - 0.5)
    inside = (steps > b.low - b.zero - 1) & (steps < b.high - b.zero + 1)
    if (distance[inside] < _NEAR).any() and not e.allows_steps:
        raise Unlowerable("rounding", "its table has a number next to a tie", "floats")
    value = e.value_of(x, x.order)
    out = e.node(name, [value], shape_of(value), e.element(result, x.order))
    return finished(e, out, x.order, given, shape)


def _defined(e: Emitter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
    """The builtin of a function, with the qparams that the op has."""
    given, shape = qparams_of(op.results[0]), shape_of(op.results[0])
    name, options = builtin_of(op)
    parts = [signed(e, ranked(e, x, len(shape))) for x in operands]
    order = parts[0].order
    if given is None or parts[0].params is None:
        raise Unlowerable("float", "it computes floats", "quantize it (qopt quantize)")
    values = [e.value_of(x, order) for x in parts]
    if name == "PRELU":
        values[1] = e.reshaped(values[1], shape_of(values[1])[1:])
    made = signed_qparams(given)
    out = e.node(name, values, reordered(shape, order), e.element(made, order), **options)
    return finished(e, out, order, given, shape)


def builtin_of(op: NNOp) -> tuple[str, Mapping[str, Any]]:
    """The builtin of a function, and its options; Unlowerable if it has none."""
    v = op.values
    if op.name == "nn.leaky_relu":
        return "LEAKY_RELU", {"alpha": float(v["alpha"])}
    if op.name == "nn.gelu":
        return "GELU", {"approximate": v["approximate"] == "tanh"}
    if op.name == "nn.elu" and v["alpha"] != 1.0:
        raise Unlowerable("alpha", "ELU has an alpha of 1")
    if op.name not in BUILTINS:
        raise Unlowerable("unknown-op", f"there is no builtin of '{op.name}'")
    return BUILTINS[op.name], {}


BUILTINS: Mapping[str, str] = {
    "nn.abs": "ABS",
    "nn.ceil": "CEIL",
    "nn.elu": "ELU",
    "nn.exp": "EXP",
    "nn.floor": "FLOOR",
    "nn.gelu": "GELU",
    "nn.hard_swish": "HARD_SWISH",
    "nn.leaky_relu": "LEAKY_RELU",
    "nn.log": "LOG",
    "nn.neg": "NEG",
    "nn.prelu": "PRELU",
    "nn.round": "ROUND",
    "nn.sigmoid": "LOGISTIC",
    "nn.sqrt": "SQRT",
    "nn.tanh": "TANH",
}
"""Functions that are one builtin."""


def softmax(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.softmax` of codes along the last dimension, to (1/256, -128): the real numbers to the
    nearest code."""
    assert isinstance(op, NNOp)
    half_even(op)
    wide = is_builtin(op)
    x, _ = activation(e, operands[0], "operand", wide=wide, unsigned=wide)
    given, shape = qparams_of(op.results[0]), shape_of(op.results[0])
    result = result_qparams(given, wide=wide, unsigned=wide)
    assert given is not None
    fixed = (result.scale_list()[0], result.zero_point_list()[0]) == (1 / 256, -128)
    if not fixed and not is_builtin(op):
        raise Unlowerable("qparams", "SOFTMAX gives codes on the scale 1/256 from 0 only")
    order = _last(op.values["axis"] % x.rank, x)
    out = e.node(
        "SOFTMAX",
        [e.value_of(x, order)],
        reordered(shape, order),
        e.element(result, order),
        beta=1.0,
    )
    return finished(e, out, order, given, shape)


def _last(axis: int, x: LaidOut) -> tuple[int, ...]:
    """The order of `x` with a dimension last."""
    return x.order if x.order[-1] == axis else (*(d for d in x.order if d != axis), axis)


def table(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.table` where it holds what CONCATENATION makes of u8 codes on another scale, as one of
    one operand: nothing looks up codes."""
    x, given, codes = operands[0], qparams_of(op.results[0]), constant_vector(e, op.operands[1])
    a, b = _as_u8(x.params), _as_u8(given)
    if not x.rank or codes is None or a is None or b is None or given is None:
        raise _no_lookup()
    shift = 128 if given.storage.signed else 0
    if not np.array_equal(codes.astype(np.int64) + shift, litert.concatenated(grid(a), grid(b))):
        raise _no_lookup()
    value = e.value_of(x, x.order)
    if x.params != a:
        value = recoded(e, value, a, x.order)
    options = {"axis": 0, ACTIVATION: "NONE"}
    out = e.node("CONCATENATION", [value], shape_of(value), e.element(b, x.order), **options)
    if given.storage.signed:
        out = recoded(e, out, full_range(given), x.order)
    return finished(e, out, x.order, given, x.shape)


def _as_u8(params: QParams | None) -> QParams | None:
    if params is None or params.storage.spelling not in ("i8", "u8") or not params.is_per_tensor:
        return None
    return full_range(params.with_signedness(False))


def _no_lookup() -> Unlowerable:
    return Unlowerable("table", "there is no lookup of codes", "the function that it is of")


__all__ = ["arithmetic", "clamp", "extremum", "function", "softmax", "table"]
