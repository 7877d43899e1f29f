"""A placement that states only what has changed is the one that states everything."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from xdsl.dialects.builtin import ModuleOp

from qdialect.analysis.ranges import CodeRanges
from qdialect.context import QContext, new_context
from qdialect.errors import PassFailure, QError
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.passes.rescale.place.model import Model
from qdialect.passes.rescale.place.rounds import Rounds
from qdialect.pipeline.manager import PassManager
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.targets.installed import get_target
from tests.generators.programs import random_program
from tests.generators.sized import FORMS, GRAPHS

Make = Callable[[], tuple[ModuleOp, QContext]]

#: once more, after passes that change some of the module
TWICE = "place-rescales{numerics=LEVEL},fold-rescale{numerics=LEVEL},canonicalize,cse,dce,"


def outcome(make: Make, pipeline: str) -> tuple[str, list[str]]:
    module, ctx = make()
    ctx.target = get_target("onnxruntime")
    try:
        PassManager(ctx, PassRegistry().build(parse_pipeline(pipeline))).run(module)
    except PassFailure:
        raise
    except QError:
        pass  # what a program has may be nothing for the pass
    return str(module), [str(remark) for remark in ctx.remarks.remarks]


@contextlib.contextmanager
def counted(*, anew: bool) -> Iterator[list[int]]:
    """The variables of every problem that is stated; with `anew`, all of them every time."""
    counts: list[int] = []
    state = Rounds.state

    def watched(rounds: Rounds, *, committed: bool) -> Model:
        if anew:
            rounds.session.analyses.pop(CodeRanges, None)
            rounds._states.ops = []  # pyright: ignore[reportPrivateUsage]
        model = state(rounds, committed=committed)
        counts.append(len(model.variables))
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rounds, "state", watched)
        yield counts


def compare(make: Make, pipeline: str) -> tuple[int, int]:
    """How many variables were stated; the outcomes must be the same."""
    with counted(anew=True) as every:
        expected = outcome(make, pipeline)
    with counted(anew=False) as some:
        assert outcome(make, pipeline) == expected
    return sum(some), sum(every)


@pytest.mark.parametrize("level", ["exact", "ties", "bounded", "saturation", "relaxed"])
def test_on_random_programs(level: str) -> None:
    some = every = 0
    pipeline = 2 * TWICE.replace("LEVEL", level) + optimize_pipeline("onnxruntime", level)
    for seed in range(300, 360):
        a, b = compare(lambda seed=seed: random_program(seed, 30, wild=False), pipeline)
        some, every = some + a, every + b
    assert 0 < some <= every and (some < every or level == "relaxed")


@pytest.mark.parametrize("level", ["exact", "bounded", "saturation"])
@pytest.mark.parametrize("form", FORMS)
def test_on_networks(form: str, level: str) -> None:
    some = every = 0
    for graph in GRAPHS.values():
        pipeline = optimize_pipeline("onnxruntime", level)
        a, b = compare(lambda graph=graph: (graph(150, form), new_context()), pipeline)
        some, every = some + a, every + b
    assert 0 < some < every
