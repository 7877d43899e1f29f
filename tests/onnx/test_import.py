"""What ONNX ops become, and that they come back as the same function."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import ModelBuilder, assert_same, export, load, ops, roundtrip, unary
from xdsl.dialects.func import FuncOp

from qdialect.dialects.onnx import ALIASES, OUTPUTS, string_list
from qdialect.dialects.quant import quant_element

IMAGE = [2, 4, 8, 10]

UNARY: list[tuple[str, str, list[int], dict[str, Any]]] = [
    ("Relu", "nn.relu", IMAGE, {}),
    ("LeakyRelu", "nn.leaky_relu", IMAGE, {"alpha": 0.3}),
    ("LeakyRelu", "nn.leaky_relu", IMAGE, {}),
    ("Sigmoid", "nn.sigmoid", [3, 5], {}),
    ("Tanh", "nn.tanh", [3, 5], {}),
    ("HardSigmoid", "nn.hard_sigmoid", [3, 5], {}),
    ("HardSigmoid", "nn.hard_sigmoid", [3, 5], {"alpha": 1 / 6, "beta": 0.4}),
    ("HardSwish", "nn.hard_swish", [3, 5], {}),
    ("Softmax", "nn.softmax", [3, 5], {}),
    ("Softmax", "nn.softmax", IMAGE, {"axis": 1}),
    ("MaxPool", "nn.max_pool2d", IMAGE, {"kernel_shape": [3, 2], "strides": [2, 2]}),
    ("MaxPool", "nn.max_pool2d", IMAGE, {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
    (
        "MaxPool",
        "nn.max_pool2d",
        IMAGE,
        {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1, "dilations": [2, 1]},
    ),
    ("AveragePool", "nn.avg_pool2d", IMAGE, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    (
        "AveragePool",
        "nn.avg_pool2d",
        IMAGE,
        {
            "kernel_shape": [3, 3],
            "pads": [0, 1, 2, 1],
            "strides": [2, 2],
            "count_include_pad": 1,
        },
    ),
    ("AveragePool", "nn.avg_pool2d", IMAGE, {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
    ("GlobalAveragePool", "nn.global_avg_pool2d", IMAGE, {}),
    ("Flatten", "nn.flatten", IMAGE, {}),
    ("Flatten", "nn.flatten", IMAGE, {"axis": -1}),
    ("Transpose", "nn.transpose", IMAGE, {}),
    ("Transpose", "nn.transpose", IMAGE, {"perm": [0, 2, 3, 1]}),
    # forms we do not map stay nodes
    ("GlobalAveragePool", "onnx.node", [2, 4, 8], {}),
    ("MaxPool", "onnx.node", [2, 4, 8], {"kernel_shape": [2]}),
    ("Softplus", "onnx.node", [3, 5], {}),
    ("ReduceMean", "onnx.node", [3, 5], {"axes": [1]}),
]


@pytest.mark.parametrize(("op", "name", "shape", "attributes"), UNARY)
def test_unary(op: str, name: str, shape: list[int], attributes: dict[str, Any]) -> None:
    module, written = roundtrip(unary(op, shape, **attributes))
    assert ops(module) == [name]
    assert [node.op_type for node in written.graph.node] == [op]
    assert written.graph.node[0].name == "y_node"


@pytest.mark.parametrize(("op", "name"), [("Add", "add"), ("Sub", "sub"), ("Mul", "mul")])
@pytest.mark.parametrize("other", [[2, 4, 8, 10], [1, 4, 1, 1], [10], []])
def test_binary(op: str, name: str, other: list[int]) -> None:
    b = ModelBuilder()
    b.node(op, [b.input("x", IMAGE), b.input("y", other)], "z")
    b.output("z")
    module, _ = roundtrip(b.model())
    assert ops(module) == [f"nn.{name}"]


def test_sum_of_two_is_an_add_and_of_three_a_node() -> None:
    for names, want in ((["x", "y"], "nn.add"), (["x", "y", "x"], "onnx.node")):
        b = ModelBuilder()
        for name in dict.fromkeys(names):
            b.input(name, [3, 4])
        b.node("Sum", names, "z")
        b.output("z")
        module, _ = roundtrip(b.model())
        assert ops(module) == [want]


def test_integer_arithmetic_stays_a_node() -> None:
    b = ModelBuilder()
    b.node("Add", [b.input("x", [3], np.int64), b.const("one", [1], np.int64)], "y")
    b.output("y", np.int64)
    module, _ = roundtrip(b.model())
    assert ops(module) == ["onnx.node"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "kernel_shape": [3, 2]},
        {"auto_pad": "VALID", "dilations": [2, 2]},
    ],
)
def test_conv(attributes: dict[str, Any], bias: bool) -> None:
    rng = np.random.default_rng(0)
    b = ModelBuilder()
    groups = attributes.get("group", 1)
    inputs = [b.input("x", IMAGE)]
    inputs.append(b.const("w", rng.standard_normal((6, 4 // groups, 3, 2)), np.float32))
    if bias:
        inputs.append(b.const("b", rng.standard_normal(6), np.float32))
    b.node("Conv", inputs, "y", **attributes)
    b.output("y")
    module, written = roundtrip(b.model())
    assert ops(module) == ["nn.conv2d"]
    assert [t.name for t in written.graph.initializer] == ["w", "b"][: 1 + bias]


@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("bias", [None, (5,), (1, 5), ()])
def test_gemm(trans: int, bias: tuple[int, ...] | None) -> None:
    rng = np.random.default_rng(0)
    b = ModelBuilder()
    shape = (5, 7) if trans else (7, 5)
    inputs = [b.input("x", [3, 7]), b.const("w", rng.standard_normal(shape), np.float32)]
    if bias is not None:
        inputs.append(b.const("b", rng.standard_normal(bias), np.float32))
    b.node("Gemm", inputs, "y", transB=trans)
    b.output("y")
    module, written = roundtrip(b.model())
    assert ops(module) == ["nn.fully_connected" if bias in (None, (5,)) else "onnx.node"]
    assert shape in [tuple(t.dims) for t in written.graph.initializer]


@pytest.mark.parametrize(
    "attributes", [{"alpha": 0.5}, {"beta": 2.0}, {"transA": 1}], ids=lambda a: next(iter(a))
)
def test_other_gemms_stay_nodes(attributes: dict[str, Any]) -> None:
    b = ModelBuilder()
    inputs = [b.input("x", [7, 7]), b.input("w", [7, 7]), b.input("b", [7])]
    b.node("Gemm", inputs, "y", **attributes)
    b.output("y")
    assert ops(roundtrip(b.model())[0]) == ["onnx.node"]


@pytest.mark.parametrize("shapes", [([3, 4], [4, 5]), ([2, 3, 4], [4, 5]), ([4], [4, 5])])
def test_matmul(shapes: tuple[list[int], list[int]]) -> None:
    b = ModelBuilder()
    b.node("MatMul", [b.input("x", shapes[0]), b.input("w", shapes[1])], "y")
    b.output("y")
    assert ops(roundtrip(b.model())[0]) == ["nn.matmul"]


def test_batch_norm() -> None:
    rng = np.random.default_rng(0)
    b = ModelBuilder()
    b.input("x", IMAGE)
    names = [b.const(n, rng.random(4) + 0.5, np.float32) for n in ("s", "b", "m", "v")]
    b.node("BatchNormalization", ["x", *names], "y", epsilon=1e-3)
    b.output("y")
    assert ops(roundtrip(b.model())[0]) == ["nn.batch_norm"]


@pytest.mark.parametrize("bounds", [(0.0, 6.0), (None, 6.0), (-1.5, None), (None, None)])
def test_clip(bounds: tuple[float | None, float | None]) -> None:
    b = ModelBuilder()
    names = [b.input("x", [3, 5])]
    for name, value in zip(("lo", "hi"), bounds, strict=True):
        names.append("" if value is None else b.const(name, value, np.float32))
    b.node("Clip", names, "y")
    b.output("y")
    module, written = roundtrip(b.model())
    assert ops(module) == ["nn.clip"]
    kept = [name for name, value in zip(("lo", "hi"), bounds, strict=True) if value is not None]
    assert [t.name for t in written.graph.initializer] == kept


MOVES: list[tuple[str, str, list[tuple[str, Any]], dict[str, Any]]] = [
    ("Reshape", "nn.reshape", [("shape", [2, -1])], {}),
    ("Reshape", "nn.reshape", [("shape", [0, 4, -1])], {}),
    ("Squeeze", "onnx.node", [], {}),
    ("Unsqueeze", "nn.reshape", [("axes", [0, -1])], {}),
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
    again = op if name == "onnx.node" or op in ("Slice", "Pad") else "Reshape"
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


def test_blocked_quantization_stays_a_node() -> None:
    b = ModelBuilder(21)
    b.input("x", [4, 6])
    b.const("s", np.full((2, 6), 0.1), np.float32)
    b.const("z", np.zeros((2, 6)), np.int8)
    b.node("QuantizeLinear", ["x", "s", "z"], "q", axis=0, block_size=2)
    b.node("DequantizeLinear", ["q", "s", "z"], "y", axis=0, block_size=2)
    b.output("y")
    assert ops(roundtrip(b.model(ir_version=10))[0]) == ["onnx.node", "onnx.node"]


def test_identity_and_dropout_vanish_but_keep_their_names() -> None:
    b = ModelBuilder()
    b.node("Relu", [b.input("x", [3])], "r")
    b.node("Identity", ["r"], "i")
    b.node("Dropout", ["i"], "d")
    b.node("Sigmoid", ["d"], "y")
    b.output("y")
    module, written = roundtrip(b.model())
    assert ops(module) == ["nn.relu", "nn.sigmoid"]
    relu = next(op for op in module.walk() if op.name == "nn.relu")
    assert string_list(relu.attributes[ALIASES]) == ["i", "d"]
    assert [node.op_type for node in written.graph.node] == ["Relu", "Sigmoid"]


def test_graph_output_that_is_an_input_a_constant_or_shared() -> None:
    b = ModelBuilder()
    b.node("Identity", [b.input("x", [3])], "a")
    b.node("Relu", ["x"], "r")
    b.node("Identity", ["r"], "r2")
    b.node("Identity", [b.const("c", [1.0, 2.0], np.float32)], "k")
    for name in ("a", "r", "r2", "k"):
        b.output(name)
    _, written = roundtrip(b.model())
    assert [o.name for o in written.graph.output] == ["a", "r", "r2", "k"]


def test_keys_and_output_names() -> None:
    """The key is the node's name, or its first output when that is no name for it."""
    b = ModelBuilder()
    b.node("Relu", [b.input("x", [3])], "a", name="")
    b.node("Tanh", ["a"], "b", name="")
    b.node("Sigmoid", ["b"], "c", name="")
    b.node("Relu", ["c"], "d", name="last")
    b.output("d")
    module, written = roundtrip(b.model())
    nodes = [op for op in module.walk() if op.name.startswith("nn.")]
    assert [op.attributes["nn.key"].data for op in nodes] == ["a", "b", "c", "last"]  # type: ignore[attr-defined]
    assert [OUTPUTS in op.attributes for op in nodes] == [False, False, False, True]
    assert [list(n.output) for n in written.graph.node] == [["a"], ["b"], ["c"], ["d"]]
    assert 'loc("last"("<model>":3:0))' in str(nodes[-1].location)


