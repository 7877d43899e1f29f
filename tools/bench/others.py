"""Other tools that rewrite ONNX graphs: what they take and what they leave.

They are in an environment of their own in the cache, made when it is first needed; each rewrites
a file in a new process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PINNED = {
    "onnxslim": "onnxslim==0.1.98",
    "onnxsim": "onnxsim==0.8.1",
    "onnxoptimizer": "onnxoptimizer==0.4.2",
    "onnx-graphsurgeon": "onnx-graphsurgeon==0.6.1",
}

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


def environment(folder: Path) -> Path:
    """The Python of the environment; RuntimeError if it cannot be made."""
    python = folder / "bin" / "python"
    complete = folder / "complete.txt"
    contents = "\n".join((sys.version, *PINNED.values()))
    if not complete.exists() or complete.read_text() != contents:
        commands = (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *PINNED.values(), "onnxruntime"],
        )
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"no environment for other tools: {_last_line(done.stderr)}")
        complete.write_text(contents)
    return python


def rewrite(python: Path, tool: str, source: Path, target: Path) -> float:
    """Processor seconds to load, rewrite and save; RuntimeError with the tool's own words."""
    done = subprocess.run(
        [str(python), "-c", _REWRITES[tool] + _TIMED, str(source), str(target)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise RuntimeError(_last_line(done.stderr)[:120])
    return float(done.stdout.split()[-1])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]
