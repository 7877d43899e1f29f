"""Linear functions of codes, row by row: quantize_b(slope * dequantize_a(q) + offset), exactly.

A row is a channel of a tensor.  All codes of all rows are evaluated at once in doubles;
what comes closer to a rounding boundary than the error of that is computed in fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qdialect.algebra.requantize import QuantGrid, round_fraction
from qdialect.algebra.rounding import Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.requantize import Codes

#: of a result, for each number of the size of its terms: eight roundings of doubles, and some
ERROR = 2.0**-49
TINY = 2.0**-1000


class Line(NamedTuple):
    """What is done to codes of `a`, and of what the results are codes."""

    a: QuantGrid
    slope: Fraction
    offset: Fraction
    b: QuantGrid

    def value(self, code: int) -> Fraction:
        """The result for one code, exactly, in steps of b from its zero point."""
        x = (code - self.a.zero) * Fraction(self.a.scale)
        return (self.slope * x + self.offset) / Fraction(self.b.scale)


class Values(NamedTuple):
    """Results in steps of b, the sizes of the terms they are sums of, and their errors."""

    steps: NDArray[np.float64]
    sizes: NDArray[np.float64]
    errors: NDArray[np.float64]

    def distance(self) -> NDArray[np.float64]:
        """How far results are from the middle between two integers."""
        with np.errstate(invalid="ignore"):
            return np.abs(self.steps - np.floor(self.steps) - 0.5)


def values(codes: Codes, lines: Sequence[Line]) -> Values:
    """All results, one row of `codes` (or the one for all) by each of `lines`."""
    rows = list(zip(*lines, strict=True))
    slopes, offsets = (column([near(number) for number in row]) for row in rows[1:3])
    scales, units = column([a.scale for a in rows[0]]), column([b.scale for b in rows[3]])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        terms = (codes - column([a.zero for a in rows[0]])) * (slopes * (scales / units))
        shifts = offsets / units
        sizes = np.maximum(np.abs(terms), np.abs(shifts))
        return Values(terms + shifts, sizes, sizes * ERROR + TINY)


def linear_tables(codes: Codes, lines: Sequence[Line], rounding: Rounding) -> Codes:
    """The rounded results as codes, clamped to the bounds of b."""
    lows = column([line.b.low - line.b.zero for line in lines])
    highs = column([line.b.high - line.b.zero for line in lines])
    found = values(codes, lines)
    with np.errstate(invalid="ignore"):
        # Beyond the ends it is clamped, wherever it is; what is no number is computed.
        out = (found.steps + found.errors < lows - 1) | (found.steps - found.errors > highs + 1)
        open_ = ~(found.distance() > found.errors) | ~(found.errors < 0.25)
        rounded = np.clip(np.floor(found.steps + 0.5), lows, highs)
    result = np.where(open_ & ~out, 0.0, rounded).astype(np.int64)
    known: dict[tuple[int, int], int] = {}
    for row, index, code in at(open_ & ~out, codes):
        if (row, code) not in known:
            b = lines[row].b
            exactly = round_fraction(lines[row].value(code), rounding)
            known[row, code] = min(max(exactly, b.low - b.zero), b.high - b.zero)
        result[row, index] = known[row, code]
    return result + column([line.b.zero for line in lines])


def at(mask: NDArray[np.bool_], codes: Codes) -> Iterator[tuple[int, int, int]]:
    """Row, index and code where `mask` is true."""
    rows, indices = np.nonzero(mask)
    chosen = np.broadcast_to(codes, mask.shape)[rows, indices]
    yield from zip(rows.tolist(), indices.tolist(), chosen.tolist(), strict=True)


def column(numbers: Sequence[float] | Sequence[int]) -> NDArray[Any]:
    """One number for each row."""
    return np.array(numbers).reshape(-1, 1)


def near(value: Fraction) -> float:
    """The nearest double; beyond them, infinite."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
