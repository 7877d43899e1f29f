"""Weights in blocks of few bits in linalg: engines compute what the interpreter does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from engine_support import converted
from onnx import helper, numpy_helper

import qdialect as qd
from qdialect.algebra.qparams import Layout
from qdialect.api import run_passes
from qdialect.engines.installed import engine_named
from qdialect.interpreter import Interpreter
from qdialect.ir.ops import ConstantOp
from qdialect.ir.quant import quant_element
from qdialect.plugins.common.exports import exports
from qdialect.plugins.common.program import Program
from qdialect.quantizer.recipe import Recipe

DEPTH, WIDTH, OUT = 64, 48, 8


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of a table through two products."""
    random, path = np.random.default_rng(3), tmp_path_factory.mktemp("weights") / "net.onnx"
    arrays = {"e": (20, DEPTH), "w": (DEPTH, WIDTH), "v": (WIDTH, OUT)}
    nodes = [
        helper.make_node("Gather", ["e", "i"], ["x"], "rows"),
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Tanh", ["a"], ["t"], "bend"),
        helper.make_node("MatMul", ["t", "v"], ["y"], "last"),
    ]
    ends = [
        helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [6]),
        helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [6, OUT]),
    ]
    named = [
        numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), name)
        for name, shape in arrays.items()
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], named)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


RECIPES = {
    "u4": Recipe(weights="u4", block=16, tables="u4"),
    "i4, f16": Recipe(weights="i4", block=16, scale_type="f16"),
    "u3": Recipe(weights="u3", block=16),
    "i3": Recipe(weights="i3", block=32),
    "nf4": Recipe(weights="nf4"),
    "nf4, f8": Recipe(weights="nf4", scale_type="f8E4M3FN"),
    "mxint8": Recipe(weights="mxint8"),
    "mxfp4": Recipe(weights="mxfp4"),
}


@pytest.mark.parametrize(
    ("engine", "to"), [("iree", "linalg"), ("iree", "iree"), ("mlir-runner", "linalg")]
)
@pytest.mark.parametrize("name", RECIPES)
def test_weights_in_blocks(net: Path, name: str, engine: str, to: str) -> None:
    runner = engine_named(engine)
    if missing := runner.missing():
        pytest.skip(f"{engine} is not installed: {missing} (qopt engines install)")
    made = qd.quantize(qd.load(net), recipe=RECIPES[name], target="generic").model
    assert "!quant.uniform" in str(made.module)
    export = exports()[to]
    given = run_passes(made, export.passes(codes=True), target=export.target)
    inputs = [np.array([3, 0, 19, 7, 7, 12])]
    (expected,) = Interpreter(made.ctx, made.module).run(inputs)
    lowered = converted(given, to)
    ((found,),) = runner.run(Program.of(lowered.module, lowered.ctx), [inputs])
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    (exact,) = Interpreter(given.ctx, qd.load(net).module).run(inputs)
    assert np.abs(exact - expected).max() > 1e-3 * np.abs(exact).max()


@pytest.mark.parametrize("weights", ["i4", "i3", "u3"])
def test_weights_per_channel(net: Path, weights: str, tmp_path: Path) -> None:
    """Products of codes, which are as many as the integers have."""
    if missing := engine_named("iree").missing():
        pytest.skip(f"iree is not installed: {missing} (qopt engines install)")
    data = tmp_path / "data.npz"
    np.savez(data, i=np.random.default_rng(1).integers(0, 20, (8, 6)))
    recipe = Recipe(weights=weights)
    made = qd.quantize(qd.load(net), data, recipe=recipe, target="linalg").model
    kinds = [v.type for op in made.module.walk() for v in op.results if isinstance(op, ConstantOp)]
    found = [q.qparams for kind in kinds if (q := quant_element(kind)) is not None]
    storage = recipe.integer_weights
    assert [q.storage for q in found if q.layout is Layout.AXIS] == [storage] * 2
    export, inputs = exports()["iree"], [np.array([3, 0, 19, 7, 7, 12])]
    lowered = converted(run_passes(made, export.passes(codes=True), target="linalg"), "iree")
    program = Program.of(lowered.module, lowered.ctx)
    ((actual,),) = engine_named("iree").run(program, [inputs])
    (expected,) = Interpreter(made.ctx, made.module).run(inputs)
    np.testing.assert_array_equal(actual, expected)
