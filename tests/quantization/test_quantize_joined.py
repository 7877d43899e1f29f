"""A concat of values of different ranges has a range of its own, whatever its target ties."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qdialect as qd
from tests.quantization.quantize_support import sqnr

PART, WHOLE = "tensor<1x4x6x6xf32>", "tensor<1x8x6x6xf32>"
SQUARE, WIDE = "tensor<4x4x1x1xf32>", "tensor<4x8x1x1xf32>"
JOINED = f"""
func.func @main(%0: {PART} {{nn.name = "x"}}) -> {PART} {{
  %w = nn.constant dense<0.02> : {SQUARE} : {SQUARE}
  %v = nn.constant dense<2.0> : {SQUARE} : {SQUARE}
  %u = nn.constant dense<0.1> : {WIDE} : {WIDE}
  %1 = nn.leaky_relu %0 alpha 0.1 {{nn.key = "v1"}} : ({PART}) -> {PART}
  %2 = nn.conv2d %1, %w {{nn.key = "v2"}} : ({PART}, {SQUARE}) -> {PART}
  %3 = nn.conv2d %2, %v {{nn.key = "v3"}} : ({PART}, {SQUARE}) -> {PART}
  %4 = nn.concat %2, %3 axis 1 {{nn.key = "v4"}} : ({PART}, {PART}) -> {WHOLE}
  %5 = nn.conv2d %4, %u {{nn.key = "v5"}} : ({WHOLE}, {WIDE}) -> {PART}
  return %5 : {PART}
}}
"""


@pytest.mark.parametrize("target", ["litert", "tosa"])
def test_a_concat_is_not_clipped_to_the_range_of_its_first_operand(
    target: str, tmp_path: Path
) -> None:
    data = tmp_path / "data.npz"
    random = np.random.default_rng(0)
    np.savez(data, x=random.normal(0, 1, (16, 1, 4, 6, 6)).astype(np.float32))
    (tmp_path / "joined.mlir").write_text(JOINED)
    model = qd.load(tmp_path / "joined.mlir")
    result = qd.quantize(model, data, target=target)
    assert sqnr(model, result.model, data) > 25
