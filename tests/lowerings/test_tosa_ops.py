"""Every op with a TOSA, in many configurations, on every engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tosa_page
from engine_support import ENGINES, agree
from op_configurations import GROUPS, Program

KNOWN = {
    ("comparisons", "mlir-runner"): "MLIR 22 aborts on i1 stores of shared operands",
    ("resizes_from_before", "mlir-runner"): "MLIR 22 rounds negative places of a resize to 0",
}
"""What an engine is known to get wrong (the others agree)."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.__name__)
def test_it_is_what_the_interpreter_gives(group: Callable[[Program], None], engine: str) -> None:
    if (group.__name__, engine) in KNOWN:
        pytest.skip(KNOWN[group.__name__, engine])
    program = Program()
    group(program)
    # The lowering takes more storages than a target asks it to.
    assert agree(program.text, engine, target="generic")


def test_the_page_says_it() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "tosa-ops.md").read_text("utf-8")
    assert page == tosa_page.table(), "python -m tools.docs tosa-ops"


def test_there_are_enough() -> None:
    count = 0
    for group in GROUPS:
        program = Program()
        group(program)
        count += len(program.results)
    assert count >= 100
