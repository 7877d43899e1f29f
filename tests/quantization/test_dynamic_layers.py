"""Recurrent layers that are made to quantize their input as they run."""

# pyright: basic

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qdialect as qd
from qdialect.interpreter import Interpreter
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.quantizer.recipe import Recipe
from tests.support.processor import saturates_pairs

pytest.importorskip("onnxruntime")

STEPS, BATCH, DEPTH, HIDDEN = 12, 2, 20, 16


def files(folder: Path, direction: str, states: bool, kind: str = "LSTM") -> tuple[Path, Path]:
    """A layer, with initial states, lengths, peepholes and last states or without, and a head."""
    rng = np.random.default_rng(5)
    dirs, gates = 2 if direction == "bidirectional" else 1, 4 if kind == "LSTM" else 3
    rows = gates * HIDDEN
    arrays = {
        "w": rng.normal(size=(dirs, rows, DEPTH)) / 5,
        "r": rng.normal(size=(dirs, rows, HIDDEN)) / 4,
        "b": rng.normal(size=(dirs, 2 * rows)) / 4,
        "h": rng.normal(size=(dirs, BATCH, HIDDEN)) / 4,
        "c": rng.normal(size=(dirs, BATCH, HIDDEN)) / 4,
        "p": rng.normal(size=(dirs, 3 * HIDDEN)) / 4,
        "v": rng.normal(size=(dirs * HIDDEN, 5)) / 4,
    }
    held = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    held.append(numpy_helper.from_array(np.array([12, 7], np.int32), "lengths"))
    held.append(numpy_helper.from_array(np.array([STEPS, -1, dirs * HIDDEN]), "rows"))
    more = ["lengths", "h", "c", "p"] if states and kind == "LSTM" else []
    outputs = ["s", "", "cell"] if more else ["s"]
    inputs = ["x", "w", "r", "b", *more]
    nodes = [
        helper.make_node(kind, inputs, outputs, "layer", hidden_size=HIDDEN, direction=direction),
        helper.make_node("Transpose", ["s"], ["t"], "turn", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["t", "rows"], ["flat"], "flatten"),
        helper.make_node("MatMul", ["flat", "v"], ["y"], "head"),
    ]
    ends = [helper.make_tensor_value_info("x", 1, [STEPS, BATCH, DEPTH])]
    results = [helper.make_tensor_value_info("y", 1, None)]
    results += [helper.make_tensor_value_info("cell", 1, None)] if more else []
    graph = helper.make_graph(nodes, "net", ends, results, held)
    model, data = folder / "f.onnx", folder / "data.npz"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), model)
    np.savez(data, x=rng.normal(size=(8, STEPS, BATCH, DEPTH)).astype(np.float32))
    return model, data


def sqnr(one: np.ndarray, other: np.ndarray) -> float:
    return float(10 * np.log10((one**2).sum() / ((one - other) ** 2).sum()))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_layer(tmp_path: Path, direction: str, states: bool, per_channel: bool) -> None:
    """The runtime's layer is near the float one, and ours differs by the rounding of its input
    only; the file comes in and goes out as it is."""
    path, data = files(tmp_path, direction, states)
    recipe = Recipe(dynamic=frozenset({"layer"}), keep_float=frozenset({"head"}))
    recipe = Recipe(dynamic=recipe.dynamic, keep_float=recipe.keep_float, per_channel=per_channel)
    result = qd.quantize(qd.load(path), data, target="onnxruntime", recipe=recipe)
    assert "layer" in {e.key for e in result.coverage.left if e.code == "dynamic"}
    out, again = tmp_path / "q.onnx", tmp_path / "again.onnx"
    qd.save(result.model, out)
    written = onnx.load(out)
    (node,) = (node for node in written.graph.node if node.op_type == "DynamicQuantizeLSTM")
    assert node.domain == "com.microsoft"
    assert not {"DequantizeLinear", "LSTM"} & {node.op_type for node in written.graph.node}
    assert out.stat().st_size < path.stat().st_size
    scales = next(t for t in written.graph.initializer if t.name == node.input[8])
    dirs = 2 if direction == "bidirectional" else 1
    assert list(scales.dims) == ([dirs, 4 * HIDDEN] if per_channel else [dirs])
    qd.save(qd.load(out), again)
    engines = [OrtEngine(onnx.load(p), optimize=False) for p in (path, out, again)]
    reference = Interpreter(result.model.ctx, result.model.module)
    text = qd.load(_text(result.model, tmp_path))
    from_text = Interpreter(text.ctx, text.module)
    for sample in np.load(data)["x"]:
        floats, answers, same = (list(e.run({"x": sample}).values()) for e in engines)
        ours, read = (each.run({"x": sample}) for each in (reference, from_text))
        for n, want in enumerate(floats):
            np.testing.assert_array_equal(answers[n], same[n])
            np.testing.assert_array_equal(ours[n], read[n])
            assert sqnr(want, ours[n]) > 30
            if not saturates_pairs():
                assert sqnr(want, answers[n]) > 25


def _text(model: qd.Model, folder: Path) -> Path:
    path = folder / "q.mlir"
    qd.save(model, path)
    return path


def test_a_layer_without_such_a_form(tmp_path: Path) -> None:
    """No runtime has a GRU that quantizes its input as it runs: said, and float."""
    path, data = files(tmp_path, "forward", False, "GRU")
    recipe = Recipe(dynamic=frozenset({"layer"}))
    result = qd.quantize(qd.load(path), data, target="onnxruntime", recipe=recipe)
    remarks = [r for r in result.model.ctx.remarks.remarks if r.key == "layer"]
    text = "not dynamic: 'onnxruntime' quantizes no input of 'nn.gru' as it runs"
    assert text in [remark.reason for remark in remarks]
