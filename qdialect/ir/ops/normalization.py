"""Batch, layer and local response normalization, and softmax.

%y = nn.softmax %x axis 1 : (tensor<1x10xf32>) -> tensor<1x10xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.ir import behaviors
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import (
    HALF_EVEN,
    REAL,
    TENSOR,
    FunctionOp,
    NNOp,
    UnaryOp,
    Values,
    integer,
    real,
)
from qdialect.ir.ops.declare import at_most, nn_op, numbers_per_element, onnx, values
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, broadcast, normalize_axis

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.ir.behaviors import AffineFunction, Behavior
    from qdialect.ir.behaviors.declaration import Sizes
    from qdialect.ir.ops.components import Components, Pieces

_STATISTICS = ("scale", "bias", "mean", "variance")


def _known(value: Fraction | None) -> Fraction:
    assert value is not None
    return value


# -- batch norm --------------------------------------------------------------------


def _batch_norm(op: Operation, x: Sequence[Any]) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, along dimension 1."""
    import numpy as np

    shape = shape_of(op.operands[0])
    along = (1, shape[1], *(1 for _ in shape[2:]))
    scale, bias, mean, variance = (statistic.reshape(*along) for statistic in x[1:])
    spread = variance + values(op)["epsilon"]
    root = spread.sqrt() if hasattr(spread, "sqrt") else np.sqrt(spread)
    return (x[0] - mean) / root * scale + bias


def _batch_norm_gain(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """(x - mean) * scale / sqrt(variance + epsilon) + bias, of which only x has a bound."""
    least = sizes(4).low + values(op)["epsilon"]
    return sizes(1).high / sqrt(least) if operand == 0 and least > 0 else None


def _batch_norm_affine(
    op: Operation, constants: Sequence[Fraction | None]
) -> AffineFunction | None:
    """scale / root (x - mean) + bias; the root, where irrational, to 200 bits."""
    from qdialect.algebra.requantize import square_root

    x, scale, bias, mean, variance = constants
    if x is not None or None in (scale, bias, mean, variance):
        return None
    spread = _known(variance) + Fraction(values(op)["epsilon"])
    if spread <= 0:
        return None
    slope = _known(scale) / square_root(spread, 200)
    return behaviors.AffineFunction(slope, _known(bias) - slope * _known(mean))


def _declare_batch_norm(name: str) -> Behavior:
    statistics = (
        behaviors.Port(role, behaviors.PortKind.PLAIN, axes=behaviors.no_axes)
        for role in _STATISTICS
    )
    return behaviors.Computation(
        name,
        (behaviors.Port("input", axes=None), *statistics),
        (behaviors.Port("result", axes=None),),
        arithmetic=_batch_norm,
        gain=_batch_norm_gain,
        affine=_batch_norm_affine,
        affine_along=1,
        roots=True,
        work=numbers_per_element(lambda op: 1),
    )


def _batch_norm_pieces() -> Components:
    from qdialect.ir.ops.components import Components

    # The factor does not show its variance and epsilon: those of a raised op are 1 and 0.
    shown = ({"variance": 1.0, "epsilon": 0.0},)
    return Components(("sub_mean", "scaled", "result"), _batch_norm_program, forms=shown)


def _batch_norm_program(op: Operation, pieces: Pieces) -> SSAValue | None:
    """(x - mean) * factor + bias, where factor = scale / sqrt(variance + epsilon)."""
    import numpy as np

    from qdialect.ir.ops.elementwise import AddOp, MulOp, SubOp

    x, *vectors = op.operands
    arrays = [pieces.array(vector) for vector in vectors]
    if any(array is None for array in arrays):
        return None
    scale, bias, mean, variance = cast("list[NDArray[np.float64]]", arrays)
    epsilon: float = values(op)["epsilon"]
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + epsilon)
    column = (-1, *(1,) * (len(shape_of(x)) - 2))
    centered = pieces.add("sub_mean", SubOp(x, pieces.constant(mean.reshape(column))))
    scaled = pieces.add("scaled", MulOp(centered, pieces.constant(factor.reshape(column))))
    return pieces.add("result", AddOp(scaled, pieces.constant(bias.reshape(column))))


