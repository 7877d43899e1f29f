"""Steps and zero points of weights in blocks, of least squared error; pure numbers.

A block of weights w_1 .. w_b has one step s and, where its codes have one, a zero point z:

    w_i ~ s (c_i - z), low <= c_i <= high,      or  w_i ~ s t[c_i]  for codes that name levels t.

No formula gives the best of them. Tried are steps from the one that just holds the block down to
a part of it, with the two zero points that centre it; then, with the codes c of the best,

    s = sum h (c - z) w / sum h (c - z)^2       and      z = mean of c - w / s

are least squares, and are kept where the error is less. Weights h of the squares (mean squares
of what a weight is multiplied with) make it the error of the product, as far as operands are
independent.

Steps may be of a small float type: f16; f8E8M0FNU, the powers of two of the formats called MX; or
f8E4M3FN times one power of two for the tensor. Each step is rounded before it is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qdialect.algebra.float_text import FORMATS
from qdialect.algebra.weight_rounding import Grid

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Singles = NDArray[np.float32]

_POWERS = "f8E8M0FNU"
SCALE_TYPES = ("f32", "f16", "f8E4M3FN", _POWERS)
"""Types that steps may be stored in."""
_FACTORS = tuple(1 + n / 32 for n in range(3, -16, -1))
"""Parts of the step that just holds a block; a little more helps small float types."""
_DOUBLINGS = (1.0, 2.0, 0.5)
"""Of powers of two, the one below it and those beside that."""
_REFINEMENTS = 2
_EXPONENTS = 14
"""Powers of two between the largest and the smallest normal number of f8E4M3FN."""


@dataclass(frozen=True)
class BlockCodes:
    """What the codes of a block may be: from `low` to `high` with the zero point `zero` (None: one
    of each block), or the names of `levels`, which rise; and the type of steps."""

    low: int
    high: int
    zero: int | None = None
    levels: tuple[float, ...] = ()
    steps: str = "f32"

    def grid(self, steps: Array | Singles, zeros: Array | Singles) -> Grid:
        """That of rows with these steps and zero points."""
        column = np.asarray(steps, np.float64)[:, None]
        if self.levels:
            return Grid.of_levels(column, self.levels)
        return Grid(column, self.low, self.high, np.asarray(zeros, np.float64)[:, None])


def fit_blocks(rows: Array, codes: BlockCodes, weights: Array | None = None) -> Grid:
    """The grid of least squared error for the blocks [n, b], a block in each row, among those
    that are tried; squares count `weights` (that broadcast to the rows) times."""
    if not rows.size:
        ones = np.ones(len(rows))
        return codes.grid(ones, ones * (codes.zero or 0))
    return _Fit(rows, codes, weights).found()


class _Fit:
    """The best steps and zero points so far of each block."""

    def __init__(self, rows: Array, codes: BlockCodes, weights: Array | None):
        self.rows, self.codes = rows.astype(np.float32), codes
        self.weights = None if weights is None else np.asarray(weights, np.float32)
        ends = (-codes.levels[0], codes.levels[-1]) if codes.levels else self._ends()
        self.low = np.minimum(self.rows.min(axis=1), 0)
        self.high = np.maximum(self.rows.max(axis=1), 0)
        chosen = codes.zero is None and not codes.levels
        whole = np.maximum(-self.low / max(ends[0], 1), self.high / max(ends[1], 1))
        self.whole = (self.high - self.low) / (ends[0] + ends[1]) if chosen else whole
        self.whole = np.where(self.whole > 0, self.whole, np.float32(1))
        self.rounded = rounding_of_steps(codes.steps, float(self.whole.max()))
        self.steps, self.zeros = self.rounded(self.whole), np.zeros_like(self.whole)
        self.least = np.full(len(rows), np.inf, np.float32)

    def _ends(self) -> tuple[float, float]:
        zero = self.codes.low if self.codes.zero is None else self.codes.zero
        return float(zero - self.codes.low), float(self.codes.high - zero)

    def found(self) -> Grid:
        for factor in _DOUBLINGS if self.codes.steps == _POWERS else _FACTORS:
            steps = self.rounded(self.whole * np.float32(factor))
            for zeros in self._zeros(steps):
                self._try(steps, zeros)
        for _ in range(_REFINEMENTS):
            self._refine()
        return self.codes.grid(self.steps, self.zeros)

    def _zeros(self, steps: Singles) -> list[Singles]:
        if self.codes.zero is not None or self.codes.levels:
            return [np.full_like(steps, self.codes.zero or 0)]
        middle = (self.codes.low + self.codes.high) / 2 - (self.low + self.high) / 2 / steps
        return [self._inside(np.floor(middle)), self._inside(np.ceil(middle))]

    def _inside(self, zeros: Singles) -> Singles:
        return np.clip(zeros, self.codes.low, self.codes.high).astype(np.float32)

    def _offsets(self, steps: Singles, zeros: Singles) -> Singles:
        """The levels of the codes, in steps."""
        found = self.rows / steps[:, None]
        if self.codes.levels:
            levels = np.array(self.codes.levels, np.float32)
            return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, found)]
        np.rint(found, out=found)
        low, high = self.codes.low - zeros, self.codes.high - zeros
        return np.clip(found, low[:, None], high[:, None], out=found)

    def _try(self, steps: Singles, zeros: Singles) -> None:
        """Keep steps and zero points where their error is less."""
        error = self._offsets(steps, zeros)
        error *= steps[:, None]
        error -= self.rows
        np.square(error, out=error)
        if self.weights is not None:
            error *= self.weights
        total = error.sum(axis=1)
        better = total < self.least
        self.steps[better], self.zeros[better] = steps[better], zeros[better]
        self.least[better] = total[better]

    def _refine(self) -> None:
        """Least squares with the codes as they are."""
        offsets = self._offsets(self.steps, self.zeros)
        weighted = offsets if self.weights is None else offsets * self.weights
        below = (weighted * offsets).sum(axis=1)
        steps = (weighted * self.rows).sum(axis=1) / np.where(below > 0, below, np.float32(1))
        steps = self.rounded(np.where(steps > 0, steps, self.steps))
        self._try(steps, self.zeros)
        if self.codes.zero is None and not self.codes.levels:
            shift = (offsets - self.rows / self.steps[:, None]).mean(axis=1)
            self._try(self.steps, self._inside(np.rint(self.zeros + shift)))


def rounding_of_steps(name: str, largest: float) -> Callable[[Singles], Singles]:
    """How steps are rounded to a type of `SCALE_TYPES`, where the largest is about this."""
    if name == "f16":
        least, most = np.float32(FORMATS["f16"].smallest), np.float32(FORMATS["f16"].largest)
        return lambda steps: np.clip(steps.astype(np.float16).astype(np.float32), least, most)
    if name == _POWERS:
        return lambda steps: np.ldexp(np.float32(1), np.floor(np.log2(steps)).astype(np.int32))
    if name == "f8E4M3FN":
        top = int(np.frexp(largest)[1])
        least, most = np.ldexp(1.0, top - _EXPONENTS), np.ldexp(1.75, top)

        def rounded(steps: Singles) -> Singles:
            significands, exponents = np.frexp(np.clip(steps, least, most))
            near = np.ldexp(np.rint(significands * 16) / 16, exponents)
            return np.clip(near, least, most).astype(np.float32)

        return rounded
    least = np.float32(np.finfo(np.float32).tiny)
    return lambda steps: np.maximum(steps, least).astype(np.float32)
