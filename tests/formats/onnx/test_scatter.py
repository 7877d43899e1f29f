"""Scatters of one box: in from ONNX as `nn.insert`, judged by ONNX Runtime, and out again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import ModelBuilder, export, load, ops
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from qdialect.errors import InputError, UnsupportedError
from qdialect.interpreter import Interpreter
from qdialect.ir import ops as nn
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.write import OrtEngine, write_model

BOX = np.stack(np.meshgrid([1, 3], [0, 1, 2], indexing="ij"), -1)
#: op, indices, extents of the update, attributes, and what it becomes
SCATTERS: list[tuple[str, Any, list[int], dict[str, Any], str]] = [
    ("ScatterND", [[1], [2]], [2, 5, 2], {}, "nn.insert"),
    ("ScatterND", [[0], [2]], [2, 5, 2], {}, "nn.insert"),
    ("ScatterND", [[-1]], [1, 5, 2], {}, "nn.insert"),
    ("ScatterND", BOX, [2, 3, 2], {}, "nn.insert"),
    ("ScatterND", [[2], [1]], [2, 5, 2], {}, "onnx.node"),
    ("ScatterND", [[1], [1]], [2, 5, 2], {}, "onnx.node"),
    ("ScatterND", [[0, 1], [1, 2]], [2, 2], {}, "onnx.node"),
    ("ScatterND", BOX[:, ::-1], [2, 3, 2], {}, "onnx.node"),
    ("ScatterND", [[1], [2]], [2, 5, 2], {"reduction": "add"}, "onnx.node"),
    ("ScatterElements", np.full((2, 3, 1), 1), [2, 3, 1], {"axis": 2}, "nn.insert"),
    ("ScatterElements", [[[2]], [[3]]], [2, 1, 1], {}, "nn.insert"),
    ("ScatterElements", [[[2], [3]], [[2], [3]]], [2, 2, 1], {"axis": -2}, "nn.insert"),
    ("ScatterElements", [[[0], [1]], [[1], [0]]], [2, 2, 1], {"axis": 1}, "onnx.node"),
]


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize(("op", "indices", "update", "attributes", "becomes"), SCATTERS)
def test_scatter(
    op: str, indices: Any, update: list[int], attributes: Any, becomes: str, quantized: bool
) -> None:
    if quantized and "reduction" in attributes:
        pytest.skip("no sums of integers")
    b = ModelBuilder(opset=18)
    names = [b.input("x", [4, 5, 2]), b.input("u", update)]
    if quantized:
        b.const("s", 0.02, np.float32)
        b.const("z", 3, np.uint8)
        names = [b.node("QuantizeLinear", [n, "s", "z"], f"{n}_q") for n in names]
    result = b.node(op, [names[0], b.const("i", indices, np.int64), names[1]], "y", **attributes)
    if quantized:
        result = b.node("DequantizeLinear", [result, "s", "z"], "r")
    b.output(result)
    model = b.model()
    ctx, module = load(model)
    kept = [name for name in ops(module) if not name.startswith(("quant.", "builtin."))]
    assert kept == [becomes]
    if becomes == "onnx.node":
        return
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=(4, 5, 2)), "u": rng.normal(size=update)}
    feed = {name: x.astype(np.float32) for name, x in feed.items()}
    (mine,) = Interpreter(ctx, module).run(feed)
    for reference in (model, export(ctx, module)):
        (theirs,) = OrtEngine(reference, optimize=False).run(feed).values()
        np.testing.assert_array_equal(theirs, mine)


def inserted(x: list[int], update: list[int], starts: list[int], steps: list[int]) -> Any:
    ctx = new_context()
    dims = [[-(2**63) if n < 0 else n for n in shape] for shape in (x, update)]
    block = Block(arg_types=[TensorType(f32, shape) for shape in dims])
    op = nn.InsertOp(*block.args, starts=starts, steps=steps)
    block.add_ops([op, ReturnOp(op.result)])
    kind = FunctionType.from_lists([a.type for a in block.args], [op.result.type])
    module = ModuleOp([FuncOp("main", kind, Region(block))])
    module.verify()
    return ctx, module


@pytest.mark.parametrize(
    ("x", "update", "starts", "types"),
    [
        ([-1, 6], [-1, 2], [0, 3], ["Slice", "Slice", "Concat"]),
        ([-1, 6], [2, 6], [1, 0], ["ScatterND"]),
        ([2, 6], [2, 6], [0, 0], ["Identity"]),
    ],
)
def test_unknown_extents(x: Any, update: Any, starts: Any, types: list[str]) -> None:
    ctx, module = inserted(x, update, starts, [1, 1])
    model = write_model(module, ctx).whole()
    assert [node.op_type for node in model.graph.node] == types
    sizes = [[3 if n < 0 else n for n in shape] for shape in (x, update)]
    data = [np.random.default_rng(1).normal(size=n).astype(np.float32) for n in sizes]
    (mine,) = Interpreter(ctx, module).run(data)
    names = [v.name for v in model.graph.input]
    feed = dict(zip(names, data, strict=True))
    (theirs,) = OrtEngine(model, optimize=False).run(feed).values()
    np.testing.assert_array_equal(mine, theirs)


def test_what_does_not_fit_is_an_error() -> None:
    ctx, module = inserted([-1, 6], [2, 6], [3, 0], [1, 1])
    data = [np.zeros((4, 6), np.float32), np.zeros((2, 6), np.float32)]
    with pytest.raises(InputError, match="ends at 5 of dimension 0 of extent 4"):
        Interpreter(ctx, module).run(data)
    ctx, module = inserted([-1, -1], [-1, -1], [1, 0], [1, 1])
    with pytest.raises(UnsupportedError, match="unknown extent"):
        write_model(module, ctx).whole()
