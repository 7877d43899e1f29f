"""Float networks as .tflite and .circle files of several tools: who converts, and what it gives.

FOLDER has a folder for each network (`litert_nets`, `litert_makers/digits.py`), into which other
tools, in environments of their own, have put their files (`litert_makers`): `--environments` names
a folder of such environments (`torch`, `onnx2tf`, `tico`), and missing files are made then.  Ours
are made here.  All files of a network run on the same test samples and are timed in turns in LiteRT
with XNNPACK on one thread; ratios are to the float file of litert-torch (of onnx2tf for networks
of ONNX).  Cosine, dB and first place are those of the worst output against the float network in
ONNX Runtime.  A Circle file runs with the header of TFLite.  `vela` names the compiler for
Ethos-U: the share of multiplications that it puts on the NPU, and its estimate of cycles.

    python -m tools.bench litert-peers FOLDER --environments /envs --json peers.json
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import argparse
import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.tables import put, step, table
from tools.bench.litert_index import builtin_names
from tools.bench.litert_run import Job, known_json, nearness, run_jobs, stored_samples

MAKERS = Path(__file__).parent / "litert_makers"
OURS = {
    "ours float": ("optimize",),
    "ours s8": ("quantize", "--target", "litert"),
    "ours s8, minmax": ("quantize", "--target", "litert", "--calibration", "minmax"),
    "ours circle": ("quantize", "--target", "circle"),
}
"""Our files, and the command that makes each."""
THEIRS = {
    "of_torch.py": (
        "torch",
        ("litert-torch", "litert-torch-nhwc", "aeq-s8", "aeq-s16", "aeq-dynamic8", "pt2e"),
    ),
    "of_onnx.py": ("onnx2tf", ("onnx2tf", "onnx2tf-s8")),
    "of_tico.py": ("tico", ("tico", "tico-ptq", "tico-pt2e")),
}
"""By program: the environment it needs, and what it makes."""
TOOLS = (*(tool for _, tools in THEIRS.values() for tool in tools), *OURS)
BASES = ("litert-torch", "onnx2tf")
ETHOS = "ethos-u55-128"


@dataclass
class File:
    """What one tool made of one network; `why` says why there is nothing, `runs` why LiteRT does
    not run it."""

    why: str = ""
    runs: str = ""
    seconds: float = math.nan
    ops: int = 0
    casts: int = 0
    transposes: int = 0
    floats: int = 0
    """Ops with a float result, DEQUANTIZE left out."""
    kilobytes: float = math.nan
    milliseconds: float = math.nan
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    cosine: float = math.nan
    decibels: float = math.nan
    first: float = math.nan
    on_npu: float | None = None
    """The share of multiplications; None if not compiled."""
    cycles: float = math.nan
    npu: str = ""


@dataclass
class Row:
    """One network."""

    net: str
    samples: int = 0
    files: dict[str, File] = field(default_factory=dict)


# -- files ---------------------------------------------------------------------------------------


def as_tflite(content: bytes) -> bytes:
    """A Circle file with TFLite's header: the identifier, version 3, and opcodes that old readers
    read.  ValueError where it has an op that only Circle has."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    buffer = bytearray(content)
    if buffer[4:8] == b"TFL3":
        return content
    buffer[4:8] = b"TFL3"
    model: Any = schema.ModelT.InitFromPackedBuf(buffer, 0)
    for code in model.operatorCodes:
        if code.builtinCode < 0:
            raise ValueError(f"op {code.builtinCode}, of Circle only")
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    model.version = 3
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def multiplications(path: Path) -> int:
    """Of convolutions and products with matrices, as shapes in the file say."""
    return sum(count for _, count in _products(path))