@nn_op(
    _declare_batch_norm,
    onnx=onnx("BatchNormalization", 5, reads=False, epsilon=1e-5),
    pieces=_batch_norm_pieces,
)
class BatchNormOp(NNOp):
    """(x - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c], c on dimension 1.

    `scale`, `bias`, `mean` and `variance` are float vectors.
    """

    name = "nn.batch_norm"
    input = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    bias = operand_def(TENSOR)
    mean = operand_def(TENSOR)
    variance = operand_def(TENSOR)
    result = result_def(TENSOR)
    epsilon = prop_def(REAL, real(1e-5))
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        if len(x) < 2:
            raise ShapeError("expects an input of rank 2 or more")
        for name, shape in zip(("scale", "bias", "mean", "variance"), operands[1:], strict=True):
            if len(shape) != 1 or (DYNAMIC not in (shape[0], x[1]) and shape[0] != x[1]):
                raise ShapeError(f"expects {name} of shape {x[1]}, but got {list(shape)}")
        return [x]


# -- layer norm --------------------------------------------------------------------


def _declare_layer_norm(name: str) -> Behavior:
    affine = (
        behaviors.Port(role, behaviors.PortKind.PLAIN, axes=behaviors.no_axes)
        for role in ("scale", "bias")
    )
    return behaviors.Behavior(name, (behaviors.Port("input"), *affine))


_LAYER_NORM = ("mean", "centered", "square", "variance", "shifted", "deviation", "normalized")


def _layer_norm_roles(op: Operation) -> tuple[str, ...]:
    return (*_LAYER_NORM, *(("scaled", "result") if len(op.operands) > 2 else ("result",)))


def _layer_norm_program(op: Operation, pieces: Pieces) -> SSAValue:
    from qdialect.ir.ops.elementwise import AddOp, DivOp, MulOp, SubOp
    from qdialect.ir.ops.reduction import ReduceMeanOp

    x, v = op.operands[0], values(op)
    axes = _normalized_axes(op)
    mean = pieces.add("mean", ReduceMeanOp(x, axes=axes))
    centered = pieces.add("centered", SubOp(x, mean))
    square = pieces.add("square", MulOp(centered, centered))
    variance = pieces.add("variance", ReduceMeanOp(square, axes=axes))
    normalized = pieces.add("normalized", DivOp(centered, _root(pieces, variance, v["epsilon"])))
    scale, *bias = (pieces.plain(value) for value in op.operands[1:])
    if not bias:
        return pieces.add("result", MulOp(normalized, scale))
    return pieces.add("result", AddOp(pieces.add("scaled", MulOp(normalized, scale)), bias[0]))


def _normalized_axes(op: Operation) -> range:
    """The dimensions from `axis` on, counted from the end if that is."""
    axis = values(op)["axis"]
    return range(axis, len(shape_of(op.operands[0])) if axis >= 0 else 0)


def _root(pieces: Pieces, mean: SSAValue, epsilon: float) -> SSAValue:
    """sqrt(mean + epsilon), as `shifted` and `deviation`."""
    from qdialect.ir.ops.elementwise import AddOp
    from qdialect.ir.ops.functions import SqrtOp

    shifted = pieces.add("shifted", AddOp(mean, pieces.number(epsilon)))
    return pieces.add("deviation", SqrtOp(shifted))


def _layer_norm_pieces() -> Components:
    from qdialect.ir.ops.components import Components
    from qdialect.ir.ops.reduction import ReduceMeanOp

    return Components(
        (*_LAYER_NORM, "scaled", "result"),
        _layer_norm_program,
        _layer_norm_roles,
        inner={"mean": ReduceMeanOp.name, "variance": ReduceMeanOp.name},
    )


class NormOp(NNOp):
    """A norm of the dimensions of x from `axis` on; the other operands broadcast to its shape."""

    axis = prop_def(IntegerAttr.constr(i64), integer(-1))
    epsilon = prop_def(REAL, real(1e-5))
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        normalize_axis(values["axis"], len(x))
        for name, shape in zip(("scale", "bias"), operands[1:], strict=False):
            known = DYNAMIC not in (*x, *shape)
            if len(shape) > len(x) or (known and broadcast([x, shape]) != x):
                raise ShapeError(f"{name} of shape {list(shape)} does not broadcast to {list(x)}")
        return [x]


