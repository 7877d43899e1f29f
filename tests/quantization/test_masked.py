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


def write(folder: Path, mask: float, *, chosen: bool) -> tuple[Path, Path]:
    """Words that look at those before them: masks are added, or chosen in the place of scores."""
    random = np.random.default_rng(3)
    later = np.triu(np.ones((STEPS, STEPS), bool), 1)
    weights = {
        **{name: random.normal(size=(WIDTH, WIDTH)).astype("f4") for name in "qkvo"},
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
    assert left["shares"] == "masked"
    assert left["scores"] == ("moves-floats" if chosen else "masked")
    assert not {"xq", "products", "mixed", "y"} & left.keys()
    assert sqnr(model, found.model, data) > 25