def _products(path: Path) -> list[tuple[str, int]]:
    model, names = _read(path)
    found = []
    for graph in model.subgraphs:
        for op in (op for op in graph.operators or () if len(op.outputs)):
            name = names[_code(model, op)]
            shapes = [graph.tensors[i].shape for i in op.inputs if i >= 0]
            out = np.prod(graph.tensors[op.outputs[0]].shape, dtype=np.int64)
            if any(shape is None or not len(shape) for shape in shapes[:2]):
                continue
            if name in ("CONV_2D", "CONV_3D", "FULLY_CONNECTED"):
                count = out * np.prod(shapes[1][1:], dtype=np.int64)
            elif name == "DEPTHWISE_CONV_2D":
                count = out * np.prod(shapes[1][1:3], dtype=np.int64)
            elif name == "BATCH_MATMUL":
                count = out * shapes[0][-1]
            elif name == "TRANSPOSE_CONV":
                count = np.prod(shapes[2], dtype=np.int64) * np.prod(
                    (*shapes[1][:1], *shapes[1][1:3]), dtype=np.int64
                )
            else:
                continue
            found.append((name, int(count)))
    return found


def _read(path: Path) -> tuple[Any, dict[int, str]]:
    from ai_edge_litert import schema_py_generated as schema

    content = bytearray(path.read_bytes())
    content[4:8] = b"TFL3"
    return schema.ModelT.InitFromPackedBuf(content, 0), builtin_names()


def _code(model: Any, op: Any) -> int:
    code = model.operatorCodes[op.opcodeIndex]
    return max(code.builtinCode, code.deprecatedBuiltinCode)


def count(path: Path, into: File) -> None:
    """What a file consists of."""
    model, names = _read(path)
    kinds: Counter[str] = Counter()
    for graph in model.subgraphs:
        for op in (op for op in graph.operators or () if len(op.outputs)):
            name = names.get(_code(model, op), "?")
            kinds[name] += 1
            into.floats += name != "DEQUANTIZE" and graph.tensors[op.outputs[0]].type == 0
    into.ops = kinds.total()
    into.casts = kinds["QUANTIZE"] + kinds["DEQUANTIZE"]
    into.transposes = kinds["TRANSPOSE"]
    into.kilobytes = path.stat().st_size / 1e3


def compile_for_npu(vela: Path, path: Path, into: File) -> None:
    """The share of multiplications that the compiler puts on the NPU, and its cycles."""
    with tempfile.TemporaryDirectory() as temporary:
        command = [str(vela), str(path), "--accelerator-config", ETHOS, "--output-dir", temporary]
        command += ["--show-cpu-operations"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            into.npu = "no end in 300 s"
            return
        said = done.stdout + done.stderr
        summaries = sorted(Path(temporary).glob("*summary*.csv"))
        if done.returncode or not summaries:
            words = said.partition("Compilation failed: ")[2] or said[-300:] or "no summary"
            into.npu = " ".join(words.split())[:160]
            return
        with summaries[0].open() as stream:
            row = next(csv.DictReader(stream))
        into.cycles = float(row["cycles_total"])
        compiled = sorted(Path(temporary).glob("*_vela.tflite"))
        total, left = multiplications(path), multiplications(compiled[0]) if compiled else 0
        into.on_npu = 1 - left / total if total else None
        on_cpu = re.search(r"CPU operators = (\d+)", said)
        if on_cpu and on_cpu[1] != "0":
            into.npu = f"{on_cpu[1]} ops on the CPU"


# -- making --------------------------------------------------------------------------------------


def make_theirs(place: Path, environments: Path | None, tools: Sequence[str]) -> None:
    """Let other tools make what is missing; what cannot be made has a JSON file that says why."""
    for program, (environment, made) in THEIRS.items():
        source = "float.onnx" if program == "of_onnx.py" else "float.pt2"
        missing = [tool for tool in made if tool in tools and not (place / f"{tool}.json").exists()]
        if not missing or environments is None or not (place / source).exists():
            continue
        python = environments / environment / "bin" / "python"
        if not python.exists():
            continue
        command = [str(python), "-P", str(MAKERS / program), str(place), *missing]
        variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        variables |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        with step(f"{place.name}: {', '.join(missing)}"):
            subprocess.run(command, capture_output=True, timeout=3000, env=variables, check=False)


def make_ours(place: Path, tool: str) -> None:
    """One file of ours, by the command line, as a user makes it."""
    path = place / f"{tool.replace(', ', '-').replace(' ', '-')}"
    target = path.with_suffix(".circle" if "circle" in tool else ".tflite")
    source = next(place / name for name in ("float.pt2", "float.onnx") if (place / name).exists())
    command, *flags = OURS[tool]
    with tempfile.TemporaryDirectory() as temporary:
        if command == "quantize":
            names, rows = _ports(source), stored_samples(place, "c")
            data = Path(temporary) / "data.npz"
            stored: dict[str, Any] = {
                n: np.concatenate([row[i] for row in rows]) for i, n in enumerate(names)
            }
            np.savez(data, **stored)
            flags += ["--data", str(data)]
        start = time.perf_counter()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "qdialect.cli.qopt",
                command,
                str(source),
                *flags,
                "--time=0" if command == "quantize" else "--race=0",
                "-o",
                str(target),
            ],
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
    why = ""
    if done.returncode or not target.exists():
        target.unlink(missing_ok=True)
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["nothing made"]
        why = lines[0][-200:]
    seconds = round(time.perf_counter() - start, 2)
    path.with_suffix(".json").write_text(json.dumps({"seconds": seconds, "why": why}))


