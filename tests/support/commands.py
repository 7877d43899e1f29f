"""Running our commands in process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qdialect.cli.opt import main as qopt_opt
from qdialect.cli.qopt import main as qopt
from qdialect.cli.translate import main as qopt_translate

__all__ = ["Main", "Result", "call", "qopt", "qopt_opt", "qopt_translate"]

Main = Callable[[Sequence[str]], int]


@dataclass
class Result:
    """Exit code and what was written."""

    code: int
    out: str
    err: str


def call(main: Main, *argv: str, stdin: str | bytes = "") -> Result:
    """Run a command with text as standard input."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(data), "utf-8")
    sys.stdout = io.TextIOWrapper(out, "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(err, "utf-8", write_through=True)
    try:
        code = main(argv)
        sys.stdout.flush()
        sys.stderr.flush()
        return Result(code, out.getvalue().decode(), err.getvalue().decode())
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
