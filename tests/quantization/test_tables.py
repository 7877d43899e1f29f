"""Tables of which rows are picked (embeddings), in codes with a scale for each row."""

# pyright: basic

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qdialect as qd
from qdialect.interpreter import Interpreter
from qdialect.ir.ops import GatherOp, constant_array, constant_of
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.quantizer.recipe import Recipe

pytest.importorskip("onnxruntime")

ROWS, DEPTH = 300, 32


def files(folder: Path, axis: int = 0) -> tuple[Path, Path]:
    """Words and positions are added, normalized and projected; rows differ in size."""
    rng = np.random.default_rng(3)
    table = rng.normal(size=(ROWS, DEPTH)) * np.exp(rng.normal(size=(ROWS, 1)) * 2)
    table[7] = 0
    arrays = {
        "words": np.moveaxis(table, 0, axis),
        "positions": rng.normal(size=(1, 6, DEPTH)),
        "g": rng.uniform(0.5, 1.5, DEPTH),
        "b": rng.normal(size=DEPTH),
        "w": rng.normal(size=(DEPTH, 8)) / 5,
    }
    nodes = [
        helper.make_node("Gather", ["words", "i"], ["e"], "embed", axis=axis),
        *([helper.make_node("Transpose", ["e"], ["t"], "turn", perm=[1, 2, 0])] if axis else []),
        helper.make_node("Add", ["t" if axis else "e", "positions"], ["a"], "place"),
        helper.make_node("LayerNormalization", ["a", "g", "b"], ["n"], "norm", axis=-1),
        helper.make_node("MatMul", ["n", "w"], ["y"], "project"),
    ]
    ends = [
        helper.make_tensor_value_info("i", 7, ["n", 6]),
        helper.make_tensor_value_info("y", 1, ["n", 6, 8]),
    ]
    held = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], held)
    model, data = folder / "f.onnx", folder / "data.npz"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), model)
    np.savez(data, i=rng.integers(-ROWS, ROWS, (16, 1, 6)))
    return model, data


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_have_scales_of_their_own(tmp_path: Path, axis: int) -> None:
    """Each number is as near as half a step of its row, ONNX Runtime and ours agree, and the file
    reads back as the same."""
    path, data = files(tmp_path, axis)
    result = qd.quantize(qd.load(path), data, target="onnxruntime")
    assert [e.key for e in result.coverage.left if e.code == "table"] == ["embed"]
    out, again = tmp_path / "q.onnx", tmp_path / "again.onnx"
    qd.save(result.model, out)
    qd.save(qd.load(out), again)
    kinds = [node.op_type for node in onnx.load(out).graph.node]
    assert kinds.count("Gather") == 2
    assert kinds == [node.op_type for node in onnx.load(again).graph.node]
    (codes, scales), ctx = _gathered(result.model), result.model.ctx
    real = codes.astype("f4") * scales
    table = numpy_helper.to_array(onnx.load(path).graph.initializer[0])
    step = np.abs(table).max(axis=1 - axis, keepdims=True) / 127
    assert (np.abs(real - table) <= step * 0.501).all()
    engines = [OrtEngine(onnx.load(p), optimize=False) for p in (out, again)]
    reference = Interpreter(ctx, result.model.module)
    for sample in np.load(data)["i"]:
        answers = [next(iter(engine.run({"i": sample}).values())) for engine in engines]
        np.testing.assert_array_equal(answers[0], answers[1])
        np.testing.assert_allclose(reference.run({"i": sample})[0], answers[0], atol=0.1)


def _gathered(model: qd.Model) -> list[np.ndarray]:
    """The codes and the scales."""
    found = [op for op in model.module.walk() if isinstance(op, GatherOp)]
    constants = [constant_of(op.input) for op in found]
    arrays = [constant_array(c, model.ctx.blobs) for c in constants if c is not None]
    return sorted(arrays, key=lambda array: -array.size)


def test_kept(tmp_path: Path) -> None:
    path, data = files(tmp_path)
    recipe = Recipe(keep_float=frozenset({"gather"}))
    result = qd.quantize(qd.load(path), data, target="onnxruntime", recipe=recipe)
    assert len(_gathered(result.model)) == 1


def test_rows_that_are_taken_on_one_scale(tmp_path: Path) -> None:
    """A product takes the rows: the table is codes on the scale of the product's input."""
    path, data = files(tmp_path)
    model = onnx.load(path)
    del model.graph.node[1:3]
    model.graph.node[1].input[0] = "e"
    onnx.save(model, path)
    result = qd.quantize(qd.load(path), data, target="onnxruntime")
    assert "table" not in {e.code for e in result.coverage.left}
    qd.save(result.model, tmp_path / "q.onnx")
    kinds = [node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node]
    assert kinds.count("Gather") == 1
    (codes,) = _gathered(result.model)
    assert codes.dtype.itemsize == 1