@nn_op(
    _declare_layer_norm,
    onnx=onnx("LayerNormalization", 3, reads=False, axis=-1, epsilon=1e-5),
    pieces=_layer_norm_pieces,
)
class LayerNormOp(NormOp):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, over the dimensions from `axis` on.

    `scale` and `bias` are floats that broadcast to the shape of x.
    """

    name = "nn.layer_norm"
    input = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    result = result_def(TENSOR)


# -- rms norm ----------------------------------------------------------------------


_RMS_NORM = ("square", "mean_square", "shifted", "deviation", "normalized", "result")


def _declare_rms_norm(name: str) -> Behavior:
    scale = behaviors.Port("scale", behaviors.PortKind.PLAIN, axes=behaviors.no_axes)
    return behaviors.Behavior(name, (behaviors.Port("input"), scale))


def _rms_norm_pieces() -> Components:
    from qdialect.ir.ops.components import Components
    from qdialect.ir.ops.elementwise import DivOp, MulOp
    from qdialect.ir.ops.reduction import ReduceMeanOp

    def build(op: Operation, pieces: Pieces) -> SSAValue:
        x, v = op.operands[0], values(op)
        square = pieces.add("square", MulOp(x, x))
        mean = pieces.add("mean_square", ReduceMeanOp(square, axes=_normalized_axes(op)))
        normalized = pieces.add("normalized", DivOp(x, _root(pieces, mean, v["epsilon"])))
        return pieces.add("result", MulOp(normalized, pieces.plain(op.operands[1])))

    return Components(_RMS_NORM, build, inner={"mean_square": ReduceMeanOp.name})


@nn_op(
    _declare_rms_norm,
    onnx=onnx("RMSNormalization", 2, reads=False, writes=False, axis=-1, epsilon=1e-5),
    pieces=_rms_norm_pieces,
)
class RmsNormOp(NormOp):
    """x / sqrt(mean of x^2 + epsilon) * scale, over the dimensions from `axis` on.

    `scale` is of floats that broadcast to the shape of x.
    """

    name = "nn.rms_norm"
    input = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    result = result_def(TENSOR)


# -- softmax -----------------------------------------------------------------------


def _softmax(op: Operation, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(x) / sum(exp(x)) along the axis."""
    import numpy as np

    axis = values(op)["axis"]
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=axis, keepdims=True)


def _from_0_to_1(op: Operation, x: Sequence[Any]) -> Any:
    from qdialect.algebra.ranges import Interval

    return Interval(0, 1)


def _declare_softmax(name: str) -> Behavior:
    return behaviors.Computation(
        name,
        (behaviors.Port("input"),),
        gain=at_most(0.5),
        transcendental=_softmax,
        interval=_from_0_to_1,
        shares=lambda op: values(op)["axis"],
    )


def _softmax_pieces() -> Components:
    from qdialect.ir.ops.components import Components
    from qdialect.ir.ops.elementwise import DivOp, SubOp
    from qdialect.ir.ops.functions import ExpOp
    from qdialect.ir.ops.reduction import ReduceMaxOp, ReduceSumOp

    def build(op: Operation, pieces: Pieces) -> SSAValue:
        """exp(x - max x) / sum of it."""
        x, axes = op.operands[0], (values(op)["axis"],)
        largest = pieces.emit(ReduceMaxOp(x, axes=axes))
        powers = pieces.add("exp", ExpOp(pieces.add("sub_max", SubOp(x, largest))))
        total = pieces.add("sum", ReduceSumOp(powers, axes=axes))
        return pieces.add("result", DivOp(powers, total))

    return Components(("sub_max", "exp", "sum", "result"), build)


@nn_op(_declare_softmax, onnx=onnx("Softmax", reads=False, axis=-1), pieces=_softmax_pieces)
class SoftmaxOp(FunctionOp):
    """exp(x) / sum(exp(x)) along `axis`."""

    name = "nn.softmax"
    axis = prop_def(IntegerAttr.constr(i64), integer(-1))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        normalize_axis(values["axis"], len(operands[0]))
        return [operands[0]]


# -- local response normalization --------------------------------------------------


