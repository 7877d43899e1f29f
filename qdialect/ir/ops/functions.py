"""Elementwise real functions of one tensor, and prelu.

    %y = nn.gelu %x approximate tanh : (tensor<1x8xf32>) -> tensor<1x8xf32>

A function is written once: with + - * / and clip where it is rational, and else with the
elementary functions of `algebra.elementary_functions` besides. On quantized tensors the
exact real result is quantized with `rounding`. Where the function has no real value (the
logarithm of a negative number) that stores the lowest code; infinities saturate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.ir import behaviors
from qdialect.ir.ops.base import HALF_EVEN, REAL, TENSOR, FunctionOp, NNOp, UnaryOp, Values, real
from qdialect.ir.ops.declare import Declaration, at_most, aten, nn_op, onnx, unit, values
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, broadcast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.ir.behaviors.declaration import (
        AffineFunction,
        AffineOf,
        Behavior,
        Expression,
        Gain,
        Sizes,
    )
    from qdialect.ir.ops.components import Components, Pieces

GELU_FORMS = ("none", "tanh")


def function(
    formula: Expression,
    gain: Gain | None = None,
    affine: AffineOf | None = None,
    *,
    rational: bool = False,
    in_floats: Expression | None = None,
) -> Declaration:
    """The declaration of an elementwise function of one operand."""

    def pointwise(op: Operation, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return formula(op, [x])

    def declare(name: str) -> Behavior:
        return behaviors.Elementwise(
            name,
            (behaviors.Port("input"),),
            pointwise=pointwise,
            arithmetic=formula if rational else None,
            analytic=None if rational else formula,
            in_floats=in_floats,
            gain=gain,
            affine=affine,
        )

    return declare


def _clamp(bounds: Callable[[Operation], tuple[float, float]]) -> Declaration:
    def declare(name: str) -> Behavior:
        return behaviors.Clamp(
            name,
            (behaviors.Port("input", behaviors.PortKind.TIED, axes=None),),
            (behaviors.Port("result", behaviors.PortKind.TIED, axes=None),),
            clamp=bounds,
        )

    return declare


def _alpha_gain(op: Operation, operand: int, sizes: Sizes) -> float | None:
    return max(1.0, abs(values(op)["alpha"]))


# -- clamps ------------------------------------------------------------------------


def _clip_clamp(op: Operation) -> tuple[float, float]:
    v = values(op)
    return v.get("min", -math.inf), v.get("max", math.inf)


@nn_op(_clamp(lambda op: (0.0, math.inf)), onnx=onnx("Relu"), aten=aten("relu"))
class ReluOp(UnaryOp):
    """max(x, 0); on quantized tensors max(q, zero point) on the same qparams."""

    name = "nn.relu"


@nn_op(_clamp(_clip_clamp))
class ClipOp(UnaryOp):
    """min(max(x, min), max), bounds in real units, an absent bound is infinite.

    On quantized tensors the bounds are quantized with round half even and the
    result has the qparams of the input.
    """

    name = "nn.clip"
    min = opt_prop_def(REAL)
    max = opt_prop_def(REAL)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        low, high = values.get("min"), values.get("max")
        if (low is not None and low != low) or (high is not None and high != high):
            raise ShapeError("bounds must be numbers")
        return [operands[0]]


# -- rational ----------------------------------------------------------------------


def _neg(op: Operation, x: Sequence[Any]) -> Any:
    return x[0] * -1.0


def _neg_affine(op: Operation, constants: Sequence[Fraction | None]) -> AffineFunction | None:
    return behaviors.AffineFunction(Fraction(-1), Fraction(0))


@nn_op(function(_neg, unit, _neg_affine, rational=True), onnx=onnx("Neg"))
class NegOp(FunctionOp):
    """-x"""

    name = "nn.neg"


def _abs(op: Operation, x: Sequence[Any]) -> Any:
    return x[0].clip(0.0, math.inf) - x[0].clip(-math.inf, 0.0)


@nn_op(function(_abs, unit, rational=True), onnx=onnx("Abs"))
class AbsOp(FunctionOp):
    """|x|"""

    name = "nn.abs"


def _reciprocal(op: Operation, x: Sequence[Any]) -> Any:
    return 1.0 / x[0]


@nn_op(function(_reciprocal, rational=True), onnx=onnx("Reciprocal"), aten=aten("reciprocal"))
class ReciprocalOp(FunctionOp):
    """1 / x; on a quantized operand 1 / 0 saturates upwards."""

    name = "nn.reciprocal"


def _leaky_relu(op: Operation, x: Sequence[Any]) -> Any:
    return x[0].clip(0.0, math.inf) + x[0].clip(-math.inf, 0.0) * values(op)["alpha"]


@nn_op(
    function(_leaky_relu, _alpha_gain, rational=True),
    onnx=onnx("LeakyRelu", alpha=0.009999999776482582),
    aten=aten("leaky_relu", alpha=("negative_slope", 0.01)),
)
class LeakyReluOp(FunctionOp):
    """x if x >= 0 else alpha * x"""

    name = "nn.leaky_relu"
    alpha = prop_def(REAL, real(0.01))


def _hard_sigmoid(op: Operation, x: Sequence[Any]) -> Any:
    v = values(op)
    return (x[0] * v["alpha"] + v["beta"]).clip(0.0, 1.0)


def _hard_sigmoid_affine(
    op: Operation, constants: Sequence[Fraction | None]
) -> AffineFunction | None:
    v = values(op)
    return behaviors.AffineFunction(Fraction(v["alpha"]), Fraction(v["beta"]), 0.0, 1.0)


def _hard_sigmoid_gain(op: Operation, operand: int, sizes: Sizes) -> float | None:
    return abs(values(op)["alpha"])


def _line(pieces: Pieces, x: SSAValue, slope: float, offset: float) -> SSAValue:
    """slope * x + offset, as the pieces `scaled` and `shifted`."""
    from qdialect.ir.ops.elementwise import AddOp, MulOp

    scaled = pieces.add("scaled", MulOp(x, pieces.number(slope)))
    return pieces.add("shifted", AddOp(scaled, pieces.number(offset)))


def _hard_sigmoid_pieces() -> Components:
    from qdialect.ir.ops.components import Components

    def build(op: Operation, pieces: Pieces) -> SSAValue:
        v = values(op)
        gate = _line(pieces, op.operands[0], v["alpha"], v["beta"])
        return pieces.add("result", ClipOp(gate, min=0.0, max=1.0))

    return Components(("scaled", "shifted", "result"), build)


@nn_op(
    function(_hard_sigmoid, _hard_sigmoid_gain, _hard_sigmoid_affine, rational=True),
    onnx=onnx("HardSigmoid", alpha=0.20000000298023224, beta=0.5),
    pieces=_hard_sigmoid_pieces,
)
class HardSigmoidOp(FunctionOp):
    """max(0, min(1, alpha * x + beta))"""

    name = "nn.hard_sigmoid"
    alpha = prop_def(REAL, real(0.2))
    beta = prop_def(REAL, real(0.5))


def _hard_swish(op: Operation, x: Sequence[Any]) -> Any:
    return x[0] * (x[0] / 6.0 + 0.5).clip(0.0, 1.0)


def _hard_swish_in_floats(op: Operation, x: Sequence[Any]) -> Any:
    return x[0] * (x[0] * (1.0 / 6.0) + 0.5).clip(0.0, 1.0)


def _hard_swish_pieces() -> Components:
    from qdialect.ir.ops.components import Components
    from qdialect.ir.ops.elementwise import AddOp, MulOp

    def build(op: Operation, pieces: Pieces) -> SSAValue:
        x = op.operands[0]
        gate = pieces.add("gate", ClipOp(_line(pieces, x, 1 / 6, 0.5), min=0.0, max=1.0))
        return pieces.add("result", MulOp(x, gate))

    def of_sigmoid(op: Operation, pieces: Pieces) -> SSAValue:
        x = op.operands[0]
        gate = pieces.add("gate", HardSigmoidOp(x, alpha=1 / 6, beta=0.5))
        return pieces.add("result", MulOp(x, gate))

    def of_relu6(op: Operation, pieces: Pieces) -> SSAValue:
        x = op.operands[0]
        gate = pieces.emit(ClipOp(pieces.emit(AddOp(x, pieces.number(3.0))), min=0.0, max=6.0))
        return pieces.add("result", MulOp(pieces.emit(MulOp(x, gate)), pieces.number(1 / 6)))

    roles = ("scaled", "shifted", "gate", "result")
    return Components(roles, build, also=(of_sigmoid, of_relu6))


@nn_op(
    function(_hard_swish, at_most(1.5), rational=True, in_floats=_hard_swish_in_floats),
    onnx=onnx("HardSwish", writes=False),
    aten=aten("hardswish"),
    pieces=_hard_swish_pieces,
)
class HardSwishOp(FunctionOp):
    """x * max(0, min(1, x/6 + 1/2))"""

    name = "nn.hard_swish"


def _prelu(op: Operation, x: Sequence[Any]) -> Any:
    """x if x >= 0 else slope * x"""
    return x[0].clip(0.0, math.inf) + x[0].clip(-math.inf, 0.0) * x[1]


def _prelu_gain(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """x or a x: no steeper than 1 or |a|, and a moves it by |x|."""
    return max(1.0, sizes(1).high) if operand == 0 else sizes(0).high


def _declare_prelu(name: str) -> Behavior:
    return behaviors.Elementwise(
        name,
        (behaviors.Port("input", axes=None), behaviors.Port("slope", axes=None)),
        (behaviors.Port("result", axes=None),),
        arithmetic=_prelu,
        gain=_prelu_gain,
    )


def _prelu_pieces() -> Components:
    """The larger of x and a x, where no slope is above 1: both round as their maximum does."""
    from qdialect.ir.ops.components import Components
    from qdialect.ir.ops.elementwise import AddOp, MaximumOp, MinimumOp, MulOp

    def extremum(slopes: NDArray[np.float64]) -> type[MaximumOp | MinimumOp] | None:
        if not (slopes > 1).any():
            return MaximumOp
        return None if (slopes < 1).any() else MinimumOp

    def written(kind: type[MaximumOp | MinimumOp], op: Operation, pieces: Pieces) -> SSAValue:
        x, slope = op.operands
        scaled = pieces.add("scaled", MulOp(x, slope, result_types=[x.type]))
        return pieces.add("result", kind(pieces.alike(x, scaled), scaled))

    def build(op: Operation, pieces: Pieces) -> SSAValue:
        x, slope = op.operands
        slopes = pieces.array(slope)
        if slopes is not None and (kind := extremum(slopes)) is not None:
            return written(kind, op, pieces)
        below = pieces.emit(ClipOp(x, max=0.0))
        scaled = pieces.add("scaled", MulOp(below, slope, result_types=[x.type]))
        return pieces.add("result", AddOp(pieces.emit(ReluOp(x)), scaled))

    def form(kind: type[MaximumOp | MinimumOp], op: Operation, pieces: Pieces) -> SSAValue | None:
        slopes = pieces.array(op.operands[1])
        fits = slopes is None or extremum(slopes) is kind
        return written(kind, op, pieces) if fits else None

    also = (partial(form, MaximumOp), partial(form, MinimumOp))
    return Components(("scaled", "result"), build, as_result=frozenset({"scaled"}), also=also)


@nn_op(_declare_prelu, onnx=onnx("PRelu", 2, reads=False), pieces=_prelu_pieces)
class PReluOp(NNOp):
    """x if x >= 0 else slope * x; `slope` broadcasts to the shape of x."""

    name = "nn.prelu"
    input = operand_def(TENSOR)
    slope = operand_def(TENSOR)
    result = result_def(TENSOR)
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, slope = operands
        if DYNAMIC not in (*x, *slope) and broadcast(operands) != x:
            raise ShapeError(f"slope of shape {list(slope)} does not broadcast to {list(x)}")
        if len(slope) > len(x):
            raise ShapeError(f"slope of rank {len(slope)} does not broadcast to {list(x)}")
        return [x]


# -- not rational ------------------------------------------------------------------


def _exp(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    return elementary.exp(x[0])


@nn_op(function(_exp), onnx=onnx("Exp"), aten=aten("exp"))
class ExpOp(FunctionOp):
    """e to the x"""

    name = "nn.exp"


def _log(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    return elementary.log(x[0])


@nn_op(function(_log), onnx=onnx("Log"), aten=aten("log"))
class LogOp(FunctionOp):
    """Natural logarithm."""

    name = "nn.log"


def _sqrt(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    return elementary.sqrt(x[0])


@nn_op(function(_sqrt), onnx=onnx("Sqrt"), aten=aten("sqrt"))
class SqrtOp(FunctionOp):
    """Square root."""

    name = "nn.sqrt"


def _erf(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    return elementary.erf(x[0])


@nn_op(function(_erf, at_most(1.1284)), onnx=onnx("Erf"), aten=aten("erf"))
class ErfOp(FunctionOp):
    """Error function."""

    name = "nn.erf"


def _tanh(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    return elementary.tanh(x[0])


@nn_op(function(_tanh, unit), onnx=onnx("Tanh"), aten=aten("tanh"))
class TanhOp(FunctionOp):
    """Hyperbolic tangent."""

    name = "nn.tanh"


def _logistic(x: Any) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    return 1.0 / (elementary.exp(x * -1.0) + 1.0)


def _sigmoid(op: Operation, x: Sequence[Any]) -> Any:
    return _logistic(x[0])


@nn_op(function(_sigmoid, at_most(0.25)), onnx=onnx("Sigmoid"), aten=aten("sigmoid"))
class SigmoidOp(FunctionOp):
    """1 / (1 + exp(-x))"""

    name = "nn.sigmoid"


def _swish(op: Operation, x: Sequence[Any]) -> Any:
    return x[0] * _logistic(x[0] * values(op)["alpha"])


def _swish_roles(op: Operation) -> tuple[str, ...]:
    rest = ("sigmoid", "result")
    return rest if values(op)["alpha"] == 1.0 else ("scaled", *rest)


def _swish_pieces() -> Components:
    from qdialect.ir.ops.components import Components
    from qdialect.ir.ops.elementwise import MulOp

    def build(op: Operation, pieces: Pieces) -> SSAValue:
        x, alpha = op.operands[0], values(op)["alpha"]
        scaled = x if alpha == 1.0 else pieces.add("scaled", MulOp(x, pieces.number(alpha)))
        return pieces.add("result", MulOp(x, pieces.add("sigmoid", SigmoidOp(scaled))))

    forms: tuple[dict[str, float], ...] = ({"alpha": 1.0}, {})
    return Components(("scaled", "sigmoid", "result"), build, _swish_roles, forms=forms)


@nn_op(
    function(_swish, at_most(1.1)),
    onnx=onnx("Swish", writes=False, alpha=1.0),
    aten=aten("silu"),
    pieces=_swish_pieces,
)
class SwishOp(FunctionOp):
    """x * sigmoid(alpha * x)"""

    name = "nn.swish"
    alpha = prop_def(REAL, real(1.0))


def _gelu(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    if values(op)["approximate"] == "tanh":
        cube = x[0] * x[0] * x[0]
        inner = (x[0] + cube * 0.044715) * elementary.sqrt(x[0] * 0.0 + 2.0 / elementary.pi(x[0]))
        return x[0] * 0.5 * (elementary.tanh(inner) + 1.0)
    return x[0] * 0.5 * (elementary.erf(x[0] / elementary.sqrt(x[0] * 0.0 + 2.0)) + 1.0)


_GELU = ("scaled", "erf", "shifted", "halved", "result")
_GELU_TANH = ("square", "cube", "weighted", "inner", "scaled", "tanh", *_GELU[2:])


def _gelu_roles(op: Operation) -> tuple[str, ...]:
    return _GELU if values(op)["approximate"] == "none" else _GELU_TANH


def _gelu_program(op: Operation, pieces: Pieces) -> SSAValue:
    from qdialect.ir.ops.elementwise import AddOp, MulOp

    x = op.operands[0]
    if values(op)["approximate"] == "none":
        scaled = pieces.add("scaled", MulOp(x, pieces.number(math.sqrt(0.5))))
        gate = pieces.add("erf", ErfOp(scaled))
    else:
        square = pieces.add("square", MulOp(x, x))
        cube = pieces.add("cube", MulOp(square, x))
        weighted = pieces.add("weighted", MulOp(cube, pieces.number(0.044715)))
        inner = pieces.add("inner", AddOp(x, weighted))
        scaled = pieces.add("scaled", MulOp(inner, pieces.number(math.sqrt(2 / math.pi))))
        gate = pieces.add("tanh", TanhOp(scaled))
    shifted = pieces.add("shifted", AddOp(gate, pieces.number(1.0)))
    halved = pieces.add("halved", MulOp(x, pieces.number(0.5)))
    return pieces.add("result", MulOp(halved, shifted))


def _gelu_pieces() -> Components:
    from qdialect.ir.ops.components import Components

    roles = (*_GELU_TANH[:-3], "erf", *_GELU[2:])
    forms = tuple({"approximate": form} for form in GELU_FORMS)
    return Components(roles, _gelu_program, _gelu_roles, forms=forms)


@nn_op(
    function(_gelu, at_most(1.13)),
    aten=aten("gelu", approximate=("approximate", "none")),
    pieces=_gelu_pieces,
)
class GeluOp(FunctionOp):
    """x/2 * (1 + erf(x / sqrt(2))), or with `approximate tanh`
    x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))"""

    name = "nn.gelu"
    approximate = prop_def(StringAttr, StringAttr("none"))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if values["approximate"] not in GELU_FORMS:
            raise ShapeError(f"approximate must be one of {', '.join(GELU_FORMS)}")
        return [operands[0]]


def _softplus(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    size = x[0].clip(0.0, math.inf) - x[0].clip(-math.inf, 0.0)
    return x[0].clip(0.0, math.inf) + elementary.log1p(elementary.exp(size * -1.0))


@nn_op(function(_softplus, unit), onnx=onnx("Softplus"))
class SoftplusOp(FunctionOp):
    """log(1 + exp(x))"""

    name = "nn.softplus"


def _elu(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    below = elementary.expm1(x[0].clip(-math.inf, 0.0))
    return x[0].clip(0.0, math.inf) + below * values(op)["alpha"]


@nn_op(function(_elu, _alpha_gain), onnx=onnx("Elu", alpha=1.0))
class EluOp(FunctionOp):
    """x if x >= 0 else alpha * (exp(x) - 1)"""

    name = "nn.elu"
    alpha = prop_def(REAL, real(1.0))


def _pow(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    return elementary.power(x[0], values(op)["exponent"])


def _pow_in_floats(op: Operation, x: Sequence[Any]) -> Any:
    if values(op)["exponent"] not in (2.0, 3.0):
        raise ValueError("no product of few factors")
    return _pow(op, x)


@nn_op(function(_pow, in_floats=_pow_in_floats))
class PowOp(FunctionOp):
    """x to the constant power `exponent`"""

    name = "nn.pow"
    exponent = prop_def(REAL)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if not isfinite(values["exponent"]):
            raise ShapeError("exponent must be finite")
        return [operands[0]]


def _floor(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    return elementary.floor(x[0])


@nn_op(function(_floor), onnx=onnx("Floor"), aten=aten("floor"))
class FloorOp(FunctionOp):
    """The largest integer that is not greater than x"""

    name = "nn.floor"


def _ceil(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    return elementary.floor(x[0] * -1.0) * -1.0


@nn_op(function(_ceil), onnx=onnx("Ceil"), aten=aten("ceil"))
class CeilOp(FunctionOp):
    """The smallest integer that is not less than x"""

    name = "nn.ceil"


def _round(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra import elementary_functions as elementary

    return elementary.nearest(x[0])


@nn_op(function(_round), onnx=onnx("Round"))
class RoundOp(FunctionOp):
    """The nearest integer, halves to the even one"""

    name = "nn.round"
