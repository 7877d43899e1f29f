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


class _Broken(_Session):
    def __init__(self, source: Any, options: Any, **more: Any) -> None:
        level = options.graph_optimization_level
        kinds = {
            "all",
            "original" if isinstance(source, str) else "written",
            "optimized" if level == _real.GraphOptimizationLevel.ORT_ENABLE_ALL else "plain",
        }
        self._ends = set(os.environ["BROKEN_FOR"].split("+")) <= kinds
        if self._ends and os.environ["BROKEN_AT"] == "load":
            _end()
        super().__init__(source, options, **more)

    def _before_run(self) -> None:
        if self._ends:
            _end()

    def run(self, *given: Any, **more: Any) -> Any:
        self._before_run()
        return super().run(*given, **more)

    def run_with_iobinding(self, *given: Any, **more: Any) -> Any:
        self._before_run()
        return super().run_with_iobinding(*given, **more)


_real.InferenceSession = _Broken
