"""Movements of tensors that are not quantized, of every element type, lower or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import qdialect as qd
from qdialect.errors import UnsupportedError

TYPES = ("f64", "f32", "bf16", "f8E4M3FN", "i64", "i4", "i1", "ui8")
MOVES = {
    "every second, as many as fit": (
        "7x3",
        "nn.slice %x starts [1, 0] stops [7, 3] steps [2, 1]",
        "3x3",
    ),
    "every second, to the end": (
        "8x3",
        "nn.slice %x starts [0, 0] stops [8, 3] steps [2, 1]",
        "4x3",
    ),
    "every third of two": ("8x7", "nn.slice %x starts [0, 1] stops [8, 7] steps [3, 3]", "3x2"),
    "backwards": ("4x3", "nn.flip %x axes [0, 1]", "4x3"),
    "each twice": ("4x3", "nn.repeat %x repeats [2, 1]", "8x3"),
    "a scalar": ("", "nn.expand %x shape [2, 3]", "2x3"),
    "to a scalar": ("1x1", "nn.squeeze %x axes [0, 1]", ""),
    "transposed": ("4x3", "nn.transpose %x perm [1, 0]", "3x4"),
    "rows and columns to channels": ("1x1x4x4", "nn.space_to_depth %x block 2", "1x4x2x2"),
}


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("to", ["tosa", "linalg", "stablehlo"])
def test_movements_of_plain_elements(to: str, element: str, tmp_path: Path) -> None:
    path, lowered = tmp_path / "m.mlir", 0
    for name, (taken, op, given) in MOVES.items():
        x, y = (f"tensor<{shape}{'x' * bool(shape)}{element}>" for shape in (taken, given))
        path.write_text(
            f"func.func @f(%x: {x}) -> {y} {{\n  %0 = {op} : ({x}) -> {y}\n  return %0 : {y}\n}}\n"
        )
        try:
            made = qd.run_passes(qd.load(path), f"convert-nn-to-{to}")
        except UnsupportedError:
            continue
        names = {op.name.partition(".")[0] for op in made.module.walk()}
        assert "nn" not in names, name
        lowered += 1
    assert lowered >= len(MOVES) - 1
