"""Commands in a terminal of their own, as somebody who sits before it sees them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_in_terminal(*argv: str, cwd: Path, **env: str) -> tuple[int, str]:
    """The exit code of `qopt ARGV`, and everything it wrote to its terminal."""
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "TERM")}
    environment |= {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "80"} | env
    with subprocess.Popen(
        [sys.executable, "-m", "qdialect", *argv],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env=environment,
    ) as process:
        os.close(theirs)
        told = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            told += piece
    os.close(ours)
    return process.returncode, told.decode("utf-8", errors="replace").replace("\r\n", "\n")