def _ports(source: Path) -> list[str]:
    import qdialect as qd
    from qdialect.interpreter.machine import argument_names

    model = qd.load(source)
    return list(argument_names(model.function()))


# -- rows ------------------------------------------------------------------------------------------


def row(place: Path, tools: Sequence[str], options: argparse.Namespace) -> Row:
    """One network, with whatever files there are."""
    make_theirs(place, options.environments, tools)
    for tool in (t for t in tools if t in OURS):
        stem = tool.replace(", ", "-").replace(" ", "-")
        if tool in options.again or not (place / f"{stem}.json").exists():
            with step(f"{place.name}: {tool}"):
                make_ours(place, tool)
    found = Row(place.name)
    samples = stored_samples(place, "t", options.samples)
    found.samples = len(samples)
    reference = run_jobs([Job("float", place / "float.onnx", "onnxruntime")], samples)["float"]
    if reference.why:
        raise RuntimeError(f"{place.name}: the float network does not run: {reference.why}")
    shapes = [value.shape for value in reference.outputs[0]]
    jobs: list[Job] = []
    with tempfile.TemporaryDirectory() as temporary:
        for tool in sorted(tools, key=lambda t: t not in BASES):
            stem = tool.replace(", ", "-").replace(" ", "-")
            said = known_json(place / f"{stem}.json")
            file = found.files[tool] = File(said.get("why", ""), seconds=said.get("seconds", 0.0))
            paths = [place / f"{stem}{end}" for end in (".tflite", ".circle")]
            path = next((p for p in paths if p.exists()), None)
            if path is None:
                file.why = file.why or "not made"
                continue
            count(path, file)
            if path.suffix == ".circle":
                clone = Path(temporary) / f"{stem}.tflite"
                try:
                    clone.write_bytes(as_tflite(path.read_bytes()))
                except ValueError as error:
                    file.runs = str(error)
                    continue
                path = clone
            jobs.append(Job(tool, path))
            if options.vela is not None:
                compile_for_npu(options.vela, path, file)
        ran = run_jobs(jobs, samples, seconds=options.seconds, shapes=shapes) if jobs else {}
    for tool, result in ran.items():
        file = found.files[tool]
        file.runs = result.why
        if not result.why:
            near = nearness(reference.outputs, result.outputs)
            file.cosine, file.decibels, file.first = near.cosine, near.decibels, near.first
            file.milliseconds, file.ratio = result.milliseconds, result.ratio
            file.low, file.high = result.low, result.high
    return found


HEADER = (
    "network",
    "file",
    "ops",
    "Q/DQ",
    "transposes",
    "float results",
    "kB",
    "time / float",
    "cosine",
    "dB",
    "first",
    "on NPU",
    "k cycles",
)


