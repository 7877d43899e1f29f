"""What the compiler costs: milliseconds per 1 000 ops of everything it does to a graph.

Build, print, parse, verify, and each pass of the table, on generated graphs. Stock xDSL's
verifier runs in the same process as a yardstick: machines differ, the ratio to it less so.

    python tools/bench.py --sizes 1000 10000 --json bench.json

`bench.py onnx` measures what it gains instead: see `bench_onnx.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from gen_graph import FORMS, GRAPHS
from progress import step, table
from qdialect.backends.mlir import module_text
from qdialect.context import QContext, new_context
from qdialect.dialects.verifier import verify_module
from qdialect.frontends.mlir import read_module
from qdialect.transforms import PASSES, load

YARDSTICK = "verify (xDSL)"


@dataclass(frozen=True)
class Case:
    """One generated graph, and how passes are run on it."""

    graph: str
    form: str
    size: int
    numerics: str

    def build(self) -> ModuleOp:
        return GRAPHS[self.graph](self.size, self.form)

    def __str__(self) -> str:
        return f"{self.graph} {self.form} {self.size}"


@dataclass(frozen=True)
class Work:
    """Something to time: `prepare` makes a fresh argument for each run of `run`."""

    name: str
    prepare: Callable[[], Any]
    run: Callable[[Any], object]


@dataclass(frozen=True)
class Result:
    """The best of some runs, in milliseconds, and the ops it took that long for."""

    case: str
    work: str
    ops: int
    milliseconds: float

    @property
    def per_thousand(self) -> float:
        return 1000 * self.milliseconds / self.ops


def basics(case: Case, ctx: QContext) -> Iterator[Work]:
    """Building, text out and in, and the two verifiers."""
    module = case.build()
    text = module_text(module, ctx)
    yield Work("build", lambda: None, lambda _: case.build())
    yield Work("print", lambda: None, lambda _: module_text(module, ctx))
    yield Work("parse", lambda: None, lambda _: read_module(text, ctx))
    yield Work("verify", lambda: None, lambda _: verify_module(module))
    yield Work(YARDSTICK, lambda: None, lambda _: module.verify())


def passes(case: Case, ctx: QContext) -> Iterator[Work]:
    """Every pass of the table, each on a fresh graph."""
    for name in PASSES:
        kind = load(name)()
        fields = {field.name for field in dataclasses.fields(kind)}
        if "file" in fields or name.startswith("convert-nn-to-"):
            continue  # one needs a file that fits the graph, the other a graph of integers
        options = {"numerics": case.numerics} if "numerics" in fields else {}
        instance = kind(**options)
        yield Work(
            name, case.build, lambda module, instance=instance: instance.apply(ctx.clone(), module)
        )


WORKLOADS = (basics, passes)


def best(work: Work, repeat: int) -> float:
    """The shortest of `repeat` runs, in milliseconds of processor time."""
    shortest = float("inf")
    for _ in range(repeat):
        argument = work.prepare()
        gc.collect()
        start = time.process_time()
        work.run(argument)
        shortest = min(shortest, time.process_time() - start)
    return 1e3 * shortest


def measure(case: Case, repeat: int) -> list[Result]:
    """All workloads on one graph."""
    ctx = new_context()
    ops = sum(1 for _ in case.build().walk())
    works = [work for workload in WORKLOADS for work in workload(case, ctx)]
    return [Result(str(case), work.name, ops, best(work, repeat)) for work in works]


def show(results: Sequence[Result]) -> str:
    """One table of a case: total, per 1 000 ops, and the ratio to the yardstick."""
    unit = next(result.milliseconds for result in results if result.work == YARDSTICK)
    header = (results[0].case, "ms", "ms per 1 000 ops", f"ratio to {YARDSTICK}")
    rows = [
        (
            result.work,
            f"{result.milliseconds:.1f}",
            f"{result.per_thousand:.2f}",
            f"{result.milliseconds / unit:.2f}",
        )
        for result in results
    ]
    return table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["onnx"]:
        import bench_onnx

        return bench_onnx.main(arguments[1:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=["residual"])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000])
    parser.add_argument("--numerics", default="exact", help="level the passes run at")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the best counts")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args(arguments)

    everything: list[Result] = []
    for graph in options.graphs:
        for form in options.forms:
            for size in options.sizes:
                case = Case(graph, form, size, options.numerics)
                with step(f"measuring {case}"):
                    results = measure(case, options.repeat)
                print(show(results), end="\n\n", flush=True)
                everything += results
    if options.json:
        figures = {
            "python": platform.python_version(),
            "results": [
                dataclasses.asdict(result) | {"ms_per_1000_ops": result.per_thousand}
                for result in everything
            ],
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
