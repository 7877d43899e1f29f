"""Sums, products, quotients and extrema of two tensors, broadcast as in numpy.

%y = nn.add %a, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation
from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.ir import behaviors
from qdialect.ir.ops.base import HALF_EVEN, TENSOR, NNOp, Values
from qdialect.ir.ops.declare import Declaration, aten, broadcasts, nn_op, onnx, unit
from qdialect.ir.ops.shapes import Shape, broadcast

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams import QParams
    from qdialect.ir.behaviors.declaration import (
        AffineFunction,
        AffineOf,
        Arrays,
        Behavior,
        Bounds,
        Gain,
        Sizes,
    )

Constants = Sequence["Fraction | None"]
"""The real value of each operand that is one constant, None for the others."""


# -- arithmetic --------------------------------------------------------------------


def _binary(
    function: Callable[[Any, Any], Any],
    affine: AffineOf,
    gain: Gain,
    nonzero: tuple[int, ...] = (),
    grid: Callable[[Operation, Sequence[QParams]], Fraction | None] | None = None,
) -> Declaration:
    def declare(name: str) -> Behavior:
        return behaviors.Elementwise(
            name,
            (behaviors.Port("lhs", axes=None), behaviors.Port("rhs", axes=None)),
            (behaviors.Port("result", axes=None),),
            arithmetic=lambda op, x: function(x[0], x[1]),
            affine=affine,
            gain=gain,
            nonzero=nonzero,
            grid=grid,
        )

    return declare


def _one_scale(op: Operation, params: Sequence[QParams]) -> Fraction | None:
    scales = {q.scale for q in params}
    return Fraction(scales.pop()) if len(scales) == 1 else None


def _products(op: Operation, params: Sequence[QParams]) -> Fraction | None:
    return Fraction(params[0].scale) * Fraction(params[1].scale)


def _add_affine(op: Operation, constants: Sequence[Fraction | None]) -> AffineFunction | None:
    return behaviors.AffineFunction(Fraction(1), next(c for c in constants if c is not None))


def _sub_affine(op: Operation, constants: Sequence[Fraction | None]) -> AffineFunction | None:
    lhs, rhs = constants
    return (
        behaviors.AffineFunction(Fraction(1), -rhs)
        if rhs is not None
        else behaviors.AffineFunction(Fraction(-1), known(lhs))
    )


def _mul_affine(op: Operation, constants: Sequence[Fraction | None]) -> AffineFunction | None:
    return behaviors.AffineFunction(next(c for c in constants if c is not None), Fraction(0))


def _div_affine(op: Operation, constants: Sequence[Fraction | None]) -> AffineFunction | None:
    divisor = constants[1]
    return behaviors.AffineFunction(1 / divisor, Fraction(0)) if divisor else None


def known(value: Fraction | None) -> Fraction:
    """A constant that must be there."""
    assert value is not None
    return value


def _mul_gain(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """|x y - x' y| = |x - x'| |y|."""
    return sizes(1 - operand).high


def _div_gain(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """|x / y - x' / y| = |x - x'| / |y|, and |x / y - x / y'| = |y - y'| |x| / |y y'|."""
    least = sizes(1).low
    if not least:
        return None
    return 1 / least if operand == 0 else sizes(0).high / least / least


class BinaryOp(NNOp):
    """Two operands, broadcast as in numpy; on quantized operands the exact real
    result is quantized with `rounding`."""

    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR)
    result = result_def(TENSOR)
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        return [broadcast(operands)]


@nn_op(_binary(operator.add, _add_affine, unit, grid=_one_scale), onnx=onnx("Add", 2))
class AddOp(BinaryOp):
    """lhs + rhs"""

    name = "nn.add"


@nn_op(_binary(operator.sub, _sub_affine, unit, grid=_one_scale), onnx=onnx("Sub", 2))
class SubOp(BinaryOp):
    """lhs - rhs"""

    name = "nn.sub"


@nn_op(
    _binary(operator.mul, _mul_affine, _mul_gain, grid=_products),
    onnx=onnx("Mul", 2, reads=False),
)
class MulOp(BinaryOp):
    """lhs * rhs"""

    name = "nn.mul"


def _divide(lhs: Any, rhs: Any) -> Any:
    return lhs / rhs


@nn_op(
    _binary(_divide, _div_affine, _div_gain, nonzero=(1,)),
    onnx=onnx("Div", 2),
)
class DivOp(BinaryOp):
    """lhs / rhs; on quantized operands a zero divisor saturates by the sign of lhs,
    and 0/0 gives 0."""

    name = "nn.div"


# -- extrema -----------------------------------------------------------------------


def _extremum(choose: Arrays, as_clamp: Callable[[Operation, Constants], Bounds]) -> Declaration:
    def declare(name: str) -> Behavior:
        tied = behaviors.PortKind.TIED
        return behaviors.Choice(
            name,
            (behaviors.Port("lhs", tied, axes=None), behaviors.Port("rhs", tied, axes=None)),
            (behaviors.Port("result", tied, axes=None),),
            operand_maps=broadcasts,
            choose=choose,
            as_clamp=as_clamp,
        )

    return declare


def _at_least(op: Operation, constants: Sequence[Fraction | None]) -> Bounds:
    return next(c for c in constants if c is not None), None


def _at_most(op: Operation, constants: Sequence[Fraction | None]) -> Bounds:
    return None, next(c for c in constants if c is not None)


def _larger(op: Operation, x: Sequence[NDArray[Any]]) -> NDArray[Any]:
    import numpy as np

    return np.maximum(x[0], x[1])


def _smaller(op: Operation, x: Sequence[NDArray[Any]]) -> NDArray[Any]:
    import numpy as np

    return np.minimum(x[0], x[1])


class ExtremumOp(NNOp):
    """One of two operands, broadcast as in numpy, by their order; NaN if either is.

    On quantized tensors operands and result have the same qparams, each along its own
    dimensions, and codes are compared.
    """

    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR)
    result = result_def(TENSOR)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        return [broadcast(operands)]


@nn_op(
    _extremum(_larger, _at_least),
    onnx=onnx("Max", 2, reads=False),
    aten=aten("maximum", "self", "other"),
)
class MaximumOp(ExtremumOp):
    """The larger of lhs and rhs."""

    name = "nn.maximum"


@nn_op(
    _extremum(_smaller, _at_most),
    onnx=onnx("Min", 2, reads=False),
    aten=aten("minimum", "self", "other"),
)
class MinimumOp(ExtremumOp):
    """The smaller of lhs and rhs."""

    name = "nn.minimum"
