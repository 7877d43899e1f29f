"""The hook for pre-commit: what it runs, and, where that is installed, that it runs it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import call, qopt
from tests.support.page_models import float_model, quantized_model

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / ".pre-commit-hooks.yaml"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A good model, whose ops are all quantized, and one that returns a float softmax."""
    for name, softmax in (("good", False), ("bad", True)):
        float_model(tmp_path / "float.onnx", softmax=softmax)
        quantized_model(tmp_path / "float.onnx", tmp_path / f"{name}.q.onnx")
    return tmp_path


def hook() -> list[str]:
    """The command and arguments of the hook."""
    text = HOOKS.read_text(encoding="utf-8")
    entry, args = (re.search(rf"^  {key}: (.*)$", text, re.M) for key in ("entry", "args"))
    assert entry is not None and args is not None
    return [*shlex.split(entry.group(1)), *re.findall(r'"([^"]*)"', args.group(1))]


def test_the_hook_takes_files_and_fails_on_bad_ones(repository: Path) -> None:
    name, *flags = hook()
    good, bad = (str(repository / f"{name}.q.onnx") for name in ("good", "bad"))
    assert name == "qopt"
    assert call(qopt, *flags, good, good).code == 0
    done = call(qopt, *flags, good, bad)
    assert done.code == 1
    assert done.err == f"{bad}: found B1\n"


@pytest.mark.skipif(shutil.which("pre-commit") is None, reason="no pre-commit: pip install it")
def test_pre_commit_runs_it(repository: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=repository, check=True)
    subprocess.run(["git", "add", "good.q.onnx", "bad.q.onnx"], cwd=repository, check=True)
    done = subprocess.run(
        ["pre-commit", "try-repo", str(ROOT), "qdialect-boundaries", "--all-files"],
        cwd=repository,
        env={**os.environ, "PRE_COMMIT_HOME": str(repository / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "bad.q.onnx: found B1" in done.stdout
    assert "good.q.onnx: found" not in done.stdout
