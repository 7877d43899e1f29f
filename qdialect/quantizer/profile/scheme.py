"""From ranges to qparams: symmetric, asymmetric and power-of-two schemes.

| scheme | scale | zero point |
|---|---|---|
| `asymmetric` | (high - low) / (qmax - qmin) | the integer nearest to qmin - low / scale |
| `symmetric` | largest magnitude / largest code of both signs | 0 (see below) |
| `power-of-two` | the symmetric one, up to the next power of two | as symmetric |

Without sign the symmetric zero point is the middle, or 0 for data without negative
values, which then has all codes. Scales are values of the expressed type. A range that is
the point zero gets scale 1; one so small that its scale would vanish the smallest normal
scale. Either is a valid type, and the reason code says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from qdialect.algebra.float_text import FORMATS, round_to_format
from qdialect.algebra.qparams.parameters import QParams, Storage
from qdialect.quantizer.profile.ranges import Levels, Range, RangeChoice, choose_range

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Symmetry = Literal["asymmetric", "symmetric", "power-of-two"]
SYMMETRIES: tuple[Symmetry, ...] = ("asymmetric", "symmetric", "power-of-two")

DEGENERATE = "degenerate-range"
TINY = "tiny-range"


@dataclass(frozen=True)
class Scheme:
    """How a range becomes qparams: integer storage, symmetry, expressed type."""

    storage: Storage
    symmetry: Symmetry = "asymmetric"
    expressed: str = "f32"

    def __post_init__(self) -> None:
        if self.symmetry not in SYMMETRIES:
            raise ValueError(f"no scheme '{self.symmetry}' ({', '.join(SYMMETRIES)})")
        if self.storage.is_float or self.storage.quantile is not None:
            raise ValueError(f"storage {self.storage} is not of plain integers")
        if self.storage.min >= self.storage.max:
            raise ValueError(f"storage {self.storage} has one code")

    @staticmethod
    def of(storage: str, symmetry: Symmetry = "asymmetric", expressed: str = "f32") -> Scheme:
        """`Scheme.of("i8", "symmetric")`."""
        return Scheme(Storage.of(storage), symmetry, expressed)

    @property
    def levels(self) -> Levels:
        """The grid to choose ranges for."""
        count = self.storage.max - self.storage.min + 1
        return Levels(count, self.symmetry != "asymmetric", one_sided=self.storage.min >= 0)


@dataclass(frozen=True)
class Parameters:
    """One scale and zero point, with reason codes of the range and its conversion."""

    scale: float
    zero_point: int
    reasons: tuple[str, ...] = ()


def parameters(chosen: Range, scheme: Scheme) -> Parameters:
    """The scale and zero point of a range; zero is a code, and the scale is above zero."""
    low, high = min(chosen.low, 0.0), max(chosen.high, 0.0)
    least, most = scheme.storage.min, scheme.storage.max
    smallest = math.ldexp(1.0, FORMATS[scheme.expressed].min_exponent)
    if scheme.symmetry == "asymmetric":
        zero, exact = None, high / (most - least) - low / (most - least)
    else:
        zero = _middle(scheme.storage, low)
        codes = min(most - zero, zero - least) or most - least
        exact = max(-low, high) / codes
    if exact == 0.0:
        zero = min(max(0, least), most) if zero is None else zero
        return Parameters(1.0, zero, (*chosen.reasons, DEGENERATE))
    reasons = chosen.reasons
    if exact < smallest:
        exact, reasons = smallest, (*reasons, TINY)
    if scheme.symmetry == "power-of-two":
        fraction, exponent = math.frexp(exact)
        scale = math.ldexp(1.0, exponent - 1 if fraction == 0.5 else exponent)
    else:
        scale = round_to_format(min(exact, FORMATS[scheme.expressed].largest), scheme.expressed)
    if zero is None:
        zero = min(max(round(least - low / scale), least), most)
    return Parameters(scale, zero, reasons)


def tensor_qparams(chosen: Range, scheme: Scheme) -> tuple[QParams, tuple[str, ...]]:
    """Per-tensor qparams of a range, and reason codes."""
    found = parameters(chosen, scheme)
    qparams = QParams.per_tensor(scheme.storage, found.scale, found.zero_point, scheme.expressed)
    return qparams, found.reasons


def axis_qparams(
    ranges: Sequence[Range], axis: int, scheme: Scheme
) -> tuple[QParams, tuple[str, ...]]:
    """Per-axis qparams of the ranges of all channels, and the reason codes of any."""
    found = [parameters(chosen, scheme) for chosen in ranges]
    scales, zeros = [p.scale for p in found], [p.zero_point for p in found]
    qparams = QParams.per_axis(scheme.storage, axis, scales, zeros, scheme.expressed)
    return qparams, _all_reasons(found)


def array_qparams(
    array: NDArray[Any],
    scheme: Scheme,
    blocks: Sequence[tuple[int, int]] = (),
    choice: RangeChoice | None = None,
) -> tuple[QParams, tuple[str, ...]]:
    """Qparams of a constant: per tensor, or by `blocks` of (axis, elements per block).

    One axis in blocks of one element is per axis. ValueError if blocks do not divide.
    """
    import numpy as np

    from qdialect.quantizer.profile.distribution import distribution
    from qdialect.quantizer.profile.sketch import observe_rows

    matrix, grid = block_matrix(array, blocks)
    if choice is None:
        low = np.minimum(matrix.min(axis=1, initial=0.0), 0.0)
        high = np.maximum(matrix.max(axis=1, initial=0.0), 0.0)
        ranges = [Range(float(a), float(b)) for a, b in zip(low, high, strict=True)]
    else:
        sketch = observe_rows(matrix)
        aimed = replace(choice, levels=scheme.levels)
        ranges = [choose_range(distribution(sketch, row), aimed) for row in range(sketch.rows)]
    if not blocks:
        return tensor_qparams(ranges[0], scheme)
    if len(blocks) == 1 and blocks[0][1] == 1:
        return axis_qparams(ranges, blocks[0][0], scheme)
    found = [parameters(chosen, scheme) for chosen in ranges]
    scales, zeros = [p.scale for p in found], [p.zero_point for p in found]
    qparams = QParams.blockwise(scheme.storage, blocks, grid, scales, zeros, scheme.expressed)
    return qparams, _all_reasons(found)


def block_matrix(
    array: NDArray[Any], blocks: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.float64], tuple[int, ...]]:
    """The elements of every block as a row, in row-major order of the grid of blocks."""
    import numpy as np

    sizes = list(array.shape)
    for axis, size in blocks:
        if size < 1 or array.shape[axis] % size:
            raise ValueError(
                f"blocks of {size} do not divide dimension {axis} of {array.shape[axis]}"
            )
        sizes[axis] = size
    grid = tuple(n // s if s else 1 for n, s in zip(array.shape, sizes, strict=True))
    split = array.reshape([part for pair in zip(grid, sizes, strict=True) for part in pair])
    rank = array.ndim
    order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
    rows = math.prod(grid)
    matrix = split.transpose(order).reshape(rows, array.size // rows if rows else 0)
    return np.asarray(matrix, np.float64), grid


def _middle(storage: Storage, low: float) -> int:
    if storage.min < 0 < storage.max:
        return 0
    return storage.min if low >= 0 else (storage.min + storage.max + 1) // 2


def _all_reasons(found: Sequence[Parameters]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for p in found for reason in p.reasons))
