"""`models`: real quantized networks, from file to file.

Ours is `qd.load`, `qd.optimize`, `qd.save`. ONNX Runtime's own optimizer is what making a session
takes longer with all optimizations than with none. Other tools that rewrite ONNX graphs load,
rewrite and save the same file. All in the same rounds, one thread, processor time. The note
says how many nodes, and how many Q and DQ between ops, each leaves.
"""

# pyright: basic
from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

import qdialect as qd
from qdialect.passes import PASSES, load
from tests.support.tables import step
from tools.bench import corpus
from tools.bench.measure import session
from tools.bench.others import PINNED, environment, rewrite
from tools.bench.rows import Rounds, Row, Spread, alone, collecting_seldom, growth_of_peak, ratios

SECTION = "models"
RUNTIME = "ONNX Runtime's optimizer"
DEFAULT = ("ocr-cls", "ocr-det", "ocr-rec", "magika", "wake-word", "squeezenet", "resnet50")
STEPS = ("load", "optimize", "save")


def files(names: Sequence[str], configs: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """The models: of the corpus by name, or any by path."""
    for name in names:
        if name in corpus.SOURCES:
            for config in configs:
                source = corpus.SOURCES[name]
                yield f"{name} {config}", corpus.quantized_model(source, corpus.CONFIGS[config])
        else:
            yield Path(name).stem, Path(name)


def from_file_to_file(source: Path, target: Path) -> dict[str, float]:
    """Processor time of each step."""
    times = [time.process_time()]
    model = qd.load(source)
    times.append(time.process_time())
    model = qd.optimize(model, target="onnxruntime")
    times.append(time.process_time())
    qd.save(model, target)
    times.append(time.process_time())
    return {name: times[i + 1] - times[i] for i, name in enumerate(STEPS)}


def memory(source: Path, target: Path) -> int:
    """Bytes by which the process grows; in a process of its own."""
    for name in PASSES:
        load(name)()  # imports
    return growth_of_peak(lambda: from_file_to_file(source, target))


def runtime_optimizer(path: Path) -> float:
    """The shortest of a few sessions with all optimizations, minus that with none."""
    best = {True: math.inf, False: math.inf}
    for _ in range(3):
        for optimized in (True, False):
            start = time.process_time()
            session(path, optimized=optimized)
            best[optimized] = min(best[optimized], time.process_time() - start)
    return max(best[True] - best[False], 1e-6)


def interior_conversions(model: onnx.ModelProto) -> int:
    """Q and DQ between ops, not at the interface, nor of weights."""
    graph = model.graph
    outside = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    results = {v.name for v in graph.output}
    return sum(
        node.op_type in ("QuantizeLinear", "DequantizeLinear")
        and node.input[0] not in outside
        and not results & set(node.output)
        for node in graph.node
    )


def left(path: Path) -> str:
    model = onnx.load(path, load_external_data=False)
    return f"{len(model.graph.node)}/{interior_conversions(model)}"


def measured(case: str, source: Path, others: Path | None, rounds: Rounds) -> list[Row]:
    """All figures of one model."""
    ours: dict[str, list[float]] = {name: [] for name in STEPS}
    theirs: dict[str, list[float]] = {RUNTIME: []}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        outputs = {tool: Path(folder) / f"{tool}.onnx" for tool in ("ours", *PINNED)}
        from_file_to_file(source, outputs["ours"])  # imports
        for _ in rounds:
            theirs[RUNTIME].append(runtime_optimizer(source))
            for name, used in from_file_to_file(source, outputs["ours"]).items():
                ours[name].append(used)
            for tool in PINNED:
                if others is None or tool in failed:
                    continue
                try:
                    used = rewrite(others, tool, source, outputs[tool])
                    theirs.setdefault(tool, []).append(used)
                except RuntimeError as error:
                    failed[tool] = str(error)
                    theirs.pop(tool, None)
        done = ("ours", *(tool for tool in theirs if tool != RUNTIME))
        shown = {"as it is": source} | {tool: outputs[tool] for tool in done}
        note = "; ".join(f"{tool} {left(path)}" for tool, path in shown.items())
        note += "".join(f"; {tool}: {message}" for tool, message in failed.items())
        grown = alone(memory, source, outputs["ours"])
    whole = [math.fsum(used) for used in zip(*ours.values(), strict=True)]

    def row(name: str, times: list[float], against: dict[str, list[float]], note: str = "") -> Row:
        return Row(SECTION, case, 0, name, Spread.of(times), 0, ratios(times, against), note=note)

    size = source.stat().st_size
    runtime = {RUNTIME: theirs[RUNTIME]}
    return [
        row("load", ours["load"], {}),
        row("optimize", ours["optimize"], runtime),
        row("save", ours["save"], {}),
        row("from file to file", whole, theirs, note),
        Row(
            SECTION,
            case,
            0,
            "memory",
            Spread.of([float(grown)]),
            ratios={"the file": Spread.of([grown / size])},
            unit="bytes",
        ),
    ]


def rows(names: Sequence[str], configs: Sequence[str], rounds: Rounds) -> Iterator[Row]:
    """Every model."""
    with collecting_seldom():
        others: Path | None = None
        missing = ""
        try:
            with step("other tools"):
                others = environment(corpus.CACHE / "other-tools")
        except (RuntimeError, OSError) as error:
            missing = f"; {error}"
        for case, path in files(names, configs):
            with step(case):
                found = measured(case, path, others, rounds)
            yield from (replace(row, note=row.note + missing) if row.note else row for row in found)