def test_metadata_and_versions_survive() -> None:
    model = unary("Relu", [3], opset=15)
    model.producer_name, model.producer_version, model.doc_string = "maker", "1.2", "a net"
    model.model_version, model.domain = 7, "org.example"
    model.graph.doc_string = "graph text"
    model.graph.node[0].doc_string = "node text"
    onnx.helper.set_model_props(model, {"stride of": "32", "names": "{0: 'a\"b'}"})
    _, written = roundtrip(model)
    for name in ("producer_name", "producer_version", "doc_string", "model_version", "domain"):
        assert getattr(written, name) == getattr(model, name)
    assert written.graph.doc_string == "graph text"
    assert {p.key: p.value for p in written.metadata_props} == {
        "stride of": "32",
        "names": "{0: 'a\"b'}",
    }
    assert written.opset_import[0].version == 15
    assert written.ir_version == model.ir_version


def test_constants_are_shared_and_not_inline_when_large() -> None:
    b = ModelBuilder()
    weight = np.random.default_rng(0).standard_normal((20, 20))
    for name in ("w1", "w2"):
        b.const(name, weight, np.float32)
    b.node("MatMul", [b.input("x", [3, 20]), "w1"], "a")
    b.node("MatMul", ["a", "w2"], "y")
    b.output("y")
    ctx, _ = load(b.model())
    assert len(ctx.blobs) == 1
    roundtrip(b.model())


