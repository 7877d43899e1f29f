"""Factors of channels that make the noise of quantization least; pure numbers.

A function stays what it is if channel c of a value is made D_c times as large and whoever takes
it divides by D_c.  What its rounding costs does not stay.  To first order, with noise of power
step^2 / 12 wherever something is rounded (Bennett, 1948), the loss of a group of channels is a
sum of terms of two kinds:

    a value on one grid      step(D)^2 / 12 * sum_c g_c / D_c^2,
                             step(D) = (max_c D_c high_c + max_c -D_c low_c) / levels
    rows of weights          sum_o v_o step_o(D)^2 / 12 * sum_c D_c^2 e_c,
                             step_o(D) = max_c (A_oc / D_c) / levels

with g_c what noise of power 1 in channel c costs now, e_c the mean square of what the weights of
channel c are multiplied with (summed over a kernel), A_oc the largest |weight| from channel c to
row o, v_o what noise in row o costs.  Weights with one scale for all rows are a value whose
channels are their rows.  Blocks of a row are rows of fewer channels.

Steps are maxima of products of powers: in u = log D each term is a sum of exponentials of
maxima of linear functions, the loss is convex (a generalized geometric program: Boyd, Kim,
Vandenberghe and Hassibi, 2007), and descent finds what is least of all.  Maxima are smoothed as
p-norms of growing p.  What is far below a step is rounded to zero and loses no more than itself,
so the formulas overstate what it costs; what is found is judged by terms that are limited by
that, and is never worse than all factors 1.  On two weights of one scale each the factors are
those of cross-layer equalization (Nagel et al., 2019); powers of ranges and of weights
(SmoothQuant: Xiao et al., 2022) are tried as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Labels = NDArray[np.int64]
    Objective = Callable[[Array], tuple[float, Array]]

SHARPNESS = (8, 32, 128)
"""The exponents of the norms that stand for a maximum, one after another: powers of two."""
ALPHAS = (0.25, 0.5, 0.75)
"""Powers that are tried: of ranges, the rest of 1 of weights."""
PARTS = (0.25, 0.5, 0.75)
"""How much of the way to the least of the convex loss is tried besides."""
_STEPS = 40
_MEMORY = 8
_SLOPE, _SHRINK, _TRIES = 1e-4, 0.5, 20
_ENOUGH = 1e-5
WIDEST = np.log(2.0) * 12
"""Factors are between 2^-12 and 2^12: what hardly ever is not zero need not fill a grid."""
_SMALLEST = 2.0**-4
"""Of the largest of a grid: a channel that was smaller on samples is taken for as large as this,
as others may be larger, and noise so far below that of the rest hardly counts."""


def _ones() -> Array:
    return np.ones(1)


class Term(Protocol):
    """A part of the loss."""

    def loss(self, logs: Array, p: int | None) -> tuple[float, Array]:
        """The loss where factors have these logarithms, and its derivatives by them: maxima as
        p-norms; or (None) as they are, and nothing loses more than itself."""
        ...

    def smoothed(self, count: int, alpha: float) -> Array | None:
        """SmoothQuant's logarithms of factors of this term alone: ranges to the power -alpha, or
        weights to the power 1 - alpha, to be added up; None where it has neither."""
        ...


@dataclass(frozen=True)
class RoundedValue:
    """Channels on one grid of `levels` steps: `low` <= 0 and `high` >= 0 are how far each reaches,
    `gains` what noise in each costs, `energies` its mean square; channel c has the factor of class
    `labels[c]` to the power `powers[c]`. All of shape [channels]."""

    labels: Labels
    low: Array
    high: Array
    gains: Array
    energies: Array
    levels: int = 255
    powers: Array = field(default_factory=_ones)

    def loss(self, logs: Array, p: int | None) -> tuple[float, Array]:
        own = self._own(logs)
        with np.errstate(divide="ignore"):
            above, below = (np.log(self._reach(ends)) for ends in (self.high, -self.low))
        high, by_high = _largest(above + own, p)
        low, by_low = _largest(below + own, p)
        span = high + low
        if not span:
            return 0.0, np.zeros_like(logs)
        noise = (span / self.levels) ** 2 / 12
        spread = self.gains * np.exp(-2 * own)
        if p is None:
            spread = np.minimum(spread, self.gains * self.energies / noise)
        total = spread.sum()
        value = noise * total
        slope = 2 * (high * by_high + low * by_low) / span
        if total:
            slope = slope - 2 * spread / total
        return float(value), _gathered(self.labels, value * slope * self.powers, len(logs))

    def smoothed(self, count: int, alpha: float) -> Array | None:
        reach = np.maximum(self._reach(self.high), self._reach(-self.low))
        if not reach.any():
            return None
        sums, seen = np.full(count, -np.inf), np.log(np.where(reach > 0, reach, reach.max()))
        np.maximum.at(sums, self.labels, seen * np.broadcast_to(self.powers, seen.shape))
        return -alpha * np.where(np.isfinite(sums), sums, 0.0)

    def _own(self, logs: Array) -> Array:
        return logs[self.labels] * self.powers

    def _reach(self, ends: Array) -> Array:
        """One side of the grid; what no sample reached may be reached a little."""
        most = max(float(np.max(-self.low, initial=0.0)), float(np.max(self.high, initial=0.0)))
        return np.maximum(ends, most * _SMALLEST) if np.any(ends > 0) else np.zeros_like(ends)


@dataclass(frozen=True)
class RoundedRows:
    """Rows of weights, each on a grid of its own of `levels` steps to either side: `magnitudes`
    [rows, channels], what they are multiplied with `energies` [channels], what noise in a row
    costs `costs` [rows]; the labels [channels] are of what is multiplied with them, and channel c
    has the factor of its class to the power `powers[c]`."""

    labels: Labels
    magnitudes: Array
    energies: Array
    costs: Array
    levels: int = 127
    powers: Array = field(default_factory=_ones)

    def loss(self, logs: Array, p: int | None) -> tuple[float, Array]:
        own = logs[self.labels] * self.powers
        rows = self.magnitudes * np.exp(-own)
        largest, by_row = _largest_of_rows(rows, p)
        steps = self.costs * np.square(largest / self.levels) / 12
        powers = self.energies * np.exp(2 * own)
        total, columns = steps.sum(), powers.sum()
        slope = 2 * powers * total - 2 * columns * (steps @ by_row)
        if p is None:
            noise = np.minimum(np.square(largest / self.levels)[:, None] / 12, np.square(rows))
            value = float(np.einsum("o,oc,c->", self.costs, noise, powers))
        else:
            value = float(total * columns)
        return value, _gathered(self.labels, slope * self.powers, len(logs))

    def smoothed(self, count: int, alpha: float) -> Array | None:
        most = self.magnitudes.max(axis=0, initial=0.0)
        if not most.any():
            return None
        found = np.full(count, -np.inf)
        logs = np.log(np.maximum(most, most[most > 0].min()))
        np.maximum.at(found, self.labels, logs * np.broadcast_to(self.powers, logs.shape))
        return (1 - alpha) * np.where(np.isfinite(found), found, 0.0)


@dataclass(frozen=True)
class Factors:
    """What was found: positive factors [classes], the loss with all factors 1, and with these."""

    factors: Array
    before: float
    after: float

    @property
    def decibels(self) -> float:
        """By how much the noise is less."""
        if self.after <= 0 or self.before <= 0:
            return 0.0
        return float(10 * np.log10(self.before / self.after))


def total_loss(terms: Sequence[Term], logs: Array, p: int | None = None) -> tuple[float, Array]:
    """The sum of terms, and its derivatives by the logarithms of the factors [classes]."""
    total, slopes = 0.0, np.zeros_like(logs)
    for term in terms:
        value, slope = term.loss(logs, p)
        total, slopes = total + value, slopes + slope
    return total, slopes


def least_factors(
    terms: Sequence[Term], count: int, tied: NDArray[np.bool_] | None = None
) -> Factors:
    """The factors of `count` classes of least loss, those of `tied` classes [count] being 1."""
    free = np.ones(count) if tied is None else np.where(tied, 0.0, 1.0)
    identity = np.zeros(count)
    before = total_loss(terms, identity)[0]
    best, least = identity, before

    def take(logs: Array) -> None:
        nonlocal best, least
        value = total_loss(terms, logs)[0]
        if np.isfinite(value) and value < least:
            best, least = logs, value

    if before > 0 and free.any():
        for alpha in ALPHAS:
            take(_inside(_smoothed(terms, count, alpha) * free))
        at = best
        for p in SHARPNESS:
            at = _descended(_normalized(terms, p, before, free), at)
            take(at)
        for part in PARTS:
            take(at * part)
    best = _centered(terms, best, least, free)
    return Factors(np.exp(best), before, least)


def _smoothed(terms: Sequence[Term], count: int, alpha: float) -> Array:
    found = [each for term in terms if (each := term.smoothed(count, alpha)) is not None]
    logs = np.sum(found, axis=0) if found else np.zeros(count)
    return logs - logs.mean()


def _centered(terms: Sequence[Term], logs: Array, least: float, free: Array) -> Array:
    """The same with factors around 1, where one factor for all changes nothing."""
    moved = logs - (logs * free).sum() / max(free.sum(), 1.0) * free
    same = abs(total_loss(terms, moved)[0] - least) <= 1e-9 * least
    return moved if same else logs


def _inside(logs: Array) -> Array:
    return np.clip(logs, -WIDEST, WIDEST)


def _normalized(terms: Sequence[Term], p: int, scale: float, free: Array) -> Objective:
    """The logarithm of the loss, which is as convex and better scaled."""

    def objective(logs: Array) -> tuple[float, Array]:
        value, slope = total_loss(terms, logs, p)
        value = max(value, scale * 1e-12)
        return float(np.log(value / scale)), slope / value * free

    return objective


def _descended(objective: Objective, start: Array) -> Array:
    """A minimum by steps of the method of Broyden, Fletcher, Goldfarb and Shanno with little
    memory (Nocedal, 1980), within the widest factors."""
    at, (value, slope) = start, objective(start)
    moves: list[tuple[Array, Array]] = []
    for _ in range(_STEPS):
        step = -_turned(slope, moves)
        if not step @ slope < 0:
            step, moves = -slope, []
        length = 1.0 if moves else min(1.0, 1.0 / max(float(np.abs(slope).max()), 1e-12))
        for _ in range(_TRIES):
            there = _inside(at + length * step)
            found, other = objective(there)
            if found <= value + _SLOPE * float(slope @ (there - at)):
                break
            length *= _SHRINK
        else:
            return at
        moved, turned = there - at, other - slope
        if moved @ turned > 1e-12 * float(np.sqrt((moved @ moved) * (turned @ turned))):
            moves = [*moves[-_MEMORY + 1 :], (moved, turned)]
        done = value - found < _ENOUGH
        at, value, slope = there, found, other
        if done:
            return at
    return at


def _turned(slope: Array, moves: Sequence[tuple[Array, Array]]) -> Array:
    """The slope multiplied with the inverse of the curvature that the moves met."""
    found, kept = slope.copy(), list[float]()
    for moved, turned in reversed(moves):
        along = float(moved @ found) / float(moved @ turned)
        found -= along * turned
        kept.append(along)
    if moves:
        moved, turned = moves[-1]
        found *= float(moved @ turned) / float(turned @ turned)
    for (moved, turned), along in zip(moves, reversed(kept), strict=True):
        found += (along - float(turned @ found) / float(moved @ turned)) * moved
    return found


def _gathered(labels: Labels, slopes: Array, count: int) -> Array:
    return np.bincount(labels, slopes, count).astype(np.float64)


def _largest(logs: Array, p: int | None) -> tuple[float, Array]:
    """The largest of exponentials as a p-norm (None: as it is), and the derivatives of its
    logarithm by the logarithms."""
    most = float(logs.max(initial=-np.inf))
    if not np.isfinite(most):
        return 0.0, np.zeros_like(logs)
    if p is None:
        return float(np.exp(most)), (logs == most).astype(float)
    shares = np.exp(p * (logs - most))
    total = shares.sum()
    return float(np.exp(most + np.log(total) / p)), shares / total


def _largest_of_rows(rows: Array, p: int | None) -> tuple[Array, Array]:
    """The same of each row of non-negative numbers; p is a power of two."""
    most = rows.max(axis=1, initial=0.0)
    shares = rows / np.where(most > 0, most, 1.0)[:, None]
    if p is None:
        return most, (shares == 1.0).astype(float)
    power = p
    while power > 1:
        shares, power = shares * shares, power // 2
    totals = shares.sum(axis=1)
    totals = np.where(totals > 0, totals, 1.0)
    return most * totals ** (1 / p), shares / totals[:, None]
