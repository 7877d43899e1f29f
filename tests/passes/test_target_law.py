"""A target's word is law in every pass: what it refuses is not made."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from xdsl.dialects.builtin import ModuleOp

from qdialect.errors import QError, UnsupportedError
from qdialect.ir.context import QContext
from qdialect.passes import PASSES
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.rewrite.op_numbers import number_ops
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target, list_targets
from tests.generators.programs import REQUANTIZING, random_program
from tests.support.program_checks import LEVELS, NOT_FUNCTIONS, passes_on
from tests.support.strange_targets import STRANGE, newly_refused, refused_ops

TARGETS: dict[str, Target] = {**{name: get_target(name) for name in list_targets()}, **STRANGE}
SEEDS = range(10)

PASSES_ALONE = [
    # What `regrid` leaves on floats, passes behind it bring to codes, by which it is judged.
    *(name for name in PASSES if name not in {*NOT_FUNCTIONS, "regrid"}),
    *("fold-interface", "normalize-quant-types", "expand-rescale"),
]
WITH_OPTIONS = [
    *("channels-last{where=all}", "softmax-last{where=all}", "widen-channels{multiple=4}"),
    *("dequantize-at-load{where=all}", "part-biases{where=all numerics=LEVEL}"),
    *("convert-rescale{bits=16}", "expand-rescale{to=casts}"),
    *("form-floats{where=all numerics=LEVEL}", "lower-dynamic{to=floats numerics=relaxed}"),
    *(
        f"{name}{{boundary={policy} numerics=LEVEL}}"
        for name in ("move-casts", "place-rescales")
        for policy in ("maximize-integer", "preserve", "minimize-conversions")
    ),
    "reencode-storage{activations=i8 weights=u8}",
    "lower-composites{numerics=relaxed},raise-composites{numerics=ties}",
]


@cache
def program(seed: int) -> tuple[ModuleOp, QContext]:
    """A program whose ops are numbered."""
    names = REQUANTIZING if seed % 2 else None
    module, ctx = random_program(seed, 14, wild=seed % 3 == 0, names=names, alike=seed % 4 == 1)
    number_ops(module)
    return module, ctx


def check(
    pipeline: Callable[[Target, str], str], seeds: range = SEEDS, *, in_steps: bool = False
) -> tuple[list[str], int]:
    """What a pipeline, by target and level, makes of programs that is refused; and how often a
    rule was refused by the target."""
    found: list[str] = []
    refused = 0
    for seed in seeds:
        module, ctx = program(seed)
        for number, (name, target) in enumerate(TARGETS.items()):
            session, after = ctx.clone(), module.clone()
            session.target = target
            text = pipeline(target, LEVELS[(seed + number) % len(LEVELS)])
            try:
                for _, instance in PassRegistry().build(parse_pipeline(text)):
                    instance.apply(session, after)
            except QError as error:
                if isinstance(error, UnsupportedError) or error.code == "too-large":
                    continue
                raise
            refused += sum(remark.code == "target" for remark in session.remarks.remarks)
            new = newly_refused(module, after, session, in_steps=in_steps)
            found += [f"{name}, seed {seed}, {text}: {op}" for op in new]
    return found, refused


@pytest.mark.parametrize("name", PASSES_ALONE)
def test_no_pass_makes_what_the_target_refuses(name: str) -> None:
    found, _ = check(lambda target, level: passes_on(name, level))
    assert not found


@pytest.mark.parametrize("pipeline", WITH_OPTIONS)
def test_nor_with_other_options(pipeline: str) -> None:
    found, _ = check(lambda target, level: pipeline.replace("LEVEL", level), range(5))
    assert not found


def test_nor_do_pipelines() -> None:
    found, _ = check(optimize_pipeline, in_steps=True)
    assert not found


@pytest.mark.parametrize(
    "name", ["split-rescale", "integerize", "reencode-storage", "sink-rescale"]
)
def test_targets_are_what_refuses(name: str) -> None:
    """Without them the tests above would find nothing."""
    assert check(lambda target, level: passes_on(name, level), range(6))[1] > 0


def test_programs_have_what_is_refused() -> None:
    """Each strange target refuses some ops, and all but one of them not all."""
    counts = dict.fromkeys(STRANGE, 0)
    total = 0
    for seed in range(20):
        module, ctx = program(seed)
        total += sum(1 for _ in module.walk())
        for name, target in STRANGE.items():
            session = ctx.clone()
            session.target = target
            counts[name] += len(refused_ops(module, session))
    assert all(0 < count < total for count in counts.values()), counts
