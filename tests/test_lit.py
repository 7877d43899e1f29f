"""Every lit test, in this process."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from qdialect.testing.lit import LitFailure, discover, missing_features, run_file, run_lines

LIT_TESTS = Path(__file__).parents[1] / "lit_tests"


@pytest.mark.parametrize(
    "path", discover(LIT_TESTS), ids=lambda path: str(path.relative_to(LIT_TESTS))
)
def test_lit(path: Path, tmp_path: Path) -> None:
    missing = missing_features(path)
    if missing:
        pytest.skip(f"requires {', '.join(missing)}")
    problem = ""
    try:
        run_file(path, tmp_path)
    except LitFailure as failure:
        problem = str(failure)
    if problem:
        pytest.fail(problem, pytrace=False)


def test_continued_run_lines() -> None:
    assert run_lines("// RUN: a | \\\n// RUN:   b\n// x\n// RUN: c") == ["a | b", "c"]


def test_a_failing_check_fails(tmp_path: Path) -> None:
    path = tmp_path / "wrong.mlir"
    path.write_text("// RUN: qopt-opt %s | filecheck %s\n// CHECK: nn.conv2d\n")
    with pytest.raises(LitFailure):
        run_file(path, tmp_path)


def test_not_wants_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "right.mlir"
    path.write_text("// RUN: not qopt-opt %s\nmodule {}\n")
    with pytest.raises(LitFailure):
        run_file(path, tmp_path)


@pytest.mark.parametrize("checker", ["python", "llvm"])
def test_lit_from_a_plain_shell(checker: str) -> None:
    """Nothing but lit's own Python is known to the shell."""
    lit = Path(sys.executable).with_name("lit")
    if not lit.exists() or (checker == "llvm" and find_spec("llvm") is None):
        pytest.skip("requires lit, and the extra mlir for LLVM's FileCheck")
    done = subprocess.run(
        [lit, LIT_TESTS / "passes" / "dce.mlir", "--param", f"filecheck={checker}"],
        env={"HOME": "/nowhere", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed: 1" in done.stdout


def test_two_brackets_open_a_variable() -> None:
    """LLVM's FileCheck takes nothing else for them."""
    wrong = [
        f"{path.name}: {line.strip()}"
        for path in discover(LIT_TESTS)
        for line in path.read_text("utf-8").splitlines()
        if re.match(r" *// *[A-Z0-9-]+:", line) and "RUN:" not in line
        if re.search(r"\[\[(?![A-Za-z_$#@])", line.replace("{{\\[\\[}}", ""))
    ]
    assert not wrong, "\n".join(wrong)
