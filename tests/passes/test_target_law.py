"""A target's word is law in every pass: what it refuses is not made."""

from __future__ import annotations

import pytest

from qdialect.errors import QError
from qdialect.passes import PASSES
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.targets.installed import get_target, list_targets
from tests.generators.programs import REQUANTIZING, random_program
from tests.support.program_checks import LEVELS, NOT_FUNCTIONS, passes_on
from tests.support.strange_targets import STRANGE, mark, newly_refused

TARGETS = {**{name: get_target(name) for name in list_targets()}, **STRANGE}
SEEDS = range(24)


def check(pipeline: str, seeds: range, targets: list[str]) -> list[str]:
    """What `pipeline` makes of programs that is refused."""
    found: list[str] = []
    for seed in seeds:
        names = REQUANTIZING if seed % 2 else None
        module, ctx = random_program(seed, 14, wild=seed % 3 == 0, names=names, alike=seed % 4 == 1)
        mark(module)
        for number, name in enumerate(targets):
            session, after = ctx.clone(), module.clone()
            session.target = TARGETS[name]
            level = LEVELS[(seed + number) % len(LEVELS)]
            text = pipeline if "," in pipeline else passes_on(pipeline, level)
            try:
                for _, instance in PassRegistry().build(parse_pipeline(text)):
                    instance.apply(session, after)
            except QError:
                continue
            found += [
                f"{name}, seed {seed}, {text}: {op}" for op in newly_refused(module, after, session)
            ]
    return found


@pytest.mark.parametrize("name", [name for name in PASSES if name not in NOT_FUNCTIONS])
def test_no_pass_makes_what_the_target_refuses(name: str) -> None:
    assert not check(name, SEEDS, list(TARGETS))
