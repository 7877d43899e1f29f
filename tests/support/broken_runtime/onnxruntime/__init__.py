"""ONNX Runtime, whose sessions end badly: `BROKEN_HOW` says how, `BROKEN_AT` whether when they are
loaded or run, and `BROKEN_FOR` for which models."""

import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

_HERE = str(Path(__file__).parents[1])
sys.path[:] = [folder for folder in sys.path if folder != _HERE]
del sys.modules["onnxruntime"]
_real: Any = import_module("onnxruntime")
_Session: Any = _real.InferenceSession


def _end() -> None:
    how = os.environ["BROKEN_HOW"]
    print("the last words of the runtime", file=sys.stderr, flush=True)
    if how == "hang":
        time.sleep(600)
    kept: list[bytearray] = []
    while how == "memory":
        kept.append(bytearray(1 << 26))
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), {"abort": 6, "segfault": 11}[how])


class _Broken:
    def __init__(self, source: Any, options: Any, **more: Any) -> None:
        level = options.graph_optimization_level
        copy = isinstance(source, str) and not source.endswith(".onnx")
        kinds = {
            "all",
            "" if copy else "original" if isinstance(source, str) else "written",
            "optimized" if level == _real.GraphOptimizationLevel.ORT_ENABLE_ALL else "plain",
        }
        self._ends = set(os.environ["BROKEN_FOR"].split("+")) <= kinds
        if self._ends and os.environ["BROKEN_AT"] == "load":
            _end()
        self._session = _Session(source, options, **more)

    def __getattr__(self, name: str) -> Any:
        if self._ends and name.startswith("run"):
            _end()
        return getattr(self._session, name)


_real.InferenceSession = _Broken
