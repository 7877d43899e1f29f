"""Bodies of `If`, `Loop` and `Scan` are optimized like functions, and mean the same."""

# pyright: basic
from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import pytest
from body_models import MODELS, ROW, nodes_in
from onnx import helper, numpy_helper

from qdialect import api
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import write_model

runtime = pytest.importorskip("onnxruntime")


def _run(model: onnx.ModelProto, feeds: dict[str, Any], optimized: bool) -> list[Any]:
    options = runtime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def _relus(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "Relu" for node in nodes_in(model.graph))


@pytest.mark.parametrize("name", MODELS)
def test_bodies_are_optimized(name: str) -> None:
    model = MODELS[name]()
    onnx.checker.check_model(model)
    ctx = new_context()
    read = api.Model(import_model(model, ctx), ctx)
    before = read.text()
    optimized = api.optimize(read)
    assert read.text() == before  # the given one stays
    written = write_model(optimized.module, optimized.ctx).whole()
    onnx.checker.check_model(written)
    # Of two relus in a row, one is left, or none.
    assert 2 * _relus(written) <= _relus(onnx.inliner.inline_local_functions(model))
    x = np.random.default_rng(3).normal(size=ROW).astype(np.float32) * 3
    for chosen, rewritten in product((True, False), repeat=2):
        feeds = {"x": x}
        if any(v.name == "c" for v in model.graph.input):
            feeds["c"] = np.asarray(chosen)
        expected, given = _run(model, feeds, False), _run(written, feeds, rewritten)
        for one, other in zip(expected, given, strict=True):
            assert one.shape == other.shape
            if rewritten:
                np.testing.assert_allclose(one, other, atol=0.051)
            else:
                assert one.tobytes() == other.tobytes()


def test_a_body_keeps_only_what_it_reads() -> None:
    ctx = new_context()
    model = api.optimize(api.Model(import_model(MODELS["if"](), ctx), ctx))
    (node,) = (op for op in model.module.walk() if op.name == "onnx.node")
    assert list(node.captured()) == ["t", "c"]


def test_what_is_done_in_bodies_is_told_and_exact() -> None:
    ctx = new_context()
    model = api.Model(import_model(MODELS["loop"](), ctx), ctx)
    for numerics in ("exact", "relaxed"):
        remarks = api.optimize(model, numerics=numerics).ctx.remarks
        fired = [r for r in remarks.remarks if r.kind == "fired"]
        assert {r.contract for r in fired} == {"exact"}
        assert sum(remarks.fired().values()) >= 2


def test_a_large_constant_of_two_bodies_is_not_copied() -> None:
    model = MODELS["if"]()
    large = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    for tensor in model.graph.initializer:
        if tensor.name == "w":
            tensor.CopyFrom(numpy_helper.from_array(large, "w"))
    branches = {a.name: a.g for n in model.graph.node for a in n.attribute if n.op_type == "If"}
    for name, graph in branches.items():
        end = graph.output[0].name
        graph.node.append(helper.make_node("Cast", ["c"], [f"{name}_i"], to=7))
        graph.node.append(helper.make_node("Gather", ["w", f"{name}_i"], [f"{name}_w"]))
        graph.node.append(helper.make_node("ReduceMax", [f"{name}_w"], [f"{name}_m"], keepdims=0))
        graph.node.append(helper.make_node("Add", [end, f"{name}_m"], [f"{name}_sum"]))
        graph.output[0].name = f"{name}_sum"
        for node in list(graph.node):
            if "w" in node.input and node.op_type == "DequantizeLinear":
                node.input[0] = "eye"
    eye = np.eye(4, dtype=np.int8)
    model.graph.initializer.append(numpy_helper.from_array(eye, "eye"))
    ctx = new_context()
    optimized = api.optimize(api.Model(import_model(model, ctx), ctx))
    written = write_model(optimized.module, optimized.ctx).whole()
    assert large.nbytes < written.ByteSize() < large.nbytes + 10_000
    feeds = {"x": np.ones(ROW, np.float32), "c": np.asarray(True)}
    expected = [a.tobytes() for a in _run(model, feeds, False)]
    assert [a.tobytes() for a in _run(written, feeds, False)] == expected
