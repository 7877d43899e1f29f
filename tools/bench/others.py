"""Other tools, in environments of their own in the cache, made when they are first needed.

Those that rewrite ONNX graphs each rewrite a file in a new process; those that export and
quantize networks are called by `unseen.py` and `quantizers.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from qdialect.ir.weights import alone

PINNED = {
    "onnxslim": "onnxslim==0.1.98",
    "onnxsim": "onnxsim==0.8.1",
    "onnxoptimizer": "onnxoptimizer==0.4.2",
    "onnx-graphsurgeon": "onnx-graphsurgeon==0.6.1",
}

QUANTIZERS = {
    "torch": "torch==2.13.0",
    "onnxscript": "onnxscript==0.7.2",
    "nncf": "nncf==3.4.0",
    "onnx": "onnx==1.23.2",
    "onnxruntime": "onnxruntime==1.32.0",
}
"""What exports networks, and a quantizer of others."""

SMOOTH = {
    "neural-compressor": "neural-compressor==2.6",
    "onnx": "onnx<1.17",
    "onnxruntime": "onnxruntime==1.19.2",
    "numpy": "numpy<2",
    "six": "six",
}
"""What ONNX Runtime's SmoothQuant runs with."""

_TORCH = {"torch": "torch==2.14.1", "onnx": "onnx==1.23.2", "onnx2torch": "onnx2torch==1.5.15"}
MODULES = {
    "tico": _TORCH
    | {"torchao": "torchao==0.18.0", "tico": "tico==0.3.0", "transformers": "transformers"},
    "litert": _TORCH
    | {"litert-torch": "litert-torch==0.10.0", "ai-edge-quantizer": "ai-edge-quantizer==0.10.0"},
}
"""What quantizes modules of PyTorch, by environment."""

_REWRITES = {
    "onnxslim": "import onnxslim; made = lambda m: onnxslim.slim(m)",
    "onnxsim": "import onnxsim; made = lambda m: onnxsim.simplify(m, check_n=0)[0]",
    "onnxoptimizer": "import onnxoptimizer as o\n"
    "made = lambda m: o.optimize(m, o.get_fuse_and_elimination_passes())",
    "onnx-graphsurgeon": "import onnx_graphsurgeon as s\n"
    "made = lambda m: s.export_onnx(s.import_onnx(m).fold_constants().cleanup().toposort())",
}

_TIMED = """
import onnx, sys, time
start = time.process_time()
onnx.save(made(onnx.load(sys.argv[1])), sys.argv[2])
print(time.process_time() - start)
"""


def environment(folder: Path, pinned: Mapping[str, str] = PINNED) -> Path:
    """The Python of the environment with these, which one process makes while others wait;
    RuntimeError if it cannot be made."""
    python = folder / "bin" / "python"
    complete = folder / "complete.txt"
    contents = "\n".join((sys.version, *pinned.values()))
    commands = (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", *pinned.values(), "onnxruntime"],
    )
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder) as begin:
        # Those that use it need not wait for each other.
        if not _says(complete, contents):
            begin()
        if not _says(complete, contents):
            try:
                for command in commands:
                    run(command)
            except RuntimeError as error:
                raise RuntimeError(f"no environment for other tools: {error}") from None
            complete.write_text(contents)
    return python


def _says(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text


def rewrite(python: Path, tool: str, source: Path, target: Path) -> float:
    """Processor seconds to load, rewrite and save; RuntimeError with the tool's own words."""
    done = run([str(python), "-c", _REWRITES[tool] + _TIMED, str(source), str(target)])
    return float(done.split()[-1])


def run(command: Sequence[str], limit: float | None = None, **environment: str) -> str:
    """What a command prints; RuntimeError with its last words where it fails, or takes more than
    `limit` seconds."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=variables, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"given up after {limit} s") from None
    if done.returncode:
        raise RuntimeError(_error_line(done.stderr)[:120])
    return done.stdout


def _error_line(text: str) -> str:
    """The line that says what is wrong: notes may follow it."""
    lines = text.strip().splitlines() or ["it says nothing"]
    return next((line for line in lines if "error: " in line), lines[-1])
