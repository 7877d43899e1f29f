"""The mean that rounded weights shift a result by goes into the bias."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import qdialect as qd
from qdialect.ops import constant_of
from qdialect.quantization.recipe import Recipe

NET = """
func.func @main(%x: tensor<{x}xf32> {{nn.name = "x"}}) -> tensor<{y}xf32> {{
  %w = nn.constant dense<{values}> : tensor<{w}xf32> : tensor<{w}xf32>
  %b = nn.constant dense<{biases}> : tensor<{b}xf32> : tensor<{b}xf32>
  %0 = nn.{op} {operands} {attributes} {{nn.key = "result"}} : ({types}) -> tensor<{y}xf32>
  func.return %0 : tensor<{y}xf32>
}}
"""

OPS = {
    "conv2d": ("2x4x6x6", "3x4x3x3", "2x3x6x6", "pads [1, 1, 1, 1]"),
    "depthwise conv2d": (
        "1x4x6x6",
        "4x1x3x3",
        "1x4x3x3",
        "strides [2, 2] pads [1, 1, 1, 1] groups 4",
    ),
    "conv_transpose2d": ("1x4x5x5", "4x3x2x2", "1x6x6x6", "groups 2"),
    "fully_connected": ("3x8", "5x8", "3x5", ""),
}


def write(folder: Path, name: str, bias: bool) -> tuple[Path, Path]:
    """One contraction of values far from zero, with or without a bias, and data for it."""
    random = np.random.default_rng(7)
    x, w, y, attributes = OPS[name]
    shape = [int(extent) for extent in w.split("x")]
    channels = y.split("x")[1]
    operands = ["%x", "%w", "%b"][: 3 if bias else 2]
    model, data = folder / "net.mlir", folder / "data.npz"
    model.write_text(
        NET.format(
            x=x,
            y=y,
            w=w,
            b=channels,
            values=random.normal(size=shape).astype("f4").tolist(),
            biases=random.normal(size=int(channels)).astype("f4").tolist(),
            op=name.split()[-1],
            operands=", ".join(operands),
            attributes=attributes,
            types=", ".join(f"tensor<{t}xf32>" for t in (x, w, channels)[: len(operands)]),
        )
    )
    samples = random.uniform(1, 3, size=(30, *map(int, x.split("x"))))
    np.savez(data, x=samples.astype("f4"))
    return model, data


def mean_error(model: qd.Model, other: qd.Model, data: Path) -> float:
    """The largest mean difference of a channel."""
    found: list[NDArray[np.float64]] = []
    for sample in np.load(data)["x"]:
        (a,), (b,) = (list(qd.run(m, {"x": sample}).values()) for m in (model, other))
        found.append(np.moveaxis(a.astype("f8") - b, 1, 0).reshape(a.shape[1], -1).mean(axis=1))
    return float(np.abs(np.mean(found, axis=0)).max())


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", OPS)
def test_the_mean_of_a_result_stays(
    tmp_path: Path, name: str, bias: bool, per_channel: bool, engine: qd.api.Engine
) -> None:
    path, data = write(tmp_path, name, bias)
    model = qd.load(path)
    recipe = Recipe(activations="u16", weights="i4", per_channel=per_channel)
    plain = Recipe(recipe.activations, recipe.weights, per_channel=per_channel, correct_bias=False)
    before, after = (
        mean_error(
            model,
            qd.quantize(model, data, recipe=r, engine=engine, target="generic").model,
            data,
        )
        for r in (plain, recipe)
    )
    assert after < before / 5


def test_weights_without_error_leave_the_op_as_it_is(tmp_path: Path) -> None:
    path, data = write(tmp_path, "fully_connected", False)
    text = path.read_text()
    start = text.index("dense<") + 6
    end = text.index(">", start)
    rows = np.random.default_rng(1).integers(-127, 128, size=(5, 8))
    rows[:, 0] = 127
    path.write_text(text[:start] + str(rows.astype(float).tolist()) + text[end:])
    result = qd.quantize(qd.load(path), data, recipe=Recipe(weight_ranges="minmax"), engine="numpy")
    (op,) = [op for op in result.model.module.walk() if op.name == "nn.fully_connected"]
    assert len(op.operands) == 2 and constant_of(op.operands[1]) is not None


def test_a_profile_alone_corrects_nothing(tmp_path: Path) -> None:
    path, data = write(tmp_path, "conv2d", True)
    model = qd.load(path)
    profile = qd.calibrate(model, data, engine="numpy")
    alone = qd.quantize(model, profile=profile, recipe=Recipe()).model
    plain = qd.quantize(model, data, recipe=Recipe(correct_bias=False), engine="numpy").model
    assert qd.diff(alone, plain)[0].max_abs == 0
