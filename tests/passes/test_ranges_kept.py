"""What is known of codes is kept from pass to pass, and right for the module as it is."""

from __future__ import annotations

import contextlib

import pytest
from xdsl.dialects.builtin import ModuleOp

from qdialect.analysis.ranges import CodeRanges
from qdialect.errors import QError
from qdialect.ir.context import QContext, new_context
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.pipeline.manager import Instrumentation, PassManager
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.targets.installed import get_target
from tests.generators.programs import random_program
from tests.generators.sized import FORMS, GRAPHS
from tests.support.program_checks import pipelines


class Judge(Instrumentation):
    """Finds every interval again after every pass, from nothing."""

    def __init__(self, ctx: QContext) -> None:
        self.ctx = ctx
        self.compared = 0

    def after_pass(self, name: str, module: ModuleOp) -> None:
        kept = self.ctx.analyses.get(CodeRanges)
        if not isinstance(kept, CodeRanges):
            return
        fresh = CodeRanges(self.ctx)
        fresh.trusts = kept.trusts
        known = kept.known()
        for op in module.walk():
            for result in op.results:
                if result in known:
                    assert known[result] == fresh.of(result), (name, str(op))
                    self.compared += 1


def run(pipeline: str, target: str, module: ModuleOp, ctx: QContext) -> int:
    ctx.target = get_target(target)
    judge = Judge(ctx)
    passes = PassRegistry().build(parse_pipeline(pipeline))
    with contextlib.suppress(QError):  # what a program has may be nothing for the pass
        PassManager(ctx, passes, instrumentation=[judge]).run(module)
    return judge.compared


@pytest.mark.parametrize("level", ["exact", "bounded", "saturation", "relaxed"])
def test_on_random_programs(level: str) -> None:
    compared = 0
    for seed in range(200, 225):
        for target in ("generic", "onnxruntime"):
            module, ctx = random_program(seed, 14, wild=False)
            compared += run(optimize_pipeline(target, level), target, module, ctx)
        for pipeline, target in pipelines(seed, None, 6):
            module, ctx = random_program(seed, 14, wild=False)
            compared += run(pipeline, target, module, ctx)
    assert compared > 500


def test_on_networks() -> None:
    compared = 0
    for graph in GRAPHS.values():
        for form in FORMS:
            for level in ("exact", "saturation"):
                module, ctx = graph(150, form), new_context()
                compared += run(optimize_pipeline("onnxruntime", level), "onnxruntime", module, ctx)
    assert compared > 500
