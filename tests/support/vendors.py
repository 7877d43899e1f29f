"""Packages of vendors, installed by pip into a folder of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _builds() -> bool:
    """Whether a wheel can be built: this setuptools brings its own bdist_wheel."""
    try:
        found = version("setuptools")
    except PackageNotFoundError:
        return False
    return int(found.partition(".")[0]) >= 71


CAN_BUILD = _builds()
NEEDS = "needs setuptools >= 71 to build a wheel"


def install(package: Path, folder: Path) -> Path:
    """A folder with the package in it, as pip installs it from a copy of its source."""
    source, target = folder / "source", folder / "site"
    shutil.copytree(package, source)
    flags = "--quiet --no-index --no-deps --no-build-isolation --disable-pip-version-check"
    command = [sys.executable, "-m", "pip", "install", *flags.split(), "--target", str(target)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def call(
    site: Path, arguments: Sequence[str], text: str = "", folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """What a module (`qdialect.cli.opt`) does in a folder where the packages in `site` are
    installed."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        input=text,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
    )
