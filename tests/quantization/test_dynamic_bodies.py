"""Products in bodies of control flow that are made to quantize their input as they run."""

# pyright: basic

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qdialect as qd
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.quantizer.recipe import Recipe
from tests.support.processor import skip_where_pairs_saturate

pytest.importorskip("onnxruntime")


def files(folder: Path) -> tuple[Path, Path]:
    """A branch whose weight is outside of it, and a loop that multiplies again and again."""
    rng = np.random.default_rng(2)

    def held(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((rng.normal(size=shape) / 5).astype("f4"), name)

    def value(name: str, *shape: int, kind: int = 1) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    then = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["t"], "outside")], "then", [], [value("t", 4, 16)]
    )
    other = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "v"], ["e"], "inside"),
            helper.make_node("Add", ["e", "bias"], ["e2"], "biased"),
        ],
        "else",
        [],
        [value("e2", 4, 16)],
        [held("v", 16, 16), held("bias", 16)],
    )
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["s", "u"], ["m"], "again"),
            helper.make_node("Tanh", ["m"], ["next"], "bent"),
            helper.make_node("Identity", ["on"], ["still"]),
        ],
        "body",
        [value("i", kind=7), value("on", kind=9), value("s", 4, 16)],
        [value("still", kind=9), value("next", 4, 16)],
        [held("u", 16, 16)],
    )
    nodes = [
        helper.make_node("If", ["c"], ["y"], "if", then_branch=then, else_branch=other),
        helper.make_node("Loop", ["count", "", "y"], ["z"], "loop", body=body),
        helper.make_node("MatMul", ["z", "w2"], ["out"], "head"),
    ]
    count = numpy_helper.from_array(np.array(3), "count")
    graph = helper.make_graph(
        nodes,
        "net",
        [value("c", kind=9), value("x", 4, 16)],
        [value("out", 4, 8)],
        [held("w", 16, 16), held("w2", 16, 8), count],
    )
    model, data = folder / "f.onnx", folder / "data.npz"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), model)
    x = rng.normal(size=(8, 4, 16)).astype("f4")
    np.savez(data, x=x, c=np.arange(8) % 2 == 0)
    return model, data


@pytest.mark.parametrize("kept", [frozenset[str](), frozenset({"head"})])
def test_bodies(tmp_path: Path, kept: frozenset[str]) -> None:
    """A branch, with a bias too, and a loop; what is float around them does not matter."""
    path, data = files(tmp_path)
    recipe = Recipe(dynamic=frozenset({"all"}), keep_float=kept)
    result = qd.quantize(qd.load(path), data, target="onnxruntime", recipe=recipe)
    out = tmp_path / "q.onnx"
    qd.save(result.model, out)
    written = onnx.load(out)
    onnx.checker.check_model(written)
    inner = [
        attribute.g
        for node in written.graph.node
        for attribute in node.attribute
        if attribute.type == onnx.AttributeProto.GRAPH
    ]
    kinds = [[node.op_type for node in graph.node] for graph in inner]
    assert [found.count("MatMulInteger") for found in kinds] == [1, 1, 1]
    assert not any("MatMul" in found for found in kinds)
    said = {r.key for r in result.model.ctx.remarks.remarks if r.code == "dynamic"}
    assert {"outside", "biased", "again"} <= said
    skip_where_pairs_saturate()
    engines = [OrtEngine(onnx.load(p), optimize=True) for p in (path, out)]
    samples = np.load(data)
    for x, c in zip(samples["x"], samples["c"], strict=True):
        want, got = (next(iter(e.run({"x": x, "c": c}).values())) for e in engines)
        assert 10 * np.log10((want**2).sum() / ((want - got) ** 2).sum()) > 20


def test_a_body_that_nobody_asked_for(tmp_path: Path) -> None:
    path, data = files(tmp_path)
    recipe = Recipe(dynamic=frozenset({"head"}))
    result = qd.quantize(qd.load(path), data, target="onnxruntime", recipe=recipe)
    qd.save(result.model, tmp_path / "q.onnx")
    loop = next(n for n in onnx.load(tmp_path / "q.onnx").graph.node if n.op_type == "Loop")
    body = next(a.g for a in loop.attribute if a.name == "body")
    assert "MatMul" in [node.op_type for node in body.node]
