"""Linear functions of codes told by single codes, without their tables (`linear`).

    shift_of     all codes from low to high move by k   told by the two ends: what a linear
                                                        function of q is away from q is
                                                        linear, too
    code_of      what one code becomes

Both say None where doubles do not tell.
"""

from __future__ import annotations

from math import floor

from qdialect.numerics.float_path import tie_width
from qdialect.numerics.linear import ERROR, TINY, Line, near

#: more than all roundings may move a result that is told
_MARGIN = 0.125


def shift_of(line: Line, low: int, high: int, expressed: str) -> int | None:
    """k, if every code q from `low` to `high` becomes q + k without saturating and no result
    is close to a tie, not even one that floats of the expressed type compute."""
    slope, offset = _in_steps(line)
    ends = [(code, (code - line.a.zero) * slope) for code in (low, high)]
    away = [term + offset + line.b.zero - code for code, term in ends]
    reach = max(abs(term) for _, term in ends) + abs(offset) + abs(line.b.zero)
    # What is no number is not less.
    if not reach * (tie_width(expressed) + 4 * ERROR) + TINY < _MARGIN:
        return None
    k = floor(away[0] + 0.5)
    if not all(abs(distance - k) + _MARGIN < 0.5 for distance in away):
        return None
    return k if line.b.low <= low + k and high + k <= line.b.high else None


def code_of(line: Line, code: int) -> int | None:
    """What `code` becomes, clamped to the bounds of b; None close to a tie."""
    slope, offset = _in_steps(line)
    term = (code - line.a.zero) * slope
    steps, error = term + offset, 2 * max(abs(term), abs(offset)) * ERROR + TINY
    if not error < _MARGIN or not abs(steps - floor(steps) - 0.5) > error:
        return None
    return min(max(floor(steps + 0.5) + line.b.zero, line.b.low), line.b.high)


def _in_steps(line: Line) -> tuple[float, float]:
    """Slope and offset in steps of b, as `linear.values` has them."""
    unit = line.b.scale
    ratio, offset = line.a.scale / unit, near(line.offset)
    return near(line.slope) * ratio, offset / unit
