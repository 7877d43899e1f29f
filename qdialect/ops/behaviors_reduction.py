"""The declarations of reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.behaviors import Behavior, Port, PortKind
from qdialect.behaviors.declaration import Gain, Sizes
from qdialect.ops import behaviors_gains as gains
from qdialect.ops.base import shape_of
from qdialect.ops.behaviors_movement import values
from qdialect.ops.shapes import DYNAMIC, normalize_axes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.qparams import QParams
    from qdialect.qparams.maps import IndexMap


def _axes(op: Operation) -> tuple[int, ...]:
    return normalize_axes(values(op)["axes"], len(shape_of(op.operands[0])))


def _kept(op: Operation) -> frozenset[int]:
    return frozenset(range(len(shape_of(op.operands[0])))) - set(_axes(op))


def _carries(op: Operation) -> list[IndexMap]:
    from qdialect.qparams.maps import First

    return [First(_axes(op), values(op)["keepdims"])]


def _depth(op: Operation) -> int:
    """Elements per element of the result; -1 if that is not known."""
    extents = [shape_of(op.operands[0])[axis] for axis in _axes(op)]
    return DYNAMIC if DYNAMIC in extents else prod(extents)


def _elements(op: Operation) -> int:
    return prod(shape_of(op.operands[0]))


def _size_gain(op: Operation, operand: int, sizes: Sizes) -> float | None:
    depth = _depth(op)
    return None if depth == DYNAMIC else float(depth)


# -- what they compute ------------------------------------------------------------


def _rows(op: Operation, x: Any) -> Any:
    """The elements to reduce along the last of two dimensions."""
    axes, rank = _axes(op), len(shape_of(op.operands[0]))
    order = [*(d for d in range(rank) if d not in axes), *axes]
    placed = list(range(rank))
    for position, wanted in enumerate(order):
        found = placed.index(wanted)
        if found != position:
            x = x.swapaxes(position, found)
            placed[position], placed[found] = placed[found], placed[position]
    depth = _depth(op)
    return x.reshape(prod(shape_of(op.results[0])), depth)


def _sum(op: Operation, x: Sequence[Any]) -> Any:
    import numpy as np

    sums = _rows(op, x[0]) @ np.ones((_depth(op), 1), np.bool_)
    return sums.reshape(*(shape_of(op.results[0]) or (1,)))


def _mean(op: Operation, x: Sequence[Any]) -> Any:
    import numpy as np

    return _sum(op, x) / np.array([_depth(op)], np.float32)


def _max(op: Operation, x: NDArray[Any], lowest: Any) -> NDArray[Any]:
    return _rows(op, x).max(axis=1)


def _min(op: Operation, x: NDArray[Any], lowest: Any) -> NDArray[Any]:
    return _rows(op, x).min(axis=1)


def _sum_interval(op: Operation, x: Sequence[Any]) -> Any:
    depth = _depth(op)
    if depth == DYNAMIC:
        raise ValueError("the number of elements is not known")
    return x[0] * depth


def _mean_grid(op: Operation, params: Sequence[QParams]) -> Fraction | None:
    depth = _depth(op)
    return None if depth == DYNAMIC else Fraction(params[0].scale) / depth


# -- declarations -------------------------------------------------------------------


def _picking(name: str, picks: Callable[[Operation, NDArray[Any], Any], NDArray[Any]]) -> Behavior:
    return Behavior(
        name,
        (Port("input", PortKind.TIED, axes=_kept),),
        (Port("result", PortKind.TIED, axes=None),),
        carries=_carries,
        order_preserving=True,
        picks=picks,
        work=_elements,
    )


def _summing(
    name: str,
    arithmetic: Callable[[Operation, Sequence[Any]], Any],
    interval: Callable[[Operation, Sequence[Any]], Any],
    gain: Gain,
    grid: Callable[[Operation, Sequence[QParams]], Fraction | None],
) -> Behavior:
    return Behavior(
        name,
        (Port("input", axes=_kept),),
        (Port("result", axes=None),),
        arithmetic=arithmetic,
        interval=interval,
        work=_elements,
        gain=gain,
        grid=grid,
    )


REDUCTIONS: tuple[Behavior, ...] = (
    _picking("nn.reduce_max", _max),
    _picking("nn.reduce_min", _min),
    _summing("nn.reduce_mean", _mean, lambda op, x: x[0], gains.unit, _mean_grid),
    _summing("nn.reduce_sum", _sum, _sum_interval, _size_gain, lambda op, q: Fraction(q[0].scale)),
)
