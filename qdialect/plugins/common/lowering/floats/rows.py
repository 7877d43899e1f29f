"""Float forms of ops as rows of a dialect's lowerings, by name.

    either(codes, floats)      the integer form of an op on codes, the float form of another

Forms are written with a `FloatWriter`, so that they are the same in every dialect: softmax is a
maximum, an exponential, a sum and a quotient, each written as the dialect has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.ir.ops import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.pooling import window_counts
from qdialect.ir.ops.shapes import broadcast
from qdialect.plugins.common.lowering.emitter import E, Lowering, storage_of
from qdialect.plugins.common.lowering.floats.algebra import Algebra, Function, Pair
from qdialect.plugins.common.lowering.floats.interpolation import linear_places
from qdialect.plugins.common.lowering.floats.writer import (
    FloatWriter,
    Reduction,
    arithmetic_element,
)
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.preconditions import (
    is_on_codes,
    reduced_dimensions,
    spatial_dimensions,
)

# Elementwise ops on floats, as formulas of an `Algebra`.
#
# The formulas are those of the interpreter, step by step, so that what differs in an engine is
# how it computes a step: a sum, product or quotient is rounded once, `exp` has the error of its
# library. For example `nn.swish` of x is x * sigmoid(alpha * x).

Formula = Callable[[NNOp, Algebra, Sequence[SSAValue]], SSAValue]
"""Computes an element of the result of one element of each operand."""

_MOST_FACTORS = 16


def _function(name: Function) -> Formula:
    return lambda op, a, x: a.function(name, x[0])


def _pair(name: Pair) -> Formula:
    return lambda op, a, x: a.pair(name, x[0], x[1])


def _relu(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return a.pair("maximum", x[0], a.number(0.0))


def _clip(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    value = x[0]
    if (low := op.values.get("min")) is not None:
        value = a.pair("maximum", value, a.number(low))
    if (high := op.values.get("max")) is not None:
        value = a.pair("minimum", value, a.number(high))
    return value


def _clipped(a: Algebra, x: SSAValue, low: float, high: float) -> SSAValue:
    return a.pair("minimum", a.pair("maximum", x, a.number(low)), a.number(high))


def _line(a: Algebra, x: SSAValue, slope: float, offset: float) -> SSAValue:
    return a.pair("add", a.pair("mul", x, a.number(slope)), a.number(offset))


def _neg(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return a.negated(x[0])


def _reciprocal(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return a.reciprocal(x[0])


def _sloped(a: Algebra, x: SSAValue, slope: SSAValue) -> SSAValue:
    """max(x, 0) + slope * min(x, 0), of which one is 0: no truth values, which some compilers
    cannot store."""
    zero = a.number(0.0)
    below = a.pair("mul", a.pair("minimum", x, zero), slope)
    return a.pair("add", a.pair("maximum", x, zero), below)


def _leaky_relu(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return _sloped(a, x[0], a.number(op.values["alpha"]))


def _prelu(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return _sloped(a, x[0], x[1])


def _hard_sigmoid(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return _clipped(a, _line(a, x[0], op.values["alpha"], op.values["beta"]), 0.0, 1.0)


def _hard_swish(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return a.pair("mul", x[0], _clipped(a, _line(a, x[0], 1 / 6, 0.5), 0.0, 1.0))


def _sigmoid(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return a.sigmoid(x[0])


def _swish(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    alpha = op.values["alpha"]
    scaled = x[0] if alpha == 1.0 else a.pair("mul", x[0], a.number(alpha))
    return a.pair("mul", x[0], a.sigmoid(scaled))


def _gelu(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    value, one = x[0], a.number(1.0)
    if op.values["approximate"] == "tanh":
        factor = a.pair("mul", a.number(0.044715), value)
        cube = a.pair("mul", a.pair("mul", factor, value), value)
        inner = a.pair("mul", a.number(math.sqrt(2 / math.pi)), a.pair("add", value, cube))
        gate = a.function("tanh", inner)
    else:
        gate = a.function("erf", a.pair("div", value, a.number(math.sqrt(2.0))))
    half = a.pair("mul", value, a.number(0.5))
    return a.pair("mul", half, a.pair("add", one, gate))


def _softplus(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    size = a.function("exp", a.negated(a.function("abs", x[0])))
    return a.pair("add", a.pair("maximum", x[0], a.number(0.0)), a.log1p(size))


def _elu(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    zero = a.number(0.0)
    below = a.expm1(a.pair("minimum", x[0], zero))
    scaled = a.pair("mul", below, a.number(op.values["alpha"]))
    return a.pair("add", a.pair("maximum", x[0], zero), scaled)


def _pow(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    """Few factors are multiplied; a square root, and one over either, likewise."""
    exponent = float(op.values["exponent"])
    size = abs(exponent)
    whole = math.floor(size)
    if size > _MOST_FACTORS or size - whole not in (0.0, 0.5):
        return a.pair("power", x[0], a.number(exponent))
    result: SSAValue | None = a.function("sqrt", x[0]) if size != whole else None
    for bit in bin(whole)[2:][::-1]:
        if bit == "1":
            result = x[0] if result is None else a.pair("mul", result, x[0])
        x = (a.pair("mul", x[0], x[0]),) if whole > 1 else x
        whole >>= 1
    result = a.number(1.0) if result is None else result
    return a.reciprocal(result) if exponent < 0 else result


FORMULAS: Mapping[str, Formula] = {
    **{f"nn.{name}": _pair(name) for name in ("add", "sub", "mul", "div", "maximum", "minimum")},
    **{f"nn.{name}": _function(name) for name in ("abs", "ceil", "erf", "exp", "floor", "log")},
    **{f"nn.{name}": _function(name) for name in ("sqrt", "tanh")},
    "nn.clip": _clip,
    "nn.elu": _elu,
    "nn.gelu": _gelu,
    "nn.hard_sigmoid": _hard_sigmoid,
    "nn.hard_swish": _hard_swish,
    "nn.leaky_relu": _leaky_relu,
    "nn.neg": _neg,
    "nn.pow": _pow,
    "nn.prelu": _prelu,
    "nn.reciprocal": _reciprocal,
    "nn.relu": _relu,
    "nn.round": _function("nearest"),
    "nn.sigmoid": _sigmoid,
    "nn.softplus": _softplus,
    "nn.swish": _swish,
}
"""The formula of each elementwise op."""


Form = Callable[[FloatWriter, NNOp, Sequence[LaidOut]], LaidOut]
"""Writes one op on floats."""


def either(codes: Lowering[E], floats: Lowering[E]) -> Lowering[E]:
    """The form of an op on codes, and the form of one on floats (or on plain integers)."""

    def lower(e: E, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
        return (codes if is_on_codes(op) else floats)(e, op, operands)

    return lower


def float_rows(writer: Callable[[E], FloatWriter]) -> Mapping[str, Lowering[E]]:
    """The float form of every op that has one in all dialects."""

    def row(form: Form) -> Lowering[E]:
        def lower(e: E, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
            assert isinstance(op, NNOp)
            out = form(writer(e), op, operands)
            return e.result(e.value_of(out, out.order), out.order, None, shape_of(op.results[0]))

        return lower

    return {name: row(form) for name, form in _FORMS.items()}


def joined_rows(
    codes: Mapping[str, Lowering[E]], floats: Mapping[str, Lowering[E]]
) -> Mapping[str, Lowering[E]]:
    """The forms of every op: `codes` and `floats` where there are both."""
    both = {
        name: either(codes[name], row) if name in codes else row for name, row in floats.items()
    }
    return {**codes, **both}


# -- elementwise ---------------------------------------------------------------------


def _elementwise(w: FloatWriter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
    element = arithmetic_element(operands[0])
    formula = FORMULAS[op.name]
    return w.computed(operands, shape_of(op.results[0]), element, lambda a, x: formula(op, a, x))


def _paired(w: FloatWriter, name: Pair, lhs: LaidOut, rhs: LaidOut) -> LaidOut:
    shape = broadcast([lhs.shape, rhs.shape])
    return w.computed(
        [lhs, rhs], shape, arithmetic_element(lhs), lambda a, x: a.pair(name, x[0], x[1])
    )


# -- reductions ----------------------------------------------------------------------


def _reduction(
    name: Reduction, axes_of: Callable[[Operation, int], Sequence[int]], mean: bool = False
) -> Form:
    def form(w: FloatWriter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
        (x,) = operands
        axes = axes_of(op, x.rank)
        arithmetic_element(x)
        out = _mean(w, x, axes) if mean else w.reduced(name, x, axes)
        return w.shaped(out, shape_of(op.results[0]))

    return form


def _mean(w: FloatWriter, x: LaidOut, axes: Sequence[int]) -> LaidOut:
    total, count = w.reduced("sum", x, axes), math.prod(x.shape[d] for d in axes)
    return w.computed(
        [total],
        total.shape,
        arithmetic_element(x),
        lambda a, v: a.pair("div", v[0], a.number(float(count))),
    )


def _average_pool(w: FloatWriter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
    """Sums of windows over the numbers of elements that they count."""
    (x,) = operands
    element = arithmetic_element(x)
    sums, counts = w.window_sums(op, x), window_counts(op)
    spatial = sums.shape[2:]
    if (counts == counts.flat[0]).all():
        return w.computed(
            [sums],
            sums.shape,
            element,
            lambda a, v: a.pair("div", v[0], a.number(float(counts.flat[0]))),
        )
    numbers = _constant(np.broadcast_to(counts.reshape(spatial), spatial), x)
    return w.computed([sums, numbers], sums.shape, element, lambda a, v: a.pair("div", v[0], v[1]))


def _constant(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], like: LaidOut) -> LaidOut:
    """Numbers as a constant of the float type of `like`."""
    kind = {"f16": np.float16, "f64": np.float64}.get(str(storage_of(like)), np.float32)
    numbers = np.ascontiguousarray(array).astype(kind)
    return LaidOut(numbers.shape, identity_order(numbers.ndim), None, None, numbers)


# -- normalization -------------------------------------------------------------------


def _softmax(w: FloatWriter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
    return _softmax_along(w, operands[0], int(op.values["axis"]))


def _softmax_along(w: FloatWriter, x: LaidOut, axis: int) -> LaidOut:
    """exp(x - largest) over the sum of these."""
    axes, element = [axis % x.rank], arithmetic_element(x)
    powers = w.computed(
        [x, w.reduced("max", x, axes)],
        x.shape,
        element,
        lambda a, v: a.function("exp", a.pair("sub", v[0], v[1])),
    )
    return _paired(w, "div", powers, w.reduced("sum", powers, axes))


def _layer_norm(w: FloatWriter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias; a mean of 0 for `rms_norm`."""
    x, *affine = operands
    axes = range(int(op.values["axis"]) % x.rank, x.rank)
    epsilon = float(op.values["epsilon"])
    layer = op.name == "nn.layer_norm"
    centered = _paired(w, "sub", x, _mean(w, x, axes)) if layer else x
    variance = _mean(w, _paired(w, "mul", centered, centered), axes)
    deviation = w.computed(
        [variance],
        variance.shape,
        arithmetic_element(x),
        lambda a, v: a.function("sqrt", a.pair("add", v[0], a.number(epsilon))),
    )
    out = _paired(w, "div", centered, deviation)
    for name, vector in zip(("mul", "add"), affine, strict=False):
        out = _paired(w, name, out, vector)
    return out


