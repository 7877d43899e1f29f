"""A linear function of codes as one integer product and a bias, row by row.

    slope * x + offset  ~  t s_a (w (q - z) + b)          x = s_a (q - z)

with w an integer of at most 7 bits and a sign, t = |slope / w| and an i32 b.  Only b is
rounded, to steps of t s_a; of all w one makes it nearly whole.  The table that the function
is on its codes decides: where that w has another one, the w and b are looked for that leave
t most room.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qdialect.algebra.float_text import round_to_format
from qdialect.algebra.linear import Line, column, linear_tables, near
from qdialect.algebra.requantize import round_fraction
from qdialect.algebra.rounding import Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.requantize import Codes

_WEIGHTS = np.array([64, *range(127, 64, -1), *range(63, 0, -1)])
"""The first has the exact scale."""
_TRIES = 2
_LARGEST = 2**31 - 2**16
"""Of a bias: products of bytes still fit beside it."""
_FEW = 64
_SMALLEST = 2.0**-120
_FINE = 2.0**-12
"""Of a step of the result: what the bias is rounded to where nothing is multiplied."""


class Product(NamedTuple):
    """w, t and b."""

    weight: int
    scale: float
    bias: int

    def line(self, line: Line) -> Line:
        """What it computes in place of `line`."""
        step = Fraction(self.scale * line.a.scale)
        return line._replace(slope=self.weight * Fraction(self.scale), offset=self.bias * step)


def products(
    lines: Sequence[Line], expected: Codes, codes: Codes, rounding: Rounding, expressed: str
) -> list[Product] | None:
    """One product for each line, which on `codes` should give its row of `expected`; None where
    no numbers of the expressed type are that."""
    order = _order(lines)
    found: list[tuple[int, Product] | None] = [None] * len(lines)

    def judge(tried: Sequence[tuple[int, Product | None]]) -> None:
        rows = [(n, product) for n, product in tried if product is not None]
        if not rows:
            return
        codes_of_products = linear_tables(codes, [p.line(lines[n]) for n, p in rows], rounding)
        for (n, product), row in zip(rows, codes_of_products, strict=True):
            apart, known = int(np.abs(row - expected[n]).max(initial=0)), found[n]
            if known is None or apart < known[0]:
                found[n] = apart, product

    def pending() -> list[int]:
        return [n for n, known in enumerate(found) if known is None or known[0]]

    for turn in range(_TRIES):
        if left := pending():
            judge([(n, _product(lines[n], int(order[n, turn]), expressed)) for n in left])
    # Looking at all weights is for the few lines that none of the likely ones gives.
    if len(left := pending()) <= _FEW:
        judge([(n, _fitted(lines[n], expected[n], codes, expressed)) for n in left])
    products_found = [known[1] for known in found if known is not None]
    return products_found if len(products_found) == len(lines) else None


def _fitted(line: Line, expected: Codes, codes: Codes, expressed: str) -> Product | None:
    """The product for which the scale may be furthest from what it must be, if one gives
    the table; near the line, as doubles see it."""
    slope = near(line.slope) * line.a.scale / line.b.scale
    if not slope:
        return None
    weights = np.copysign(_WEIGHTS, slope)[:, None, None]
    with np.errstate(all="ignore"):
        ratios = near(line.offset) / line.b.scale * weights / slope
        biases = np.rint(ratios) + np.array([0.0, 1.0, -1.0])[None, :, None]
        sums = weights * (codes - line.a.zero) + biases
        steps = (expected - line.b.zero).astype(np.float64)
        # What is clamped may be further out.
        low = np.where(expected == line.b.low, -np.inf, steps - 0.5) / sums
        high = np.where(expected == line.b.high, np.inf, steps + 0.5) / sums
        down = sums < 0
        least = np.where(down, high, low).max(axis=2)
        most = np.where(down, low, high).min(axis=2)
        room = (most - least) / np.abs(slope)
    # A sum of 0 divides to an infinity of the right sign, or to what is no number.
    room = np.where(np.isfinite(room) & (least > 0), room, -np.inf)
    best = int(room.argmax())
    if not room.flat[best] > 0:
        return None
    row, column_ = divmod(best, room.shape[1])
    scale = (least[row, column_] + most[row, column_]) / 2 * line.b.scale / line.a.scale
    return _checked(
        line, int(weights[row, 0, 0]), float(scale), int(biases[row, column_, 0]), expressed
    )


def _order(lines: Sequence[Line]) -> NDArray[np.int64]:
    """The weights of each line, those first whose bias is nearest to a whole number of steps."""
    slopes = column([abs(near(line.slope)) * line.a.scale for line in lines])
    offsets = column([near(line.offset) for line in lines])
    with np.errstate(all="ignore"):
        steps = slopes / _WEIGHTS
        ratios = offsets / steps
        missed = np.abs(ratios - np.rint(ratios)) * steps
    missed = np.where(np.isfinite(missed), missed, np.inf)
    return _WEIGHTS[np.argsort(missed, axis=1, kind="stable")]


def _product(line: Line, weight: int, expressed: str) -> Product | None:
    if line.slope:
        scale = round_to_format(near(abs(line.slope) / weight), expressed)
    else:
        scale, weight = line.b.scale / line.a.scale * _FINE, 0
    if not 0 < scale * line.a.scale < inf:
        return None
    bias = round_fraction(line.offset / Fraction(scale * line.a.scale), Rounding.HALF_EVEN)
    return _checked(line, -weight if line.slope < 0 else weight, scale, bias, expressed)


def _checked(line: Line, weight: int, scale: float, bias: int, expressed: str) -> Product | None:
    scale = round_to_format(scale, expressed)
    if min(scale, scale * line.a.scale) < _SMALLEST or scale > 1 / _SMALLEST:
        return None
    return Product(weight, scale, bias) if abs(bias) <= _LARGEST else None
