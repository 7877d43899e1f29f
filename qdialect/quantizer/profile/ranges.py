"""Choosing a range from statistics.

| method | range |
|---|---|
| `minmax` | all the data |
| `percentile` | all but a share of the data, cut evenly from both ends, at outer edges of bins |
| `average` | moving average of the extremes of single samples, in sample order |
| `mse` | least mean squared error of the quantized data |
| `entropy` | least Kullback-Leibler divergence of the quantized data |

With `unseen` samples to come, an end that no method draws in has head room (`with_head_room`).

Zero is inside every range. `mse` and `entropy` search the same candidates, the whole
range among them, so neither is worse in its own measure than `minmax`.

The divergence is KL(P || Q) of the data as it is, P, and as the codes tell it, Q: the mass
of each code spread evenly over what is occupied of all the values it stands for. For the
first and the last code these include everything that is clipped, so a range pays for what
it cuts off in the same coin as for coarse steps inside, and cannot win by cutting off
everything. The cells are those of the type that the range is chosen for, and bins are finer
than cells wherever cells lose anything. Zeros are exact in every range and take no part.
A divergence knows nothing of magnitudes, and would give up a few large values for detail
around zero: a range that clips more than `MOST_CLIPPED` of the data is no candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qdialect.quantizer.profile.distribution import Distribution
from qdialect.quantizer.profile.sketch import PER_OCTAVE

if TYPE_CHECKING:
    from numpy.typing import NDArray

Method = Literal["minmax", "percentile", "average", "mse", "entropy"]
METHODS: tuple[Method, ...] = ("minmax", "percentile", "average", "mse", "entropy")

NO_DATA = "no-data"
ALL_ZERO = "all-zero"
ONLY_MASKS = "only-masks"
HAS_NAN = "nan"
HAS_MASKS = "masked"
CONSTANT = "constant"

MOST_CLIPPED = 0.02

_POINTS, _SHARES = (np.arange(4) + 0.5) / 4, np.full(4, 0.25)
_SHRINK_STEPS, _SHRINK_PER_OCTAVE, _COARSE = 97, 16, 4

FEWEST = 4
"""Samples that a distribution of extremes is fitted to."""
OCTAVE = 2.0
"""The most head room; and that of a range of `WIDE` levels or more, which have bits to spare."""
WIDE = 1 << 15
WORTH = 0.8
"""What is left of the noise of a value where head room is worth while."""
_EULER = 0.5772156649015329

_FLAT_POINTS = 4097
"""Numbers on which a function is compared to itself."""
FLAT = 0.25
"""Steps of the result by which clipping an end may change it."""


@dataclass(frozen=True)
class Range:
    """An interval around zero and, as codes, what is to be known about the data."""

    low: float
    high: float
    reasons: tuple[str, ...] = ()

    @property
    def degenerate(self) -> bool:
        """Whether there is nothing to quantize: the range is the point zero."""
        return self.low == self.high

    @property
    def is_masked(self) -> bool:
        """Whether it leaves out numbers that mask something."""
        return not {HAS_MASKS, ONLY_MASKS}.isdisjoint(self.reasons)


@dataclass(frozen=True)
class Levels:
    """The grid a range is chosen for: how many levels, and whether zero is in the middle.
    With `one_sided` it is at the low end for data without negative values."""

    count: int = 256
    symmetric: bool = False
    one_sided: bool = False


@dataclass(frozen=True)
class RangeChoice:
    """A method and its settings. `percentile` is the share of the data kept, in percent;
    `momentum` the weight of the past in the moving average. Without `masks` all finite numbers
    are data. `unseen`: of how many more samples the range is to hold the extremes."""

    method: Method = "minmax"
    percentile: float = 99.99
    momentum: float = 0.9
    levels: Levels = field(default_factory=Levels)
    masks: bool = True
    unseen: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"no method '{self.method}' ({', '.join(METHODS)})")
        if not 0 < self.percentile <= 100:
            raise ValueError(f"percentile must be in (0, 100], but is {self.percentile}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), but is {self.momentum}")


def choose_range(
    data: Distribution,
    choice: RangeChoice,
    samples: Mapping[int, tuple[float, float]] | None = None,
) -> Range:
    """The range of some data; `samples` are the extremes of single samples by index."""
    reasons = _reasons(data)
    whole = _whole(data)
    if whole == (0.0, 0.0):
        return Range(0.0, 0.0, reasons)
    if choice.method == "percentile":
        chosen = percentile_range(data, choice.percentile)
    elif choice.method == "average":
        chosen = average_range(samples or {}, choice.momentum, whole)
    elif choice.method == "mse":
        chosen = _search(data, choice.levels, mean_squared_error)
    elif choice.method == "entropy":
        chosen = _search(data, choice.levels, divergence)
    else:
        chosen = whole
    if choice.unseen:
        chosen = with_head_room(chosen, data, choice, samples or {})
    return Range(*chosen, reasons)


def with_head_room(
    chosen: tuple[float, float],
    data: Distribution,
    choice: RangeChoice,
    samples: Mapping[int, tuple[float, float]],
) -> tuple[float, float]:
    """A chosen range that also holds what `choice.unseen` more samples are expected to have.

    The extremes of single samples at one end follow a Gumbel distribution of mean m and scale
    b = l / log 2, for L-moments m and l (Hosking 1990): the largest of N is m + b log N. Room costs
    every one of n numbers a sample finer steps, so no more is made than pays in squares. With s
    the step and c the count of steps, n s² / 12 + E max(x - r, 0)² is least at the end

        r = m + b (log(12 b c / (n s)) - 0.5772)

    and the last term 2 b² exp((m - r) / b - 0.5772). If `WORTH` of both is left, all stays.
    Nothing is added to an end that is the same in all samples (the zero of a relu, the bound of
    a clip), nor, but for `WIDE`, to one that is drawn in, or of fewer than `FEWEST` samples.
    """
    whole = _whole(data)
    low, high, count = _grid(*chosen, choice.levels)
    numbers = max(float(data.counts.sum()), 1.0) / max(len(samples), 1)
    cost = numbers * (high - low) / (12 * (count - 1) ** 2)
    found: list[float] = []
    for side, sign in ((0, -1.0), (1, 1.0)):
        end, seen = sign * chosen[side], sign * whole[side]
        # What masks is beyond the data.
        most = np.sort([min(max(sign * pair[side], 0.0), seen) for pair in samples.values()])
        fits = len(most) >= FEWEST
        if fits and most[0] == most[-1]:
            room = end
        elif choice.levels.count >= WIDE:
            room = OCTAVE * end
        elif fits and end >= seen:
            ranks = 2 * np.arange(len(most)) / (len(most) - 1) - 1
            scale = float(np.mean(ranks * most)) / math.log(2)
            pays = math.log(max(scale / cost, 1.0)) - _EULER
            mean = float(np.mean(most))
            room = mean + scale * min(math.log(choice.unseen), pays)
            before, after = (
                cost * (high - low + r - end) ** 2 / (high - low)
                + 2 * scale**2 * math.exp((mean - r) / scale - _EULER)
                for r in (end, room)
            )
            room = room if after < WORTH * before else end
        else:
            room = end
        found.append(sign * min(max(room, end), OCTAVE * end))
    return found[0], found[1]


def max_of_channels(ranges: Sequence[Range]) -> Range:
    """The smallest range that holds those of all channels."""
    reasons = dict.fromkeys(reason for r in ranges for reason in r.reasons)
    return Range(
        min((r.low for r in ranges), default=0.0),
        max((r.high for r in ranges), default=0.0),
        tuple(reasons),
    )


def percentile_range(data: Distribution, percentile: float) -> tuple[float, float]:
    """The range that leaves out at most half of (100 - percentile) % at either end."""
    allowed = data.size * (1 - percentile / 100) / 2
    below, above = np.cumsum(data.counts), np.cumsum(data.counts[::-1])[::-1]
    negative, positive = data.right <= 0, data.left >= 0
    # The first bin that may not be left out; zero if every one on its side may.
    inside = negative & (below > allowed)
    low = float(data.left[inside][0]) if inside.any() else 0.0
    inside = positive & (above > allowed)
    high = float(data.right[inside][-1]) if inside.any() else 0.0
    return (low, high) if low < high else _whole(data)


def average_range(
    samples: Mapping[int, tuple[float, float]], momentum: float, whole: tuple[float, float]
) -> tuple[float, float]:
    """a[0] = x[0], a[i] = momentum·a[i-1] + (1 - momentum)·x[i] over ascending samples,
    for both extremes, inside the whole range (which masks do not stretch)."""
    low = high = None
    for index in sorted(samples):
        least, most = (min(max(x, whole[0]), whole[1]) for x in samples[index])
        low = least if low is None else momentum * low + (1 - momentum) * least
        high = most if high is None else momentum * high + (1 - momentum) * most
    if low is None or high is None:
        return whole
    chosen = min(low, 0.0), max(high, 0.0)
    return whole if chosen == (0.0, 0.0) else chosen


def mean_squared_error(data: Distribution, low: float, high: float, levels: Levels) -> float:
    """Mean squared error of quantizing the data to [low, high]; zeros cost nothing."""
    low, high, count = _grid(low, high, levels)
    step = (high - low) / (count - 1)
    zero = round(-low / step)
    points = data.left[:, None] + (data.right - data.left)[:, None] * _POINTS
    level = np.minimum(np.maximum(np.rint(points / step), -zero), count - 1 - zero)
    error = np.square(points - level * step) @ _SHARES
    return float(error @ data.counts) / max(data.size, 1)


def divergence(data: Distribution, low: float, high: float, levels: Levels) -> float:
    """KL(P || Q) of the data and of what its codes in [low, high] tell; see the module.

    `total` is the mass up to an edge of a bin and `occupied` the length of bins up to it.
    What is spread evenly over the occupied part of each cell is, as a function of
    `occupied`, the straight line between the totals at the borders of cells.
    """
    if not len(data.counts):
        return 0.0
    low, high, count = _grid(low, high, levels)
    step = (high - low) / (count - 1)
    outside = (data.right < low) | (data.left > high)
    if data.counts[outside].sum() > MOST_CLIPPED * data.counts.sum():
        return math.inf
    # A bin cut to a point at an extreme keeps some length.
    reach = np.maximum(np.abs(data.left), np.abs(data.right))
    lengths = np.maximum(data.right - data.left, reach / (2 * PER_OCTAVE))
    occupied, total = _edges(lengths), _edges(data.counts)
    edges = np.ravel(np.column_stack((data.left, data.right)))
    first = max(int((edges[0] - low) / step - 0.5), 0)
    last = min(int((edges[-1] - low) / step + 0.5), count - 1)
    inner = low + step * (np.arange(first, last) + 0.5)
    borders = np.concatenate(([0.0], np.interp(inner, edges, occupied), occupied[-1:]))
    masses = np.concatenate(([0.0], np.interp(inner, edges, total), total[-1:]))
    after = np.interp(occupied, borders, masses)
    p, q = data.counts / total[-1], (after[1::2] - after[::2]) / total[-1]
    return float(np.sum(p * np.log(p / np.maximum(q, np.finfo(np.float64).tiny))))


def _edges(amounts: NDArray[Any]) -> NDArray[np.float64]:
    right = np.cumsum(amounts, dtype=np.float64)
    return np.ravel(np.column_stack((right - amounts, right)))


def _search(
    data: Distribution,
    levels: Levels,
    measure: Callable[[Distribution, float, float, Levels], float],
) -> tuple[float, float]:
    """The candidate of least measure: both ends drawn in together, then each by itself."""
    low, high = _whole(data)
    if levels.symmetric and not (levels.one_sided and low == 0):
        low, high = -max(-low, high), max(-low, high)
    known: dict[tuple[float, float], float] = {}

    def best(candidates: Sequence[tuple[float, float]]) -> tuple[float, float]:
        for candidate in candidates:
            if candidate not in known:
                known[candidate] = measure(data, *candidate, levels)
        return min(candidates, key=lambda c: (known[c], c[0] - c[1]))

    def scan(start: tuple[float, float], lows: bool, highs: bool) -> tuple[float, float]:
        """The best of a coarse scan, then of its finer neighbours."""

        def at(step: int) -> tuple[float, float]:
            factor = 2.0 ** (-step / _SHRINK_PER_OCTAVE)
            return (low * factor if lows else start[0], high * factor if highs else start[1])

        coarse = {at(step): step for step in range(0, _SHRINK_STEPS, _COARSE)}
        found = best([start, *coarse])
        near = coarse.get(found, 0)
        fine = range(max(near - _COARSE + 1, 0), near + _COARSE)
        return best([found, *(at(step) for step in fine)])

    chosen = scan((low, high), True, True)
    if levels.symmetric or low == 0 or high == 0:
        return chosen
    for _ in range(2):
        chosen = scan(scan(chosen, True, False), False, True)
    return chosen


def _grid(low: float, high: float, levels: Levels) -> tuple[float, float, int]:
    """The range and its number of levels, of a symmetric grid if asked for."""
    if not levels.symmetric or (levels.one_sided and low == 0):
        return low, high, levels.count
    reach = max(-low, high)
    return -reach, reach, levels.count - 1 if levels.count % 2 == 0 else levels.count


def _whole(data: Distribution) -> tuple[float, float]:
    return min(data.minimum, 0.0), max(data.maximum, 0.0)


def _reasons(data: Distribution) -> tuple[str, ...]:
    reasons: list[str] = []
    if data.size == 0:
        reasons.append(ONLY_MASKS if data.masked else NO_DATA)
    elif data.minimum == data.maximum == 0:
        reasons.append(ONLY_MASKS if data.masked and not len(data.counts) else ALL_ZERO)
    elif data.minimum == data.maximum:
        reasons.append(CONSTANT)
    if data.nan:
        reasons.append(HAS_NAN)
    if data.masked and ONLY_MASKS not in reasons:
        reasons.append(HAS_MASKS)
    return tuple(reasons)


def with_room_for_masks(found: Range, count: int, levels: int) -> Range:
    """A range of scores that goes on below, so far that a softmax of `count` of them makes less
    than a step of its result, 1 / (levels - 1), of all that are masked together.

    What masks is the least number of the range, low - d. The largest score of a row that is no
    mask is not below low, so all masks have at most the share count exp(low - d) / exp(low), which
    is 1 / (levels - 1) for d = log(count (levels - 1)).
    """
    return replace(found, low=found.low - math.log(max(count, 1) * (levels - 1)))


def reach_of(function: Callable[[NDArray[np.float64]], NDArray[Any]]) -> tuple[float, float]:
    """The least and the largest number that a function gives of numbers of any size."""
    sizes = 2.0 ** (np.arange(-80, 640) / 8)
    with np.errstate(all="ignore"):
        made = np.asarray(function(np.concatenate((-sizes, [0.0], sizes))), dtype=np.float64)
    made = made[~np.isnan(made)]
    return (float(made.min()), float(made.max())) if made.size else (-math.inf, math.inf)


def without_flat_tails(
    function: Callable[[NDArray[np.float64]], NDArray[Any]], found: Range, step: float
) -> Range:
    """The least range with zero such that clipping to it changes the function nowhere in
    `found` by more than `FLAT` steps of its result (`step` in real units); `found` where the
    function is not finite.

    A function that is flat at an end (hard-swish below -3, a sigmoid far from zero) makes the
    same of all numbers there: steps are finer where they matter if the range ends there.
    """
    if found.degenerate or not step > 0:
        return found
    points = np.linspace(found.low, found.high, _FLAT_POINTS)
    with np.errstate(all="ignore"):
        made = np.asarray(function(points), dtype=np.float64)
    if made.shape != points.shape or not np.isfinite(made).all():
        return found
    low = _flat_until(points, made, FLAT * step)
    high = -_flat_until(-points[::-1], made[::-1], FLAT * step)
    return replace(found, low=low, high=high)


def _flat_until(points: NDArray[np.float64], made: NDArray[np.float64], tolerance: float) -> float:
    """The last point up to zero, which is in every range, that the function differs from by
    `tolerance` at most in front of it."""
    above = np.maximum.accumulate(made) - made
    below = made - np.minimum.accumulate(made)
    flat = (np.maximum(above, below) <= tolerance) & (points <= 0)
    return float(points[np.flatnonzero(flat)[-1]])
