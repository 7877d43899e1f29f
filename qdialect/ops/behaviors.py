"""How each `nn` op behaves under quantization: the one declaration per op."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import gcd, inf, isfinite, prod
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.behaviors import Accumulator, AffineFunction, Behavior, Port, PortKind, axes, no_axes
from qdialect.behaviors.declaration import Bounds, Gain
from qdialect.behaviors.shapes import DYNAMIC
from qdialect.ops import behaviors_gains as gains
from qdialect.ops import behaviors_sums as sums
from qdialect.ops.base import shape_of
from qdialect.ops.behaviors_dynamic import DYNAMICALLY
from qdialect.ops.behaviors_functions import FUNCTIONS, AffineOf, prelu
from qdialect.ops.behaviors_movement import MOVEMENT, values
from qdialect.ops.behaviors_ordering import ORDERING, broadcasts
from qdialect.ops.behaviors_reduction import REDUCTIONS
from qdialect.ops.behaviors_resize import RESIZE_LINEAR
from qdialect.quant import quant_element

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.qparams import QParams


# -- order-preserving -----------------------------------------------------


def _clip_clamp(op: Operation) -> tuple[float, float]:
    v = values(op)
    return v.get("min", -inf), v.get("max", inf)


def _clip_levels(op: Operation) -> list[float]:
    return [bound for bound in _clip_clamp(op) if isfinite(bound)]


def _clamp(
    name: str,
    levels: Callable[[Operation], Sequence[float]],
    clamp: Callable[[Operation], tuple[float, float]],
) -> Behavior:
    return Behavior(
        name,
        (Port("input", PortKind.TIED, axes=None),),
        (Port("result", PortKind.TIED, axes=None),),
        order_preserving=True,
        levels=levels,
        clamp=clamp,
        elementwise=True,
    )


def _padding_level(op: Operation) -> list[float]:
    """-infinity if a window may hold nothing but padding: no code names that."""
    v, spatial = values(op), shape_of(op.operands[0])[2:]
    for d, (kernel, dilation, size) in enumerate(
        zip(v["kernel"], v["dilations"], spatial, strict=True)
    ):
        padding = max(v["pads"][d], v["pads"][d + len(spatial)])
        # Taps reach from inside one end to inside the other, no further apart than the input.
        if padding and (padding > (kernel - 1) * dilation or dilation > max(size, 1)):
            return [-inf]
    return []


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


def _extremum(
    name: str,
    chooses: Callable[[Operation, Sequence[NDArray[Any]]], NDArray[Any]],
    as_clamp: Callable[[Operation, Sequence[Fraction | None]], Bounds],
) -> Behavior:
    return Behavior(
        name,
        (Port("lhs", PortKind.TIED, axes=None), Port("rhs", PortKind.TIED, axes=None)),
        (Port("result", PortKind.TIED, axes=None),),
        carries=broadcasts,
        order_preserving=True,
        chooses=chooses,
        elementwise=True,
        as_clamp=as_clamp,
    )


# -- contractions ---------------------------------------------------------


def _last_axis(operand: int) -> Callable[[Operation], frozenset[int]]:
    def of(op: Operation) -> frozenset[int]:
        rank = len(shape_of(op.operands[operand]))
        return frozenset({rank - 1}) if rank > 1 else frozenset()

    return of


def _result_last_axis(op: Operation) -> frozenset[int]:
    rank = len(shape_of(op.results[0]))
    return frozenset({rank - 1}) if rank else frozenset()


def _depth(op: Operation) -> int:
    weight = shape_of(op.operands[1])
    return prod(weight[1:])


def _row(op: Operation) -> int:
    lhs, rhs = (shape_of(operand) for operand in op.operands)
    return rhs[max(len(rhs) - 2, 0)] if lhs[-1] == DYNAMIC else lhs[-1]


def _is_depthwise(op: Operation) -> bool:
    """Each input channel of a transposed convolution has output channels of its own."""
    return values(op)["groups"] == shape_of(op.operands[1])[0]


def _transposed_axis(op: Operation) -> int:
    """The dimension of the weight that is an output channel of its own: of [in, out /
    groups, ...] the second, of a depthwise [channels, 1, ...] the first."""
    return 0 if _is_depthwise(op) and shape_of(op.operands[1])[1] == 1 else 1


def _repeats(op: Operation) -> int:
    """Output channels that share a scale of the weight: one in each group."""
    return values(op)["groups"] if _transposed_axis(op) else 1


def _transposed_depth(op: Operation) -> int:
    """Products that meet in one element: taps whose distance is a multiple of the stride."""
    v, weight = values(op), shape_of(op.operands[1])
    taps = [
        -(-k // (stride // gcd(stride, dilation)))
        for k, stride, dilation in zip(weight[2:], v["strides"], v["dilations"], strict=True)
    ]
    return weight[0] // v["groups"] * prod(taps)


def _transposed_terms(op: Operation) -> int:
    weight = shape_of(op.operands[1])
    return weight[0] // values(op)["groups"] * prod(weight[2:])


def _convolutions(rank: int) -> tuple[Behavior, ...]:
    """Convolution and its transpose over `rank` spatial dimensions."""
    bias, result = Port("bias", PortKind.BIAS, axes=axes(0)), Port("result", axes=axes(1))
    return (
        Behavior(
            f"nn.conv{rank}d",
            (Port("input"), Port("weight", axes=axes(0)), bias),
            (result,),
            accumulator=Accumulator(0, 1, 2, lambda op: 0, lambda op: 1, _depth, pads=sums.pads),
            arithmetic=sums.conv,
            work=sums.products(_depth),
        ),
        Behavior(
            f"nn.conv_transpose{rank}d",
            (
                Port("input"),
                Port("weight", axes=lambda op: frozenset({_transposed_axis(op)})),
                bias,
            ),
            (result,),
            accumulator=Accumulator(
                0,
                1,
                2,
                _transposed_axis,
                lambda op: 1,
                _transposed_depth,
                _repeats,
                pads=lambda op: True,
            ),
            arithmetic=sums.conv_transpose,
            work=sums.products(_transposed_terms),
        ),
    )


# -- pools ----------------------------------------------------------------


def _pools(rank: int) -> tuple[Behavior, ...]:
    """Pools over `rank` spatial dimensions; none crosses batch or channels."""
    kept = axes(0, 1)
    return (
        Behavior(
            f"nn.max_pool{rank}d",
            (Port("input", PortKind.TIED, axes=kept),),
            (Port("result", PortKind.TIED, axes=kept),),
            order_preserving=True,
            levels=_padding_level,
            picks=sums.max_pool,
            work=sums.products(sums.window),
        ),
        Behavior(
            f"nn.avg_pool{rank}d",
            (Port("input", axes=kept),),
            (Port("result", axes=kept),),
            arithmetic=sums.avg_pool,
            interval=sums.mean_interval,
            work=sums.products(sums.window),
            gain=gains.unit,
            grid=sums.window_grid,
        ),
        Behavior(
            f"nn.global_avg_pool{rank}d",
            (Port("input", axes=kept),),
            (Port("result", axes=kept),),
            arithmetic=sums.global_avg_pool,
            interval=lambda op, x: x[0],
            work=sums.products(sums.area),
            gain=gains.unit,
            grid=sums.area_grid,
        ),
    )


# -- elementwise ---------------------------------------------------------------


def _divide(lhs: Any, rhs: Any) -> Any:
    return lhs / rhs


def _binary(
    name: str,
    function: Callable[[Any, Any], Any],
    affine: AffineOf,
    gain: Gain,
    nonzero: tuple[int, ...] = (),
    grid: Callable[[Operation, Sequence[QParams]], Fraction | None] | None = None,
) -> Behavior:
    return Behavior(
        name,
        (Port("lhs", axes=None), Port("rhs", axes=None)),
        (Port("result", axes=None),),
        arithmetic=lambda op, x: function(x[0], x[1]),
        affine=affine,
        gain=gain,
        nonzero=nonzero,
        grid=grid,
        elementwise=True,
    )


def _one_scale(op: Operation, params: Sequence[QParams]) -> Fraction | None:
    scales = {q.scale for q in params}
    return Fraction(scales.pop()) if len(scales) == 1 else None


def _products(op: Operation, params: Sequence[QParams]) -> Fraction | None:
    return Fraction(params[0].scale) * Fraction(params[1].scale)


def _look_up(op: Operation, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    element = quant_element(op.operands[0].type)
    assert element is not None
    codes, table = arrays
    return table[codes.astype("int64") - element.qparams.storage.full_range[0]]


# -- affine functions of one operand, the other a constant ---------------------


def _add_affine(op: Operation, constants: Sequence[Fraction | None]) -> AffineFunction | None:
    return AffineFunction(Fraction(1), next(c for c in constants if c is not None))


def _sub_affine(op: Operation, constants: Sequence[Fraction | None]) -> AffineFunction | None:
    lhs, rhs = constants
    return (
        AffineFunction(Fraction(1), -rhs)
        if rhs is not None
        else AffineFunction(Fraction(-1), _known(lhs))
    )


def _mul_affine(op: Operation, constants: Sequence[Fraction | None]) -> AffineFunction | None:
    return AffineFunction(next(c for c in constants if c is not None), Fraction(0))


def _div_affine(op: Operation, constants: Sequence[Fraction | None]) -> AffineFunction | None:
    divisor = constants[1]
    return AffineFunction(1 / divisor, Fraction(0)) if divisor else None


def _batch_norm_affine(
    op: Operation, constants: Sequence[Fraction | None]
) -> AffineFunction | None:
    """scale / root (x - mean) + bias; the root, where irrational, to 200 bits."""
    from qdialect.numerics.requantize import square_root

    x, scale, bias, mean, variance = constants
    if x is not None or None in (scale, bias, mean, variance):
        return None
    spread = _known(variance) + Fraction(values(op)["epsilon"])
    if spread <= 0:
        return None
    slope = _known(scale) / square_root(spread, 200)
    return AffineFunction(slope, _known(bias) - slope * _known(mean))


def _known(value: Fraction | None) -> Fraction:
    assert value is not None
    return value


_STATISTIC = ("scale", "bias", "mean", "variance")

BEHAVIORS: tuple[Behavior, ...] = (
    *(behavior for rank in (1, 2, 3) for behavior in _convolutions(rank)),
    Behavior(
        "nn.fully_connected",
        (
            Port("input"),
            Port("weight", axes=axes(0)),
            Port("bias", PortKind.BIAS, axes=axes(0)),
        ),
        (Port("result", axes=axes(1)),),
        accumulator=Accumulator(0, 1, 2, lambda op: 0, lambda op: 1, _depth),
        arithmetic=sums.fully_connected,
        work=sums.products(_depth),
    ),
    Behavior(
        "nn.matmul",
        (Port("lhs"), Port("rhs", axes=_last_axis(1))),
        (Port("result", axes=_result_last_axis),),
        accumulator=Accumulator(
            0,
            1,
            None,
            lambda op: len(shape_of(op.operands[1])) - 1,
            lambda op: len(shape_of(op.results[0])) - 1,
            _row,
        ),
        arithmetic=sums.matmul,
        work=sums.products(_row),
    ),
    _binary("nn.add", operator.add, _add_affine, gains.unit, grid=_one_scale),
    _binary("nn.sub", operator.sub, _sub_affine, gains.unit, grid=_one_scale),
    _binary("nn.mul", operator.mul, _mul_affine, gains.mul, grid=_products),
    _binary("nn.div", _divide, _div_affine, gains.div, nonzero=(1,)),
    _extremum("nn.maximum", _larger, _at_least),
    _extremum("nn.minimum", _smaller, _at_most),
    _clamp("nn.relu", levels=lambda op: (0.0,), clamp=lambda op: (0.0, inf)),
    _clamp("nn.clip", levels=_clip_levels, clamp=_clip_clamp),
    Behavior(
        "nn.prelu",
        (Port("input", axes=None), Port("slope", axes=None)),
        (Port("result", axes=None),),
        arithmetic=prelu,
        gain=gains.prelu,
        elementwise=True,
    ),
    *FUNCTIONS,
    Behavior(
        "nn.table",
        (Port("input", PortKind.FIXED), Port("table", PortKind.TIED)),
        (Port("result", PortKind.TIED),),
        on_codes=_look_up,
        elementwise=True,
    ),
    *(behavior for rank in (1, 2, 3) for behavior in _pools(rank)),
    Behavior(
        "nn.batch_norm",
        (
            Port("input", axes=None),
            *(Port(role, PortKind.PLAIN, axes=no_axes) for role in _STATISTIC),
        ),
        (Port("result", axes=None),),
        arithmetic=sums.batch_norm,
        gain=gains.batch_norm,
        affine=_batch_norm_affine,
        affine_along=1,
        roots=True,
        work=sums.products(lambda op: 1),
    ),
    Behavior(
        "nn.attention",
        (Port("query"), Port("key"), Port("value"), Port("mask", PortKind.PLAIN)),
    ),
    *(
        Behavior(
            name,
            (
                Port("input"),
                Port("weight", axes=axes(0, 1)),
                Port("recurrence", axes=axes(0, 1)),
                *(Port(role, PortKind.PLAIN, axes=no_axes) for role in plain),
            ),
            variadic=True,
        )
        for name, plain in (
            ("nn.lstm", ("bias", "initial_h", "initial_c", "peepholes")),
            ("nn.gru", ("bias", "initial_h")),
        )
    ),
    Behavior(
        "nn.layer_norm",
        (Port("input"), *(Port(role, PortKind.PLAIN, axes=no_axes) for role in _STATISTIC[:2])),
    ),
    Behavior(
        "nn.softmax",
        (Port("input"),),
        gain=gains.at_most(0.5),
        transcendental=sums.softmax,
        interval=sums.between(0, 1),
    ),
    Behavior(
        "nn.lrn",
        (Port("input", PortKind.TIED),),
        (Port("result", PortKind.TIED),),
        gain=gains.lrn,
        interval=sums.lrn_interval,
        transcendental=sums.lrn,
    ),
    *DYNAMICALLY,
    *REDUCTIONS,
    *ORDERING,
    RESIZE_LINEAR,
    *MOVEMENT,
)

BY_NAME: Mapping[str, Behavior] = {behavior.op: behavior for behavior in BEHAVIORS}
