"""Contract classes: their order and their names."""

from __future__ import annotations

import pytest

from qdialect.algebra.contract import EXACT, Contract, Numerics

ORDER = ["exact", "ties", "bounded", "saturation", "relaxed"]


def test_names_from_strongest_to_weakest() -> None:
    levels = [Numerics.parse(name) for name in ORDER]
    assert levels == sorted(Numerics)
    assert [str(level) for level in levels] == ORDER
    assert Numerics.parse("Exact") is Numerics.EXACT


@pytest.mark.parametrize("text", ["", "approx", "0", "bounded(2)", "exact "])
def test_unknown_levels_list_the_known(text: str) -> None:
    with pytest.raises(ValueError, match="one of exact, ties, bounded, saturation, relaxed"):
        Numerics.parse(text)


def test_text() -> None:
    assert str(EXACT) == "exact"
    assert str(Contract(Numerics.BOUNDED, 1.5)) == "bounded(1.5)"
    assert str(Contract(Numerics.SATURATION, 3.0)) == "saturation"
    assert Contract(Numerics.EXACT) == EXACT
