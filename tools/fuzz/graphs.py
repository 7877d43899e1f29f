"""`qd.optimize` at `exact` on random ONNX graphs, with ONNX Runtime as the judge.

    python -m tools.fuzz graphs --count 1000 --jobs 2 --keep failures/
    python -m tools.fuzz graphs --networks --minutes 10
    python -m tools.fuzz graphs --schemas --count 1000 --keep failures/
    python -m tools.fuzz graphs --try failures/bits-17.onnx

Graphs are any that the runtime runs (`tests/generators/graphs`); networks are as exporters and
quantizers write them (`tests/generators/networks.py`). `tests/support/graph_checks.py` says what
must hold. Those of `--schemas` (`tools/fuzz/schema_graphs.py`) go through the command
`qopt optimize`, of which `tests/support/command_checks.py` says the same. Each is tried in a
process that is ended when it takes too long; a failure is made smaller and kept.
"""

# pyright: basic
from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

import onnx

from tests.support.command_checks import command_failure
from tests.support.graph_checks import DRAWN, RUNTIME_ALONE, failure
from tests.support.smaller_models import reduced

SECONDS = 900.0
"""A graph that takes longer hangs."""
Found = tuple[str, str, Counter[str], Counter[str]]
SOURCES = ("graphs", "networks", "schemas")
FRESH = 30
"""Of so many graphs of `schemas` one goes through the command in a process of its own; the others
do in a child that has imported everything."""


def drawn(seed: int, source: str) -> onnx.ModelProto:
    """The graph or the network of a seed."""
    if source == "networks":
        from tests.generators.networks import random_model

        return random_model(seed)
    if source == "schemas":
        from tools.fuzz.schema_graphs import schema_graph

        return schema_graph(seed)
    from tests.generators.graphs.maker import random_graph

    return random_graph(seed)


def judged(
    model: onnx.ModelProto,
    folder: Path,
    source: str,
    seed: int,
    optimized: bool = True,
    on_stage: Callable[[str], None] = lambda _: None,
    twice: bool = False,
) -> tuple[str, str]:
    """The kind of what came out ("" if all is well) and the words."""
    if source == "schemas":
        return command_failure(model, folder, optimized, on_stage, seed % FRESH == 0)
    return failure(model, folder, twice, optimized, on_stage, source == "networks")


def _features(model: onnx.ModelProto, source: str) -> Counter[str]:
    if source != "schemas":
        return Counter()
    from tools.fuzz.schema_graphs import features

    return features(model)


def _work(pipe: Connection, source: str) -> None:
    """A process that has imported everything, and forks for each graph: (seed, optimized) comes.
    The child sends what it is about to do and, last, (kind, words, ops, features); then this
    process sends how the child ended."""
    from tests.support.damaged_models import warm_up

    os.setpgid(0, 0)
    warm_up()
    _features(drawn(0, source), source)
    gc.freeze()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        child = os.fork()
        if child == 0:
            _try_one(pipe, source, *task)
        pipe.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _try_one(pipe: Connection, source: str, seed: int, optimized: bool) -> None:
    """Send what came of one graph, and end this process."""
    code = 1
    try:
        with tempfile.TemporaryDirectory(prefix="fuzz") as name:
            pipe.send(DRAWN)
            model = drawn(seed, source)
            pipe.send("")
            twice = source == "networks" or seed % 4 == 0
            kind, words = judged(model, Path(name), source, seed, optimized, pipe.send, twice)
            ops = Counter(node.op_type for node in model.graph.node)
            pipe.send((kind, words, ops, _features(model, source)))
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


class Worker:
    """A process with what its child works on."""

    def __init__(self, source: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, source), daemon=True)
        self.process.start()
        other.close()
        self.seed: int | None = None
        self.stage = ""
        self.found: Found | None = None
        self.until = 0.0

    def give(self, seed: int, optimized: bool = True) -> None:
        self.seed, self.until = seed, time.monotonic() + SECONDS
        self.found = None
        self.pipe.send((seed, optimized))

    def exit_code(self) -> int | None:
        """How the child ended, if that is what comes next; keeps what else comes."""
        said = self.pipe.recv()
        if isinstance(said, int):
            return said
        if isinstance(said, str):
            self.stage = said
        else:
            self.found = said
        return None

    def end(self) -> None:
        os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()


