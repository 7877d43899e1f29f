"""What is kept of the values of a tensor: exact extremes and counts in logarithmic bins.

A value is taken as float32. Its bin is its sign, its exponent and the first
`MANTISSA_BITS` bits of its fraction, so a bin [a, a + a/64) is known to a relative
error below 1/64 without knowing the data beforehand. Nothing is ever summed but
integers, so `merge` is associative and commutative, bit for bit:

    merge(observe(A), observe(B)) == observe(A followed by B)

Three rules bound the memory and keep this law. Bins more than `OCTAVES` octaves below the
highest one are counted as zero. Far below the highest octave of their sign, 4 bins of an
octave are one, then 16, then all 64 (`_MERGED_BITS`). Both thresholds only rise and bins
nest, so folding early changes nothing. Values of magnitude `HUGE` and more, which are nearly
always masks, have bins but do not count for the extremes nor for the first threshold; those
of octave `COARSE_EXPONENT` and up, which may be, do not count for the second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MANTISSA_BITS = 6
PER_OCTAVE = 1 << MANTISSA_BITS
OCTAVES = 24
HUGE_EXPONENT = 27
HUGE = 2.0**HUGE_EXPONENT
COARSE_EXPONENT = 13
"""Octaves from here up always have all their bins: numbers that people mask with are there,
and must not take bins from what they mask."""

_MERGED_BITS = (0,) * 4 + (2,) * 4 + (4,) * 4 + (6,)
"""By octaves below the highest: how many last bits of the bin do not count there."""

CODE_SHIFT = 23 - MANTISSA_BITS
EXPONENT_BIAS = 127
_SIGN_SHIFT = 8 + MANTISSA_BITS
SIGN = 1 << _SIGN_SHIFT
CODES = 2 * SIGN
_NOT_FINITE = 255
_CHUNK = 1 << 16

ZERO = 0
"""The code of zero and of everything counted as zero."""


@dataclass(frozen=True, eq=False)
class Sketch:
    """Statistics of the rows of a matrix: one row for a tensor, one per channel.

    `nan`, `low` and `high` count NaN, -inf and +inf, `count` all values, by row.
    `minimum` and `maximum` are those of the finite values below `HUGE` (+inf and -inf
    where there is none). `codes` are the bins that hold something, ascending, each as
    row * 2**15 + bin code, and `counts` how much; both are empty if bins are not kept.
    `tops` are the octaves that the merging of bins starts from, by row for positive and
    negative values, as exponents with bias; 0 for none.
    """

    count: NDArray[np.int64]
    nan: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    minimum: NDArray[np.float32]
    maximum: NDArray[np.float32]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]
    tops: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """The number of channels, or 1 for a tensor."""
        return len(self.count)

    def row_bins(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The bin codes of one row and their counts."""
        start, end = np.searchsorted(self.codes, (row * CODES, (row + 1) * CODES))
        return self.codes[start:end] - row * CODES, self.counts[start:end]

    def row_edges(self, row: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Signs and the least and the largest magnitude of the bins of a row but `ZERO`."""
        codes, _ = self.row_bins(row)
        return edges(codes[codes != ZERO] + row * CODES, self.tops)

    def under(self, tops: NDArray[np.int64]) -> Sketch:
        """The same with bins merged as if there were values in the octaves `tops`."""
        codes, counts, tops = folded(self.codes, self.counts, np.maximum(self.tops, tops))
        return replace(self, codes=codes, counts=counts, tops=tops)

    def merge(self, other: Sketch) -> Sketch:
        """The statistics of the values of both."""
        if self.rows != other.rows:
            raise ValueError(f"{self.rows} rows against {other.rows}")
        codes, counts, tops = folded(*_union(self, other), np.maximum(self.tops, other.tops))
        return Sketch(
            self.count + other.count,
            self.nan + other.nan,
            self.low + other.low,
            self.high + other.high,
            np.minimum(self.minimum, other.minimum),
            np.maximum(self.maximum, other.maximum),
            codes,
            counts,
            tops,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in self.__dataclass_fields__
        )


def observe(values: NDArray[Any], bins: bool = True) -> Sketch:
    """The statistics of a whole tensor, as one row."""
    return observe_rows(values.reshape(1, -1), bins)


def observe_rows(values: NDArray[Any], bins: bool = True) -> Sketch:
    """The statistics of every row of a matrix of floats."""
    with np.errstate(over="ignore"):
        matrix = np.ascontiguousarray(values, np.float32)
    rows, length = matrix.shape
    nan, low, high = (np.zeros(rows, np.int64) for _ in range(3))
    if length:
        minimum, maximum = matrix.min(axis=1), matrix.max(axis=1)
    else:
        minimum = np.full(rows, np.inf, np.float32)
        maximum = np.full(rows, -np.inf, np.float32)
    # NaN compares false, so a row with one is found here too.
    plain = (minimum > -HUGE) & (maximum < HUGE)
    for row in np.flatnonzero(~plain):
        line = matrix[row]
        nan[row] = np.count_nonzero(np.isnan(line))
        low[row] = np.count_nonzero(line == -np.inf)
        high[row] = np.count_nonzero(line == np.inf)
        ordinary = line[np.abs(line) < HUGE]
        minimum[row] = ordinary.min() if ordinary.size else np.inf
        maximum[row] = ordinary.max() if ordinary.size else -np.inf
    codes: NDArray[np.int64] = np.zeros(0, np.int64)
    counts: NDArray[np.int64] = codes
    if bins and matrix.size:
        codes, counts = _joined([_row_codes(line, row) for row, line in enumerate(matrix)])
    codes, counts, tops = folded(codes, counts, no_tops(rows))
    # Adding zero makes -0 the zero it equals: which of them comes first must not matter.
    return Sketch(
        np.array([length] * rows, np.int64),
        nan,
        low,
        high,
        minimum + np.float32(0),
        maximum + np.float32(0),
        codes,
        counts,
        tops,
    )


def empty(rows: int = 1) -> Sketch:
    """The statistics of nothing: the neutral element of `merge`."""
    return observe_rows(np.zeros((rows, 0), np.float32))


def bin_code(sign: int, exponent: int, step: int) -> int:
    """The code of the bin of ±2**exponent * (1 + step/64)."""
    return (SIGN if sign < 0 else 0) | (exponent + EXPONENT_BIAS) << MANTISSA_BITS | step


def bin_parts(codes: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Signs (±1), exponents and steps of bin codes other than `ZERO`; see `bin_code`."""
    signs = np.where(codes & SIGN, -1, 1)
    exponents = ((codes >> MANTISSA_BITS) & 0xFF) - EXPONENT_BIAS
    return signs, exponents, codes & (PER_OCTAVE - 1)


def edges(
    codes: NDArray[np.int64], tops: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Signs and the least and the largest magnitude of the bins of a `Sketch` with `tops`."""
    signs, exponents, steps = bin_parts(codes % CODES)
    width = np.left_shift(1, _merged_bits(codes, tops)) / PER_OCTAVE
    inner = 1.0 + steps / PER_OCTAVE
    return signs, np.ldexp(inner, exponents), np.ldexp(inner + width, exponents)


def merged_bits(below: int) -> int:
    """How many last bits of a bin do not count that many octaves below the highest."""
    return _MERGED_BITS[min(max(below, 0), len(_MERGED_BITS) - 1)]


def no_tops(rows: int) -> NDArray[np.int64]:
    """`Sketch.tops` of rows without bins."""
    return np.zeros((rows, 2), np.int64)


def merged(codes: NDArray[np.int64], tops: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bins that are kept in place of others; see the module."""
    return codes >> (bits := _merged_bits(codes, tops)) << bits


def _merged_bits(codes: NDArray[np.int64], tops: NDArray[np.int64]) -> NDArray[np.int64]:
    below = tops.reshape(-1)[codes >> _SIGN_SHIFT] - (codes >> MANTISSA_BITS & 0xFF)
    return np.array(_MERGED_BITS)[np.clip(below, 0, len(_MERGED_BITS) - 1)]


def global_codes(row: int, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bin codes of one row as a `Sketch` holds them."""
    return codes + row * CODES


def rounded(value: float) -> float:
    """To four decimal digits, which is how the extremes of single samples are kept; -0 is 0."""
    return float(np.float32(float(f"{value:.4g}"))) + 0.0


def _row_codes(line: NDArray[np.float32], row: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Codes and counts of the finite values of one row, by chunks that stay in the cache."""
    bits = line.view(np.uint32)
    totals = np.zeros(0, np.int64)
    for start in range(0, len(bits), _CHUNK):
        found = np.bincount(
            np.right_shift(bits[start : start + _CHUNK], CODE_SHIFT, dtype=np.int64)
        )
        if len(found) > len(totals):
            totals, found = found, totals
        totals[: len(found)] += found
    codes = np.flatnonzero(totals)
    codes = codes[(codes >> MANTISSA_BITS) & 0xFF != _NOT_FINITE]
    return global_codes(row, codes), totals[codes]


def _union(a: Sketch, b: Sketch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    codes, counts = np.concatenate((a.codes, b.codes)), np.concatenate((a.counts, b.counts))
    # Stable sorting of two ascending runs is one pass.
    order = np.argsort(codes, kind="stable")
    return _summed(codes[order], counts[order])


def _summed(
    codes: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ascending bins, each once."""
    if not len(codes):
        return codes, counts
    fresh = np.empty(len(codes), np.bool_)
    fresh[0] = True
    np.not_equal(codes[1:], codes[:-1], out=fresh[1:])
    starts = np.flatnonzero(fresh)
    return codes[starts], np.add.reduceat(counts, starts)


def folded(
    codes: NDArray[np.int64], counts: NDArray[np.int64], tops: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Bins with what lies too far below the top of its row counted as zero, and with those
    merged that are, and the octaves that decide it: `tops` or higher. `codes` ascend."""
    exponents = codes >> MANTISSA_BITS & 0xFF
    rows, sides = codes // CODES, codes >> _SIGN_SHIFT
    top = np.zeros(len(tops), np.int64)
    counts_for = exponents < HUGE_EXPONENT + EXPONENT_BIAS
    np.maximum.at(top, rows[counts_for], exponents[counts_for])
    least = np.maximum(top - OCTAVES, 1)
    vanishes = exponents < least[rows]
    counts_for = (exponents < COARSE_EXPONENT + EXPONENT_BIAS) & ~vanishes
    tops = np.where(tops < least[:, None], 0, tops)
    np.maximum.at(tops.reshape(-1), sides[counts_for], exponents[counts_for])
    codes = np.where(vanishes, rows * CODES + ZERO, merged(codes, tops))
    if vanishes.any():
        order = np.argsort(codes, kind="stable")
        codes, counts = codes[order], counts[order]
    return *_summed(codes, counts), tops


def _joined(parts: list[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