def _lrn(op: Operation, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """x / (bias + alpha / size * sum of squares)^beta over the channels around each."""
    import numpy as np

    v = values(op)
    size, channels = v["size"], x.shape[1]
    sums = np.zeros_like(x)
    for shift in range(-((size - 1) // 2), size // 2 + 1):
        low, high = max(0, -shift), min(channels, channels - shift)
        if low < high:
            sums[:, low:high] += np.square(x[:, low + shift : high + shift])
    return x / np.power(v["bias"] + v["alpha"] / size * sums, v["beta"])


def _lrn_interval(op: Operation, x: Sequence[Any]) -> Any:
    """Each element is at most as far from 0 as it was, if the divisor is at least 1."""
    from qdialect.algebra.ranges import Interval

    v = values(op)
    if v["alpha"] < 0 or v["beta"] < 0 or v["bias"] < 1:
        raise ValueError("an element may become larger")
    return x[0].join(Interval(0, 0))


def _lrn_gain(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """y_i = x_i u^-beta with u = bias + alpha / n * sum x_j^2 over n elements around i, so

        sum_j |dy_i / dx_j| <= u^-beta (1 + 2 beta alpha / n * |x_i| sum |x_j| / u)

    |x_i| sum |x_j| <= (1 + sqrt n) / 2 * sum x_j^2 (the largest eigenvalue of the form on
    the left), alpha / n * sum x_j^2 <= u, and u >= bias.
    """
    v = values(op)
    alpha, beta, bias = v["alpha"], v["beta"], v["bias"]
    if alpha < 0 or beta < 0 or bias <= 0:
        return None
    return bias**-beta * (1 + beta * (1 + sqrt(v["size"])))


def _declare_lrn(name: str) -> Behavior:
    return behaviors.Computation(
        name,
        (behaviors.Port("input", behaviors.PortKind.TIED),),
        (behaviors.Port("result", behaviors.PortKind.TIED),),
        gain=_lrn_gain,
        interval=_lrn_interval,
        transcendental=_lrn,
    )


def _lrn_program(op: Operation, pieces: Pieces) -> SSAValue | None:
    """x * (bias + alpha * mean of squares)^-beta, the mean by a pool across channels."""
    from qdialect.ir.ops.elementwise import AddOp, MulOp
    from qdialect.ir.ops.functions import PowOp
    from qdialect.ir.ops.movement import SqueezeOp, UnsqueezeOp
    from qdialect.ir.ops.pooling import AVERAGE_POOLS

    x, v = op.operands[0], values(op)
    rank, size = len(shape_of(x)), v["size"]
    if rank - 1 > len(AVERAGE_POOLS):
        return None
    before, ones, zeros = (size - 1) // 2, (1,) * (rank - 2), (0,) * (rank - 2)
    squares = pieces.emit(UnsqueezeOp(pieces.add("square", MulOp(x, x)), axes=(1,)))
    pool = AVERAGE_POOLS[rank - 2](
        squares,
        kernel=(size, *ones),
        strides=(1, *ones),
        dilations=(1, *ones),
        pads=(before, *zeros, size - 1 - before, *zeros),
        count_include_pad=True,
    )
    mean = pieces.emit(SqueezeOp(pieces.add("mean", pool), axes=(1,)))
    scaled = pieces.add("scaled", MulOp(mean, pieces.number(v["alpha"])))
    shifted = pieces.add("shifted", AddOp(scaled, pieces.number(v["bias"])))
    power = pieces.add("power", PowOp(shifted, exponent=-v["beta"]))
    return pieces.add("result", MulOp(x, power))


def _lrn_pieces() -> Components:
    from qdialect.ir.ops.components import Components

    roles = ("square", "mean", "scaled", "shifted", "power", "result")
    return Components(roles, _lrn_program)


@nn_op(
    _declare_lrn,
    onnx=onnx("LRN", reads=False, size=1, alpha=1e-4, beta=0.75, bias=1.0),
    pieces=_lrn_pieces,
)
class LrnOp(UnaryOp):
    """x / (bias + alpha / size * sum of squares)^beta, summed over the `size` channels
    around each (dimension 1), (size - 1) // 2 of them before it.

    On quantized tensors the result has the qparams of the input.
    """

    name = "nn.lrn"
    size = prop_def(IntegerAttr.constr(i64))
    alpha = prop_def(REAL, real(1e-4))
    beta = prop_def(REAL, real(0.75))
    bias = prop_def(REAL, real(1.0))
    rounding = prop_def(StringAttr, HALF_EVEN)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if len(operands[0]) < 2:
            raise ShapeError("expects an input of rank 2 or more")
        if values["size"] < 1:
            raise ShapeError(f"size must be at least 1, but is {values['size']}")
        return [operands[0]]
