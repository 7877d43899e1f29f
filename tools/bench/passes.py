"""`passes` and `table`: what passes cost, in multiples of xDSL's verifier.

`passes` is the optimizing pipeline as `qopt optimize` runs it: each position, each pass over
all its positions, and the whole. `table` is every pass alone on a fresh graph. Stock xDSL's
verifier runs on the same module right before. Memory is by how much the process grows above what
the module itself takes.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.ir.context import QContext, new_context
from qdialect.passes import PASSES, load
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.pipeline.manager import Instrumentation, Passes, PassManager
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.targets.installed import get_target
from tools.bench.cases import Case, count
from tools.bench.rows import (
    LIMIT,
    Rounds,
    Row,
    Spread,
    alone,
    growth_of_peak,
    limited,
    ratios,
    seconds,
)

PIPELINE, TABLE = "passes", "table"
VERIFY = "stock verify"
WHOLE = "optimize"
SMALL = 1 << 20
"""Bytes below which what a module takes is hidden in what was free."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the pipeline compiles for."""

    target: str = "onnxruntime"
    numerics: str = "exact"


class Clock(Instrumentation):
    """Seconds of each position of a pipeline."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.times: list[float] = []
        self._start = 0.0
        self._positions = 0

    def before_pipeline(self, ctx: QContext, passes: Passes, module: ModuleOp) -> None:
        self._positions = len(passes)

    def before_pass(self, name: str, module: ModuleOp) -> None:
        self._start = time.process_time()

    def _stop(self, name: str) -> None:
        self.times.append(time.process_time() - self._start)
        self.names.append(name)

    def before_verify(self, name: str, module: ModuleOp) -> None:
        self._stop(name)
        self._start = time.process_time()

    def after_pass(self, name: str, module: ModuleOp) -> None:
        # After the last pass the module has been verified, which counts as one more.
        self._stop("verify" if len(self.names) == self._positions else name)


def optimize(
    module: ModuleOp, setting: Setting, clock: Clock | None = None, ctx: QContext | None = None
) -> None:
    """The pipeline of `qopt optimize`."""
    target = get_target(setting.target)
    ctx = ctx or new_context()
    ctx.target = target
    passes = PassRegistry().build(parse_pipeline(optimize_pipeline(target, setting.numerics)))
    watchers = [clock] if clock else []
    PassManager(ctx, passes, verify_each=False, instrumentation=watchers).run(module)


def pipeline(case: Case, rounds: Rounds, setting: Setting) -> list[Row]:
    """Every position, every pass and the whole, on one graph."""
    verify: list[float] = []
    whole: list[float] = []
    positions: list[list[float]] = []
    optimize(Case(case.name, 50).build(), setting, reference := Clock())  # also imports
    names = reference.names
    for _ in rounds:
        module = case.build()
        verify.append(seconds(lambda module=module: module.verify()))
        clock = Clock()
        whole.append(seconds(lambda m=module, c=clock: optimize(m, setting, c)))
        positions.append(clock.times + [math.inf] * (len(names) - len(clock.times)))
        if math.inf in (verify[-1], whole[-1]):
            break
    ops = count(case.build())

    def row(name: str, times: Sequence[float], watched: bool = True) -> Row:
        against = ratios(times, {VERIFY: verify})
        value = Spread.of(times)
        return Row(PIPELINE, case.name, case.size, name, value, ops, against, watched=watched)

    by_name: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        by_name[name].append(index)
    return [
        row(WHOLE, whole),
        *(
            row(name, [sum(times[index] for index in places) for times in positions])
            for name, places in by_name.items()
        ),
        *(
            row(f"{index + 1}. {name}", [times[index] for times in positions], False)
            for index, name in enumerate(names)
        ),
    ]


def memory(case: Case, setting: Setting) -> tuple[int, int] | None:
    """Bytes of the module, and what optimizing it takes on top; in a process of its own.
    None if that takes too long."""
    optimize(Case(case.name, 50).build(), setting)
    built: list[ModuleOp] = []
    module = growth_of_peak(lambda: built.append(case.build()))
    with limited(LIMIT):
        return module, growth_of_peak(lambda: optimize(built[0], setting))
    return None


def _instances(numerics: str) -> Iterator[tuple[str, ModulePass]]:
    """The passes that can run on any graph, as they are at `numerics`."""
    for name in PASSES:
        kind = load(name)()
        fields = {each.name for each in dataclasses.fields(kind)}
        if "file" in fields or name.startswith("convert-nn-to-") or name == "require-integers":
            continue  # the first need a file that fits the graph, the others a graph of integers
        yield name, kind(**({"numerics": numerics} if "numerics" in fields else {}))


def table(case: Case, rounds: Rounds, setting: Setting) -> list[Row]:
    """Every pass of the table, each on a fresh graph."""
    found: list[Row] = []
    ops = count(case.build())
    target = get_target(setting.target)
    for name, instance in _instances(setting.numerics):
        times: list[float] = []
        verify: list[float] = []
        for _ in rounds:
            module = case.build()
            verify.append(seconds(lambda module=module: module.verify()))
            ctx = new_context()
            ctx.target = target
            times.append(seconds(lambda m=module, c=ctx, p=instance: p.apply(c, m)))
            if math.inf in (verify[-1], times[-1]):
                break
        against = ratios(times, {VERIFY: verify})
        found.append(Row(TABLE, case.name, case.size, name, Spread.of(times), ops, against))
    return found


def rows(cases: Sequence[Case], rounds: Rounds, setting: Setting) -> Iterator[Row]:
    """The pipeline on every case."""
    for case in cases:
        found = alone(pipeline, case, rounds, setting)
        yield from found
        if found[0].value.runs and (taken := alone(memory, case, setting)):
            module, more = taken
            against = {"the module": Spread.of([more / module])} if module > SMALL else {}
            value, ops = Spread.of([float(more)]), found[0].ops
            name = f"{WHOLE}, memory"
            yield Row(PIPELINE, case.name, case.size, name, value, ops, against, "bytes")


def table_rows(cases: Sequence[Case], rounds: Rounds, setting: Setting) -> Iterator[Row]:
    """Every pass on every case."""
    for case in cases:
        yield from alone(table, case, rounds, setting)
