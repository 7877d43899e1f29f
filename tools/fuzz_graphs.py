"""`qd.optimize` at `exact` on random ONNX graphs (`random_onnx`), ONNX Runtime as the judge.

A graph counts where the runtime runs it as written (its optimizations off).  Then it must be
read, optimized for each target, and written in both forms within a time limit, and

    names       inputs and outputs keep their names
    bits        what is written as QDQ gives the same bits, optimizations off, on three inputs:
                of anything, with many ties of roundings, of extreme numbers
    loads       what is written in either form loads and runs, optimizations off, and also with
                them on if the graph itself does
    twice       optimizing what was optimized changes nothing (a quarter of the graphs)

Graphs with integer kernels (QLinearConv and its like) are held against their meaning in floats,
which must be near to what the kernels give.  Each graph is tried in a process that is ended when
it takes too long; a failure is made smaller and kept.

    python tools/fuzz_graphs.py --count 1000 --jobs 2 --keep failures/
    python tools/fuzz_graphs.py --try failures/bits-17.onnx
"""

# pyright: basic
from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import onnx

TARGETS = ("onnxruntime", "generic")
SECONDS = 60.0
"""A graph that takes longer hangs."""
SUMS = 1e-5
"""Of the largest number: what another order of a sum of floats may change."""
LEAST_DB = 10.0
"""Integer kernels meet ties in another way than floats; a wrong scale leaves less than this."""
_DRAWN = "the graph as it is drawn"
_RUNTIME_ALONE = "the graph itself with optimizations"
Arrays = dict[str, np.ndarray]
Stage = Callable[[str], None]


class Failed(Exception):
    """A check does not hold: which, and how."""

    def __init__(self, kind: str, told: str) -> None:
        super().__init__(told)
        self.kind = kind


class Invalid(Exception):
    """The runtime does not run the graph as it is written."""


# -- one graph --------------------------------------------------------------------------------


@dataclass
class Case:
    """A graph with what the runtime computes of it."""

    model: onnx.ModelProto
    feeds: list[Arrays] = field(default_factory=list)
    wanted: list[list[Any]] = field(default_factory=list)
    runs_optimized: bool = False

    @staticmethod
    def of(
        model: onnx.ModelProto, optimized: bool = True, on_stage: Stage = lambda _: None
    ) -> Case:
        """Invalid where the runtime does not run it; `optimized`: see also whether it runs with
        the runtime's optimizations, which ends the process for some graphs."""
        from qdialect.errors import QError
        from qdialect.formats.onnx.write import OrtEngine
        from random_onnx_feeds import random_feeds

        case, data = Case(model), model.SerializeToString()
        on_stage(_DRAWN)
        try:
            engine = OrtEngine(data, optimize=False)
            for kind in range(3):
                feeds = random_feeds(model, kind)
                try:
                    case.wanted.append(list(engine.run(feeds).values()))
                except QError:
                    if not kind:
                        raise
                    continue
                case.feeds.append(feeds)
        except QError as error:
            raise Invalid(str(error)) from None
        on_stage("")
        if optimized:
            on_stage(_RUNTIME_ALONE)
            try:
                OrtEngine(data, optimize=True).run(case.feeds[0])
                case.runs_optimized = True
            except QError:
                pass
            on_stage("")
        return case

    @property
    def has_kernels(self) -> bool:
        kinds = {node.op_type for node in self.model.graph.node}
        return any(kind.startswith("QLinear") or kind == "QGemm" for kind in kinds)


def check_graph(
    model: onnx.ModelProto,
    folder: Path,
    twice: bool = False,
    optimized: bool = True,
    on_stage: Stage = lambda _: None,
) -> list[str]:
    """What was met that is no failure; Invalid or Failed."""
    import qdialect as qd
    from qdialect.formats.onnx.write import export_model

    case, path, met = Case.of(model, optimized, on_stage), folder / "m.onnx", list[str]()
    if not case.runs_optimized:
        met.append("does not run with the runtime's optimizations")
    path.write_bytes(model.SerializeToString())
    given = qd.load(path)
    if case.has_kernels:
        found = _run(export_model(given.module, given.ctx), case, "returned")
        for one, other in zip(case.wanted, found, strict=True):
            _near(one, other)
        case.wanted = found
    for target in TARGETS:
        better = qd.optimize(given, target)
        made = export_model(better.module, better.ctx)
        found = _run(made, case, f"{target} qdq")
        for feeds, one, other in zip(case.feeds, case.wanted, found, strict=True):
            met += _equal(case, given, better, feeds, one, other, target)
        kernels = export_model(better.module, better.ctx, form="qoperator")
        _run(kernels, case, f"{target} qoperator")
        if twice:
            again = qd.optimize(better, target)
            if str(again) != str(better):
                raise Failed("twice", f"{target}: fired {dict(again.ctx.remarks.fired())}")
    return met


