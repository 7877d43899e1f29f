"""`startup`: what commands cost before they do anything.

Each command is a process of its own, in turns with bare Python and with one that imports the
core of xDSL alone; processor time of the process. Whatever the environment says, Python may
keep what it has compiled: what pip installs is compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.bench.rows import Rounds, Row, Spread, ratios

SECTION = "startup"
BARE, CORE = "bare Python", "xDSL core"
GOALS = {BARE: 30.0}
"""Milliseconds above the baseline."""

_CORE = "import xdsl.context, xdsl.ir, xdsl.irdl, xdsl.dialects.builtin, xdsl.parser, xdsl.printer"
_TINY = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def _command(where: str, *arguments: str) -> list[str]:
    """What the script of a command does, without the script."""
    start = f"import sys; from qdialect.cli.{where} import main; sys.exit(main())"
    return [sys.executable, "-c", start, *arguments]


def commands(tiny: Path) -> dict[str, list[str]]:
    """What is timed, by name."""
    out = str(tiny.with_suffix(".out"))
    return {
        BARE: [sys.executable, "-c", "pass"],
        CORE: [sys.executable, "-c", _CORE],
        "qopt-opt --help": _command("opt", "--help"),
        "qopt-opt --version": _command("opt", "--version"),
        "qopt-opt --list-passes": _command("opt", "--list-passes"),
        "qopt --help": _command("qopt", "--help"),
        "qopt optimize --help": _command("qopt", "optimize", "--help"),
        "qopt-opt tiny.mlir": _command("opt", str(tiny), "-o", out),
        "qopt-opt tiny.mlir -p canonicalize": _command(
            "opt", str(tiny), "-p", "canonicalize", "-o", out
        ),
    }


def used(command: Sequence[str]) -> tuple[float, str]:
    """Processor time of a process and of what it starts, and what it says on standard error."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {said[:500]}")
    return usage.ru_utime + usage.ru_stime, said


def in_turns(kinds: Mapping[str, Sequence[str]], rounds: Rounds) -> dict[str, list[float]]:
    """Times of each command, round by round; the first round, which fills caches, is left out."""
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for name in kinds:
        used(kinds[name])
    for _ in range(rounds.most):
        for name, command in kinds.items():
            times[name].append(used(command)[0])
    return times


def rows(rounds: Rounds) -> Iterator[Row]:
    """Every command; the note is what it takes above bare Python."""
    with tempfile.TemporaryDirectory() as folder:
        tiny = Path(folder) / "tiny.mlir"
        tiny.write_text(_TINY, encoding="utf-8")
        times = in_turns(commands(tiny), rounds)
    for name, found in times.items():
        against = ratios(found, {what: times[what] for what in (BARE, CORE) if what != name})
        above = Spread.of([1e3 * (a - b) for a, b in zip(found, times[BARE], strict=True)])
        note = "+0 ms" if name == BARE else f"{above.median:+.0f} ms"
        yield Row(
            SECTION,
            "command",
            0,
            name,
            Spread.of(found),
            ratios=against,
            note=note,
            watched=name not in (BARE, CORE),
        )
