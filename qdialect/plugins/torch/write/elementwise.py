"""Rows of elementwise ops: arithmetic, order, clamps and functions of one operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from qdialect.ir import ops as nn
from qdialect.plugins.torch.write.exact import Exact
from qdialect.plugins.torch.write.grid import Grid
from qdialect.plugins.torch.write.rows import Number, Properties, Row


def _add(p: Properties, a: Tensor, b: Tensor) -> Tensor:
    return a + b


def _sub(p: Properties, a: Tensor, b: Tensor) -> Tensor:
    return a - b


def _mul(p: Properties, a: Tensor, b: Tensor) -> Tensor:
    return a * b


def _div(p: Properties, a: Tensor, b: Tensor) -> Tensor:
    """Integers truncate towards zero, as in ONNX."""
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _exact_add(p: Properties, a: Number, b: Number) -> Exact:
    return a.exact + b.exact


def _exact_sub(p: Properties, a: Number, b: Number) -> Exact:
    return a.exact - b.exact


def _exact_mul(p: Properties, a: Number, b: Number) -> Exact:
    return a.exact * b.exact


def _exact_div(p: Properties, a: Number, b: Number) -> Exact:
    """A zero divisor gives an infinity of the sign of a, and 0/0 gives 0."""
    first, second = a.exact, b.exact
    zero = second.high == 0
    quotient = first / Exact(torch.where(zero, 1.0, second.high), second.low)
    limit = torch.where(first.high == 0, 0.0, first.high * torch.inf)
    return Exact(torch.where(zero, limit, quotient.high), torch.where(zero, 0.0, quotient.low))


def _extremum(choose: Callable[[Tensor, Tensor], Tensor]) -> Row:
    def floats(p: Properties, a: Tensor, b: Tensor) -> Tensor:
        return choose(a, b)

    def codes(p: Properties, grids: Sequence[Grid | None], a: Tensor, b: Tensor) -> Tensor:
        return choose(a, b)

    return Row(floats, codes=codes, wide=False, moves=True)


# -- clamps -------------------------------------------------------------------------


def _relu(p: Properties, x: Tensor) -> Tensor:
    return x.clamp(min=0)


def _relu_codes(p: Properties, grids: Sequence[Grid | None], x: Tensor) -> Tensor:
    return torch.maximum(x, _level(grids[0], x, 0.0))


def _clip(p: Properties, x: Tensor) -> Tensor:
    low, high = p.get("min"), p.get("max")
    if low is not None:
        x = torch.maximum(x, torch.as_tensor(low, device=x.device).to(x.dtype))
    if high is not None:
        x = torch.minimum(x, torch.as_tensor(high, device=x.device).to(x.dtype))
    return x


def _clip_codes(p: Properties, grids: Sequence[Grid | None], x: Tensor) -> Tensor:
    """With the bounds quantized half even."""
    if p.get("min") is not None:
        x = torch.maximum(x, _level(grids[0], x, p["min"]))
    if p.get("max") is not None:
        x = torch.minimum(x, _level(grids[0], x, p["max"]))
    return x


def _level(grid: Grid | None, x: Tensor, level: float) -> Tensor:
    """The codes of a real constant, broadcastable to `x`."""
    assert grid is not None
    scales = grid.scales(x.shape)
    return grid.store(Exact.of(torch.full_like(scales, level)))


# -- piecewise linear ---------------------------------------------------------------


def _leaky_relu(p: Properties, x: Tensor) -> Tensor:
    return torch.where(x >= 0, x, x * p["alpha"])


def _exact_leaky_relu(p: Properties, x: Number) -> Exact:
    return x.exact * Exact.of(torch.where(x.steps >= 0, torch.ones_like(x.steps), p["alpha"]))


def _prelu(p: Properties, x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x >= 0, x, x * slope)


def _exact_prelu(p: Properties, x: Number, slope: Number) -> Exact:
    value = x.exact
    scaled = value * slope.exact
    keep = x.steps >= 0
    return Exact(
        torch.where(keep, value.high, scaled.high), torch.where(keep, value.low, scaled.low)
    )


def _hard_sigmoid(p: Properties, x: Tensor) -> Tensor:
    return (x * p["alpha"] + p["beta"]).clamp(0, 1)


def _exact_hard_sigmoid(p: Properties, x: Number) -> Exact:
    return (x.exact * Exact.of(p["alpha"]) + Exact.of(p["beta"])).clip(0.0, 1.0)


def _hard_swish(p: Properties, x: Tensor) -> Tensor:
    return x * (x * (1 / 6) + 0.5).clamp(0, 1)


def _exact_hard_swish(p: Properties, x: Number) -> Exact:
    value = x.exact
    return value * (value / Exact.of(6.0) + Exact.of(0.5)).clip(0.0, 1.0)


def _neg(p: Properties, x: Tensor) -> Tensor:
    return -x


def _exact_neg(p: Properties, x: Number) -> Exact:
    return -x.exact


def _abs(p: Properties, x: Tensor) -> Tensor:
    return x.abs()


def _exact_abs(p: Properties, x: Number) -> Exact:
    return x.exact * Exact.of(torch.where(x.steps < 0, -torch.ones_like(x.steps), 1.0))


def _reciprocal(p: Properties, x: Tensor) -> Tensor:
    return 1 / x


def _exact_reciprocal(p: Properties, x: Number) -> Exact:
    """1 / 0 is an infinity, which saturates."""
    value = x.exact
    zero = value.high == 0
    inverse = Exact.of(1.0) / Exact(torch.where(zero, 1.0, value.high), value.low)
    return Exact(torch.where(zero, torch.inf, inverse.high), torch.where(zero, 0.0, inverse.low))


def _exact_sqrt(p: Properties, x: Number) -> Exact:
    return x.exact.sqrt()


# -- functions ----------------------------------------------------------------------


def _sigmoid(p: Properties, x: Tensor) -> Tensor:
    return _logistic(x)


def _logistic(x: Tensor) -> Tensor:
    small = (-x.abs()).exp()
    return torch.where(x >= 0, 1.0, small).to(x.dtype) / (1 + small)


def _unary(function: Callable[[Tensor], Tensor]) -> Callable[[Properties, Tensor], Tensor]:
    def floats(p: Properties, x: Tensor) -> Tensor:
        return function(x)

    return floats


def _gelu(p: Properties, x: Tensor) -> Tensor:
    if p["approximate"] == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + inner.tanh())
    return 0.5 * x * (1 + (x / math.sqrt(2)).erf())


def _swish(p: Properties, x: Tensor) -> Tensor:
    return x * _logistic(x * p["alpha"])


def _softplus(p: Properties, x: Tensor) -> Tensor:
    return x.clamp(min=0) + (-x.abs()).exp().log1p()


def _elu(p: Properties, x: Tensor) -> Tensor:
    return torch.where(x >= 0, x, x.clamp(max=0).expm1() * p["alpha"])


def _pow(p: Properties, x: Tensor) -> Tensor:
    return x ** p["exponent"]


ROWS: Mapping[str, Row] = {
    nn.AddOp.name: Row(_add, numbers=_exact_add),
    nn.SubOp.name: Row(_sub, numbers=_exact_sub),
    nn.MulOp.name: Row(_mul, numbers=_exact_mul),
    nn.DivOp.name: Row(_div, numbers=_exact_div),
    nn.MaximumOp.name: _extremum(torch.maximum),
    nn.MinimumOp.name: _extremum(torch.minimum),
    nn.ReluOp.name: Row(_relu, codes=_relu_codes, wide=False, moves=True),
    nn.ClipOp.name: Row(_clip, codes=_clip_codes),
    nn.LeakyReluOp.name: Row(_leaky_relu, numbers=_exact_leaky_relu),
    nn.PReluOp.name: Row(_prelu, numbers=_exact_prelu),
    nn.HardSigmoidOp.name: Row(_hard_sigmoid, numbers=_exact_hard_sigmoid),
    nn.HardSwishOp.name: Row(_hard_swish, numbers=_exact_hard_swish),
    nn.NegOp.name: Row(_neg, numbers=_exact_neg),
    nn.AbsOp.name: Row(_abs, numbers=_exact_abs),
    nn.ReciprocalOp.name: Row(_reciprocal, numbers=_exact_reciprocal),
    nn.SqrtOp.name: Row(_unary(torch.sqrt), numbers=_exact_sqrt),
    nn.ExpOp.name: Row(_unary(torch.exp)),
    nn.LogOp.name: Row(_unary(torch.log)),
    nn.ErfOp.name: Row(_unary(torch.erf)),
    nn.TanhOp.name: Row(_unary(torch.tanh)),
    nn.SigmoidOp.name: Row(_sigmoid),
    nn.SwishOp.name: Row(_swish),
    nn.GeluOp.name: Row(_gelu),
    nn.SoftplusOp.name: Row(_softplus),
    nn.EluOp.name: Row(_elu),
    nn.PowOp.name: Row(_pow),
    nn.FloorOp.name: Row(_unary(torch.floor)),
    nn.CeilOp.name: Row(_unary(torch.ceil)),
    nn.RoundOp.name: Row(_unary(torch.round)),
}
