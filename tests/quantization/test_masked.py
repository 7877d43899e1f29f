"""Masks of an attention are no codes: scores that must not count would count."""

# pyright: basic

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from tests.quantization.quantize_support import sqnr

STEPS, WIDTH = 12, 8


def write(folder: Path, mask: float, *, chosen: bool, size: float = 1.0) -> tuple[Path, Path]:
    """Words that look at those before them: masks are added, or chosen in the place of scores.
    `size` is that of the weights that make scores."""
    random = np.random.default_rng(3)
    later = np.triu(np.ones((STEPS, STEPS), bool), 1)
    sizes = {"q": size, "k": size, "v": 1.0, "o": 1.0}
    weights = {
        **{
            name: (s * random.normal(size=(WIDTH, WIDTH))).astype("f4") for name, s in sizes.items()
        },
        "root": np.float32(6),
        "masks": np.where(later, np.float32(mask), np.float32(0)),
        "later": later,
        "mask": np.float32(mask),
    }
    masks = helper.make_node("Add", ["scaled", "masks"], ["scores"], "scores")
    if chosen:
        masks = helper.make_node("Where", ["later", "mask", "scaled"], ["scores"], "scores")
    nodes = [
        *(helper.make_node("MatMul", ["x", name], [f"x{name}"], f"x{name}") for name in "qkv"),
        helper.make_node("Transpose", ["xk"], ["turned"], "turned", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["xq", "turned"], ["products"], "products"),
        helper.make_node("Div", ["products", "root"], ["scaled"], "scaled"),
        masks,
        helper.make_node("Softmax", ["scores"], ["shares"], "shares", axis=-1),
        helper.make_node("MatMul", ["shares", "xv"], ["mixed"], "mixed"),
        helper.make_node("MatMul", ["mixed", "o"], ["y"], "y"),
    ]
    kind = [1, STEPS, WIDTH]
    graph = helper.make_graph(
        nodes,
        "masked",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, kind)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, kind)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path, data = folder / "net.onnx", folder / "data.npz"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    np.savez(data, x=random.normal(size=(16, *kind)).astype("f4"))
    return path, data


@pytest.mark.parametrize("chosen", [False, True], ids=["added", "chosen"])
@pytest.mark.parametrize("mask", [-1e9, -np.inf, float(np.finfo(np.float32).min)])
def test_masked_scores_stay_float(tmp_path: Path, mask: float, chosen: bool) -> None:
    path, data = write(tmp_path, mask, chosen=chosen)
    model = qd.load(path)
    found = qd.quantize(model, data)
    left = {left.key: left.code for left in found.coverage.left}
    assert left["shares"] in ("amplifies", "masked")
    assert left["scores"] == ("float-result" if chosen else "masked")
    assert not {"xq", "products", "mixed", "y"} & left.keys()
    assert sqnr(model, found.model, data) > 25


@pytest.mark.parametrize("chosen", [False, True], ids=["added", "chosen"])
@pytest.mark.parametrize("mask", [-1e4, -1e9, float(np.finfo(np.float32).min), -np.inf])
@pytest.mark.parametrize("size", [1.0, 0.1])
def test_masks_in_integers_are_far_enough_away(
    tmp_path: Path, mask: float, chosen: bool, size: float
) -> None:
    """Where nothing stays float; of small scores the least is not much less than the largest.
    Head room costs a decibel and a half of the samples that ranges are of."""
    path, data = write(tmp_path, mask, chosen=chosen, size=size)
    model = qd.load(path)
    found = qd.quantize(model, data, target="tosa")
    assert not found.coverage.left
    assert sqnr(model, found.model, data) > 26


SCORES = {
    "added": ["%2 = nn.add %x, %1 : (!x, !x) -> !x"],
    "subtracted": [
        "%m = nn.neg %1 : (!x) -> !x",
        "%2 = nn.sub %x, %m : (!x, !x) -> !x",
    ],
    "added and scaled": [
        "%half = nn.constant dense<0.5> : tensor<f32> : tensor<f32>",
        "%bias = nn.constant dense<[4.0, 0.0, -2.0, 1.0]> : tensor<4xf32> : tensor<4xf32>",
        "%s = nn.add %1, %x : (!x, !x) -> !x",
        "%b = nn.add %s, %bias : (!x, tensor<4xf32>) -> !x",
        "%2 = nn.div %b, %half : (!x, tensor<f32>) -> !x",
    ],
}


@pytest.mark.parametrize("extents", ["2x4", "2x?", "?x?"])
@pytest.mark.parametrize("scores", SCORES)
def test_masks_that_come_in(tmp_path: Path, scores: str, extents: str) -> None:
    """The grid of what is added to scores reaches so far that no sum is a score."""
    lines = "\n  ".join(
        line.replace(" :", f' {{nn.key = "scores{n}"}} :', 1) if "constant" not in line else line
        for n, line in enumerate(SCORES[scores])
    )
    text = f"""
!x = tensor<{extents}xf32>
func.func @main(%x: !x {{nn.name = "x"}}, %keep: !x {{nn.name = "keep"}}) -> !x {{
  %one = nn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %far = nn.constant dense<-1.0e9> : tensor<f32> : tensor<f32>
  %0 = nn.sub %one, %keep {{nn.key = "drop"}} : (tensor<f32>, !x) -> !x
  %1 = nn.mul %0, %far {{nn.key = "masks"}} : (!x, tensor<f32>) -> !x
  {lines}
  %3 = nn.softmax %2 axis 1 {{nn.key = "shares"}} : (!x) -> !x
  func.return %3 : !x
}}"""
    path, data = tmp_path / "net.mlir", tmp_path / "data.npz"
    path.write_text(text)
    random = np.random.default_rng(5)
    x = random.uniform(-1, 1, size=(16, 2, 4)).astype("f4")
    np.savez(data, x=x, keep=(np.arange(4) < random.integers(1, 5, size=(16, 2, 1))).astype("f4"))
    model = qd.load(path)
    found = qd.quantize(model, data, target="tosa")
    assert not found.coverage.left
    samples = np.load(data)
    for one, keep in zip(samples["x"], samples["keep"], strict=True):
        (made,) = qd.run(found.model, {"x": one, "keep": keep}).values()
        assert (made[keep == 0] == 0).all()
        (expected,) = qd.run(model, {"x": one, "keep": keep}).values()
        assert np.abs(made - expected).max() < 0.03
