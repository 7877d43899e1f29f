"""The programs of a family on other grids: denormal, huge and equal scales, scales far apart,
zero points at the ends of the storage.

A grid is a function of the types in the text of a program, so it is made for every rule from
its own programs; what is no program then is left out.  Scales of 32-bit storage are changed as
products are, by the square: a bias stays on the scale of what it is added to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from rewrite_support import literal, storage_of

_TYPE = re.compile(r"!quant\.uniform<([iu]\d+)((?:<-?\d+:-?\d+>)?):f32(?::(\d+))?, ([^>]*)>")
_SMALLEST, _LARGEST = 2.0**-149, float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Extreme:
    """A name, what becomes of scales, and where zero points go (None: they stay)."""

    name: str
    scale: Callable[[float, int, bool], float]
    zero: str = ""


def _times(small: int, sums: int) -> Callable[[float, int, bool], float]:
    return lambda scale, _, is_sum: scale * 2.0 ** (sums if is_sum else small)


def _apart(first: int, others: int) -> Callable[[float, int, bool], float]:
    return lambda scale, number, _: scale * 2.0 ** (others if number else first)


EXTREMES = [
    Extreme("small", _times(-70, -140)),
    Extreme("denormal", _times(-146, -146)),
    Extreme("few bits", lambda scale, number, is_sum: _SMALLEST * (1 + 2 * number)),
    Extreme("large", _times(60, 120)),
    Extreme("huge", _times(124, 124)),
    Extreme("equal", lambda scale, number, is_sum: 0.25 if is_sum else 0.5),
    Extreme("equal huge", lambda scale, number, is_sum: 2.0**127),
    Extreme("equal denormal", lambda scale, number, is_sum: _SMALLEST),
    Extreme("first small", _apart(-40, 0)),
    Extreme("first large", _apart(40, 0)),
    Extreme("far apart", _apart(100, -100)),
    Extreme("low", lambda scale, number, is_sum: scale, "low"),
    Extreme("high", lambda scale, number, is_sum: scale, "high"),
    Extreme("low, equal", lambda scale, number, is_sum: 0.25 if is_sum else 0.5, "low"),
    Extreme("high, small", _times(-70, -140), "high"),
]


def on_extreme(text: str, extreme: Extreme) -> str:
    """The program with other types everywhere."""
    numbers: dict[str, int] = {}

    def changed(found: re.Match[str]) -> str:
        storage, bounds, axis, pairs = found.groups()
        number = numbers.setdefault(found.group(0), len(numbers))
        is_sum = storage == "i32"
        ends = storage_of(found.group(0))
        listed: list[str] = []
        for pair in pairs.strip("{}").split(","):
            scale, _, zero = pair.strip().partition(":")
            near = np.float64(extreme.scale(float(scale), number, is_sum))
            clipped = float(np.float32(min(max(near, _SMALLEST), _LARGEST)))
            at = int(zero or 0)
            if extreme.zero and not is_sum:
                at = ends.min if extreme.zero == "low" else ends.max
            kept = float(scale) if near == float(scale) else clipped
            listed.append(f"{literal(kept)}:{at}")
        shown = listed[0] if axis is None else "{" + ",".join(listed) + "}"
        along = "" if axis is None else f":{axis}"
        return f"!quant.uniform<{storage}{bounds}:f32{along}, {shown}>"

    return _TYPE.sub(changed, text)


def extremes_of(text: str) -> Iterator[tuple[str, str]]:
    """(name, program) for every grid on which the program is another one."""
    for extreme in EXTREMES:
        other = on_extreme(text, extreme)
        if other != text:
            yield extreme.name, other
