"""What it takes to get to a first result: the start pages, followed by the letter.

    python -m tools.docs first-use [--document docs/reference/first-use.md]

Each page is followed in a fresh clone of this repository, with an empty home and nothing of the
caller's environment but PATH. Commands run as they are written, environments and all; what the
page takes for granted (a model) is what `tools/demo.sh --files` writes.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import pages as run_page
from tests.support.tables import put, step, table

ROOT = Path(__file__).parents[2]
PAGES = ("slow-model", "ir", "backend")
SETUP = ("tools/", "source ")
"""How commands begin that only prepare."""


@dataclass(frozen=True)
class Use:
    """One page followed: its commands, the seconds they took, and those of a processor."""

    page: str
    commands: int
    prepared: float
    first: float
    whole: float
    processor: float
    failed: tuple[str, ...]


def follow(page: str, model: Path, place: Path) -> Use:
    """A page in a clone, as somebody new."""
    clone, home = place / page, place / f"{page}-home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    text = (clone / "docs" / "start" / f"{page}.md").read_text(encoding="utf-8")
    run_page.write_files(text, clone)
    shutil.copy(model, clone / "model.onnx")
    environment = {"PATH": os.defpath + ":/usr/local/bin", "HOME": str(home)}
    shell = subprocess.Popen(
        ["bash"],
        cwd=clone,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert shell.stdin is not None and shell.stdout is not None
    start, first, prepared, failed = time.monotonic(), 0.0, 0.0, list[str]()
    used = _used()
    wanted = [found.command for found in run_page.steps(text)]
    for command in wanted:
        shell.stdin.write(f"{{ {command}\n}} >&2\necho $?\n")
        shell.stdin.flush()
        code, passed = shell.stdout.readline().strip(), time.monotonic() - start
        if code != "0":
            failed.append(command)
        if command.startswith(SETUP):
            prepared = prepared if first else passed
        elif not first:
            first = passed
    shell.stdin.close()
    shell.wait()
    whole = time.monotonic() - start
    return Use(page, len(wanted), prepared, first, whole, _used() - used, tuple(failed))


def _used() -> float:
    """Processor seconds of all that has ended so far."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


HEADER = (
    "page",
    "commands",
    "environment s",
    "first result s",
    "whole page s",
    "of processor s",
    "failed",
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Follow the start pages as somebody new.")
    parser.add_argument("--document", type=Path, help="put the table into this page")
    options = parser.parse_args(argv)
    uses: list[Use] = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        with step("a model"):
            made = [sys.executable, "-m", "tools.demo", "--files", str(place)]
            subprocess.run(made, check=True, stderr=subprocess.DEVNULL, cwd=ROOT)
        for page in PAGES:
            with step(page):
                uses.append(follow(page, place / "quantized.onnx", place))
    rows = [
        (
            f"[{use.page}](../start/{use.page}.md)",
            str(use.commands),
            f"{use.prepared:.0f}",
            f"{use.first:.0f}",
            f"{use.whole:.0f}",
            f"{use.processor:.0f}",
            "; ".join(use.failed) or "none",
        )
        for use in uses
    ]
    print(table(HEADER, rows))
    if options.document:
        put(options.document, "first_use", table(HEADER, rows))
    return 1 if any(use.failed for use in uses) else 0


if __name__ == "__main__":
    sys.exit(main())
