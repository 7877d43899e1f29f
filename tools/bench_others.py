"""Other tools that rewrite ONNX graphs, for `bench_models`: what they take and what they leave.

They live in an environment of their own in the cache, made when it is first needed. This file
is both sides: imported, it starts that environment's Python on itself and asks; run, it answers,
one line of JSON for each line of JSON on its standard input.
"""

# pyright: basic
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

PINNED = {
    "onnxslim": "onnxslim==0.1.98",
    "onnxsim": "onnxsim==0.8.1",
    "onnxoptimizer": "onnxoptimizer==0.4.2",
    "onnx-graphsurgeon": "onnx-graphsurgeon==0.6.1",
}


def environment(folder: Path) -> Path:
    """The Python of the environment; RuntimeError if it cannot be made."""
    python = folder / "bin" / "python"
    done = folder / "complete.txt"
    wanted = "\n".join((sys.version, *PINNED.values()))
    if not done.exists() or done.read_text() != wanted:
        commands = (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *PINNED.values(), "onnxruntime"],
        )
        for command in commands:
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                told = made.stderr.strip().splitlines()[-1:] or ["it says nothing"]
                raise RuntimeError(f"no environment for other tools: {told[0]}")
        done.write_text(wanted)
    return python


class Others:
    """The tools, running and waiting."""

    def __init__(self, folder: Path) -> None:
        command = [str(environment(folder)), str(Path(__file__).resolve())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def run(self, tool: str, source: Path, target: Path) -> float:
        """Processor time to load, rewrite and save; RuntimeError with the tool's own words."""
        assert self._process.stdin and self._process.stdout
        request = {"tool": tool, "source": str(source), "target": str(target)}
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError("crashed, or an earlier tool did")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["seconds"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def _rewritten(tool: str, model: Any) -> Any:
    if tool == "onnxslim":
        import onnxslim  # pyright: ignore[reportMissingImports]

        return onnxslim.slim(model)
    if tool == "onnxsim":
        import onnxsim  # pyright: ignore[reportMissingImports]

        return onnxsim.simplify(model, check_n=0)[0]
    if tool == "onnxoptimizer":
        import onnxoptimizer  # pyright: ignore[reportMissingImports]

        passes = onnxoptimizer.get_fuse_and_elimination_passes()
        return onnxoptimizer.optimize(model, passes)
    import onnx_graphsurgeon  # pyright: ignore[reportMissingImports]

    graph = onnx_graphsurgeon.import_onnx(model)
    graph.fold_constants().cleanup().toposort()
    return onnx_graphsurgeon.export_onnx(graph)


def _answer(request: dict[str, str]) -> dict[str, Any]:
    import onnx

    start = time.process_time()
    try:
        onnx.save(_rewritten(request["tool"], onnx.load(request["source"])), request["target"])
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
    return {"seconds": time.process_time() - start}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tools print is no answer
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
