"""Ops that pick, repeat and rearrange: in from ONNX, judged by ONNX Runtime, and out again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import ModelBuilder, load, needs_runtime, ops, roundtrip
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from qdialect.interpreter import Interpreter
from qdialect.ir import ops as nn
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine, write_model
from qdialect.plugins.onnx.write.kernels import SINCE

IMAGE = [1, 4, 4, 6]
CASES: list[tuple[str, str, list[tuple[str, Any]], dict[str, Any], int]] = [
    ("Squeeze", "nn.squeeze", [("a", [0])], {}, 1),
    ("Unsqueeze", "nn.unsqueeze", [("a", [1, -1])], {}, 1),
    ("Expand", "nn.expand", [("a", [3, 2, 1, 1, 6])], {}, 1),
    ("Tile", "nn.tile", [("a", [2, 1, 1, 3])], {}, 1),
    ("Split", "nn.split", [("a", [1, 3])], {"axis": 1}, 2),
    ("Split", "nn.split", [], {"axis": -1}, 3),
    ("Gather", "nn.gather", [("a", [[1, -1], [0, 2]])], {"axis": 1}, 1),
    ("DepthToSpace", "nn.depth_to_space", [], {"blocksize": 2}, 1),
    ("DepthToSpace", "nn.depth_to_space", [], {"blocksize": 2, "mode": "CRD"}, 1),
    ("SpaceToDepth", "nn.space_to_depth", [], {"blocksize": 2}, 1),
]


def check(model: Any) -> Any:
    """Interpreter of the import, ONNX Runtime of the source and of the export agree."""
    ctx = new_context()
    module = import_model(model, ctx)
    module.verify()
    written = write_model(module, ctx).whole()
    rng = np.random.default_rng(1)
    (name,) = (v.name for v in model.graph.input)
    x = rng.normal(size=[d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim])
    feed = {name: x.astype(np.float32)}
    mine = Interpreter(ctx, module).run(feed)
    for reference in (model, written):
        for a, b in zip(OrtEngine(reference, optimize=False).run(feed).values(), mine, strict=True):
            np.testing.assert_array_equal(a, b)
    return module, written


@pytest.mark.parametrize(("op", "name", "inputs", "attributes", "outputs"), CASES)
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("opset", [11, 17, 21])
def test_picks(
    op: str,
    name: str,
    inputs: list[tuple[str, Any]],
    attributes: dict[str, Any],
    outputs: int,
    quantized: bool,
    opset: int,
) -> None:
    if opset < 13 and op in ("Squeeze", "Unsqueeze", "Split") and inputs:
        attributes = {**attributes, ("split" if op == "Split" else "axes"): inputs[0][1]}
        inputs = []
        if -1 in attributes.get("axes", ()) and opset < 11:
            pytest.skip("no negative axes")
    if op == "Split" and not inputs and opset >= 18 and "split" not in attributes:
        attributes = {**attributes, "num_outputs": outputs}
    if quantized:
        needs_runtime(SINCE.get((name, "u8"), (1, 20)), f"has no {op} of u8")
    b = ModelBuilder(opset=opset)
    source = b.input("x", IMAGE)
    if quantized:
        source = b.quantize("x", 0.02, 3, "u8")
    results = [f"y{i}" for i in range(outputs)]
    b.node(op, [source, *(b.const(n, v, np.int64) for n, v in inputs)], results, **attributes)
    for result in results:
        if quantized:
            result = b.dequantize(result, f"{result}_real", "x_s", "x_z", 0, 0.02)
        b.output(result)
    module, written = check(b.model())
    wanted = [name] if not quantized else ["quant.qcast", name, *["quant.dcast"] * outputs]
    assert ops(module) == wanted
    assert op in [node.op_type for node in written.graph.node]
    assert len(written.graph.node) == len(wanted)


@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_resize(coordinates: str, nearest: str) -> None:
    rng = np.random.default_rng(1)
    for number in range(30):
        b = ModelBuilder(opset=13 if number % 2 else 11)
        shape = [1, 2, *(int(n) for n in rng.integers(1, 9, 2))]
        b.input("x", shape)
        roi = b.const("roi", np.zeros(0, np.float32))
        if number % 3:
            scales = [1.0, 1.0, *rng.choice([0.5, 0.6, 0.7, 1.0, 1.3, 1.5, 2.0, 3.3], 2)]
            if any(int(n * s) == 0 for n, s in zip(shape, scales, strict=True)):
                continue
            names = [roi, b.const("s", np.array(scales, np.float32))]
        else:
            sizes = [1, 2, *(int(n) for n in rng.integers(1, 12, 2))]
            empty = b.const("e", np.zeros(0, np.float32)) if b.opset < 13 else ""
            names = [roi, empty, b.const("n", sizes, np.int64)]
        b.node(
            "Resize",
            ["x", *names],
            "y",
            mode="nearest",
            nearest_mode=nearest,
            coordinate_transformation_mode=coordinates,
        )
        b.output("y")
        module, _ = check(b.model())
        assert ops(module) == ["nn.resize_nearest"]


@pytest.mark.parametrize(
    "coordinates", ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"]
)
def test_resize_linear(coordinates: str) -> None:
    rng = np.random.default_rng(2)
    for number in range(40):
        b = ModelBuilder(opset=13 if number % 2 else 11)
        shape = [2, 3, *(int(n) for n in rng.integers(1, 9, 2))]
        b.input("x", shape)
        roi = b.const("roi", np.zeros(0, np.float32))
        if number % 3:
            scales = [1.0, 1.0, *rng.choice([0.5, 0.6, 0.7, 1.0, 1.3, 1.5, 2.0, 3.3], 2)]
            if any(int(n * s) == 0 for n, s in zip(shape, scales, strict=True)):
                continue
            names = [roi, b.const("s", np.array(scales, np.float32))]
        else:
            sizes = [2, 3, *(int(n) for n in rng.integers(1, 12, 2))]
            empty = b.const("e", np.zeros(0, np.float32)) if b.opset < 13 else ""
            names = [roi, empty, b.const("n", sizes, np.int64)]
        mode = {"mode": "linear", "coordinate_transformation_mode": coordinates}
        b.node("Resize", ["x", *names], "y", **mode)
        b.output("y")
        model = b.model()
        module, _ = roundtrip(model)
        assert ops(module) == ["nn.resize_linear"]
        ctx, module = load(model)
        x = rng.normal(size=shape).astype(np.float32)
        (mine,) = Interpreter(ctx, module).run([x])
        (theirs,) = OrtEngine(model, optimize=False).run({"x": x}).values()
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)


def test_where() -> None:
    b = ModelBuilder()
    b.input("x", [2, 3])
    condition = b.const("c", [[True], [False]])
    b.node("Where", [condition, "x", b.const("z", [1.0, 2.0, 3.0], np.float32)], "y")
    b.output("y")
    module, _ = check(b.model())
    assert ops(module) == ["nn.select"]


@pytest.mark.parametrize(
    ("op", "properties"),
    [
        (nn.FlipOp, {"axes": [0, -1]}),
        (nn.FlipOp, {"axes": []}),
        (nn.RepeatOp, {"repeats": [2, 1, 3]}),
        (nn.RepeatOp, {"repeats": [1, 1, 1]}),
    ],
)
def test_ops_onnx_does_not_have(op: Any, properties: dict[str, Any]) -> None:
    ctx = new_context()
    block = Block(arg_types=[TensorType(f32, (2, 3, 2))])
    made = op(block.args[0], **properties)
    block.add_ops([made, ReturnOp(made.results[0])])
    kind = FunctionType.from_lists([block.args[0].type], [made.results[0].type])
    module = ModuleOp([FuncOp("main", kind, Region(block))])
    module.verify()
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    (mine,) = Interpreter(ctx, module).run([x])
    (theirs,) = (
        OrtEngine(write_model(module, ctx).whole(), optimize=False).run({"arg0": x}).values()
    )
    np.testing.assert_array_equal(mine, theirs)


def test_forms_that_stay_nodes() -> None:
    b = ModelBuilder()
    b.input("x", [1, 1, 4, 4])
    names = ["x", "", b.const("s", np.array([1, 1, 2, 2], np.float32))]
    b.node("Resize", names, "y", mode="cubic")
    b.output("y")
    module, _ = roundtrip(b.model())
    assert ops(module) == ["onnx.node"]


@pytest.mark.parametrize("scales", [[1, 2, 2, 2], [2, 2]])
def test_linear_resizes_of_other_dimensions_stay_nodes(scales: list[float]) -> None:
    b = ModelBuilder()
    b.input("x", [1, 1, 4, 4][: len(scales)])
    names = ["x", "", b.const("s", np.array(scales, np.float32))]
    b.node("Resize", names, "y", mode="linear")
    b.output("y")
    assert ops(load(b.model())[1]) == ["onnx.node"]


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1, 2**31 - 2, 3, -4, -(2**63)])
@pytest.mark.parametrize("step", [1, -1, -2])
@pytest.mark.parametrize("start", [0, 2, -1])
def test_slices_as_far_as_there_is_something(start: int, end: int, step: int) -> None:
    """With negative steps the largest integers are the beginning, other large ones the end."""
    b = ModelBuilder(17)
    b.input("x", [1, 4])
    lists = [b.const(n, [v]) for n, v in zip("seap", (start, end, 1, step), strict=True)]
    b.node("Slice", ["x", *lists], "y")
    b.output("y", shape=[None, None])
    check(b.model())


@pytest.mark.parametrize("stop", [2**31 - 1, 2**63 - 1])
def test_nothing_is_written_as_nothing(stop: int) -> None:
    """`x[0:beyond:-1]` has no element, for us as for numpy."""
    block = Block(arg_types=[TensorType(f32, [4])])
    op = nn.SliceOp(block.args[0], starts=(0,), stops=(stop,), steps=(-1,))
    block.add_ops([op, ReturnOp(op.result)])
    kinds = FunctionType.from_lists(block.arg_types, [op.result.type])
    module = ModuleOp([FuncOp("main", kinds, Region(block))])
    model = write_model(module, new_context()).whole()
    (got,) = OrtEngine(model, optimize=False).run({"arg0": np.ones(4, np.float32)}).values()
    assert got.shape == (0,)
