"""Comparisons and argmax: in from ONNX, judged by ONNX Runtime, and out again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import ModelBuilder, export, integerized, load, ops

from qdialect.interpreter import Interpreter
from qdialect.plugins.onnx.write import OrtEngine

RELATIONS = ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]


def data(*shape: int) -> Any:
    """Numbers with many ties."""
    generator = np.random.default_rng(len(shape))
    return (generator.integers(-6, 6, shape) / 4).astype(np.float32)


def agree(model: Any, ctx: Any, module: Any, feed: dict[str, Any]) -> Any:
    """Interpreter, source and export give the same; the exported model."""
    mine = Interpreter(ctx, module).run(feed)
    written = export(ctx, module)
    for reference in (model, written):
        theirs = OrtEngine(reference, optimize=False).run(feed).values()
        for a, b in zip(theirs, mine, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    return written


@pytest.mark.parametrize("opset", [11, 13, 21])
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_compare(relation: str, negated: bool, quantized: bool, opset: int) -> None:
    if opset < 12 and relation.endswith("OrEqual"):
        pytest.skip("not in this opset")
    b = ModelBuilder(opset)
    names = [b.input("x", [2, 3, 4]), b.input("y", [3, 1])]
    if quantized:
        b.const("s", 0.25, np.float32)
        b.const("z", 3, np.uint8)
        names = [b.node("QuantizeLinear", [n, "s", "z"], f"{n}_q") for n in names]
        names = [b.node("DequantizeLinear", [n, "s", "z"], f"{n}_dq") for n in names]
    result = b.node(relation, names, "c")
    if negated:
        result = b.node("Not", [result], "n")
    b.output(result, np.bool_)
    model = b.model()
    ctx, module = integerized(model) if quantized else load(model)
    assert "nn.compare" in ops(module)
    assert "quant.dcast" not in ops(module)
    assert ("onnx.node" in ops(module)) == (negated and relation != "Equal")
    if "onnx.node" in ops(module):
        return
    feed = {"x": data(2, 3, 4), "y": data(3, 1)}
    if not quantized:
        feed["x"][0, 0] = np.nan
    written = agree(model, ctx, module, feed)
    types = [node.op_type for node in written.graph.node]
    assert relation in types
    assert "DequantizeLinear" not in types


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize(("op", "axis"), [("ArgMax", 1), ("ArgMin", -1), ("ArgMax", 0)])
def test_place(op: str, axis: int, keep: int, last: int, quantized: bool) -> None:
    b = ModelBuilder()
    x = b.input("x", [2, 5, 4])
    if quantized:
        x = b.qdq("x", 0.25, 3)
    b.node(op, [x], "y", axis=axis, keepdims=keep, select_last_index=last)
    b.output("y", np.int64)
    model = b.model()
    ctx, module = integerized(model) if quantized else load(model)
    name = "nn.arg_max" if op == "ArgMax" else "nn.arg_min"
    assert ops(module) == (["quant.qcast", name] if quantized else [name])
    written = agree(model, ctx, module, {"x": data(2, 5, 4)})
    assert "DequantizeLinear" not in [node.op_type for node in written.graph.node]


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("axis", "k"), [(1, 5), (-1, 2), (0, 1), (2, 0)])
def test_top_k(axis: int, k: int, largest: int, quantized: bool) -> None:
    b = ModelBuilder()
    x = b.input("x", [2, 5, 4])
    if quantized:
        x = b.qdq("x", 0.25, 3)
    b.node("TopK", [x, b.const("k", [k], np.int64)], ["v", "i"], axis=axis, largest=largest)
    if quantized:
        b.output(b.qdq("v", 0.5, 7))
    else:
        b.output("v")
    b.output("i", np.int64)
    model = b.model()
    ctx, module = integerized(model) if quantized else load(model)
    quants = ["quant.qcast", "nn.top_k", "quant.rescale", "quant.dcast"]
    assert ops(module) == (quants if quantized else ["nn.top_k"])
    agree(model, ctx, module, {"x": data(2, 5, 4)})


def test_top_k_on_a_storage_that_the_runtime_does_not_sort() -> None:
    b = ModelBuilder(21)
    x = b.quantize(b.input("x", [2, 5]), 0.25, 3, "u16")
    b.node("TopK", [x, b.const("k", [2], np.int64)], ["q", "i"])
    b.output(b.dequantize("q", "v", "x_s", "x_z", 0, 0.25))
    b.output("i", np.int64)
    model = b.model()
    ctx, module = load(model)
    assert "nn.top_k" in ops(module)
    x = data(2, 5)
    written = export(ctx, module)
    assert [node.op_type for node in written.graph.node][1:4] == [
        "DequantizeLinear",
        "TopK",
        "QuantizeLinear",
    ]
    mine = Interpreter(ctx, module).run({"x": x})
    theirs = OrtEngine(written, optimize=False).run({"x": x}).values()
    for a, b_ in zip(theirs, mine, strict=True):
        np.testing.assert_array_equal(a, b_)


def test_a_number_known_at_run_time_only_stays_a_node() -> None:
    b = ModelBuilder()
    b.node("TopK", [b.input("x", [4]), b.input("k", [1], np.int64)], ["v", "i"])
    b.output("v", shape=[None])
    b.output("i", np.int64, [None])
    assert ops(load(b.model())[1]) == ["onnx.node"]


def test_of_integers_and_of_unlike_encodings_stay_nodes() -> None:
    b = ModelBuilder()
    b.node("Equal", [b.input("x", [4], np.int64), b.input("y", [4], np.int64)], "c")
    b.output("c", np.bool_)
    assert ops(load(b.model())[1]) == ["onnx.node"]
