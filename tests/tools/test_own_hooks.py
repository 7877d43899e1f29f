"""The hooks for work on qdialect itself (`.pre-commit-config.yaml`) are valid and can run.

Those that qdialect offers to others are in `.pre-commit-hooks.yaml`; `tests/pages` runs them.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / ".pre-commit-config.yaml"


def entries() -> list[list[str]]:
    """The commands of the hooks."""
    return [shlex.split(found) for found in re.findall(r"entry: (.*)", CONFIG.read_text("utf-8"))]


def test_the_configuration_is_valid() -> None:
    if shutil.which("pre-commit") is None:
        pytest.skip("no pre-commit: pip install 'qdialect[dev]'")
    subprocess.run(["pre-commit", "validate-config", str(CONFIG)], check=True)


def test_its_commands_are_there() -> None:
    assert [entry[0] for entry in entries()] == ["ruff", "ruff", "pyright", "python"]
    module = entries()[-1][2]
    done = subprocess.run([sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_offers_nothing_to_others() -> None:
    offered = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    ids = re.compile(r"id: ([\w-]+)")
    assert not set(ids.findall(offered)) & set(ids.findall(CONFIG.read_text("utf-8")))