def cells(name: str, tool: str, file: File) -> tuple[str, ...]:
    """A line of the table."""
    if file.why:
        return (
            name,
            tool,
            "",
            "",
            "",
            "",
            "",
            f"none: {file.why[:70]}".replace("|", "/"),
            *[""] * 5,
        )
    counts = (file.ops, file.casts, file.transposes, file.floats)
    ratio = f"{file.ratio:.2f} ({file.milliseconds:.3g} ms)"
    if file.runs:
        ratio = f"LiteRT: {file.runs[:70]}".replace("|", "/")
    npu = f"{100 * file.on_npu:.0f} %" if file.on_npu is not None else ""
    cycles = "" if math.isnan(file.cycles) else f"{file.cycles / 1e3:.4g}"
    near = (
        ("", "", "")
        if file.runs
        else (f"{file.cosine:.5f}", f"{file.decibels:.1f}", f"{100 * file.first:.0f} %")
    )
    return (
        name,
        tool,
        *map(str, counts),
        f"{file.kilobytes:.4g}",
        ratio,
        *near,
        npu or file.npu[:40],
        cycles,
    )


def report(rows: Sequence[Row]) -> str:
    """The tables: each file, and each tool over all networks."""
    lines = [
        cells(row.net if not i else "", tool, file)
        for row in rows
        for i, (tool, file) in enumerate(row.files.items())
    ]
    totals = []
    for tool in TOOLS:
        files = [row.files[tool] for row in rows if tool in row.files]
        made = [f for f in files if not f.why]
        good = [f for f in made if not f.runs]
        if not files:
            continue
        ratios = [f.ratio for f in good if f.ratio > 0]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
        dbs = sorted(f.decibels for f in good if not math.isnan(f.decibels))
        npu = [f.on_npu for f in made if f.on_npu is not None]
        totals.append(
            (
                tool,
                f"{len(made)} of {len(files)}",
                str(len(good)),
                str(sum(f.ops for f in made)),
                str(sum(f.casts for f in made)),
                str(sum(f.transposes for f in made)),
                f"{mean:.2f}",
                f"{dbs[len(dbs) // 2]:.1f}" if dbs else "",
                f"{dbs[0]:.1f}" if dbs else "",
                f"{100 * sum(npu) / len(npu):.0f} %" if npu else "",
            )
        )
    header = (
        "tool",
        "converts",
        "LiteRT runs",
        "ops",
        "Q/DQ",
        "transposes",
        "time / float, geometric mean",
        "median dB",
        "worst dB",
        "on NPU",
    )
    return "\n\n".join((table(header, totals), table(HEADER, lines)))


def read_figures(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    rows = json.loads(path.read_text())
    return [Row(**r | {"files": {t: File(**f) for t, f in r["files"].items()}}) for r in rows]


def main(arguments: Sequence[str] | None = None) -> int:
    """The tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nets", nargs="+", help="default: all that are in the folder")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--environments", type=Path, help="where those of other tools are")
    parser.add_argument("--vela", type=Path, help="the compiler for Ethos-U")
    parser.add_argument("--again", nargs="*", default=[], help="tools of ours to call again")
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=8.0, help="of timing for each network")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="figures to add rows of")
    parser.add_argument("--document", type=Path, help="put the tables there, between marks")
    options = parser.parse_args(arguments)
    rows = [r for path in options.known if path.exists() for r in read_figures(path)]
    names = options.nets or sorted(p.parent.name for p in options.folder.glob("*/samples.npz"))
    for name in (n for n in names if n not in {r.net for r in rows}):
        with step(name):
            try:
                rows.append(row(options.folder / name, options.tools, options))
            except Exception as error:  # one network; the others go on
                print(f"{name}: {str(error)[:200]}", file=sys.stderr)
                continue
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    text = report(rows)
    print(text)
    if options.document is not None:
        put(options.document, "litert_peers", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
