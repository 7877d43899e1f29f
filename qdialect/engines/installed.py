"""Finds an engine of the table by name, says what it lacks, and installs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qdialect.engines.table import ENGINES, PACKAGES
from qdialect.errors import InputError, UsageError
from qdialect.plugin import Engine as EngineEntry
from qdialect.plugin import named
from qdialect.plugins.common import tools

if TYPE_CHECKING:
    from qdialect.engines.local import LocalEngine
    from qdialect.plugins.common.program import Engine


def engine_named(name: str) -> Engine:
    """An engine that runs programs; UsageError (`unknown-engine`)."""
    entry = _entry(name)
    if not entry.environment:
        raise UsageError(f"'{name}' runs models, not programs", code="unknown-engine")
    return _instance(entry)


def local_engine(name: str) -> LocalEngine | None:
    """An engine that runs modules as they are; None for one that runs programs.

    UsageError (`unknown-engine`).
    """
    entry = _entry(name)
    return None if entry.environment else _instance(entry)


def require(name: str) -> None:
    """InputError (`no-engine`) that says how to get an engine that is not installed."""
    if absent := missing(name):
        raise InputError(
            f"engine {name} needs {absent}, which is not installed",
            code="no-engine",
            notes=(f"install it with: {how_to_install(name)}",),
        )


def missing(name: str) -> str | None:
    """What of an engine is not installed, or None."""
    return _instance(_entry(name)).missing()


def how_to_install(name: str) -> str:
    """The command that gets an engine."""
    entry = _entry(name)
    if entry.environment:
        return f"qopt engines install {entry.environment}"
    return f"pip install 'qdialect[{entry.extra}]'"


def _entry(name: str) -> EngineEntry:
    if name not in ENGINES:
        raise UsageError(f"no engine '{name}' ({', '.join(ENGINES)})", code="unknown-engine")
    return ENGINES[name]


def _instance(entry: EngineEntry) -> Any:
    return named(entry.made_by)()


def install(name: str, say: Callable[[str], None]) -> None:
    """Make the environment of an engine; InputError (`install-failed`) with pip's words.

    An environment that could not be completed is removed.
    """
    import shutil
    import venv

    if name in ENGINES and (environment := ENGINES[name].environment):
        name = environment
    if name not in PACKAGES:
        known = ", ".join((*PACKAGES, "all"))
        raise UsageError(f"nothing to install for '{name}' ({known})", code="unknown-engine")
    folder = tools.home() / name
    say(f"{name}: {', '.join(PACKAGES[name])} into {folder}")
    if folder.exists() and not (folder / "pyvenv.cfg").is_file() and any(folder.iterdir()):
        raise InputError(f"{folder} exists and is no Python environment", code="install-failed")
    without_pip = False
    try:
        try:
            venv.create(folder, with_pip=True, clear=True)
        except subprocess.CalledProcessError:
            # Some distributions ship venv without ensurepip: our pip installs there.
            venv.create(folder, with_pip=False, clear=True)
            without_pip = True
    except OSError as error:
        raise InputError(
            f"cannot make the environment {folder}: {error}", code="install-failed"
        ) from None
    python = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    # Isolated: pip comes from the environment that it is of, and not from the current folder.
    pip = [python, "-I", "-m", "pip"]
    if without_pip:
        pip = [sys.executable, "-I", "-m", "pip", "--python", python]
    options = ["install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, *options, *PACKAGES[name]], capture_output=True, text=True, check=False
    )
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        said = tuple(line for line in done.stderr.strip().splitlines() if "ERROR" in line)[:5]
        raise InputError(f"pip could not install {name}", code="install-failed", notes=said)
