"""AdaRound: each weight rounded up or down, by descent on what its rows give; pure numbers.

Of rows w with steps s and zero points z let each weight be s (floor(w/s + z) + h - z) with h from
0 to 1, its rectified sigmoid

    h(v) = clip((zeta - gamma) / (1 + exp(-v)) + gamma, 0, 1),      zeta = 1.1, gamma = -0.1.

What is made least over the v, by Adam on a part of the positions at a time, is

    sum over rows of  E (f(w' x + c) - f(t))^2  K / n   +   l sum over weights of 1 - |2 h - 1|^b

for operands x of K numbers, results t that are asked for (of the float network, with operands that
are exact), an activation f behind, and n the loss of the nearest codes, so that both terms are
about as large as there are weights. The second draws each h to 0 or 1: it is left out for the
first part of the steps, and b falls from 20 to 2 in the rest (Nagel et al., 2020). Where the codes
that a weight starts from are not beside w/s + z, as GPTQ's may not be, they are one of its two, and
the nearer one to w/s + z is the other. A row for which the codes that it started from have less
loss keeps those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.algebra.weight_rounding import Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Floats = NDArray[np.float32]
    Codes = NDArray[np.int64]

ZETA, GAMMA = 1.1, -0.1
_RATE = 0.1
_DECAY = (0.9, 0.999)
_WEIGHT = 5.0
_WARM = 0.2
_SHARPNESS = (20.0, 2.0)
_PART = 256
"""Positions of a step."""
STEPS = 1000


@dataclass(frozen=True)
class Curve:
    """A function of one number by its values at evenly spaced points from `low` to `high`, linear
    between them and constant outside."""

    low: float
    high: float
    values: Floats

    def __call__(self, numbers: Floats) -> tuple[Floats, Floats]:
        """The function and its slope, elementwise."""
        last = len(self.values) - 1
        place = (numbers - np.float32(self.low)) * np.float32(last / (self.high - self.low))
        inside = (place >= 0) & (place <= last)
        place = np.clip(place, 0, last).astype(np.float32)
        below = np.minimum(place.astype(np.int32), last - 1)
        steps = np.diff(self.values)[below]
        slopes = steps * np.float32(last / (self.high - self.low)) * inside
        found = self.values[below] + steps * (place - below)
        return found.astype(np.float32), slopes.astype(np.float32)


@dataclass(frozen=True)
class Expected:
    """What rows are to give: `operands` x [groups, positions, K], `results` f(t) that are asked for
    [groups, positions, outputs], what is added to the rows' (`offsets` c [groups, 1, outputs]), and
    the `curve` f behind (None: none)."""

    operands: Floats
    results: Floats
    offsets: Floats
    curve: Curve | None = None

    def part(self, first: int, last: int) -> Expected:
        """Some of the positions."""
        return Expected(
            self.operands[:, first:last], self.results[:, first:last], self.offsets, self.curve
        )

    def errors(self, rows: Floats) -> tuple[Floats, Floats]:
        """f(w' x + c) - f(t) at each position, and the slope of f there."""
        made = self.operands @ rows.swapaxes(-1, -2) + self.offsets
        if self.curve is None:
            return made - self.results, np.ones((), np.float32)
        values, slopes = self.curve(made)
        return values - self.results, slopes

    def loss(self, rows: Array) -> Array:
        """E (f(w' x + c) - f(t))^2 of each row [groups, outputs]."""
        errors, _ = self.errors(rows.astype(np.float32))
        return np.mean(np.square(errors, dtype=np.float64), axis=1)


def softly_rounded(
    rows: Array, grid: Grid, expected: Expected, start: Codes, steps: int = STEPS, seed: int = 0
) -> Codes:
    """Codes of rows [groups, outputs, K] on a grid of integers; `start` for a row that is no better
    with others. What is found depends on the arguments alone."""
    whole = grid.whole(rows.shape)
    exact = rows / whole.steps + whole.zeros
    floors = lower_codes(exact, start, grid.low, grid.high)
    soft = SoftCodes(floors, exact - floors, whole.steps, whole.zeros)
    order = np.random.default_rng(seed).permutation(expected.operands.shape[1])
    mixed = Expected(
        np.ascontiguousarray(expected.operands[:, order]),
        np.ascontiguousarray(expected.results[:, order]),
        expected.offsets,
        expected.curve,
    )
    nearest = expected.loss(whole.rounded(rows))
    scale = np.where(nearest > 0, rows.shape[-1] / np.where(nearest > 0, nearest, 1), 0)
    count, first = mixed.operands.shape[1], 0
    for step in range(steps):
        if first >= count:
            first = 0
        some = mixed.part(first, min(first + _PART, count))
        first += _PART
        errors, slopes = some.errors(soft.numbers())
        pull = (2 / errors.shape[1] * scale[:, None]).astype(np.float32) * errors * slopes
        soft.descend(pull.swapaxes(-1, -2) @ some.operands, step / steps)
    codes = soft.codes()
    better = expected.loss(whole.numbers(codes)) < expected.loss(whole.numbers(start))
    return np.where(better[..., None], codes, start)


def lower_codes(exact: Array, start: Codes, low: int, high: int) -> Array:
    """The lower of the two codes that each number w/s + z may get, one of which is that of the
    start."""
    floors = np.floor(exact)
    floors = np.where(start < floors, start, np.where(start > floors + 1, start - 1, floors))
    return np.clip(floors, low, high - 1)


class SoftCodes:
    """Numbers s (floor + h - z) of any shape, whose h, at first `parts`, slopes move; `weight` is
    the l by which they are drawn to 0 or 1."""

    def __init__(
        self,
        floors: Array,
        parts: Array,
        steps: Array,
        zeros: Array | float,
        weight: float = _WEIGHT,
    ) -> None:
        # Before the sigmoid: what makes h the part that is lost.
        parts = np.clip(parts, 0.01, 0.99)
        self._logits = np.log((parts - GAMMA) / (ZETA - parts)).astype(np.float32)
        self._floors, self._weight = floors, np.float32(weight)
        self._base: Floats = ((floors - zeros) * steps).astype(np.float32)
        self._size: Floats = steps.astype(np.float32)
        self._mean, self._square = np.zeros_like(self._logits), np.zeros_like(self._logits)
        self._count = 0

    def numbers(self) -> Floats:
        """What they are now."""
        found: Any = self._base + self._size * rectified(self._logits)[0]
        return found

    def codes(self) -> Codes:
        """The nearer code of each."""
        return (self._floors + (rectified(self._logits)[0] >= 0.5)).astype(np.int64)

    def descend(self, slopes: Floats, done: float) -> None:
        """One step of Adam, with the slopes of the loss in the numbers, when a part of all steps is
        done, from 0 to 1."""
        soft, inner = rectified(self._logits)
        slope = slopes * self._size
        warm = (done - _WARM) / (1 - _WARM)
        if warm > 0:
            slope += self._weight * push(soft, sharpness(warm))
        slope *= inner
        slow, slower = _DECAY
        self._count += 1
        self._mean += (1 - slow) * (slope - self._mean)
        self._square += (1 - slower) * (np.square(slope) - self._square)
        mean = self._mean / (1 - slow**self._count)
        square = self._square / (1 - slower**self._count)
        self._logits -= _RATE * mean / (np.sqrt(square) + 1e-8)


def rectified(logits: Floats) -> tuple[Floats, Floats]:
    """h(v) and its slope."""
    sigmoid = 1 / (1 + np.exp(-logits))
    stretched = sigmoid * np.float32(ZETA - GAMMA) + np.float32(GAMMA)
    slope = np.float32(ZETA - GAMMA) * sigmoid * (1 - sigmoid)
    inside = (stretched > 0) & (stretched < 1)
    return np.clip(stretched, 0, 1).astype(np.float32), (slope * inside).astype(np.float32)


def sharpness(done: float) -> float:
    """The power b when a part of the steps behind the first ones is done, from 0 to 1: half a
    cosine down."""
    start, end = _SHARPNESS
    return end + (start - end) * 0.5 * (1 + float(np.cos(np.pi * done)))


def push(soft: Floats, power: float) -> Floats:
    """The slope of 1 - |2 h - 1|^b in h."""
    away = 2 * soft - 1
    return -2 * np.float32(power) * np.sign(away) * np.abs(away) ** np.float32(power - 1)
