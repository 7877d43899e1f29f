"""What is kept of the values of a tensor: exact extremes and counts in logarithmic bins.

A value is taken as float32. Its bin is its sign, its exponent and the first
`MANTISSA_BITS` bits of its fraction, so a bin [a, a + a/64) is known to a relative
error below 1/64 without knowing the data beforehand. Nothing is ever summed but
integers, so `merge` is associative and commutative, bit for bit:

    merge(observe(A), observe(B)) == observe(A followed by B)

Two rules bound the memory and keep this law. Bins more than `OCTAVES` octaves below the
highest one are counted as zero (the threshold only rises, so folding early changes
nothing). Values of magnitude `HUGE` and more, which are nearly always masks, have bins
but do not count for the extremes nor for that threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MANTISSA_BITS = 6
PER_OCTAVE = 1 << MANTISSA_BITS
OCTAVES = 24
HUGE_EXPONENT = 27
HUGE = 2.0**HUGE_EXPONENT

CODE_SHIFT = 23 - MANTISSA_BITS
_BIAS = 127
SIGN = 1 << (8 + MANTISSA_BITS)
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
    """

    count: NDArray[np.int64]
    nan: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    minimum: NDArray[np.float32]
    maximum: NDArray[np.float32]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def rows(self) -> int:
        return len(self.count)

    def row_bins(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The bin codes of one row and their counts."""
        start, end = np.searchsorted(self.codes, (row * CODES, (row + 1) * CODES))
        return self.codes[start:end] - row * CODES, self.counts[start:end]

    def merge(self, other: Sketch) -> Sketch:
        """The statistics of the values of both."""
        if self.rows != other.rows:
            raise ValueError(f"{self.rows} rows against {other.rows}")
        codes, counts = folded(*_union(self, other), self.rows)
        return Sketch(
            self.count + other.count,
            self.nan + other.nan,
            self.low + other.low,
            self.high + other.high,
            np.minimum(self.minimum, other.minimum),
            np.maximum(self.maximum, other.maximum),
            codes,
            counts,
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
    )


def empty(rows: int = 1) -> Sketch:
    """The statistics of nothing: the neutral element of `merge`."""
    return observe_rows(np.zeros((rows, 0), np.float32))


def bin_code(sign: int, exponent: int, step: int) -> int:
    """The code of the bin of ±2**exponent * (1 + step/64)."""
    return (SIGN if sign < 0 else 0) | (exponent + _BIAS) << MANTISSA_BITS | step


def bin_parts(codes: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Signs (±1), exponents and steps of bin codes other than `ZERO`; see `bin_code`."""
    signs = np.where(codes & SIGN, -1, 1)
    exponents = ((codes >> MANTISSA_BITS) & 0xFF) - _BIAS
    return signs, exponents, codes & (PER_OCTAVE - 1)


def global_codes(row: int, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bin codes of one row as a `Sketch` holds them."""
    return codes + row * CODES


def rounded(value: float) -> float:
    """To four decimal digits, which is how the extremes of single samples are kept."""
    return float(np.float32(float(f"{value:.4g}")))


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
    return _fold_row(global_codes(row, codes), totals[codes])


def _union(a: Sketch, b: Sketch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bins of both, ascending, each once."""
    codes = np.concatenate((a.codes, b.codes))
    if not len(codes):
        return codes, codes
    # Stable sorting of two ascending runs is one pass.
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    fresh = np.empty(len(codes), np.bool_)
    fresh[0] = True
    np.not_equal(codes[1:], codes[:-1], out=fresh[1:])
    starts = np.flatnonzero(fresh)
    return codes[starts], np.add.reduceat(np.concatenate((a.counts, b.counts))[order], starts)


def folded(
    codes: NDArray[np.int64], counts: NDArray[np.int64], rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What lies too far below the top of its row counted as zero; `codes` ascend."""
    if rows == 1:
        return _fold_row(codes, counts)
    ends = np.searchsorted(codes, np.arange(1, rows) * CODES)
    split = zip(np.split(codes, ends), np.split(counts, ends), strict=True)
    return _joined([_fold_row(*part) for part in split])


def _fold_row(
    codes: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    exponents = (codes >> MANTISSA_BITS) & 0xFF
    top = exponents[exponents < HUGE_EXPONENT + _BIAS].max(initial=0)
    vanishes = exponents < max(top - OCTAVES, 1)
    lost = np.count_nonzero(vanishes)
    if not lost or (lost == 1 and codes[0] % CODES == ZERO):
        return codes, counts
    zero = codes[:1] // CODES * CODES
    kept = ~vanishes
    total = counts[vanishes].sum(keepdims=True)
    return np.concatenate((zero, codes[kept])), np.concatenate((total, counts[kept]))


def _joined(parts: list[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
