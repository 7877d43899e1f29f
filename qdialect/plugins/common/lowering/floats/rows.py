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
from qdialect.plugins.common.lowering.floats.algebra import Algebra, Pair
from qdialect.plugins.common.lowering.floats.formulas import FORMULAS
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