@dataclass
class Tally:
    """What a run met."""

    graphs: int = 0
    nodes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[int, str, str]] = field(default_factory=list)

    def add(
        self,
        seed: int,
        kind: str,
        words: str,
        ops: Mapping[str, int] | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self.graphs += 1
        self.kinds[kind or "same"] += 1
        self.ops.update(ops or {})
        self.nodes += sum((ops or {}).values())
        if kind != "invalid":
            self.features.update(features or {})
        if self.graphs % 100 == 0:
            print(f"{self.graphs} graphs: {dict(self.kinds)}", file=sys.stderr, flush=True)
        if kind in ("", "invalid"):
            self.met.update(words.split(", ") if words and not kind else ())
        else:
            self.failed.append((seed, kind, words))
            print(f"seed {seed}: {kind}: {words}", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        lines = [f"{self.graphs} graphs of {len(self.ops)} kinds of ops, {self.nodes} nodes"]
        lines += [f"{count:7} {kind}" for kind, count in self.kinds.most_common()]
        lines += [f"{count:7} of the same: {what}" for what, count in self.met.most_common()]
        lines += [f"{count:7} with: {what}" for what, count in self.features.most_common()]
        return "\n".join(lines)


def fuzz(
    seeds: Iterator[int], jobs: int = 1, until: float = float("inf"), source: str = "graphs"
) -> Tally:
    """Try the graphs of seeds."""
    tally, workers = Tally(), [Worker(source) for _ in range(jobs)]
    for worker in workers:
        _next(worker, seeds, until)
    while busy := [worker for worker in workers if worker.seed is not None]:
        wait([worker.pipe for worker in busy], timeout=1.0)
        for index, worker in enumerate(workers):
            seed = worker.seed
            if seed is None:
                continue
            if worker.pipe.poll():
                code = worker.exit_code()
                if code is None:
                    continue
                if worker.found is not None:
                    tally.add(seed, *worker.found)
                elif worker.stage == RUNTIME_ALONE:  # the runtime's own doing
                    worker.give(seed, optimized=False)
                    continue
                else:
                    kind = "invalid" if worker.stage == DRAWN else "died"
                    tally.add(seed, kind, f"exit code {code}, {worker.stage}")
                _next(worker, seeds, until)
            elif time.monotonic() > worker.until:
                tally.add(seed, "hung", f"more than {SECONDS:g} s")
                worker.end()
                workers[index] = Worker(source)
                _next(workers[index], seeds, until)
    for worker in workers:
        worker.end()
    return tally


def _next(worker: Worker, seeds: Iterator[int], until: float) -> None:
    seed = next(seeds, None) if time.monotonic() < until else None
    worker.seed = None
    if seed is not None:
        worker.give(seed)


def keep_small(seed: int, kind: str, keep: Path, seconds: float, source: str) -> None:
    """Write the graph of a seed, made smaller."""
    with tempfile.TemporaryDirectory(prefix="fuzz") as name:
        folder = Path(name)

        def fails(model: onnx.ModelProto) -> bool:
            found = judged(model, folder, source, 1, kind != "died", twice=kind == "twice")
            return found[0] == kind

        small = reduced(drawn(seed, source), fails, seconds)
    keep.mkdir(parents=True, exist_ok=True)
    stem = "-".join("".join(c if c.isalnum() else " " for c in kind).split())[:50]
    onnx.save(small, keep / f"{stem}-{seed}.onnx")
    (keep / f"{stem}-{seed}.txt").write_text(onnx.printer.to_text(small))


def main(arguments: Sequence[str] | None = None) -> int:
    """What was tried and what failed; 1 if anything did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=int, default=200, help="how many graphs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    for source, what in zip(
        SOURCES[1:], ("networks, not any graph", "by schemas, as a command"), strict=True
    ):
        parser.add_argument(
            f"--{source}", dest="source", action="store_const", const=source, default=SOURCES[0],
            help=what,
        )  # fmt: skip
    parser.add_argument("--keep", type=Path, help="where to put graphs that failed, made smaller")
    parser.add_argument("--reduce", type=float, default=20.0, help="seconds for making one smaller")
    parser.add_argument("--try", dest="files", nargs="+", type=Path, help="these files")
    options = parser.parse_args(arguments)
    if options.files:
        return _try(options.files, options.source)
    seeds = iter(range(options.first, options.first + options.count))
    tally = fuzz(seeds, options.jobs, time.monotonic() + 60 * options.minutes, options.source)
    print(tally)
    kept: Counter[str] = Counter()
    for seed, kind, _ in tally.failed if options.keep else ():
        kept[kind] += 1
        if kept[kind] <= 5 and kind not in ("hung", "died"):
            keep_small(seed, kind, options.keep, options.reduce, options.source)
    return 1 if tally.failed else 0


def _try(files: Sequence[Path], source: str) -> int:
    code = 0
    for path in files:
        with tempfile.TemporaryDirectory(prefix="fuzz") as name:
            kind, words = judged(onnx.load(path), Path(name), source, 0, twice=True)
        print(f"{path}: {kind or 'same'} {words}")
        code |= kind not in ("", "invalid")
    return code


if __name__ == "__main__":
    sys.exit(main())
