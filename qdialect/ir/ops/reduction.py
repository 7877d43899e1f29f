"""Reductions over some dimensions: maximum, minimum, mean, sum.

%y = nn.reduce_mean %x axes [2, 3] keepdims false : (tensor<1x8x4x4xf32>) -> tensor<1x8xf32>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.ir import behaviors
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import FLAG, HALF_EVEN, INTS, TENSOR, NNOp, Values, boolean
from qdialect.ir.ops.declare import Declaration, nn_op, unit, values
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, normalize_axes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams import QParams
    from qdialect.algebra.qparams.maps import IndexMap
    from qdialect.ir.behaviors import Behavior
    from qdialect.ir.behaviors.declaration import Expression, Gain, Sizes
    from qdialect.ir.ops.components import Components, Pieces


def _axes(op: Operation) -> tuple[int, ...]:
    return normalize_axes(values(op)["axes"], len(shape_of(op.operands[0])))


def _kept(op: Operation) -> frozenset[int]:
    return frozenset(range(len(shape_of(op.operands[0])))) - set(_axes(op))


def _carries(op: Operation) -> list[IndexMap]:
    from qdialect.algebra.qparams.maps import First

    return [First(_axes(op), values(op)["keepdims"])]


def _depth(op: Operation) -> int:
    """Elements per element of the result; -1 if that is not known."""
    extents = [shape_of(op.operands[0])[axis] for axis in _axes(op)]
    return DYNAMIC if DYNAMIC in extents else prod(extents)


def _elements(op: Operation) -> int:
    return prod(shape_of(op.operands[0]))


def _rows(op: Operation, x: Any) -> Any:
    """The elements to reduce along the last of two dimensions."""
    axes, rank = _axes(op), len(shape_of(op.operands[0]))
    order = [*(d for d in range(rank) if d not in axes), *axes]
    placed = list(range(rank))
    for position, dim in enumerate(order):
        found = placed.index(dim)
        if found != position:
            x = x.swapaxes(position, found)
            placed[position], placed[found] = placed[found], placed[position]
    depth = _depth(op)
    return x.reshape(prod(shape_of(op.results[0])), depth)


class ReduceOp(NNOp):
    """Over the dimensions `axes` (none of them: every element by itself), which stay with
    extent 1 or, without `keepdims`, are removed."""

    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    axes = prop_def(INTS)
    keepdims: BoolAttr = prop_def(FLAG, boolean(True))
    traits = traits_def(Pure())

    #: whether the reduction of nothing is defined
    OF_NOTHING: ClassVar[bool] = False

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        axes = normalize_axes(values["axes"], len(x))
        empty = [axis for axis in axes if x[axis] == 0]
        if empty and not cls.OF_NOTHING:
            raise ShapeError(f"cannot reduce dimension {empty[0]} of extent 0")
        if values["keepdims"]:
            return [tuple(1 if d in axes else n for d, n in enumerate(x))]
        return [tuple(n for d, n in enumerate(x) if d not in axes)]


# -- extrema -----------------------------------------------------------------------


def _max(op: Operation, x: NDArray[Any], lowest: Any) -> NDArray[Any]:
    return _rows(op, x).max(axis=1)


def _min(op: Operation, x: NDArray[Any], lowest: Any) -> NDArray[Any]:
    return _rows(op, x).min(axis=1)


def _selecting(select: Callable[[Operation, NDArray[Any], Any], NDArray[Any]]) -> Declaration:
    def declare(name: str) -> Behavior:
        return behaviors.Selection(
            name,
            (behaviors.Port("input", behaviors.PortKind.TIED, axes=_kept),),
            (behaviors.Port("result", behaviors.PortKind.TIED, axes=None),),
            operand_maps=_carries,
            select=select,
            work=_elements,
        )

    return declare


@nn_op(_selecting(_max))
class ReduceMaxOp(ReduceOp):
    """Largest element; of codes, on the qparams of the input."""

    name = "nn.reduce_max"


@nn_op(_selecting(_min))
class ReduceMinOp(ReduceOp):
    """Smallest element; of codes, on the qparams of the input."""

    name = "nn.reduce_min"


# -- sums --------------------------------------------------------------------------


def _sum(op: Operation, x: Sequence[Any]) -> Any:
    import numpy as np

    sums = _rows(op, x[0]) @ np.ones((_depth(op), 1), np.bool_)
    return sums.reshape(*(shape_of(op.results[0]) or (1,)))


def _mean(op: Operation, x: Sequence[Any]) -> Any:
    import numpy as np

    return _sum(op, x) / np.array([_depth(op)], np.float32)


def _sum_interval(op: Operation, x: Sequence[Any]) -> Any:
    depth = _depth(op)
    if depth == DYNAMIC:
        raise ValueError("the number of elements is not known")
    return x[0] * depth


def _mean_grid(op: Operation, params: Sequence[QParams]) -> Fraction | None:
    depth = _depth(op)
    return None if depth == DYNAMIC else Fraction(params[0].scale) / depth


def _size_gain(op: Operation, operand: int, sizes: Sizes) -> float | None:
    depth = _depth(op)
    return None if depth == DYNAMIC else float(depth)


def _summing(
    arithmetic: Expression,
    interval: Expression,
    gain: Gain,
    grid: Callable[[Operation, Sequence[QParams]], Fraction | None],
) -> Declaration:
    def declare(name: str) -> Behavior:
        return behaviors.Computation(
            name,
            (behaviors.Port("input", axes=_kept),),
            (behaviors.Port("result", axes=None),),
            arithmetic=arithmetic,
            linear=True,
            interval=interval,
            work=_elements,
            gain=gain,
            grid=grid,
        )

    return declare


def _mean_pieces() -> Components:
    from qdialect.ir.ops.components import Components
    from qdialect.ir.ops.elementwise import DivOp

    def build(op: Operation, pieces: Pieces) -> SSAValue:
        x, v = op.operands[0], values(op)
        total = pieces.add("sum", ReduceSumOp(x, axes=v["axes"], keepdims=v["keepdims"]))
        count = _depth(op)
        if count == DYNAMIC:
            # The sum over a count that is known only when the model runs.
            return pieces.add("result", ReduceMeanOp(x, **v))
        return pieces.add("result", DivOp(total, pieces.number(float(count))))

    return Components(("sum", "result"), build, sums=frozenset({"sum"}))


@nn_op(_summing(_mean, lambda op, x: x[0], unit, _mean_grid), pieces=_mean_pieces)
class ReduceMeanOp(ReduceOp):
    """Mean; on quantized operands the exact mean is quantized with `rounding`."""

    name = "nn.reduce_mean"
    rounding = prop_def(StringAttr, HALF_EVEN)


@nn_op(_summing(_sum, _sum_interval, _size_gain, lambda op, q: Fraction(q[0].scale)))
class ReduceSumOp(ReduceOp):
    """Sum, 0 of nothing; on quantized operands the exact sum is quantized with
    `rounding`."""

    name = "nn.reduce_sum"
    rounding = prop_def(StringAttr, HALF_EVEN)
    OF_NOTHING: ClassVar[bool] = True
