"""Finding and running the commands of engines.

A command is looked for, in this order: the environment variable `QDIALECT_<COMMAND>` (upper
case, `-` as `_`), PATH, beside the running Python and in its packages, and in the engine's
environment as `qopt engines install` makes it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from qdialect.errors import InputError

_TIMEOUT = 1200
_SHOWN = 12


def home() -> Path:
    """Where engines have their environments: `QDIALECT_ENGINES`, or in the user's cache."""
    given = os.environ.get("QDIALECT_ENGINES")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "qdialect" / "engines"


def find(command: str, engine: str) -> str | None:
    """The path of a command, or None."""
    given = os.environ.get("QDIALECT_" + command.upper().replace("-", "_"))
    if given:
        return given
    found = shutil.which(command)
    if found:
        return found
    own = home() / engine
    folders = [
        Path(sys.executable).parent,
        Path(sysconfig.get_paths()["purelib"]) / "mlir" / "bin",
        own / "bin",
        own / "Scripts",
        *own.glob("lib/python*/site-packages/mlir/bin"),
    ]
    for folder in folders:
        if (folder / command).exists():
            return str(folder / command)
    return None


def command(name: str, engine: str) -> str:
    """The path of a command; InputError (`no-engine`) that says how to get it."""
    found = find(name, engine)
    if found is None:
        raise InputError(
            f"engine {engine} needs '{name}', which is not installed",
            code="no-engine",
            notes=(f"install it with: qopt engines install {engine}",),
        )
    return found


def execute(arguments: Sequence[str], *, engine: str, folder: Path) -> str:
    """Run a command in `folder`; its standard output. InputError (`engine-failed`) with
    the command and what it said."""
    try:
        done = subprocess.run(
            list(arguments),
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"engine {engine} did not finish in {_TIMEOUT} s",
            code="engine-failed",
            notes=(f"command: {' '.join(arguments)}",),
        ) from None
    except OSError as error:
        raise InputError(
            f"engine {engine} cannot be started: {error.strerror}",
            code="engine-failed",
            notes=(f"command: {' '.join(arguments)}",),
        ) from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        cut = [line[:400] for line in said[:_SHOWN]]
        raise InputError(
            f"engine {engine} failed (exit code {done.returncode})",
            code="engine-failed",
            notes=(f"command: {' '.join(arguments)}", *cut),
        )
    return done.stdout
