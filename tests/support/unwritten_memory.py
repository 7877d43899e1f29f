"""Whether ONNX Runtime gives, of a model, memory that nobody wrote: results that change with what
fresh memory is filled with."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_SCRIPT = """
import pickle, sys
import onnxruntime
model, samples = pickle.load(sys.stdin.buffer)
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
options.enable_cpu_mem_arena = options.enable_mem_pattern = False
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model, options)
found = [session.run(None, feeds) for feeds in samples]
sys.stdout.buffer.write(pickle.dumps(found))
"""


def gives_unwritten_memory(model: bytes, samples: Sequence[Mapping[str, Any]]) -> bool:
    """Compare runs of a model, as it is written, with two fillings of memory (glibc's)."""
    found: list[bytes] = []
    for filling in ("85", "170"):
        environment = {**os.environ, "MALLOC_PERTURB_": filling, "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            input=pickle.dumps((model, [dict(feeds) for feeds in samples])),
            env=environment,
            capture_output=True,
            timeout=120,
        )
        found.append(done.stdout)
    return found[0] != found[1]
