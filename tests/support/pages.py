"""Runs a page: writes the files it shows, gives its commands to a shell, keeps what they print.

    python -m tools.docs page docs/tutorial/faster-model.md [--write] [--keep FOLDER]

A page shows a file by naming it in the paragraph above the block: "In `core/target.py`, ...:". Its
commands are the lines of `console` blocks that begin with `$`, and what follows each is what it
printed. `--write` puts what they print now in its place.

A shell of this process's environment runs them, in an empty folder, where `STAND_INS` take the
place of commands that would make an environment.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
_FILE = re.compile(
    r"\b[Ii]n\s+`([\w./-]+\.(?:py|toml|mlir))`(?:(?!\n\n).)*?:\n\n```\w+\n(.*?)^```", re.M | re.S
)
_MARK = "--end of command, exit code"

_PIP = f"{shlex.quote(sys.executable)} -m pip install -qq --no-deps --no-warn-script-location"
STAND_INS = (
    (r"tools/demo\.sh", f"env PYTHONPATH={ROOT} {shlex.quote(sys.executable)} -m tools.demo"),
    (r"source \.venv/bin/activate", "true"),
    (r"pip install -e", f'{_PIP} --target "$SITE"'),
)
"""Commands that make an environment, or change one, and what is run for them: in this one, or
with a folder of packages that is on its paths."""


@dataclass(frozen=True)
class Step:
    """A command, what the page says it prints, and where that stands in the page."""

    command: str
    output: str
    start: int
    end: int


@dataclass(frozen=True)
class Ran:
    """What a command printed, on both streams, and its exit code."""

    step: Step
    output: str
    code: int


def files(text: str) -> list[tuple[str, str]]:
    """The files a page shows; of one that it shows in parts, the parts together."""
    found: dict[str, str] = {}
    for name, content in _FILE.findall(text):
        found[name] = found[name] + "\n\n" + content if name in found else content
    return list(found.items())


def write_files(text: str, folder: Path) -> None:
    """The files a page shows, in a folder."""
    for name, content in files(text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def steps(text: str) -> list[Step]:
    """The commands of a page with their outputs, in order."""
    found: list[Step] = []
    for block in _CONSOLE.finditer(text):
        at = block.start(1)
        for part in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.group(1), re.M):
            start, end = at + part.start(2), at + part.end(2)
            found.append(Step(part.group(1), part.group(2), start, end))
    return found


def run(text: str, folder: Path) -> list[Ran]:
    """The page's files and commands, in a folder."""
    write_files(text, folder)
    wanted = steps(text)
    lines = [f"{_stand_in(step.command)}\ncode=$?; echo; echo '{_MARK}' $code\n" for step in wanted]
    site = folder.resolve() / ".site"
    paths = [str(site / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    packages = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(paths),
        "PYTHONPATH": os.pathsep.join(packages),
        "SITE": str(site),
        "TERM": "dumb",
        "COLUMNS": "100",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", "-c", "exec 2>&1\n" + "".join(lines)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    parts = re.split(rf"\n?^{re.escape(_MARK)} (\d+)\n", done.stdout, flags=re.M)
    outputs, codes = parts[0:-1:2], parts[1::2]
    return [
        Ran(step, output if output.endswith("\n") or not output else output + "\n", int(code))
        for step, output, code in zip(wanted, outputs, codes, strict=True)
    ]


def _stand_in(command: str) -> str:
    command = re.sub(r"\s+#\s.*$", "", command)
    for pattern, other in STAND_INS:
        command = re.sub(rf"^{pattern}", lambda _, other=other: other, command)
    return command


_IF_FAST = "qdq, fewer rewrites"
"""A candidate that is tried where the first one took less than a second; it may be written."""


def alike(output: str) -> list[str]:
    """What must be the same wherever a page runs: the words, not the figures nor their order."""
    output = re.sub(rf", {_IF_FAST} [\d.]+ ms \([^)]*\)", "", output)
    # How far kernels are off is of the machine.
    output = re.sub(r"has the bits of the source|differs from the source in [^;\n]*", "", output)
    output = output.replace(", on random inputs: -i X.npz judges it on real ones", "")
    words = [
        re.sub(r"[-+]?\b\d[\d,.]*(?:e[-+]\d+)?\b|\binf\b", "N", line)
        for line in output.replace(_IF_FAST, "qdq").splitlines()
    ]
    return sorted({" ".join(line.split()) for line in words if line.strip()})


def written(text: str, ran: Sequence[Ran]) -> str:
    """The page with what its commands printed."""
    for result in reversed(ran):
        step = result.step
        text = text[: step.start] + result.output + text[step.end :]
    return text


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the commands of a page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", action="store_true", help="put what they print into the page")
    parser.add_argument("--keep", type=Path, help="the folder to run in (default: one that goes)")
    options = parser.parse_args(argv)
    page: Path = options.page
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        folder: Path = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        ran = run(text, folder)
    for result in ran:
        print(f"$ {result.step.command}\n{result.output}", end="")
        if result.code:
            print(f"[exit code {result.code}]")
    if options.write:
        page.write_text(written(text, ran), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
