"""What a chain of affine functions does to codes: channel by channel, a table of at most 256
entries, or what a few codes tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdialect.behaviors import AffineFunction
from qdialect.numerics import requantize as exact
from qdialect.numerics.code_shifts import code_of, shift_of
from qdialect.numerics.float_path import near_tie, tie_width
from qdialect.numerics.linear import Line, at, column, linear_tables, values
from qdialect.numerics.rounding import Rounding


class Step(NamedTuple):
    """One link on one channel: `function`, then codes of `codes`; or `on_codes`, which
    leaves those alone that are not clamped."""

    function: AffineFunction
    codes: exact.QuantGrid
    rounding: Rounding
    on_codes: bool


@dataclass(frozen=True)
class Channel:
    """What a chain does to the codes `seen` of one channel."""

    seen: exact.QuantGrid
    steps: tuple[Step, ...]

    @cached_property
    def whole(self) -> AffineFunction:
        """All steps as one function, in the reals."""
        slope, offset = Fraction(1), Fraction(0)
        for step in self.steps:
            offset = offset * step.function.slope + step.function.offset
            slope *= step.function.slope
        return AffineFunction(slope, offset)

    @cached_property
    def tables(self) -> Tables:
        """Those of this channel alone."""
        return _tables([self])

    @property
    def result(self) -> exact.QuantGrid:
        return self.steps[-1].codes

    def shift(self, expressed: str) -> int | None:
        """By how much all codes move, if they do, none is clipped and none is a tie; None if
        it takes tables to tell."""
        low, high = self.seen.low, self.seen.high
        for n, step in enumerate(self.steps):
            if isfinite(step.function.low) or isfinite(step.function.high):
                return None
            if not step.on_codes:
                k = shift_of(self.line(n), low, high, expressed)
                if k is None:
                    return None
                low, high = low + k, high + k
        k = low - self.seen.low
        if len(self.steps) == 1:
            return k
        line = Line(self.seen, self.whole.slope, self.whole.offset, self.result)
        return k if shift_of(line, self.seen.low, self.seen.high, expressed) == k else None

    def code(self, code: int) -> int | None:
        """What becomes of one code; None if it takes tables to tell."""
        found: int | None = code
        for n, step in enumerate(self.steps):
            if not step.on_codes:
                found = code_of(self.line(n), found)
                if found is None:
                    return None
            low, high = _ends(step)
            found = min(max(found, low), high)
        return found

    def line(self, n: int) -> Line:
        """Step `n`, on what the one before it gives."""
        step, before = self.steps[n], self.steps[n - 1].codes if n else self.seen
        return Line(before, step.function.slope, step.function.offset, step.codes)


class Tables(NamedTuple):
    """Row by row, channels: the result of every code that is seen, whether the storage of a
    middle clips it on the way (1), or a clamp that no storage stands for (2).  `before` has
    the codes that each step takes."""

    codes: exact.Codes
    clipped: exact.Codes
    before: tuple[exact.Codes, ...]


def tables_of(channels: Sequence[Channel]) -> Tables:
    """What the steps of `channels`, alike but for their numbers, do."""
    return channels[0].tables if len(channels) == 1 else _tables(channels)


def _tables(channels: Sequence[Channel]) -> Tables:
    before: list[exact.Codes] = []
    codes = np.repeat(exact.codes_of(channels[0].seen)[None, :], len(channels), axis=0)
    clipped = np.zeros(codes.shape, np.int64)
    last = len(channels[0].steps) - 1
    for n, (_, _, rounding, on_codes) in enumerate(channels[0].steps):
        before.append(codes)
        steps = [channel.steps[n] for channel in channels]
        low, high = _bounds(steps)
        if on_codes:
            clipped |= 2 * ((codes < low) | (codes > high))
            codes = np.clip(codes, low, high)
            continue
        lows = column([step.codes.low for step in steps])
        highs = column([step.codes.high for step in steps])
        free = linear_tables(codes, [_widened(channel.line(n)) for channel in channels], rounding)
        if n < last:
            clipped |= (free < lows) | (free > highs)
        acts = ((free < low) & (low > lows)) | ((free > high) & (high < highs))
        clipped |= 2 * acts
        codes = np.clip(np.clip(free, lows, highs), low, high)
    return Tables(codes, clipped, tuple(before))


def undecided(channels: Sequence[Channel], expressed: str) -> int:
    """How many codes runtimes that compute in floats may round either way: in a link,
    or in the one function that the chain becomes."""
    before, count = tables_of(channels).before, 0
    for n, first in enumerate(channels[0].steps):
        if not first.on_codes:
            functions = [channel.steps[n].function for channel in channels]
            lines = [channel.line(n) for channel in channels]
            count += _undecided(before[n], lines, functions, expressed)
    if len(channels[0].steps) > 1:
        whole = [channel.whole for channel in channels]
        lines = [Line(c.seen, c.whole.slope, c.whole.offset, c.result) for c in channels]
        count += _undecided(before[0], lines, whole, expressed)
    return count


def _widened(line: Line) -> Line:
    return line._replace(b=line.b._replace(low=line.b.low - 1, high=line.b.high + 1))


def _bounds(steps: Sequence[Step]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The codes that clamps end at."""
    found: dict[tuple[float, float, exact.QuantGrid], tuple[int, int]] = {}
    for step in steps:
        key = (step.function.low, step.function.high, step.codes)
        if key not in found:
            found[key] = _ends(step)
    ends = [found[step.function.low, step.function.high, step.codes] for step in steps]
    return column([low for low, _ in ends]), column([high for _, high in ends])


def _ends(step: Step) -> tuple[int, int]:
    """The codes that the clamp of one step ends at."""
    f, b, on_codes = step.function, step.codes, step.on_codes
    how = Rounding.HALF_EVEN if on_codes else step.rounding
    low, high = exact.quantize_real(f.low, b, how), exact.quantize_real(f.high, b, how)
    if not on_codes:
        return low, high
    # No bound lets codes outside narrowed bounds through.
    return -_FAR if f.low == -inf else low, _FAR if f.high == inf else high


_FAR = 1 << 40


def _undecided(
    codes: exact.Codes, lines: Sequence[Line], functions: Sequence[AffineFunction], expressed: str
) -> int:
    found, count = values(codes, lines), 0
    for line, f in dict.fromkeys(zip(lines, functions, strict=True)):
        limits = [Fraction(v) / Fraction(line.b.scale) for v in (f.low, f.high) if isfinite(v)]
        count += sum(near_tie([v], line.b, expressed) for v in limits)
    # No others are looked at in fractions.
    reach = found.sizes * (tie_width(expressed) * 1.001) + 2 * found.errors
    close = ~(found.distance() > reach)
    for row, code in dict.fromkeys((row, code) for row, _, code in at(close, codes)):
        line, f = lines[row], functions[row]
        unit = Fraction(line.b.scale)
        x = (code - line.a.zero) * Fraction(line.a.scale)
        scaled = line.slope * x
        value = scaled + line.offset
        if f.low <= value <= f.high:
            steps = [value / unit, scaled / unit, line.offset / unit]
            count += near_tie(steps, line.b, expressed, (x, scaled, value, value / unit))
    return count
