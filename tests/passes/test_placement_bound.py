"""Placement against random sequences of the greedy rules: `python -m tools.fuzz placement` is the
long form."""

from __future__ import annotations

import pytest

from tests.support.placement_checks import compared

#: programs on which something did not hold: a rescale to its own type, a comparison below rescales,
#: and a constant that is rescaled and dequantized, or dequantized and rescaled
ONCE_CHEAPER = [
    *((33, 10), (74, 12), (154, 12), (195, 12), (555, 12), (569, 12), (1024, 14), (3121, 12)),
]


@pytest.mark.parametrize("first", range(0, 48, 8))
def test_no_sequence_of_greedy_rules_is_cheaper(first: int) -> None:
    moved = 0
    for seed in range(first, first + 8):
        one = compared(seed, 12, 12)
        assert not one.failures, one
        moved += one.placed < one.before
    assert moved


@pytest.mark.parametrize(("seed", "ops"), ONCE_CHEAPER)
def test_what_was_cheaper_once(seed: int, ops: int) -> None:
    one = compared(seed, ops, 10)
    assert not one.failures, one
