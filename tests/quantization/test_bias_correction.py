"""The mean that rounding shifts a result by goes into the bias."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import qdialect as qd
from qdialect.ir.ops import constant_of
from qdialect.quantizer.recipe import Recipe

Sample = dict[str, NDArray[np.float32]]

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


def test_an_op_that_rounds_nothing_stays_as_it_is(tmp_path: Path) -> None:
    path, data = write(tmp_path, "fully_connected", False)
    text = path.read_text()
    start = text.index("dense<") + 6
    end = text.index(">", start)
    random = np.random.default_rng(1)
    rows = random.integers(-127, 128, size=(5, 8))
    rows[:, 0] = 127
    path.write_text(text[:start] + str(rows.astype(float).tolist()) + text[end:])
    samples = random.integers(0, 256, size=(30, 3, 8)).astype("f4")
    samples[:, 0, :2] = 0, 255
    np.savez(data, x=samples)
    result = qd.quantize(qd.load(path), data, recipe=Recipe(weight_ranges="minmax"), engine="numpy")
    (op,) = [op for op in result.model.module.walk() if op.name == "nn.fully_connected"]
    assert len(op.operands) == 2 and constant_of(op.operands[1]) is not None


def background(folder: Path, seed: int) -> tuple[qd.Model, Path, list[Sample]]:
    """Twelve convolutions of pictures that are one number but for some dots, data to calibrate on,
    and other samples."""
    random, shape = np.random.default_rng(seed), "tensor<1x4x8x8xf32>"
    kind, lines = "tensor<4x4x1x1xf32>", list[str]()
    for n in range(12):
        weights = (random.normal(size=(4, 4, 1, 1)) * 0.8).astype("f4").tolist()
        lines += [
            f"%w{n} = nn.constant dense<{weights}> : {kind} : {kind}",
            f'%c{n} = nn.conv2d %h{n}, %w{n} {{nn.key = "c{n}"}} : ({shape}, {kind}) -> {shape}',
            f'%h{n + 1} = nn.hard_swish %c{n} {{nn.key = "h{n}"}} : ({shape}) -> {shape}',
        ]
    text = "\n  ".join(lines)
    path, data = folder / "net.mlir", folder / "data.npz"
    path.write_text(
        f'func.func @main(%h0: {shape} {{nn.name = "x"}}) -> {shape} {{\n'
        f"  {text}\n  func.return %h12 : {shape}\n}}\n"
    )
    pictures = np.tile(random.normal(size=(1, 1, 4, 1, 1)), (60, 1, 1, 8, 8))
    dots = random.random(pictures.shape) < 0.05
    pictures = (pictures + dots * random.normal(size=pictures.shape)).astype("f4")
    np.savez(data, x=pictures[:40])
    return qd.load(path), data, [{"x": picture} for picture in pictures[40:]]


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_the_rounding_of_a_background_does_not_add_up(
    tmp_path: Path, engine: qd.api.Engine
) -> None:
    gains: list[float] = []
    for seed in range(1, 5):
        model, data, others = background(tmp_path, seed)
        noise: list[float] = []
        for recipe in (Recipe(correct_bias=False, unseen=0), Recipe(unseen=0)):
            made = qd.quantize(model, data, recipe=recipe, engine=engine, target="generic").model
            wrong = 0.0
            for sample in others:
                (a,), (b,) = (list(qd.run(m, sample).values()) for m in (model, made))
                wrong += float(np.square(a.astype("f8") - b).sum())
            noise.append(wrong)
        gains.append(10 * np.log10(noise[0] / noise[1]))
    assert np.mean(gains) > 2


def test_a_profile_alone_corrects_nothing(tmp_path: Path) -> None:
    path, data = write(tmp_path, "conv2d", True)
    model = qd.load(path)
    profile = qd.calibrate(model, data, engine="numpy")
    # Samples that are held out have no extremes here, but say what those to come may have.
    alone = qd.quantize(model, profile=profile, recipe=Recipe(unseen=0)).model
    recipe = Recipe(correct_bias=False, unseen=0)
    plain = qd.quantize(model, data, recipe=recipe, engine="numpy").model
    assert qd.diff(alone, plain)[0].max_abs == 0
