"""Masks with one row for all queries, which ONNX Runtime's Attention does not repeat."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qdialect as qd
from qdialect.interpreter import Interpreter
from qdialect.interpreter.kernels import KEPT_NODES
from qdialect.plugins.onnx.write import OrtEngine

TEXT = """
func.func @main(%q: tensor<2x3x{n}x4xf32> {{nn.name = "q"}},
                %m: tensor<{mask}xf32> {{nn.name = "m"}}) -> tensor<2x3x{n}x4xf32> {{
  %y = nn.attention %q, %q, %q, %m scale 0.5
      : (tensor<2x3x{n}x4xf32>, tensor<2x3x{n}x4xf32>, tensor<2x3x{n}x4xf32>, tensor<{mask}xf32>)
      -> tensor<2x3x{n}x4xf32>
  return %y : tensor<2x3x{n}x4xf32>
}}
"""


@pytest.mark.parametrize("mask", ["2x1x1x5", "1x5", "2x1x5x5", "5x5"])
@pytest.mark.parametrize("length", ["5", "?"])
def test_the_runtime_gives_what_the_interpreter_does(
    mask: str, length: str, tmp_path: Path
) -> None:
    shape = [int(n) for n in mask.split("x")]
    declared = mask.replace("5", "?") if length == "?" else mask
    source = tmp_path / "m.mlir"
    source.write_text(TEXT.format(n=length, mask=declared), encoding="utf-8")
    model = qd.load(source)
    qd.save(model, tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    inputs = {"q": rng.standard_normal((2, 3, 5, 4)), "m": rng.standard_normal(shape)}
    inputs = {name: array.astype(np.float32) for name, array in inputs.items()}
    for file in ("m.onnx", "again.onnx"):
        again = qd.load(tmp_path / "m.onnx")
        qd.save(again, tmp_path / "again.onnx")
        result = next(
            iter(OrtEngine((tmp_path / file).read_bytes(), optimize=False).run(inputs).values())
        )
        own = Interpreter(model.ctx, model.module, functions=KEPT_NODES).run(inputs)[0]
        np.testing.assert_allclose(result, own, rtol=1e-5, atol=1e-6)
