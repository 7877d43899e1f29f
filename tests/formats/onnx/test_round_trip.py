"""Import and export without passes: the same file but for what docs/design/008 lists."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import qdialect as qd
from tests.support import damaged_models as fuzz_onnx

MODELS = (fuzz_onnx.quantized_net, fuzz_onnx.movement_net, fuzz_onnx.control_net)


def written(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    onnx.save(model, folder / "a.onnx")
    qd.save(qd.load(folder / "a.onnx"), folder / "b.onnx")
    return onnx.load(folder / "b.onnx")


@pytest.mark.parametrize("build", MODELS)
def test_a_model_comes_back(build: object, tmp_path: Path) -> None:
    model: onnx.ModelProto = build()  # pyright: ignore
    model.producer_name, model.producer_version, model.domain = "somebody", "1.5", "org.test"
    model.model_version, model.doc_string = 7, "what it is"
    model.graph.doc_string = "the graph"
    for key in ("alpha", "beta"):
        model.metadata_props.append(onnx.StringStringEntryProto(key=key, value=f"{key}!"))
    again = written(model, tmp_path)
    fields = ("ir_version", "producer_name", "producer_version", "domain", "model_version")
    for name in (*fields, "doc_string"):
        assert getattr(again, name) == getattr(model, name)
    assert again.graph.name == model.graph.name
    assert again.graph.doc_string == model.graph.doc_string
    known = {entry.domain: entry.version for entry in model.opset_import}
    used = {node.domain for node in model.graph.node}
    assert {e.domain: e.version for e in again.opset_import}.items() <= known.items()
    assert used <= {entry.domain for entry in again.opset_import}
    assert list(again.metadata_props) == list(model.metadata_props)
    assert list(again.graph.input) == list(model.graph.input)
    assert [v.name for v in again.graph.output] == [v.name for v in model.graph.output]
    count = Counter(node.op_type for node in model.graph.node)
    assert Counter(node.op_type for node in again.graph.node) == count
    assert {n.name for n in again.graph.node} == {n.name for n in model.graph.node}
    made = [{t for n in m.graph.node for t in n.output} for m in (model, again)]
    assert made[0] == made[1]
    read = {name for node in model.graph.node for name in node.input}
    arrays = [
        {
            t.name: onnx.numpy_helper.to_array(t)
            for t in m.graph.initializer
            if t.name in read - {"shape"}
        }
        for m in (model, again)
    ]
    assert arrays[0].keys() <= arrays[1].keys()
    assert all(np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0])


@pytest.mark.parametrize("build", MODELS)
def test_twice_is_as_once(build: object, tmp_path: Path) -> None:
    once = written(build(), tmp_path)  # pyright: ignore
    assert written(once, tmp_path) == once


def test_kernels_come_back_as_kernels(tmp_path: Path) -> None:
    """They define the model: dequantize, op, quantize give other bits."""
    source = fuzz_onnx.kernel_net()
    again = written(source, tmp_path)
    before, after = ({n.op_type for n in m.graph.node} for m in (source, again))
    rescales = {"QLinearConcat", "QLinearWhere"}
    assert {kind for kind in before if kind.startswith("QLinear")} - rescales <= after
    assert written(again, tmp_path) == again


def test_what_is_listed_as_different(tmp_path: Path) -> None:
    """See docs/design/008."""
    graph = fuzz_onnx.quantized_net()
    nodes = {node.name: node for node in graph.graph.node}
    nodes["add"].op_type = "Sum"
    nodes["relu"].name = ""
    graph.graph.initializer.append(helper.make_tensor("unread", 1, [1], [0.0]))
    again = written(graph, tmp_path)
    assert {n.output[0]: n.op_type for n in again.graph.node}["a"] == "Add"
    assert {n.output[0]: n.name for n in again.graph.node}["r"] == "r"
    assert "unread" not in {t.name for t in again.graph.initializer}
