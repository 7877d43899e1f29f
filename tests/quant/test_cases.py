"""Text mlir-opt 22 printed or rejected, recorded under `cases/`."""

from __future__ import annotations

from pathlib import Path

import pytest
from quant_support import CASES, normalized, parse_module, print_generic, rejection

VALID = sorted((CASES / "valid").glob("*.mlir"))
INVALID = sorted((CASES / "invalid").glob("*.mlir"))

DIFFERENT_MESSAGE = {
    # xDSL's parser of tensor literals refuses the element type first.
    "o29_dense_constant_of_quant": "Expected memref, vector or tensor type of integer, index, "
    "float, or complex type",
}
ACCEPTED_HERE = {
    "t64_quantile_v22": "LLVM 24 syntax, which is read whatever is printed",
}


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
@pytest.mark.parametrize("form", ["custom", "generic"])
def test_valid_case_prints_as_mlir_opt_does(path: Path, form: str):
    module = parse_module(path.read_text())
    expected = path.with_suffix(f".{form}.txt").read_text()
    printed = print_generic(module) if form == "generic" else str(module)
    assert normalized(printed) == normalized(expected)


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
@pytest.mark.parametrize("form", ["custom", "generic"])
def test_what_mlir_opt_prints_is_read_back_unchanged(path: Path, form: str):
    text = path.with_suffix(f".{form}.txt").read_text()
    module = parse_module(text)
    printed = print_generic(module) if form == "generic" else str(module)
    assert normalized(printed) == normalized(text)


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid_case_is_rejected_with_the_same_message(path: Path):
    if path.stem in ACCEPTED_HERE:
        pytest.skip(ACCEPTED_HERE[path.stem])
    errors = path.with_suffix(".err.txt").read_text().splitlines()
    first = next(line.split("error: ", 1)[1] for line in errors if "error: " in line)
    assert rejection(path.read_text()) == DIFFERENT_MESSAGE.get(path.stem, first)
