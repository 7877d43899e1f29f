"""The declaration of bilinear resize."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Operation

from qdialect.behaviors import Behavior, Port, axes
from qdialect.ops import behaviors_gains as gains
from qdialect.ops.base import shape_of
from qdialect.ops.behaviors_movement import values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.qparams import QParams


def _places(op: Operation, dim: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Any]:
    """Per result index along `dim` the two elements it reads, and the weight of the second."""
    import numpy as np

    v = values(op)
    size, out = shape_of(op.operands[0])[dim], shape_of(op.results[0])[dim]
    single = np.float32
    given = v.get("scales")
    scale = single(given[dim]) if given else single(out) / single(max(size, 1))
    j, half, mode = np.arange(out, dtype=single), single(0.5), v["coordinates"]
    if mode == "asymmetric":
        at = j / scale
    elif mode == "align_corners":
        at = j * single(size - 1) / single(max(out - 1, 1))
    elif mode == "pytorch_half_pixel" and out == 1:
        at = np.zeros(1, single)
    else:
        at = (j + half) / scale - half
    at = np.clip(at, 0, size - 1).astype(np.float64)
    first = np.floor(at).astype(np.int64)
    return first, np.minimum(first + 1, size - 1), at - first


class Ratio(NamedTuple):
    """Result index j lies at (j * step + offset) / parts of the input."""

    parts: int
    step: int
    offset: int


def ratios(op: Operation) -> tuple[Ratio, Ratio] | None:
    """Where rows and columns lie, in whole parts of a row and a column, if that is where
    the definition has them, in f32."""
    found = [_ratio(op, dim) for dim in (2, 3)]
    rows, columns = found
    return None if rows is None or columns is None else (rows, columns)


def _ratio(op: Operation, dim: int) -> Ratio | None:
    import numpy as np

    v = values(op)
    size, out = shape_of(op.operands[0])[dim], shape_of(op.results[0])[dim]
    if size < 1 or out < 1:
        return None
    given, mode = v.get("scales"), v["coordinates"]
    scale = Fraction(float(np.float32(given[dim]))) if given else Fraction(out, size)
    a, b = scale.numerator, scale.denominator
    if mode == "asymmetric":
        parts, step, offset = a, b, 0
    elif mode == "align_corners":
        parts, step, offset = (out - 1, size - 1, 0) if out > 1 and size > 1 else (1, 0, 0)
    elif mode == "pytorch_half_pixel" and out == 1:
        parts, step, offset = 1, 0, 0
    else:
        parts, step, offset = 2 * a, 2 * b, b - a
    common = gcd(parts, step, offset)
    ratio = Ratio(parts // common, step // common, offset // common)
    first, _, weights = _places(op, dim)
    places = [
        min(max(Fraction(j * ratio.step + ratio.offset, ratio.parts), Fraction(0)), size - 1)
        for j in range(out)
    ]
    at = [int(i) + Fraction(float(w)) for i, w in zip(first, weights, strict=True)]
    return ratio if places == at else None


def _grid(op: Operation, given: Sequence[QParams]) -> Fraction | None:
    """The product of a part of a row and a part of a column."""
    found = ratios(op)
    return Fraction(given[0].scale) / (found[0].parts * found[1].parts) if found else None


def _linear(op: Operation, x: Sequence[Any]) -> Any:
    """Between rows, then between columns; float64 holds the weights and their rests."""
    if 0 in shape_of(op.results[0]):
        raise ValueError("resizes nothing")
    first, second, weight = _places(op, 2)
    weight = weight.reshape(-1, 1)
    rows = x[0][:, :, first] * (1.0 - weight) + x[0][:, :, second] * weight
    first, second, weight = _places(op, 3)
    return rows[:, :, :, first] * (1.0 - weight) + rows[:, :, :, second] * weight


RESIZE_LINEAR = Behavior(
    "nn.resize_linear",
    (Port("input", axes=axes(0, 1)),),
    (Port("result", axes=axes(0, 1)),),
    arithmetic=_linear,
    interval=lambda op, x: x[0],
    work=lambda op: 4 * prod(shape_of(op.results[0])),
    gain=gains.unit,
    grid=_grid,
)
