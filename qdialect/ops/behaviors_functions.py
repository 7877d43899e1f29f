"""Elementwise real functions of one operand: what they are, in words.

Each is written once, in the words of `Behavior.arithmetic` where it is rational, and
else with those of `elementary_functions` besides (`Behavior.analytic`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.behaviors import AffineFunction, Behavior, Port
from qdialect.behaviors.declaration import Gain
from qdialect.ops import behaviors_gains as gains
from qdialect.ops.behaviors_movement import values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ElementaryFunctions = Callable[[Operation, Sequence[Any]], Any]
AffineOf = Callable[[Operation, Sequence[Fraction | None]], AffineFunction | None]


def _function(
    name: str,
    words: ElementaryFunctions,
    gain: Gain | None = None,
    affine: AffineOf | None = None,
    *,
    rational: bool = False,
    in_floats: ElementaryFunctions | None = None,
) -> Behavior:
    def pointwise(op: Operation, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return words(op, [x])

    return Behavior(
        name,
        (Port("input"),),
        pointwise=pointwise,
        arithmetic=words if rational else None,
        analytic=None if rational else words,
        in_floats=in_floats,
        gain=gain,
        affine=affine,
        elementwise=True,
    )


# -- rational ---------------------------------------------------------------------


def _neg(op: Operation, x: Sequence[Any]) -> Any:
    return x[0] * -1.0


def _neg_affine(op: Operation, constants: Sequence[Fraction | None]) -> AffineFunction | None:
    return AffineFunction(Fraction(-1), Fraction(0))


def _abs(op: Operation, x: Sequence[Any]) -> Any:
    return x[0].clip(0.0, inf) - x[0].clip(-inf, 0.0)


def _reciprocal(op: Operation, x: Sequence[Any]) -> Any:
    return 1.0 / x[0]


def _leaky_relu(op: Operation, x: Sequence[Any]) -> Any:
    return x[0].clip(0.0, inf) + x[0].clip(-inf, 0.0) * values(op)["alpha"]


def _hard_sigmoid(op: Operation, x: Sequence[Any]) -> Any:
    v = values(op)
    return (x[0] * v["alpha"] + v["beta"]).clip(0.0, 1.0)


def _hard_sigmoid_affine(
    op: Operation, constants: Sequence[Fraction | None]
) -> AffineFunction | None:
    v = values(op)
    return AffineFunction(Fraction(v["alpha"]), Fraction(v["beta"]), 0.0, 1.0)


def _hard_swish(op: Operation, x: Sequence[Any]) -> Any:
    return x[0] * (x[0] / 6.0 + 0.5).clip(0.0, 1.0)


def _hard_swish_in_floats(op: Operation, x: Sequence[Any]) -> Any:
    return x[0] * (x[0] * (1.0 / 6.0) + 0.5).clip(0.0, 1.0)


def prelu(op: Operation, x: Sequence[Any]) -> Any:
    """x if x >= 0 else slope * x"""
    return x[0].clip(0.0, inf) + x[0].clip(-inf, 0.0) * x[1]


# -- not rational -----------------------------------------------------------------


def _exp(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    return words.exp(x[0])


def _log(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    return words.log(x[0])


def _sqrt(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    return words.sqrt(x[0])


def _erf(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    return words.erf(x[0])


def _tanh(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    return words.tanh(x[0])


def _logistic(x: Any) -> Any:
    from qdialect.numerics import elementary_functions as words

    return 1.0 / (words.exp(x * -1.0) + 1.0)


def _sigmoid(op: Operation, x: Sequence[Any]) -> Any:
    return _logistic(x[0])


def _swish(op: Operation, x: Sequence[Any]) -> Any:
    return x[0] * _logistic(x[0] * values(op)["alpha"])


def _gelu(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    if values(op)["approximate"] == "tanh":
        cube = x[0] * x[0] * x[0]
        inner = (x[0] + cube * 0.044715) * words.sqrt(x[0] * 0.0 + 2.0 / words.pi(x[0]))
        return x[0] * 0.5 * (words.tanh(inner) + 1.0)
    return x[0] * 0.5 * (words.erf(x[0] / words.sqrt(x[0] * 0.0 + 2.0)) + 1.0)


def _softplus(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    size = x[0].clip(0.0, inf) - x[0].clip(-inf, 0.0)
    return x[0].clip(0.0, inf) + words.log1p(words.exp(size * -1.0))


def _elu(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    below = words.expm1(x[0].clip(-inf, 0.0))
    return x[0].clip(0.0, inf) + below * values(op)["alpha"]


def _pow(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    return words.power(x[0], values(op)["exponent"])


def _pow_in_floats(op: Operation, x: Sequence[Any]) -> Any:
    if values(op)["exponent"] not in (2.0, 3.0):
        raise ValueError("no product of few factors")
    return _pow(op, x)


def _floor(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    return words.floor(x[0])


def _ceil(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    return words.floor(x[0] * -1.0) * -1.0


def _round(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.numerics import elementary_functions as words

    return words.nearest(x[0])


FUNCTIONS: tuple[Behavior, ...] = (
    _function("nn.leaky_relu", _leaky_relu, gains.alpha, rational=True),
    _function("nn.sigmoid", _sigmoid, gains.at_most(0.25)),
    _function("nn.tanh", _tanh, gains.unit),
    _function(
        "nn.hard_sigmoid", _hard_sigmoid, gains.hard_sigmoid, _hard_sigmoid_affine, rational=True
    ),
    _function(
        "nn.hard_swish",
        _hard_swish,
        gains.at_most(1.5),
        rational=True,
        in_floats=_hard_swish_in_floats,
    ),
    _function("nn.neg", _neg, gains.unit, _neg_affine, rational=True),
    _function("nn.abs", _abs, gains.unit, rational=True),
    _function("nn.reciprocal", _reciprocal, rational=True),
    _function("nn.exp", _exp),
    _function("nn.log", _log),
    _function("nn.sqrt", _sqrt),
    _function("nn.erf", _erf, gains.at_most(1.1284)),
    _function("nn.gelu", _gelu, gains.at_most(1.13)),
    _function("nn.swish", _swish, gains.at_most(1.1)),
    _function("nn.softplus", _softplus, gains.unit),
    _function("nn.elu", _elu, gains.alpha),
    _function("nn.pow", _pow, in_floats=_pow_in_floats),
    _function("nn.floor", _floor),
    _function("nn.ceil", _ceil),
    _function("nn.round", _round),
)
