"""Where rescales step, against looking at every code."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from qdialect.algebra.fixed_point import (
    FixedPoint,
    Form,
    step_positions,
    to_fixed_point,
    weakest_replacement,
)
from qdialect.algebra.requantize import QuantGrid, codes_of
from qdialect.algebra.rounding import Rounding

_OUT = 0.05173
PLAIN = [mode for mode in Rounding if not mode.two_stage]


def _random_cell(rng: np.random.Generator) -> tuple[QuantGrid, QuantGrid]:
    low = int(rng.integers(-3000, 0))
    a = QuantGrid(float(2.0 ** rng.uniform(-8, 2)), int(rng.integers(-200, 200)), low, low + 5000)
    ratio = float(rng.choice([2.0 ** rng.integers(-6, 3), rng.uniform(0.001, 4)]))
    return a, QuantGrid(a.scale / ratio, int(rng.integers(-128, 128)), -128, 127)


@pytest.mark.parametrize("rounding", PLAIN)
@pytest.mark.parametrize("seed", range(20))
def test_steps_are_where_results_change(seed: int, rounding: Rounding) -> None:
    rng = np.random.default_rng(seed)
    a, b = _random_cell(rng)
    form = Form(rounding, to_fixed_point(Fraction(a.scale) / Fraction(b.scale), 16))
    for which in (form, Form(rounding)):
        (found,) = step_positions([which.factor(a, b)], [(a, b)], rounding)
        codes = codes_of(a)
        results = which.codes(codes, a, b)
        wanted = [
            int(np.searchsorted(results, c)) + a.low - a.zero for c in range(b.low + 1, b.high + 1)
        ]
        assert found.tolist() == wanted


@pytest.mark.parametrize("seed", range(60))
def test_contract_is_that_of_looking_at_all_codes(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    cells = [_random_cell(rng)]
    a, b = cells[0]
    one, other = (Form(PLAIN[int(rng.integers(3))]) for _ in range(2))
    ratio = Fraction(a.scale) / Fraction(b.scale)
    if rng.integers(2):
        other = Form(other.rounding, to_fixed_point(ratio, int(rng.choice([16, 32]))))
    contract = weakest_replacement(cells, [one], [other])
    codes = codes_of(a)
    apart = np.abs(one.codes(codes, a, b) - other.codes(codes, a, b))
    assert contract.steps == int(apart.max())
    assert (contract.level.value == 0 or contract.level.name == "EXACT") == (not apart.any())


def test_cells_of_32_bits_are_decided() -> None:
    """A sum of 32 bits against its pair: the few thresholds say what 2**32 codes would."""
    cells = [
        (QuantGrid(s, 0, -(2**31), 2**31 - 1), QuantGrid(_OUT, 3, -128, 127))
        for s in (1.7391e-5, 2.0**-10 * _OUT, 3.3127e-4)
    ]
    old = [Form(Rounding.HALF_UP)] * 3
    new = [
        Form(Rounding.HALF_UP, to_fixed_point(Fraction(a.scale) / Fraction(_OUT))) for a, _ in cells
    ]
    assert weakest_replacement(cells, old, new).level.name == "EXACT"
    ties = weakest_replacement(cells[1:2], [Form(Rounding.HALF_EVEN)], new[1:2])
    assert ties.level.name == "TIES"
    off = [Form(Rounding.HALF_UP, FixedPoint(1 << 29, 39))]
    assert weakest_replacement(cells[:1], old[:1], off).level.name == "BOUNDED"
