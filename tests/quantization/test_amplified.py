"""What an op amplifies is no codes: a concat before a norm that makes small channels large."""

# pyright: basic

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.quantizer.recipe import Recipe
from tests.quantization.quantize_support import sqnr

SMALL = 200.0
"""The second branch is so much smaller than the first."""


def write(folder: Path, *, joined: bool) -> tuple[Path, Path]:
    """A convolution and a small one of it, side by side or only the small one; a norm; another."""
    random = np.random.default_rng(3)
    width = 8 if joined else 4
    weights = {
        "w0": random.normal(size=(4, 3, 1, 1)),
        "w1": random.normal(size=(4, 4, 1, 1)) / SMALL,
        "w2": random.normal(size=(6, width, 1, 1)) / 2,
        "one": np.ones(width),
        "zero": np.zeros(width),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["big"], "big"),
        helper.make_node("Relu", ["big"], ["big_relu"], "big_relu"),
        helper.make_node("Conv", ["big_relu", "w1"], ["small"], "small"),
    ]
    if joined:
        nodes.append(helper.make_node("Concat", ["big_relu", "small"], ["all"], "all", axis=1))
    else:
        nodes.append(helper.make_node("MaxPool", ["small"], ["all"], "all", kernel_shape=[1, 1]))
    nodes += [
        helper.make_node("BatchNormalization", ["all", "one", "zero", "zero", "var"], ["n"], "n"),
        helper.make_node("Relu", ["n"], ["n_relu"], "n_relu"),
        helper.make_node("Conv", ["n_relu", "w2"], ["y"], "y"),
    ]
    x = random.normal(size=(12, 1, 3, 8, 8)).astype("f4")
    # One of its channels is smaller again, and all have the same size behind the norm.
    weights["w1"][3] /= 50
    weights["var"] = np.array([2.0] * (width - 4) + [8 / SMALL**2] * 3 + [8 / (50 * SMALL) ** 2])
    graph = helper.make_graph(
        nodes,
        "amplified",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 8, 8])],
        [numpy_helper.from_array(array.astype("f4"), name) for name, array in weights.items()],
    )
    path, data = folder / "net.onnx", folder / "data.npz"
    graph.node[[n.name for n in graph.node].index("n")].attribute.append(
        helper.make_attribute("epsilon", 0.0)
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    np.savez(data, x=x)
    return path, data


def why_float(result: qd.Quantized) -> dict[str, str]:
    return {left.key: left.code for left in result.coverage.left}


def test_a_concat_in_front_of_what_amplifies_stays_float(tmp_path: Path) -> None:
    path, data = write(tmp_path, joined=True)
    model = qd.load(path)
    spared = qd.quantize(model, data, recipe=Recipe())
    left = why_float(spared)
    assert left["n"] == "amplifies" and left["all"] == "float-result"
    # Both branches have finer steps than the whole: what computes them is quantized.
    assert not {"big", "small", "y"} & left.keys()
    rounded = qd.quantize(model, data, recipe=Recipe(max_steps=1e9))
    assert not why_float(rounded)
    assert sqnr(model, spared.model, data) > sqnr(model, rounded.model, data) + 10


def test_a_product_with_weights_stays_on_codes(tmp_path: Path) -> None:
    path, data = write(tmp_path, joined=False)
    left = why_float(qd.quantize(qd.load(path), data))
    assert left["n"] == "amplifies" and left["all"] == "float-result"
    assert not {"big", "small", "y"} & left.keys()


@pytest.mark.parametrize("target", ["integer", "tosa"])
def test_a_target_without_floats_gets_codes(tmp_path: Path, target: str) -> None:
    path, data = write(tmp_path, joined=True)
    assert not why_float(qd.quantize(qd.load(path), data, target=target))
