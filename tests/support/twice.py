"""Whether a second run of a pass or a pipeline changes nothing, and of which passes that was seen.

Programs are random ones (`tests/generators/programs.py`) and the inputs of the lit tests, each
with the passes of its RUN lines. A pass is covered once a first run of it changed a program and the
second did not. A pass class that says it is `idempotent` has to be covered (`uncovered`).

`python -m tools.fuzz twice` is the long form.
"""

# pyright: basic
from __future__ import annotations

import random
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from qdialect.errors import InputError, QError, UnsupportedError
from qdialect.ir.context import QContext, new_context
from qdialect.ir.verify.verifier import verify_module
from qdialect.passes import PASSES, load
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.mlir.write import module_text
from qdialect.targets.installed import get_target, list_targets
from tests.generators.programs import random_program
from tests.support.program_checks import LEVELS, claims_program, passes_on

LIT = Path(__file__).parents[2] / "lit_tests"
FIRST_ONLY = frozenset({"apply-profile"})
"""Passes for what only a first run is given: a profile is of a float model."""
REFUSING = frozenset({"convert-nn-to-linalg{casts=quant}"})
"""What leaves casts that it does not take: a second run is refused, and changes nothing."""


@dataclass
class Seen:
    """What was run: by pass, how often the first run changed a program; and what went wrong."""

    programs: int = 0
    runs: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, str]] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        self.programs += other.programs
        self.runs += other.runs
        self.changed += other.changed
        self.failures += other.failures


def idempotent_passes() -> list[str]:
    """The names of the passes whose class says that a second run changes nothing."""
    return [name for name in PASSES if getattr(load(name)(), "idempotent", False)]


def uncovered(seen: Seen) -> list[str]:
    """The passes that say they are idempotent and never changed a program."""
    return [name for name in idempotent_passes() if not seen.changed[name]]


def _applied(pipeline: str, module: ModuleOp, ctx: QContext) -> tuple[str, dict[str, int]]:
    """The text of the module after a pipeline, in place, and the rules that fired."""
    ctx.remarks.remarks.clear()
    ctx.analyses.clear()
    for _, instance in PassRegistry().build(parse_pipeline(pipeline)):
        instance.apply(ctx, module)
    fired = {rule: n for rule, n in ctx.remarks.fired().items() if rule != "placement"}
    return module_text(module, ctx), fired


def check(pipeline: str, target: str, module: ModuleOp, ctx: QContext, where: str) -> Seen:
    """Run a pipeline twice on `module`, in place; a program that is refused stays as it is."""
    seen, before = Seen(runs=1), module_text(module, ctx)
    told = {"where": where, "pipeline": pipeline, "target": target}
    ctx.target = get_target(target)
    try:
        once, _ = _applied(pipeline, module, ctx)
    except (UnsupportedError, InputError):
        return seen
    except Exception as error:
        seen.failures.append({**told, "error": f"{type(error).__name__}: {error}"[:300]})
        return seen
    try:
        twice, fired = _applied(pipeline, module, ctx)
    except QError as error:
        twice, fired = once, {} if pipeline in REFUSING else {str(error)[:200]: 1}
    except Exception as error:
        twice, fired = once, {f"{type(error).__name__}: {error}"[:300]: 1}
    # In a pipeline one pass may undo what another does each time.
    if twice != once or (fired and "," not in pipeline):
        seen.failures.append({**told, "error": f"a second run changes it; fired {fired}"})
    elif once != before and "," not in pipeline:
        seen.changed[parse_pipeline(pipeline)[0].name] += 1
    return seen


def program(seed: int, ops: int = 12) -> tuple[ModuleOp, QContext]:
    """The random program of a seed."""
    if seed % 2:
        return claims_program(seed, ops)
    return random_program(seed, ops, wild=seed % 4 > 0)


def on_program(seed: int, ops: int = 12, count: int | None = None, pipelines: int = 1) -> Seen:
    """Passes on a random program: all (or `count`) of them, each at a random level for a random
    target; and whole pipelines of that many random targets."""
    draw, targets = random.Random(seed), list_targets()
    module, ctx = program(seed, ops)
    names = [name for name in PASSES if name not in FIRST_ONLY]
    drawn = names if count is None else draw.sample(names, count)
    chosen = [(passes_on(name, draw.choice(LEVELS)), draw.choice(targets)) for name in drawn]
    for target in draw.sample(targets, min(pipelines, len(targets))):
        chosen.append((optimize_pipeline(get_target(target), draw.choice(LEVELS)), target))
    seen = Seen(programs=1)
    for pipeline, target in chosen:
        seen.add(check(pipeline, target, module.clone(), ctx.clone(), f"seed {seed}"))
    return seen


_RUN = re.compile(r"RUN: *(qopt-opt %s[^|>&]*)")


def lit_runs(path: Path) -> list[tuple[str, str]]:
    """The pipelines of the RUN lines of a lit test, with their targets."""
    found: list[tuple[str, str]] = []
    for line in _RUN.findall(path.read_text("utf-8")):
        words = shlex.split(line.replace("%S", str(path.parent)))
        if "-p" not in words:
            continue
        flags = " ".join(words)
        target = re.search(r"--target[= ](\S+)", flags)
        found.append((words[words.index("-p") + 1], target.group(1) if target else "generic"))
    return list(dict.fromkeys(found))


def on_lit_tests(paths: Sequence[Path] | None = None) -> Iterator[Seen]:
    """Each pass of each RUN line on what the passes before it left."""
    for path in sorted(LIT.rglob("*.mlir")) if paths is None else paths:
        for pipeline, target in lit_runs(path):
            if any(spec.name in FIRST_ONLY for spec in parse_pipeline(pipeline)):
                continue
            for number, part in enumerate(path.read_text("utf-8").split("// -----")):
                ctx = new_context(allow_unregistered=True)
                try:
                    module = read_module(part, ctx, str(path))
                    verify_module(module, ctx.blobs, behaviors=ctx.behaviors)
                except QError:
                    continue  # it shows an error
                for spec in parse_pipeline(pipeline):
                    where = f"{path.relative_to(LIT)}#{number}"
                    yield check(str(spec), target, module, ctx, where)