def test_constant_nodes_and_constant_of_shape() -> None:
    b = ModelBuilder()
    b.node("Constant", [], "k", value_floats=[1.0, float("inf"), float("nan")])
    b.node("Add", [b.input("x", [3]), "k"], "a")
    fill = onnx.numpy_helper.from_array(np.array([2.5], np.float32))
    b.node("ConstantOfShape", [b.const("n", [3], np.int64)], "f", value=fill)
    b.node("Mul", ["a", "f"], "y")
    b.output("y")
    module, _ = roundtrip(b.model())
    assert ops(module) == ["nn.add", "nn.mul"]


def test_external_data(tmp_path: Any) -> None:
    b = ModelBuilder()
    b.const("w", np.random.default_rng(0).standard_normal((40, 40)), np.float32)
    b.node("MatMul", [b.input("x", [3, 40]), "w"], "y")
    b.output("y")
    model = b.model()
    path = tmp_path / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="net.data", size_threshold=0)
    ctx, module = load(path)
    assert_same(b.model(), export(ctx, module))


def test_local_functions_are_inlined() -> None:
    body = [onnx.helper.make_node("Relu", ["a"], ["t"]), onnx.helper.make_node("Neg", ["t"], ["b"])]
    opsets = [onnx.helper.make_opsetid("", 17)]
    function = onnx.helper.make_function("local", "NegRelu", ["a"], ["b"], body, opsets)
    b = ModelBuilder()
    b.node("NegRelu", [b.input("x", [3])], "y", domain="local")
    b.output("y", shape=[3])
    model = b.model(check=False)
    model.functions.append(function)
    module, _ = roundtrip(model)
    assert ops(module) == ["nn.relu", "onnx.node"]


def test_old_opset_attributes() -> None:
    b = ModelBuilder(opset=9)
    b.node("Clip", [b.input("x", [3, 4])], "a", min=-1.0, max=1.0)
    b.node("Slice", ["a"], "b", starts=[0], ends=[2], axes=[1])
    b.node("Pad", ["b"], "d", pads=[0, 1, 0, 0], value=2.0)
    b.node("Softmax", ["d"], "y", axis=1)
    b.output("y")
    module, written = roundtrip(b.model())
    assert ops(module) == ["nn.clip", "nn.slice", "nn.pad", "nn.softmax"]
    assert written.opset_import[0].version == 11
