"""Finding and running the commands of engines.

A command is looked for, in this order: the environment variable `QDIALECT_<COMMAND>` (upper
case, `-` as `_`), PATH, beside the running Python and in its packages, and in the engine's
environment as `qopt engines install` makes it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path

from qdialect.errors import InputError, UsageError, printable

_TIMEOUT = 1200.0
_SHOWN, _WIDTH = 12, 400


def home() -> Path:
    """Where engines have their environments: `QDIALECT_ENGINES`, or in the user's cache."""
    setting = os.environ.get("QDIALECT_ENGINES")
    if setting:
        return Path(setting)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "qdialect" / "engines"


def find(command: str, engine: str) -> str | None:
    """The path of a command, or None."""
    setting = os.environ.get("QDIALECT_" + command.upper().replace("-", "_"))
    if setting:
        return setting
    path = filter(os.path.isabs, os.get_exec_path())  # not the current folder
    found = shutil.which(command, path=os.pathsep.join(path))
    if found:
        return found
    environment = home() / engine
    folders = [
        Path(sys.executable).parent,
        Path(sysconfig.get_paths()["purelib"]) / "mlir" / "bin",
        environment / "bin",
        environment / "Scripts",
        *environment.glob("lib/python*/site-packages/mlir/bin"),
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


@contextmanager
def workspace(engine: str) -> Generator[Path]:
    """A folder for what an engine reads and writes: removed in the end, or, in the folder
    that `QDIALECT_ENGINE_FILES` names, kept."""
    parent = os.environ.get("QDIALECT_ENGINE_FILES")
    if parent:
        try:
            Path(parent).mkdir(parents=True, exist_ok=True)
            folder = tempfile.mkdtemp(prefix=f"{engine}-", dir=parent)
        except OSError as error:
            raise InputError(
                f"cannot write to QDIALECT_ENGINE_FILES={parent}: {error.strerror}",
                code="unwritable-file",
            ) from None
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix=f"qdialect-{engine}-") as folder:
        yield Path(folder)


def time_limit() -> float:
    """How many seconds a command may take: `QDIALECT_ENGINE_TIMEOUT`, or 1200."""
    return _positive("QDIALECT_ENGINE_TIMEOUT", "seconds") or _TIMEOUT


def memory_limit() -> int:
    """How many bytes a runtime may take: `QDIALECT_ENGINE_MEMORY` gigabytes, or three quarters of
    what the machine has."""
    gigabytes = _positive("QDIALECT_ENGINE_MEMORY", "gigabytes")
    if gigabytes is not None:
        return min(int(gigabytes * 1e9), 1 << 62)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4


def _positive(variable: str, unit: str) -> float | None:
    setting = os.environ.get(variable)
    if setting is None:
        return None
    try:
        limit = float(setting)
    except ValueError:
        limit = 0.0
    if not 0 < limit < inf:
        raise UsageError(f"{variable} is a number of {unit}, not '{setting}'")
    return limit


def execute(arguments: Sequence[str], *, engine: str, folder: Path) -> str:
    """Run a command in `folder`; its standard output. InputError (`engine-failed`) with
    the command and what it said."""
    limit = time_limit()
    command = f"command: {shlex.join(arguments)}"
    try:
        process = subprocess.Popen(
            list(arguments),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise InputError(
            f"engine {engine} cannot be started: {error.strerror}",
            code="engine-failed",
            notes=(command,),
        ) from None
    try:
        out, said = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _end(process)
        raise InputError(
            f"engine {engine} did not finish in {limit:g} s",
            code="engine-failed",
            notes=(command, "QDIALECT_ENGINE_TIMEOUT=SECONDS gives it more time"),
        ) from None
    except BaseException:
        _end(process)
        raise
    if process.returncode:
        raise _failed(engine, process.returncode, command, said.strip() or out.strip())
    return out


def _end(process: subprocess.Popen[str]) -> None:
    """End a command and the commands that it started: its session is its own."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()


def _failed(engine: str, code: int, command: str, said: str) -> InputError:
    """The error: the command, the beginning of what it said, and a file with all of it."""
    lines = said.splitlines()
    notes = [command, *(line[:_WIDTH] for line in lines[:_SHOWN])]
    if len(lines) > _SHOWN or any(len(line) > _WIDTH for line in lines):
        with tempfile.NamedTemporaryFile(
            "w", prefix=f"qdialect-{engine}-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            file.writelines(f"{printable(line)}\n" for line in (command, *lines))
        notes.append(f"all it said: {file.name}")
    if not os.environ.get("QDIALECT_ENGINE_FILES"):
        notes.append("QDIALECT_ENGINE_FILES=FOLDER keeps what it was given, to run it again")
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return InputError(f"engine {engine} failed ({how})", code="engine-failed", notes=tuple(notes))
