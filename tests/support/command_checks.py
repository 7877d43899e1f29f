"""What must hold of `qopt optimize --race 0 --numerics exact` on any ONNX graph, with ONNX Runtime
as the judge.

The command ends by itself, in time and in little memory, with exit code 0, and leaves no pass out;
what it writes is loaded and gives the bits of its source, the runtime's optimizations off, on the
inputs of `graph_checks` and on others whose dynamic extents are 0, 1 and 7. With optimizations on
it is loaded and is as near to the source without them as the source with them is.
"""

# pyright: basic
from __future__ import annotations

import re
import signal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.support.damaged_models import TOO_LONG, command
from tests.support.graph_checks import (
    Case,
    Failed,
    Stage,
    equal,
    sums_saturate,
    undefined,
    whole_failure,
)
from tests.support.unwritten_memory import gives_unwritten_memory

FLAGS = ("--race", "0", "--numerics", "exact", "--quiet")
MEGABYTES, SECONDS = 6000, 60
DEFAULT = "what was written with optimizations"
FARTHER_DB = 20.0
"""With optimizations the error of what was written may be so much more than that of the source:
roundings of the runtime's kernels go either way."""


def command_failure(
    model: onnx.ModelProto,
    folder: Path,
    optimized: bool = True,
    on_stage: Stage = lambda _: None,
    fresh: bool = False,
) -> tuple[str, str]:
    """The kind of what came out ("" if all is well, "invalid"), and the words. `fresh`: the
    command runs in a process of its own that imports everything anew."""
    return whole_failure(lambda: _written_memory(model, folder, optimized, on_stage, fresh))


def _written_memory(model: onnx.ModelProto, *more: Any) -> list[str]:
    """What was met (see `_checked`); also where the results are of memory that nobody wrote."""
    try:
        return _checked(model, *more)
    except Failed as error:
        if error.kind not in ("bits", "default") and not error.kind.startswith("left out"):
            raise
        feeds = Case.of(model, False, extents=True).feeds
        if not gives_unwritten_memory(model.SerializeToString(), feeds):
            raise
        return [f"{error.kind}: the runtime gives memory that nobody wrote"]


def _checked(
    model: onnx.ModelProto, folder: Path, optimized: bool, on_stage: Stage, fresh: bool
) -> list[str]:
    import qdialect as qd
    from qdialect.errors import QError
    from qdialect.plugins.onnx.write import OrtEngine

    case = Case.of(model, optimized, on_stage, extents=True)
    source, result = folder / "m.onnx", folder / "out.onnx"
    result.unlink(missing_ok=True)
    source.write_bytes(model.SerializeToString())
    code, said = command(
        ["optimize", str(source), "-o", str(result), *FLAGS], MEGABYTES, SECONDS, fresh
    )
    line = next((s for s in said.splitlines() if s.strip()), "").replace(str(source), "m.onnx")
    if code:
        raise Failed(_ended(code, line), said[-1500:] if code == 70 else line[:300])
    met = [] if case.runs_optimized else ["does not run with the runtime's optimizations"]
    try:
        engine = OrtEngine(result, optimize=False)
        found = [list(engine.run(feeds).values()) for feeds in case.feeds]
    except QError as error:
        raise Failed("loads", str(error)[:300]) from None
    if engine.outputs != [output.name for output in model.graph.output]:
        raise Failed("names", f"outputs {engine.outputs}")
    models = cache(lambda: (qd.load(source), qd.load(result)))
    for feeds, one, other in zip(case.feeds, case.wanted, found, strict=True):
        met += equal(case, models, feeds, one, other, "off")
    if case.runs_optimized:
        on_stage(DEFAULT)
        _default(case, source, result)
        on_stage("")
    if "left out:" in said:
        what = (
            "all passes"
            if "left out: all passes" in said
            else ("the whole model" if "left out: the whole model" in said else "some")
        )
        if "differs by" in said and sums_saturate(*models()):
            met.append(f"left out {what} as sums saturate in pairs")
        elif "differs by" in said and any(undefined(model, feeds) for feeds in case.feeds):
            met.append(f"left out {what} as casts give what nobody defines")
        else:
            raise Failed(f"left out {what}", line[:300])
    return met


def _ended(code: int, line: str) -> str:
    if code in TOO_LONG:
        return "hung"
    if code < 0:
        return f"died of {signal.Signals(-code).name}"
    found = re.search(r"\[([a-z-]+)\]", line)
    return {1: "refused", 70: "crashed"}.get(code, f"exit code {code}") + (
        f" {found[1]}" if found else ""
    )


def _default(case: Case, source: Path, result: Path) -> None:
    """With optimizations what was written is as good as its source."""
    from qdialect.errors import QError
    from qdialect.plugins.onnx.write import OrtEngine

    before, after = OrtEngine(source, optimize=True), None
    for feeds, wanted in zip(case.feeds, case.wanted, strict=True):
        try:
            ours = list(before.run(feeds).values())
        except QError:
            continue
        try:
            after = after or OrtEngine(result, optimize=True)
            found = list(after.run(feeds).values())
        except QError as error:
            raise Failed("loads optimized", str(error)[:300]) from None
        for exact, one, other in zip(wanted, ours, found, strict=True):
            exact, one, other = (np.asarray(a) for a in (exact, one, other))
            if other.shape != exact.shape or other.dtype != exact.dtype:
                if one.shape == exact.shape and one.dtype == exact.dtype:
                    raise Failed("default", f"is {other.dtype}{list(other.shape)}")
                continue
            limit = 10 ** (FARTHER_DB / 20) * _apart(exact, one)
            size = 1e-3 * float(np.abs(_floats(exact)).max(initial=0))
            far_off = _apart(exact, other) > max(limit, size, exact.dtype.kind in "iu")
            if far_off and not undefined(case.model, feeds):
                far = f"{_apart(exact, other):.3g} off, and {_apart(exact, one):.3g} before"
                raise Failed("default", far)


def _floats(a: Any) -> np.ndarray:
    a = a.astype(np.float64)
    return a[np.isfinite(a)]


def _apart(a: Any, b: Any) -> float:
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float(apart[np.isfinite(apart)].max(initial=0))
