"""The tables of docs/design/003-quant-text.md: every row is run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from quant_support import find_iree_opt, find_mlir_opt, rejection
from test_command import RIGHT_HERE, SEMANTICS

PAGE = Path(__file__).parents[2] / "docs" / "design" / "003-quant-text.md"
OPS = {
    "quant.rescale": "func.func @f(%a: !quant.any<i8>, %b: !quant.uniform<i8:f32, 2.0>) {\n"
    "  %0 = quant.rescale %b : !quant.uniform<i8:f32, 2.0> to !quant.uniform<i8:f32, 3.0>\n"
    "  return\n}\n",
    "quant.scast": "func.func @f(%a: i8) {\n"
    "  %0 = quant.scast %a : i8 to !quant.uniform<si8:f32, 2.0>\n  return\n}\n",
}


def rows(heading: str) -> list[list[str]]:
    section = PAGE.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def program(cell: str) -> str:
    text = re.findall(r"`([^`]+)`", cell)[0]
    return OPS.get(text, f"func.func private @f({text})\n")


def verdict(tool: str, text: str) -> str:
    done = subprocess.run([tool], input=text, capture_output=True, text=True, check=False)
    return {0: "accepts", 1: "rejects"}.get(done.returncode, "crashes")


ROWS = rows("What is accepted")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_ours(row: list[str]) -> None:
    assert ("rejects" if rejection(program(row[0])) else "accepts") == row[1]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_mlir_opt_22(row: list[str]) -> None:
    tool = find_mlir_opt()
    if tool is None:
        pytest.skip("no mlir-opt 22: set QDIALECT_MLIR_OPT, or install qdialect[mlir]")
    assert verdict(tool, program(row[0])) == row[2]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_llvm_24(row: list[str]) -> None:
    tool = find_iree_opt()
    if tool is None:
        pytest.skip("no iree-opt: set QDIALECT_IREE_OPT, or install qdialect[iree]")
    assert verdict(tool, program(row[0])) == row[3]


def test_recorded_cases_are_those_the_tests_know() -> None:
    assert {row[0].strip("`") for row in rows("What is computed")} == {*SEMANTICS, *RIGHT_HERE}
