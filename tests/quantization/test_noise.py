"""The estimate of losses: right where its assumptions hold, and corrected by trials."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdialect.quantizer.grids import assign
from qdialect.quantizer.noise import estimated_losses, scaled
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.selection import select
from qdialect.quantizer.sensitivity import losses
from qdialect.quantizer.values import Values
from tests.quantization.test_sensitivity import SEEDS, network, opened


def test_estimates_are_near_what_is_measured() -> None:
    """Of random networks, half of the ops within a factor of ten."""
    ratios: list[float] = []
    for seed in SEEDS:
        model, profile, samples = network(seed)
        measured = losses(model.module, model.ctx, profile, Recipe(), samples, opened(model))
        selection = select(Values(model.function(), model.ctx, profile, Recipe()))
        estimated = estimated_losses(selection, assign(selection))
        assert estimated.keys() >= measured.keys()
        assert all(math.isfinite(loss) and loss >= 0 for loss in estimated.values())
        ratios += [
            abs(math.log10(estimated[key] / measured[key]))
            for key in measured
            if measured[key] > 1e-12 and estimated[key] > 0
        ]
    assert len(ratios) > 30 and sorted(ratios)[len(ratios) // 2] < 1


LOSSES = st.dictionaries(st.sampled_from("abcdef"), st.floats(1e-9, 1e3), min_size=1)
TRIALS = st.lists(
    st.tuples(st.frozensets(st.sampled_from("abcdefgh")), st.floats(1e-9, 1e3)), max_size=4
)


@settings(deadline=None)
@given(LOSSES, TRIALS)
def test_after_trials_losses_add_up_to_what_the_last_measured(
    known: dict[str, float], trials: list[tuple[frozenset[str], float]]
) -> None:
    found = scaled(known, trials)
    assert found.keys() == known.keys() and all(loss > 0 for loss in found.values())
    tried = frozenset[str]().union(*(keys for keys, _ in trials))
    assert all(found[key] == known[key] for key in known.keys() - tried)
    for keys, measured in trials[-1:]:
        if keys & known.keys():
            assert sum(found[key] for key in keys & known.keys()) == pytest.approx(measured)


def test_trials_that_say_nothing() -> None:
    known = {"a": 1.0, "b": 0.0}
    assert scaled(known, [(frozenset("a"), 0.0), (frozenset("a"), math.inf)]) == known
    assert scaled(known, [(frozenset("b"), 2.0), (frozenset("z"), 2.0)]) == known
