"""Shape ops on floats and on stored integers, and quantization parameters, as imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_models import ModelBuilder, export, load, ops, roundtrip
from xdsl.dialects.func import FuncOp

from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.ir.quant import quant_element
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.write import OrtEngine, evaluate_node

IMAGE = [2, 4, 8, 10]

MOVES: list[tuple[str, str, list[tuple[str, Any]], dict[str, Any]]] = [
    ("Reshape", "nn.reshape", [("shape", [2, -1])], {}),
    ("Reshape", "nn.reshape", [("shape", [0, 4, -1])], {}),
    ("Squeeze", "onnx.node", [], {}),
    ("Unsqueeze", "nn.unsqueeze", [("axes", [0, -1])], {}),
    ("Slice", "nn.slice", [("starts", [1]), ("ends", [100]), ("axes", [2])], {}),
    (
        "Slice",
        "nn.slice",
        [("starts", [-1, 0]), ("ends", [-100, 7]), ("axes", [2, 3]), ("steps", [-2, 3])],
        {},
    ),
    ("Pad", "nn.pad", [("pads", [0, 0, 1, 2, 0, 0, 3, 0])], {}),
    ("Pad", "nn.pad", [("pads", [0, 0, 1, 2, 0, 0, 3, 0])], {"mode": "reflect"}),
    ("Pad", "onnx.node", [("pads", [0, 0, -1, 0, 0, 0, 0, 0])], {}),
]


@pytest.mark.parametrize(("op", "name", "inputs", "attributes"), MOVES)
@pytest.mark.parametrize("storage", [None, "u8", "i8"])
def test_movement(
    op: str,
    name: str,
    inputs: list[tuple[str, Any]],
    attributes: dict[str, Any],
    storage: str | None,
) -> None:
    """On floats, and on the integers between quantize and dequantize."""
    shape = ["N", 1, 8, 10] if op == "Squeeze" else IMAGE
    b = ModelBuilder(opset=19 if attributes.get("mode") else 17)
    source = b.input("x", shape)
    if storage:
        source = b.quantize("x", 0.02, 3, storage)
    names = [source, *(b.const(n, v, np.int64) for n, v in inputs)]
    result = b.node(op, names, "y", **attributes)
    if storage:
        result = b.dequantize(result, "z", "x_s", "x_z", 0, 0.02)
    b.output(result, shape=["A", "B", "C"] if op == "Squeeze" else None)
    module, written = roundtrip(b.model(), N=2)
    wanted = [name]
    if storage:
        bridge = ["quant.scast"] + ["builtin.unrealized_conversion_cast"] * (storage == "u8")
        kept = [*bridge, name, *reversed(bridge)] if name == "onnx.node" else [name]
        wanted = ["quant.qcast", *kept, "quant.dcast"]
    assert ops(module) == wanted
    types = [node.op_type for node in written.graph.node]
    again = op
    middle = types[1:-1] if storage else types
    assert middle == [again]


def test_concat_of_one_encoding_stays_quantized() -> None:
    b = ModelBuilder()
    for name in ("x", "y"):
        b.input(name, [2, 3])
        b.quantize(name, 0.02, 3, "u8")
    b.node("Concat", ["x_q", "y_q"], "c", axis=1)
    b.output(b.dequantize("c", "z", "x_s", "x_z", 0, 0.02))
    module, _ = roundtrip(b.model())
    assert ops(module) == ["quant.qcast", "quant.qcast", "nn.concat", "quant.dcast"]


def test_concat_of_two_encodings_is_on_integers() -> None:
    """Integer concat does not requantize, so it is not `nn.concat`."""
    b = ModelBuilder()
    for name, scale in (("x", 0.02), ("y", 0.03)):
        b.input(name, [2, 3])
        b.quantize(name, scale, 3, "u8")
    b.node("Concat", ["x_q", "y_q"], "c", axis=1)
    b.output(b.dequantize("c", "z", "x_s", "x_z", 0, 0.02))
    module, _ = roundtrip(b.model())
    assert "nn.concat" not in ops(module)
    assert "onnx.node" in ops(module)


def test_dequantize_under_other_parameters_is_a_reinterpretation() -> None:
    b = ModelBuilder()
    b.input("x", [4])
    b.quantize("x", 0.02, 3, "i8")
    b.const("s", 0.5, np.float32)
    b.const("z", -7, np.int8)
    b.output(b.dequantize("x_q", "y", "s", "z", 0, 0.5))
    module, _ = roundtrip(b.model())
    assert ops(module) == ["quant.qcast", "quant.scast", "quant.scast", "quant.dcast"]


@pytest.mark.parametrize("storage", ["u8", "i8"])
def test_integer_input_read_by_dequantize_is_a_quantized_argument(storage: str) -> None:
    b = ModelBuilder()
    dtype = {"u8": np.uint8, "i8": np.int8}[storage]
    b.input("x", ["batch", 4], dtype)
    b.const("s", 0.5, np.float32)
    b.const("z", 7, dtype)
    b.node("Relu", [b.dequantize("x", "y", "s", "z", 0, 0.5)], "r")
    b.output("r", shape=["batch", 4])
    module, written = roundtrip(b.model(), batch=3)
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    element = quant_element(function.args[0].type)
    assert element is not None
    assert element.qparams.zero_point == 7
    assert written.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert written.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_integer_input_with_another_reader_stays_integer() -> None:
    b = ModelBuilder()
    b.input("x", [4], np.uint8)
    b.const("s", 0.5, np.float32)
    b.const("z", 7, np.uint8)
    b.output(b.dequantize("x", "y", "s", "z", 0, 0.5))
    b.node("Cast", ["x"], "c", to=onnx.TensorProto.FLOAT)
    b.output("c")
    module, _ = roundtrip(b.model())
    names = ["builtin.unrealized_conversion_cast", "quant.scast", "quant.dcast", "onnx.node"]
    assert ops(module) == names


@pytest.mark.parametrize(
    ("storage", "opset", "domain"),
    [("u16", 21, ""), ("i16", 21, ""), ("u16", 17, "com.microsoft"), ("i16", 13, "com.microsoft")],
)
def test_sixteen_bits(storage: str, opset: int, domain: str) -> None:
    b = ModelBuilder(opset)
    b.input("x", [3, 4])
    b.quantize("x", 0.001, 3, storage)
    b.output(b.dequantize("x_q", "y", "x_s", "x_z", 0, 0.001), shape=[3, 4])
    for node in b.nodes:
        node.domain = domain
    module, written = roundtrip(b.model(ir_version=10))
    assert ops(module) == ["quant.qcast", "quant.dcast"]
    assert {node.domain for node in written.graph.node} == {domain}


@pytest.mark.parametrize("code", [onnx.TensorProto.INT4, onnx.TensorProto.UINT4])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_four_bit_weights(code: int, axis: int | None) -> None:
    b = ModelBuilder(21)
    low = -8 if code == onnx.TensorProto.INT4 else 0
    values = (np.arange(15).reshape(3, 5) % 16 + low).tolist()
    count = () if axis is None else ((3, 5)[axis],)
    flat = [v for row in values for v in row]
    b.initializers.append(onnx.helper.make_tensor("w_q", code, (3, 5), flat))
    b.const("s", np.full(count, 0.25) if axis is None else np.arange(1, 1 + count[0]), np.float32)
    zeros = [1] * (1 if axis is None else count[0])
    b.initializers.append(onnx.helper.make_tensor("z", code, count, zeros))
    b.dequantize("w_q", "w", "s", "z", axis or 0, 0.25 if axis is None else [0])
    b.node("Mul", [b.input("x", [3, 5]), "w"], "y")
    b.output("y")
    module, written = roundtrip(b.model(ir_version=10))
    assert ops(module) == ["quant.dcast", "nn.mul"]
    assert {t.data_type for t in written.graph.initializer} == {1, code}


def test_dynamic_parameters_stay_nodes() -> None:
    b = ModelBuilder()
    inputs = [b.input("x", [4]), b.input("s", []), b.const("z", 0, np.uint8)]
    b.node("QuantizeLinear", inputs, "q")
    b.node("DequantizeLinear", ["q", "s", "z"], "y")
    b.output("y")
    module, _ = roundtrip(b.model())
    assert ops(module) == ["onnx.node", "onnx.node"]


@pytest.mark.parametrize("shape", [(4, 3), (5, 3)])
def test_blocks(shape: tuple[int, int]) -> None:
    """With a last block that is not full, they stay nodes."""
    b = ModelBuilder(21)
    b.const("s", np.arange(1, 10, dtype=np.float32).reshape(3, 3)[: -(-shape[0] // 2)])
    b.const("z", np.arange(9).reshape(3, 3)[: -(-shape[0] // 2)] + 120, np.uint8)
    b.input("x", shape)
    b.node("QuantizeLinear", ["x", "s", "z"], "q", axis=0, block_size=2)
    b.node("DequantizeLinear", ["q", "s", "z"], "y", axis=-2, block_size=2)
    b.output("y")
    module, written = roundtrip(b.model(ir_version=10))
    kinds = ["quant.qcast", "quant.dcast"] if shape[0] == 4 else ["onnx.node", "onnx.node"]
    assert ops(module) == ops(load(written)[1]) == kinds
    assert [helper.get_node_attr_value(node, "block_size") for node in written.graph.node] == [2, 2]


@pytest.mark.parametrize("op", ["Gemm", "MatMul"])
def test_blocked_weight(op: str) -> None:
    """A [K, N] weight of four bits in blocks along K."""
    rng = np.random.default_rng(2)
    b = ModelBuilder(21)
    code = TensorProto.INT4
    stored = rng.integers(-8, 8, (6, 3))
    b.initializers.append(helper.make_tensor("w_q", code, (6, 3), stored.reshape(-1).tolist()))
    b.const("s", rng.uniform(0.1, 0.2, (3, 3)), np.float32)
    b.input("x", (2, 6))
    b.node("DequantizeLinear", ["w_q", "s"], "w", axis=0, block_size=2)
    b.node(op, ["x", "w"], "y")
    b.output("y")
    module, written = roundtrip(b.model(ir_version=10))
    kind = "nn.fully_connected" if op == "Gemm" else "nn.matmul"
    assert ops(module) == ["quant.dcast", kind]
    assert str(load(written)[1]) == str(module)


def test_blocks_that_do_not_fit_name_the_node() -> None:
    b = ModelBuilder(21)
    b.const("s", np.ones((2, 3)), np.float32)
    b.input("q", (6, 3), np.int8)
    b.node("DequantizeLinear", ["q", "s"], "y", "cells", axis=0, block_size=2)
    b.output("y", shape=(6, 3))
    with pytest.raises(InputError, match="2 scales for dimension 0, which has 6") as caught:
        load(b.model())
    assert caught.value.where is not None
    assert caught.value.where.node == "cells"


FLOAT_CODES = {
    "f8E4M3FN": TensorProto.FLOAT8E4M3FN,
    "f8E5M2": TensorProto.FLOAT8E5M2,
    "f4E2M1FN": TensorProto.FLOAT4E2M1,
}


def float_storage(storage: str, **attributes: Any) -> onnx.ModelProto:
    """Quantized as small floats and back, and a weight."""
    code = FLOAT_CODES[storage]
    b = ModelBuilder(23)
    for name, values in (("z", [0.0]), ("w_q", [0.5, -2.0, 6.0, 1.0])):
        shape = () if name == "z" else (4,)
        b.initializers.append(helper.make_tensor(name, code, shape, values))
    b.const("s", 0.25, np.float32)
    b.node("QuantizeLinear", [b.input("x", (3, 4)), "s", "z"], "q", **attributes)
    b.node("DequantizeLinear", ["q", "s", "z"], "d")
    b.node("DequantizeLinear", ["w_q", "s"], "w")
    b.node("Add", ["d", "w"], "y")
    b.output("y", shape=(3, 4))
    return b.model(ir_version=11)


@pytest.mark.parametrize("storage", FLOAT_CODES)
@pytest.mark.parametrize("saturate", [0, 1])
def test_float_storage(storage: str, saturate: int) -> None:
    """Without saturation (of 8 bits), the quantization stays a node."""
    model, kinds = float_storage(storage, saturate=saturate), ["quant.qcast"]
    if not saturate and storage != "f4E2M1FN":
        kinds = ["onnx.node", "builtin.unrealized_conversion_cast"]
    ctx, module = load(model)
    assert ops(module) == [*kinds, "quant.dcast", "quant.dcast", "nn.add"]
    written = export(ctx, module)
    again = load(written)
    assert str(again[1]) == str(module)
    x = np.linspace(-30, 30, 12, dtype=np.float32).reshape(3, 4)
    want = ReferenceEvaluator(model).run(None, {"x": x})[0]
    kept = {NodeOp.name: lambda op, operands, e: evaluate_node(op, operands, e.ctx.blobs)}
    for session, each in ((ctx, module), again):
        got = Interpreter(session, each, functions=kept).run({"x": x})[0]
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("move", ["Gather", "Transpose", "Reshape", "Gather, Transpose"])
def test_a_constant_that_is_moved_before_it_is_dequantized(move: str) -> None:
    """The table of an embedding: quantized above the Gather."""
    rng = np.random.default_rng(2)
    b = ModelBuilder(17)
    b.const("table", rng.integers(0, 256, (10, 6)), np.uint8)
    b.const("s", 0.02, np.float32)
    b.const("z", 117, np.uint8)
    b.input("x", (2, 3), np.int64)
    b.const("shape", [5, 12], np.int64)
    q = "table"
    for op in move.split(", "):
        more = {"perm": [1, 0] if "Gather" not in move else [2, 0, 1]} if op == "Transpose" else {}
        extra = {"Gather": ["x"], "Reshape": ["shape"]}.get(op, [])
        q = b.node(op, [q, *extra], f"{op}_q", **more)
    b.node("DequantizeLinear", [q, "s", "z"], "d")
    b.node("Cast", ["x"], "i", to=1)
    b.node("ReduceSum", ["i"], "t", keepdims=0)
    b.node("Add", ["d", "t"], "y")
    b.output("y")
    model = b.model()
    ctx, module = load(model)
    nodes = [op for op in module.walk() if op.name == "onnx.node"]
    assert [op.properties["op_type"].data for op in nodes] == ["Cast"]
    written = export(ctx, module)
    feeds = {"x": rng.integers(0, 10, (2, 3))}
    want = OrtEngine(model, optimize=False).run(feeds)["y"]
    np.testing.assert_array_equal(OrtEngine(written, optimize=False).run(feeds)["y"], want)


def test_a_constant_with_readers_that_disagree_stays_integers() -> None:
    b = ModelBuilder(17)
    b.const("table", np.arange(12).reshape(4, 3), np.uint8)
    b.input("x", (2,), np.int64)
    b.const("s", 0.02, np.float32)
    b.const("t", 0.03, np.float32)
    b.node("Gather", ["table", "x"], "g")
    b.node("DequantizeLinear", ["g", "s"], "y0")
    b.node("DequantizeLinear", ["g", "t"], "y1")
    b.output("y0")
    b.output("y1")
    model = b.model()
    ctx, module = load(model)
    assert "onnx.node" in ops(module)
    feeds = {"x": np.array([3, 1])}
    want = OrtEngine(model, optimize=False).run(feeds)
    got = OrtEngine(export(ctx, module), optimize=False).run(feeds)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)


def test_a_gemm_with_a_row_of_biases_in_integers() -> None:
    """What ONNX Runtime's quantizer writes for a bias [1, N], per tensor."""
    rng = np.random.default_rng(0)
    b = ModelBuilder()
    weight = b.const("w", rng.integers(-127, 127, (7, 5)), np.int8)
    bias = b.const("b", rng.integers(-999, 999, (1, 5)), np.int32)
    scale, zero = b.const("s", 0.01, np.float32), b.const("z", 0, np.int8)
    product = b.const("ss", 0.0001, np.float32)
    x = b.node("DequantizeLinear", [b.input("x", [3, 7], np.int8), scale, zero], "xf")
    w = b.node("DequantizeLinear", [weight, scale, zero], "wf")
    c = b.node("DequantizeLinear", [bias, product], "bf")
    b.node("Gemm", [x, w, c], "y")
    b.output("y")
    module, _ = roundtrip(b.model())
    assert "nn.fully_connected" in ops(module)


@pytest.mark.parametrize("low", [137, 150])
def test_clip_of_codes_is_one_of_what_they_mean(low: int) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Clip", ["q", "low"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["y"]),
    ]
    constants = {
        "s": np.float32(0.02643436),
        "z": np.uint8(137),
        "low": np.uint8(low),
    }
    graph = helper.make_graph(
        nodes,
        "clip",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64])],
        [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    ctx, module = load(model)
    assert "nn.clip" in ops(module) and "onnx.node" not in ops(module)
    x = np.linspace(-5, 5, 64, dtype=np.float32)
    (found,) = Interpreter(ctx, module).run([x])
    np.testing.assert_array_equal(found, OrtEngine(model, optimize=False).run({"x": x})["y"])
