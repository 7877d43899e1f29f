"""`bench.py profile`: where the time of the optimizing pipeline goes.

py-spy looks at a process that optimizes a graph or a model, 500 times a second, native frames
included. A look counts for the innermost frame of a package: what Python, its library and C do
is on behalf of whoever called it, but the garbage collector has a line of its own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from bench_cases import Case
from bench_passes import Setting, optimize
from bench_rows import Absent, Row, Spread, collecting_seldom

SECTION = "profile"
RATE = 500
TOP = 10
WHOLE = "the whole"

OWNERS = (
    ("garbage collector", r"^(gc_|_?PyGC|deduce_unreachable|visit_(decref|reachable))"),
    ("numpy", r"\((.*/)?numpy/"),
    ("protobuf, onnx", r"\((.*/)?(google/(_upb|protobuf)|onnx)/"),
    ("HiGHS", r"\((.*/)?highspy/"),
    ("xDSL core", r"\((.*/)?xdsl/"),
    ("qdialect", r"\((.*/)?qdialect/"),
)
"""Who a frame belongs to; a frame that belongs to nobody works for the one around it."""

_MARK = "work_to_profile"


def owner(frame: str) -> str | None:
    """Who a frame, "function (file:line)", belongs to."""
    return next((name for name, pattern in OWNERS if re.search(pattern, frame)), None)


def function(frame: str) -> str:
    """A frame without its line."""
    return re.sub(r":\d+\)$", ")", frame)


def attributed(stacks: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """Samples by owner and by function, of collapsed stacks: "outer;inner;innermost count"."""
    owners: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for line in stacks:
        stack, _, samples = line.rpartition(" ")
        frames = stack.split(";")
        marks = [i for i, frame in enumerate(frames) if frame.startswith(_MARK)]
        if not marks:
            continue
        inner = [(who, frame) for frame in frames[marks[0] :] if (who := owner(frame))]
        if not inner:
            continue
        owners[inner[-1][0]] += int(samples)
        python = [(who, f) for who, f in inner if ".py" in f]
        if python:
            who, frame = python[-1]
            also = "" if inner[-1][0] == who else f", in {inner[-1][0]}"
            functions[function(frame) + also] += int(samples)
    return owners, functions


def collected(arguments: Sequence[str]) -> list[str]:
    """The stacks of a run of this file."""
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if spy is None:
        raise Absent("no py-spy: pip install py-spy")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "stacks.txt"
        record = [spy, "record", "--native", "--format", "raw", "--rate", str(RATE)]
        command = [*record, "--output", str(output), "--", sys.executable, __file__, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not output.exists():
            told = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it says nothing"]
            raise Absent(f"py-spy: {told[0]}")
        return output.read_text(encoding="utf-8", errors="replace").splitlines()


def rows(works: Sequence[str], setting: Setting) -> Iterator[Row]:
    """Owners and the most expensive functions of each; "residual qdq 10000", or a model."""
    for work in works:
        owners, functions = attributed(collected([work, setting.target, setting.numerics]))
        total = max(owners.total(), 1)
        for kind, found in (("", owners.most_common()), ("own: ", functions.most_common(TOP))):
            for name, samples in found:
                share = {WHOLE: Spread.of([samples / total])}
                value = Spread.of([samples / RATE])
                yield Row(SECTION, work, 0, kind + name, value, ratios=share, watched=False)


def prepared(work: str, setting: Setting) -> Callable[[], object]:
    """What is profiled, everything before it done."""
    if work.endswith(".onnx"):
        import qdialect as qd

        model = qd.load(work)
        qd.optimize(model, setting.target, setting.numerics)  # imports
        return lambda: qd.optimize(model, setting.target, setting.numerics)
    name, _, size = work.rpartition(" ")
    module = Case(name, int(size)).build()
    optimize(Case(name, 50).build(), setting)  # imports
    return lambda: optimize(module, setting)


def work_to_profile(run: Callable[[], object]) -> None:
    """What is looked at: everything below this frame."""
    run()


if __name__ == "__main__":
    with collecting_seldom():
        work_to_profile(prepared(sys.argv[1], Setting(*sys.argv[2:])))
