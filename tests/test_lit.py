"""Every lit test, in this process."""

from __future__ import annotations

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
