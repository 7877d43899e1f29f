"""A second run of a pass, or of the pipeline of a target, changes nothing; `python -m tools.fuzz
twice` is the long form."""

from __future__ import annotations

import pytest

from qdialect.ir.context import new_context
from qdialect.passes import PASSES
from qdialect.passes.cleanup.canonicalize import Canonicalize
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.plugins.mlir.read import read_module
from qdialect.targets.installed import list_targets
from tests.generators.programs import random_program
from tests.support.twice import (
    FIRST_ONLY,
    LIT,
    Seen,
    check,
    idempotent_passes,
    on_lit_tests,
    on_program,
    program,
    uncovered,
)

FILES = ("passes", "conformance", "targets", "lowerings")
PROGRAMS = 4


def told(seen: Seen) -> str:
    return "\n".join(str(failure) for failure in seen.failures)


def test_every_pass_of_the_lit_tests_and_all_that_are_marked() -> None:
    """The passes of the RUN lines; a marked pass that changed no program there is an error."""
    seen = Seen()
    paths = [path for name in FILES for path in sorted((LIT / name).glob("*.mlir"))]
    for one in on_lit_tests(paths):
        seen.add(one)
    assert not seen.failures, told(seen)
    assert not uncovered(seen), f"idempotent, and no lit test changes a program: {uncovered(seen)}"
    assert seen.changed["sink-rescale"] and seen.runs > 300


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_every_pass_on_random_programs(seed: int) -> None:
    seen = on_program(seed, pipelines=0)
    assert not seen.failures, told(seen)
    assert seen.runs == len(PASSES) - len(FIRST_ONLY)


@pytest.mark.parametrize("target", list_targets())
def test_the_pipeline_of_every_target(target: str) -> None:
    seen = Seen()
    for seed, level in ((1, "exact"), (2, "bounded"), (3, "relaxed")):
        module, ctx = random_program(seed, 12)
        seen.add(check(optimize_pipeline(target, level), target, module, ctx, f"seed {seed}"))
    assert not seen.failures, told(seen)


@pytest.mark.parametrize(
    ("seed", "target", "level"),
    [
        # an op to a return in the other storage, which is a rescale with a key of its own
        (1005, "tosa", "exact"),
        (306, "litert", "relaxed"),
        # storages chosen after rescales were placed, or before ops became contractions
        (37, "x86-without-vnni", "exact"),
        (151, "onnxruntime", "bounded"),
        # casts that fold before ops can become integer ops, and such that are placed before
        (423, "linalg", "saturation"),
        (467, "xnnpack", "bounded"),
        (1235, "ethos-u85", "saturation"),
        # a placement before a product is part of a scale
        (92, "onnxruntime", "bounded"),
        # float regions, and interfaces, that become integers after rescales were placed
        (689, "stablehlo", "bounded"),
        (668, "integer", "relaxed"),
        # an affine function folded with a rescale to the other kind of bytes
        (773, "x86-without-vnni", "exact"),
        (391, "onnxruntime", "relaxed"),
    ],
)
def test_pipelines_whose_second_run_went_on(seed: int, target: str, level: str) -> None:
    module, ctx = program(seed)
    seen = check(optimize_pipeline(target, level), target, module, ctx, f"seed {seed}")
    assert not seen.failures, told(seen)


@pytest.mark.parametrize(
    ("seed", "pipeline", "target"),
    [
        (38, "place-rescales", "circle"),
        (273, "equalize-channels", "onnxruntime"),
        (561, "quantization-boundary", "tflite-int8"),
        (737, "convert-nn-to-tflite{numerics=ties}", "circle"),
        (854, "convert-nn-to-tflite{numerics=relaxed}", "litert"),
        (1905, "convert-nn-to-stablehlo", "integer"),
    ],
)
def test_passes_whose_second_run_went_on(seed: int, pipeline: str, target: str) -> None:
    """Groups of channels that share constants are even after several rounds; the others ended
    with an internal error."""
    module, ctx = program(seed)
    seen = check(pipeline, target, module, ctx, f"seed {seed}")
    assert not seen.failures, told(seen)


CHAIN = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.flip %x axes [0] : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.flip %0 axes [0] : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
"""


def test_what_a_second_run_changes_is_found() -> None:
    """One rewrite per run: the next run goes on, and the pass does not say that it would not."""
    ctx = new_context()
    module = read_module(CHAIN, ctx)
    seen = check("canonicalize{max_num_rewrites=1}", "generic", module, ctx, "chain")
    assert len(seen.failures) == 1 and not seen.changed
    assert not Canonicalize(max_num_rewrites=1).idempotent and Canonicalize().idempotent


def test_a_marked_pass_must_be_covered() -> None:
    assert uncovered(Seen()) == idempotent_passes()
    assert {"sink-rescale", "canonicalize", "cse", "dce", "place-rescales"} <= set(
        uncovered(Seen())
    )
