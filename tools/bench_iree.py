"""Integer networks through IREE: our TOSA against IREE's own import of the same QDQ model.

    python tools/bench_iree.py MODEL.onnx ... [--rounds N]

Both are compiled for this machine's CPU by the same flags and timed in turns on one thread;
a ratio above 1 says that ours is faster. Agreement is with ONNX Runtime, its optimizations off:
the share of outputs that are equal, and the largest difference.
`iree-import-onnx` needs `onnx`, so it runs in this Python with IREE's packages on its path.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import qdialect as qd
from qdialect.cli.terminal import table
from qdialect.engines import tools
from qdialect.errors import QError
from qdialect.workflows.inputs import draw
from qdialect.workflows.lower import integer_model, ready_model
from qdialect.workflows.run_program import InEngine

Array = NDArray[Any]

FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O2",
)


@dataclass
class Side:
    """One way of compiling the model: its module, inputs and outputs."""

    module: Path
    function: str
    inputs: list[Path]
    outputs: list[Array]

    def milliseconds(self) -> float:
        """One measurement, of many calls."""
        said = _run(
            "iree-benchmark-module",
            *_call(self),
            "--benchmark_min_time=0.5s",
            "--benchmark_format=json",
        )
        time = r'"real_time": ([\d.e+-]+),\s+"cpu_time": [\d.e+-]+,\s+"time_unit": "(\w+)"'
        found = re.search(time, said)
        if found is None:
            raise QError(f"iree-benchmark-module said no time: {said[:200]}")
        return float(found[1]) * {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}[found[2]]


def _call(side: Side) -> list[str]:
    return [
        "--device=local-sync",
        f"--module={side.module}",
        f"--function={side.function}",
        *(f"--input=@{path}" for path in side.inputs),
    ]


def _run(name: str, *arguments: str) -> str:
    beside = Path(tools.command("iree-compile", "iree")).with_name(name)
    command = str(beside) if beside.exists() else tools.command(name, "iree")
    return tools.execute([command, *arguments], engine="iree", folder=Path.cwd())


def _compiled(text: Path) -> Path:
    module = text.with_suffix(".vmfb")
    _run("iree-compile", str(text), *FLAGS, "-o", str(module))
    return module


def _computed(side: Side, count: int, folder: Path) -> list[Array]:
    """What it answers, raw."""
    paths = [folder / f"{side.module.stem}-y{n}.npy" for n in range(count)]
    _run("iree-run-module", *_call(side), *(f"--output=@{path}" for path in paths))
    return [np.load(path) for path in paths]


def ours(model: qd.Model, inputs: dict[str, Array], folder: Path) -> Side:
    """The integer network in TOSA; floats are quantized and dequantized outside."""
    program = InEngine(ready_model(integer_model(model)), "iree")
    (folder / "ours.mlir").write_text(program.program.text, encoding="utf-8")
    paths: list[Path] = []
    for index, array in enumerate(program.codes(inputs)):
        paths.append(folder / f"ours-x{index}.npy")
        np.save(paths[-1], array)
    side = Side(_compiled(folder / "ours.mlir"), program.program.function, paths, [])
    raw = _computed(side, len(program.results), folder)
    side.outputs = list(program.named(raw).values())
    return side


def theirs(path: str, inputs: dict[str, Array], count: int, folder: Path) -> Side:
    """IREE's import of the ONNX model, QDQ and all."""
    packages = next(
        Path(tools.command("iree-compile", "iree")).parents[1].glob("lib/python*/site-packages")
    )
    text = folder / "theirs.mlir"
    command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", path, "-o", str(text)]
    known = os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{packages}{os.pathsep}{known}"},
    )
    if done.returncode:
        raise QError(f"iree-import-onnx: {done.stderr.strip().splitlines()[-1][:200]}")
    found = re.search(r"func\.func @([\w.$-]+|\"[^\"]+\")", text.read_text(encoding="utf-8"))
    assert found is not None
    paths: list[Path] = []
    for index, array in enumerate(inputs.values()):
        paths.append(folder / f"theirs-x{index}.npy")
        np.save(paths[-1], array)
    side = Side(_compiled(text), found[1].strip('"'), paths, [])
    side.outputs = _computed(side, count, folder)
    return side


def agreement(wanted: Sequence[Array], found: Sequence[Array]) -> str:
    """How near to ONNX Runtime."""
    pairs = [(w, f.reshape(w.shape)) for w, f in zip(wanted, found, strict=True)]
    equal = sum(int((w == f).sum()) for w, f in pairs) / sum(w.size for w, _ in pairs)
    apart = max(float(np.abs(w.astype("f8") - f.astype("f8")).max()) for w, f in pairs)
    return f"{equal:.1%} ({apart:.3g})"


def row(path: str, rounds: int) -> tuple[str, ...]:
    """One model."""
    model = qd.load(path)
    inputs = draw(model.function(), 0)
    wanted = list(qd.run(model, inputs, "onnxruntime").values())
    with tempfile.TemporaryDirectory(prefix="qdialect-bench-iree-") as place:
        folder = Path(place)
        name = Path(path).stem
        mine = ours(model, inputs, folder)
        try:
            other = theirs(path, inputs, len(wanted), folder)
        except QError as error:
            said = " ".join((error.message, *error.notes[1:2]))[:100]
            times = [mine.milliseconds() for _ in range(rounds)]
            return name, f"{median(times):.2f}", said, "", agreement(wanted, mine.outputs), ""
        times = [(mine.milliseconds(), other.milliseconds()) for _ in range(rounds)]
        return (
            name,
            f"{median(t for t, _ in times):.2f}",
            f"{median(t for _, t in times):.2f}",
            f"{median(b / a for a, b in times):.2f}",
            agreement(wanted, mine.outputs),
            agreement(wanted, other.outputs),
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    head = ("model", "ours, ms", "IREE's import, ms", "ratio", "ours = ORT", "theirs = ORT")
    rows: list[tuple[str, ...]] = [head]
    for path in given.models:
        try:
            rows.append(row(path, given.rounds))
        except QError as error:
            rows.append((Path(path).stem, error.message[:100], "", "", "", ""))
        print(table([head, rows[-1]], dict.fromkeys(range(1, 6), True)), file=sys.stderr)
    print(table(rows, dict.fromkeys(range(1, 6), True)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