def _batch_norm(w: FloatWriter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, along dimension 1."""
    x = operands[0]
    column = (operands[1].shape[0], *(1 for _ in x.shape[2:]))
    scale, bias, mean, variance = (w.shaped(v, column) for v in operands[1:])
    epsilon = float(op.values["epsilon"])
    deviation = w.computed(
        [variance],
        column,
        arithmetic_element(x),
        lambda a, v: a.function("sqrt", a.pair("add", v[0], a.number(epsilon))),
    )
    out = _paired(w, "div", _paired(w, "sub", x, mean), deviation)
    return _paired(w, "add", _paired(w, "mul", out, scale), bias)


# -- interpolation -------------------------------------------------------------------


def _resize_linear(w: FloatWriter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
    """Along height and then width, of two elements each."""
    (x,), shape = operands, shape_of(op.results[0])
    element = arithmetic_element(x)
    for dimension in (2, 3):
        low, high, rest = linear_places(op, x.shape[dimension], shape[dimension], dimension)
        if not rest.any():
            x = w.taken(x, dimension, low.tolist())
            continue
        column = (-1, *(1 for _ in shape[dimension + 1 :]))
        near, far = (_constant(v.reshape(column), x) for v in (1 - rest, rest))
        parts = [w.taken(x, dimension, at.tolist()) for at in (low, high)]
        x = w.computed([parts[0], near, parts[1], far], parts[0].shape, element, _weighted)
    return x


def _weighted(a: Algebra, v: Sequence[SSAValue]) -> SSAValue:
    return a.pair("add", a.pair("mul", v[0], v[1]), a.pair("mul", v[2], v[3]))


# -- products ------------------------------------------------------------------------


def _matmul(w: FloatWriter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
    lhs, rhs = operands
    arithmetic_element(lhs)
    if lhs.rank == 1:
        lhs = w.shaped(lhs, (1, *lhs.shape))
    if rhs.rank == 1:
        rhs = w.shaped(rhs, (*rhs.shape, 1))
    return w.shaped(w.product(lhs, rhs), shape_of(op.results[0]))


def _fully_connected(w: FloatWriter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
    x, weight, *bias = operands
    arithmetic_element(x)
    out = w.product(x, transposed(weight, (1, 0)))
    return _paired(w, "add", out, bias[0]) if bias else out


def _attention(w: FloatWriter, op: NNOp, operands: Sequence[LaidOut]) -> LaidOut:
    """softmax(scale * query @ key^T + mask) @ value"""
    query, key, value, *mask = operands
    scale = float(op.values["scale"])
    scores = w.product(query, transposed(key, (0, 1, 3, 2)))
    scores = w.computed(
        [scores],
        scores.shape,
        arithmetic_element(query),
        lambda a, v: a.pair("mul", v[0], a.number(scale)),
    )
    if mask:
        scores = _paired(w, "add", scores, mask[0])
    return w.product(_softmax_along(w, scores, -1), value)


def transposed(x: LaidOut, perm: Sequence[int]) -> LaidOut:
    """Dimension d of the result is dimension perm[d] of `x`; nothing is moved but a constant."""
    shape = tuple(x.shape[d] for d in perm)
    if x.array is not None:
        array = np.ascontiguousarray(x.array.transpose(perm))
        return LaidOut(shape, identity_order(x.rank), x.params, None, array)
    return LaidOut(shape, tuple(list(perm).index(d) for d in x.order), x.params, x.value)


_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(FORMULAS, _elementwise),
    **{f"nn.avg_pool{rank}d": _average_pool for rank in (1, 2, 3)},
    **{
        f"nn.global_avg_pool{rank}d": _reduction("sum", spatial_dimensions, mean=True)
        for rank in (1, 2, 3)
    },
    "nn.attention": _attention,
    "nn.batch_norm": _batch_norm,
    "nn.fully_connected": _fully_connected,
    "nn.layer_norm": _layer_norm,
    "nn.matmul": _matmul,
    "nn.reduce_max": _reduction("max", reduced_dimensions),
    "nn.reduce_mean": _reduction("sum", reduced_dimensions, mean=True),
    "nn.reduce_min": _reduction("min", reduced_dimensions),
    "nn.rms_norm": _layer_norm,
    "nn.reduce_sum": _reduction("sum", reduced_dimensions),
    "nn.resize_linear": _resize_linear,
    "nn.softmax": _softmax,
}
