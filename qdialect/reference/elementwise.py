"""Kernels of elementwise `nn` ops.

Without quantized types: numpy in the type of the operands (f16 and bf16 in f32,
rounded once). With them: exact reals, stored once with the declared rounding.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.ir import Operation

from qdialect import ops as nn
from qdialect.numerics.rounding import Rounding
from qdialect.quant import quant_element
from qdialect.reference.codes import ordered, unordered
from qdialect.reference.quantize import field, is_quantized, load, quantize, rounding_of, store
from qdialect.reference.real import Real
from qdialect.reference.values import Array, Evaluation, Kernel

Exact = Callable[[Real, Real], Real]
FloatUnary = Callable[[Operation, Array], Array]
RealUnary = Callable[[Operation, Real], Real]


def properties(op: Operation) -> dict[str, Any]:
    """Properties of an `nn` op as Python values."""
    assert isinstance(op, nn.NNOp)
    return op.values


def widened(value: Array) -> Array:
    """f16 as f32, in which all f16 arithmetic is done; anything else itself."""
    return value.astype(np.float32) if value.dtype == np.float16 else value


def stored(op: Operation, value: Real, evaluation: Evaluation) -> list[Array]:
    """The single result of `op`, stored with its declared rounding."""
    return [store(value, op.results[0].type, rounding_of(op), evaluation)]


def plain(op: Operation, value: Array, evaluation: Evaluation) -> list[Array]:
    """The single result of an op without quantized types, in the result's dtype."""
    kind = op.results[0].type
    if value.dtype.kind == "f":
        return [evaluation.as_float(value, kind)]
    return [value.astype(evaluation.dtype(kind), copy=False)]


def _binary(function: Callable[[Array, Array], Array], exact: Exact) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        a, b = operands
        if is_quantized(op):
            lhs, rhs = (load(v, o.type) for v, o in zip(operands, op.operands, strict=True))
            return stored(op, exact(lhs, rhs), evaluation)
        return plain(op, function(widened(a), widened(b)), evaluation)

    return kernel


def _extremum(choose: Callable[[Array, Array], Array]) -> Kernel:
    """One of two operands by order; of codes on the same qparams, the code."""

    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        a, b = operands
        element = quant_element(op.operands[0].type)
        if element is None:
            return plain(op, choose(a, b), evaluation)
        storage = element.qparams.storage
        return [unordered(choose(ordered(a, storage), ordered(b, storage)), storage, a.dtype)]

    return kernel


def _divide(a: Real, b: Real) -> Real:
    """a / b; a zero divisor gives an infinity of the sign of a, and 0/0 gives 0."""
    quotient = a / b
    zero = np.broadcast_to(b.approx == 0, quotient.shape)
    if not zero.any():
        return quotient
    limit = np.where(a.approx == 0, 0.0, np.copysign(np.inf, a.approx))
    special = zero if quotient.special is None else zero | quotient.special
    return replace(quotient, approx=np.where(zero, limit, quotient.approx), special=special)


def _float_divide(a: Array, b: Array) -> Array:
    """a / b; integers truncate towards zero, as in ONNX."""
    if a.dtype.kind == "f":
        return a / b
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


def function(of_floats: FloatUnary, exact: RealUnary) -> Kernel:
    """The kernel of a function of one operand, from what it is on floats and on reals."""

    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        if is_quantized(op):
            return stored(op, exact(op, load(operands[0], op.operands[0].type)), evaluation)
        return plain(op, of_floats(op, widened(operands[0])), evaluation)

    return kernel


def _leaky_relu(op: Operation, x: Array) -> Array:
    return np.where(x >= 0, x, x * x.dtype.type(properties(op)["alpha"]))


def _exact_leaky_relu(op: Operation, x: Real) -> Real:
    return x * Real.floats(np.where(x.approx >= 0, 1.0, properties(op)["alpha"]))


def _hard_sigmoid(op: Operation, x: Array) -> Array:
    v, kind = properties(op), x.dtype.type
    return np.clip(x * kind(v["alpha"]) + kind(v["beta"]), 0, 1)


def _exact_hard_sigmoid(op: Operation, x: Real) -> Real:
    v = properties(op)
    return (x * Real.floats(v["alpha"]) + Real.floats(v["beta"])).clip(0.0, 1.0)


def _hard_swish(op: Operation, x: Array) -> Array:
    """With the constants of the function that ONNX defines it by."""
    kind = x.dtype.type
    return x * np.clip(x * kind(1 / 6) + kind(0.5), 0, 1)


def _exact_hard_swish(op: Operation, x: Real) -> Real:
    return x * (x / Real.floats(6.0) + Real.floats(0.5)).clip(0.0, 1.0)


def _relu(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """max(x, 0); on stored integers max(q, zero point)."""
    return [_chosen(np.maximum, op, operands[0], 0.0)]


def _clip(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """min(max(x, min), max); on stored integers with the bounds quantized half even."""
    value, limits = operands[0], properties(op)
    if limits.get("min") is not None:
        value = _chosen(np.maximum, op, value, limits["min"])
    if limits.get("max") is not None:
        value = _chosen(np.minimum, op, value, limits["max"])
    return plain(op, value, evaluation)


def _chosen(
    choose: Callable[[Array, Array], Array], op: Operation, value: Array, level: float
) -> Array:
    """The larger or smaller of `value` and a real constant, as represented."""
    element, other = quant_element(op.operands[0].type), _level(op, value, level)
    if element is None:
        return choose(value, other)
    storage = element.qparams.storage
    ranks = choose(ordered(value, storage), ordered(other, storage))
    return unordered(ranks, storage, value.dtype)


def _level(op: Operation, value: Array, level: float) -> Array:
    """A real constant in the representation of `value`, broadcastable to it."""
    element = quant_element(op.operands[0].type)
    if element is None:
        return np.asarray(level).astype(value.dtype)
    qparams = element.qparams
    shape = np.atleast_1d(field(qparams, value.shape)[0]).shape
    constant = Real.floats(np.full(shape, level))
    result = quantize(constant, qparams, Rounding.HALF_EVEN)
    return result.reshape(shape if value.ndim else ())


KERNELS: Mapping[str, Kernel] = {
    nn.AddOp.name: _binary(operator.add, operator.add),
    nn.SubOp.name: _binary(operator.sub, operator.sub),
    nn.MulOp.name: _binary(operator.mul, operator.mul),
    nn.DivOp.name: _binary(_float_divide, _divide),
    nn.MaximumOp.name: _extremum(np.maximum),
    nn.MinimumOp.name: _extremum(np.minimum),
    nn.ReluOp.name: _relu,
    nn.ClipOp.name: _clip,
    nn.LeakyReluOp.name: function(_leaky_relu, _exact_leaky_relu),
    nn.HardSigmoidOp.name: function(_hard_sigmoid, _exact_hard_sigmoid),
    nn.HardSwishOp.name: function(_hard_swish, _exact_hard_swish),
}