def _run(model: onnx.ModelProto, case: Case, what: str) -> list[list[Any]]:
    from qdialect.errors import QError
    from qdialect.formats.onnx.write import OrtEngine

    data = model.SerializeToString()
    try:
        engine = OrtEngine(data, optimize=False)
        found = [list(engine.run(feeds).values()) for feeds in case.feeds]
    except QError as error:
        raise Failed("loads", f"{what}: {str(error)[:300]}") from None
    names = [output.name for output in case.model.graph.output]
    if engine.outputs != names:
        raise Failed("names", f"{what}: outputs {engine.outputs}, not {names}")
    if case.runs_optimized:
        try:
            OrtEngine(data, optimize=True).run(case.feeds[0])
        except QError as error:
            raise Failed("loads optimized", f"{what}: {str(error)[:300]}") from None
    return found


def _equal(
    case: Case,
    given: Any,
    better: Any,
    feeds: Arrays,
    wanted: list[Any],
    found: list[Any],
    what: str,
) -> list[str]:
    met: list[str] = []
    names = [output.name for output in case.model.graph.output]
    for a, b, name in zip(wanted, found, names, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Failed("bits", f"{what}: '{name}' is {b.dtype}{list(b.shape)}")
        if _same(a, b):
            continue
        if _undefined(case.model, feeds):
            met.append("not a number quantized")
        elif a.dtype.kind == "f" and np.array_equal(a, b, equal_nan=True):
            met.append("zeros of the other sign")
        elif (_is_near(a, b) or feeds is case.feeds[-1]) and _same_in_reference(
            given, better, feeds
        ):
            met.append("sums in another order")
        else:
            count = int((~((a == b) | ((a != a) & (b != b)))).sum())
            raise Failed("bits", f"{what}: '{name}' differs in {count} of {a.size} numbers")
    return met


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    return bool(
        np.array_equal(a, b, equal_nan=True) and not (np.signbit(a) ^ np.signbit(b))[a == a].any()
    )


def _is_near(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind != "f" or not a.size:
        return False
    sound = np.isfinite(a)
    largest = np.abs(a[sound]).max() if sound.any() else 0
    return bool(np.allclose(a, b, rtol=0, atol=SUMS * largest, equal_nan=True))


def _same_in_reference(given: Any, better: Any, feeds: Arrays) -> bool:
    """Whether the interpreter, which sums in one order, finds the same bits."""
    import qdialect as qd

    try:
        one, other = (list(qd.run(model, feeds).values()) for model in (given, better))
    except qd.QError:
        return False
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def _undefined(model: onnx.ModelProto, feeds: Arrays) -> bool:
    """Whether a number that is none is made an integer, which nobody defines."""
    from qdialect.errors import QError
    from qdialect.formats.onnx.write import OrtEngine

    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    read = [
        n.input[0]
        for n in model.graph.node
        if n.op_type in ("QuantizeLinear", "Cast", "DynamicQuantizeLinear")
    ]
    known = {output.name for output in model.graph.output}
    probe.graph.output.extend(
        onnx.ValueInfoProto(name=n) for n in dict.fromkeys(read) if n not in known
    )
    try:
        found = OrtEngine(probe.SerializeToString(), optimize=False).run(feeds)
    except QError:
        return False
    floats = [np.asarray(a) for n, a in found.items() if n in read]
    return any(a.dtype.kind == "f" and bool(np.isnan(a).any()) for a in floats)


def _near(wanted: list[Any], found: list[Any]) -> None:
    for a, b in zip(wanted, found, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Failed("meaning", f"{b.dtype}{list(b.shape)}, not {a.dtype}{list(a.shape)}")
        a, b = a.astype(np.float64), b.astype(np.float64)
        sound = np.isfinite(a) & np.isfinite(b)
        a, apart = a[sound], (a[sound] - b[sound])
        noise, steps = float((apart**2).sum()), float(np.abs(apart).max(initial=0))
        if noise > float((a**2).sum()) * 10 ** (-LEAST_DB / 10) + 1e-6 and steps > 1:
            raise Failed("meaning", f"up to {steps:g} off what the kernels give")


def failure(model: onnx.ModelProto, folder: Path, *args: Any) -> tuple[str, str]:
    """The kind of what came out ("" if all is well, "invalid"), and the words; `args` are
    those of `check_graph`."""
    from qdialect.errors import QError

    try:
        return "", ", ".join(dict.fromkeys(check_graph(model, folder, *args)))
    except Invalid as error:
        return "invalid", str(error)
    except Failed as error:
        return error.kind, str(error)
    except QError as error:
        kind = "refused" if type(error).__name__ != "PassFailure" else "crashed"
        return f"{kind} {error.code}", f"{type(error).__name__}: {str(error)[:300]}"
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "qdialect" in f.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        return f"crashed {type(error).__name__} at {place}", str(error).strip()[:300]


# -- many graphs ------------------------------------------------------------------------------


def _work(pipe: Connection) -> None:
    """A process that tries one graph after another: (seed, twice, optimized) comes; what it is
    about to do and, last, (kind, words, ops) go."""
    from random_onnx import random_graph

    with tempfile.TemporaryDirectory(prefix="fuzz") as name:
        while True:
            try:
                seed, *args = pipe.recv()
            except EOFError:
                return
            pipe.send(_DRAWN)
            model = random_graph(seed)
            pipe.send("")
            kind, words = failure(model, Path(name), *args, pipe.send)
            ops = Counter(node.op_type for node in model.graph.node)
            pipe.send((kind, words, ops))


class Worker:
    """A process with what it works on."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.seed: int | None = None
        self.stage = ""
        self.until = 0.0

    def give(self, seed: int, optimized: bool = True) -> None:
        self.seed, self.until = seed, time.monotonic() + SECONDS
        self.pipe.send((seed, seed % 4 == 0, optimized))

    def result(self) -> tuple[str, str, Counter[str]] | None:
        """What came of the graph, if that is what the process has to say."""
        said = self.pipe.recv()
        if isinstance(said, str):
            self.stage = said
            return None
        return said

    def end(self) -> None:
        self.process.kill()
        self.process.join()


@dataclass
class Tally:
    """What a run met."""

    graphs: int = 0
    nodes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, seed: int, kind: str, words: str, ops: Counter[str]) -> None:
        self.graphs += 1
        self.kinds[kind or "same"] += 1
        if kind in ("", "invalid"):
            self.met.update(words.split(", ") if words and not kind else ())
            self.ops.update(ops)
            self.nodes += ops.total()
        else:
            self.failed.append((seed, kind, words))
            print(f"seed {seed}: {kind}: {words}", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        lines = [f"{self.graphs} graphs of {len(self.ops)} kinds of ops, {self.nodes} nodes"]
        lines += [f"{count:7} {kind}" for kind, count in self.kinds.most_common()]
        lines += [f"{count:7} of the same: {what}" for what, count in self.met.most_common()]
        return "\n".join(lines)


def fuzz(seeds: Iterator[int], jobs: int = 1, until: float = float("inf")) -> Tally:
    """Try the graphs of seeds."""
    tally, workers = Tally(), [Worker() for _ in range(jobs)]
    for worker in workers:
        _next(worker, seeds, until)
    while busy := [worker for worker in workers if worker.seed is not None]:
        wait([worker.pipe for worker in busy], timeout=1.0)
        for index, worker in enumerate(workers):
            seed = worker.seed
            if seed is None:
                continue
            try:
                if worker.pipe.poll():
                    if (found := worker.result()) is not None:
                        tally.add(seed, *found)
                        _next(worker, seeds, until)
                elif time.monotonic() > worker.until:
                    tally.add(seed, "hung", f"more than {SECONDS:g} s", Counter())
                    worker.end()
                    workers[index] = Worker()
                    _next(workers[index], seeds, until)
            except EOFError:
                worker.end()
                workers[index] = Worker()
                if worker.stage == _RUNTIME_ALONE:  # the runtime's own doing
                    workers[index].give(seed, optimized=False)
                    continue
                kind = "invalid" if worker.stage == _DRAWN else "died"
                tally.add(seed, kind, f"exit code {worker.process.exitcode}", Counter())
                _next(workers[index], seeds, until)
    for worker in workers:
        worker.end()
    return tally


def _next(worker: Worker, seeds: Iterator[int], until: float) -> None:
    seed = next(seeds, None) if time.monotonic() < until else None
    worker.seed = None
    if seed is not None:
        worker.give(seed)


def keep_small(seed: int, kind: str, keep: Path, seconds: float) -> None:
    """Write the graph of a seed, made smaller."""
    from random_onnx import random_graph
    from reduce_model import reduced

    model = random_graph(seed)
    with tempfile.TemporaryDirectory(prefix="fuzz") as name:
        folder = Path(name)
        small = reduced(model, lambda m: failure(m, folder, kind == "twice")[0] == kind, seconds)
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
    parser.add_argument("--keep", type=Path, help="where to put graphs that failed, made smaller")
    parser.add_argument("--reduce", type=float, default=20.0, help="seconds for making one smaller")
    parser.add_argument("--try", dest="files", nargs="+", type=Path, help="these files")
    options = parser.parse_args(arguments)
    if options.files:
        return _try(options.files)
    seeds = iter(range(options.first, options.first + options.count))
    tally = fuzz(seeds, options.jobs, time.monotonic() + 60 * options.minutes)
    print(tally)
    kept: Counter[str] = Counter()
    for seed, kind, _ in tally.failed if options.keep else ():
        kept[kind] += 1
        if kept[kind] <= 5 and kind not in ("hung", "died"):
            keep_small(seed, kind, options.keep, options.reduce)
    return 1 if tally.failed else 0


def _try(files: Sequence[Path]) -> int:
    code = 0
    for path in files:
        with tempfile.TemporaryDirectory(prefix="fuzz") as name:
            kind, words = failure(onnx.load(path), Path(name), True)
        print(f"{path}: {kind or 'same'} {words}")
        code |= kind not in ("", "invalid")
    return code


if __name__ == "__main__":
    sys.exit(main())
