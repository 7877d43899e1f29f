"""What placing conversions gains: elements cast and rescaled, before and after.

Greedy (`move-casts`, `sink-rescale`, `combine-rescale`, `fold-rescale`, three times) against
`place-rescales` and the lower bound that it proves, on generated graphs and on models. Graphs in
the form `qdq` are first made integer, models taken to where `qopt optimize` places. Where placement
converts more elements than greedy the exit code is 1.

    python -m tools.bench placement --sizes 1000 10000 --json placement.json
    python -m tools.bench placement --graphs --models model.qdq.onnx
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from qdialect.algebra.contract import Numerics
from qdialect.analysis.cost import elements
from qdialect.api import load
from qdialect.errors import QError
from qdialect.ir.context import QContext, new_context
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.passes.rescale.place.costs import elements_cost
from qdialect.passes.rescale.place_rescales import Placement, PlaceRescales
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from tests.generators.sized import FORMS, GRAPHS
from tests.support.tables import step, table

TARGET = "onnxruntime"
LEVELS = ("exact", "bounded", "saturation", "relaxed")
GREEDY = ("move-casts", "sink-rescale", "combine-rescale", "fold-rescale")


@dataclass(frozen=True)
class Case:
    """One graph or model at one level: whatever `build` makes is to be placed."""

    name: str
    size: int
    numerics: str
    form: str = "quantized"

    def build(self) -> tuple[ModuleOp, QContext]:
        if self.name in GRAPHS:
            module, ctx = GRAPHS[self.name](self.size, self.form), new_context()
            if self.form == "qdq":
                run("integerize,canonicalize,cse,dce", module, ctx)
            return module, ctx
        model = load(self.name)
        steps = [str(spec) for spec in parse_pipeline(optimize_pipeline(TARGET, self.numerics))]
        placing = next(i for i, text in enumerate(steps) if text.startswith(PlaceRescales.name))
        run(",".join(steps[:placing]), model.module, model.ctx)
        return model.module, model.ctx

    def __str__(self) -> str:
        graph = (
            f"{self.name} {self.form} {self.size}" if self.name in GRAPHS else Path(self.name).stem
        )
        return f"{graph} {self.numerics}"


@dataclass(frozen=True)
class Count:
    """The conversions of a module, and the elements that they cast and rescale."""

    conversions: int
    cast: int
    rescaled: int

    @property
    def elements(self) -> int:
        """All elements converted."""
        return self.cast + self.rescaled

    def __str__(self) -> str:
        return f"{self.conversions}: {self.cast} + {self.rescaled}"


@dataclass(frozen=True)
class Result:
    """All figures of a case; `greedy` is None where it gave up."""

    case: str
    ops: int
    before: Count
    greedy: Count | None
    placed: Count
    #: least elements times price that any placement costs; None if that is not proved
    bound: float | None
    components: int
    exact: int
    methods: dict[str, int]
    greedy_us_per_op: float
    placement_us_per_op: float

    @property
    def holds(self) -> bool:
        """Whether placement converts no more than greedy does."""
        return self.greedy is None or self.placed.elements <= self.greedy.elements


def run(pipeline: str, module: ModuleOp, ctx: QContext) -> None:
    for _, instance in PassRegistry().build(parse_pipeline(pipeline)):
        instance.apply(ctx, module)


def count(module: ModuleOp) -> Count:
    rescales = [elements(op.result) for op in module.walk() if isinstance(op, RescaleOp)]
    casts = [elements(op.result) for op in module.walk() if isinstance(op, QCastOp | DCastOp)]
    return Count(len(rescales) + len(casts), sum(casts), sum(rescales))


def greedy(case: Case) -> tuple[Count | None, float]:
    """What the local passes leave, and their seconds of processor time."""
    module, ctx = case.build()
    level = f"{{numerics={case.numerics}}}"
    gc.collect()
    start = time.process_time()
    try:
        run(",".join(name + level for name in 3 * GREEDY), module, ctx)
    except QError as error:
        if error.code != "no-termination":
            raise
        return None, time.process_time() - start
    seconds = time.process_time() - start
    run("cse,dce", module, ctx)
    return count(module), seconds


def place(case: Case) -> tuple[Count, Placement, float]:
    """What placement leaves, what it says of that, and its seconds of processor time."""
    module, ctx = case.build()
    gc.collect()
    start = time.process_time()
    placement = PlaceRescales(numerics=case.numerics).place(ctx, module)
    seconds = time.process_time() - start
    run(f"fold-rescale{{numerics={case.numerics}}},cse,dce", module, ctx)
    return count(module), placement, seconds


def measure(case: Case) -> Result:
    """Greedy and placement, each on a fresh module."""
    module, _ = case.build()
    ops = sum(1 for _ in module.walk())
    before = count(module)
    del module
    sunk, greedy_seconds = greedy(case)
    placed, placement, seconds = place(case)
    parts = placement.parts
    return Result(
        str(case),
        ops,
        before,
        sunk,
        placed,
        None if placement.estimated else elements_cost(parts.bound),
        len(parts),
        parts.exact,
        dict(parts.methods),
        1e6 * greedy_seconds / ops,
        1e6 * seconds / ops,
    )


def show(results: Sequence[Result]) -> str:
    """One table: conversions, elements cast + rescaled, how they were placed, microseconds per
    op."""
    header = (
        *("case", "ops", "before", "greedy", "placed", "lower bound", "proved least"),
        *("methods", "greedy us/op", "placement us/op"),
    )
    rows = [
        (
            result.case,
            str(result.ops),
            str(result.before),
            "gave up" if result.greedy is None else str(result.greedy),
            str(result.placed),
            "none" if result.bound is None else f"{result.bound:.0f}",
            f"{result.exact} of {result.components}",
            ", ".join(f"{number} {method}" for method, number in result.methods.items()) or "-",
            f"{result.greedy_us_per_op:.0f}",
            f"{result.placement_us_per_op:.0f}",
        )
        for result in results
    ]
    return table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="*", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--models", nargs="+", default=[], metavar="PATH", help="QDQ models")
    levels = [str(level) for level in Numerics]
    parser.add_argument("--numerics", nargs="+", choices=levels, default=list(LEVELS))
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args(arguments)

    graphs = [
        (name, size, form)
        for name in options.graphs
        for form in options.forms
        for size in options.sizes
    ]
    results: list[Result] = []
    gc.collect()
    gc.freeze()  # what is there already need not be looked through each time
    for name, size, form in [*graphs, *((path, 0, "qdq") for path in options.models)]:
        for numerics in options.numerics:
            case = Case(name, size, numerics, form)
            with step(f"placing {case}"):
                results.append(measure(case))
    gc.unfreeze()
    print(show(results))
    worse = [result for result in results if not result.holds]
    print(f"\nplacement converts more than greedy in {len(worse)} of {len(results)} cases")
    if options.json:
        figures = {
            "python": platform.python_version(),
            "results": [dataclasses.asdict(result) for result in results],
            "worse": [result.case for result in worse],
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
