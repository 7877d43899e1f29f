"""What ONNX ops become, and that they come back as the same function."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import (
    ModelBuilder,
    OrtEngine,
    assert_same,
    export,
    load,
    ops,
    random_feeds,
    roundtrip,
    unary,
)

from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.dialects.interface import OUTPUTS
from qdialect.plugins.onnx.dialect import ALIASES

IMAGE = [2, 4, 8, 10]
SIGNAL = [2, 4, 9]
VOLUME = [1, 4, 5, 6, 4]

UNARY: list[tuple[str, str, list[int], dict[str, Any]]] = [
    ("Relu", "nn.relu", IMAGE, {}),
    ("LeakyRelu", "nn.leaky_relu", IMAGE, {"alpha": 0.3}),
    ("LeakyRelu", "nn.leaky_relu", IMAGE, {}),
    ("Sigmoid", "nn.sigmoid", [3, 5], {}),
    ("Tanh", "nn.tanh", [3, 5], {}),
    ("HardSigmoid", "nn.hard_sigmoid", [3, 5], {}),
    ("HardSigmoid", "nn.hard_sigmoid", [3, 5], {"alpha": 1 / 6, "beta": 0.4}),
    ("HardSwish", "nn.hard_swish", [3, 5], {}),
    ("Neg", "nn.neg", [3, 5], {}),
    ("Abs", "nn.abs", [3, 5], {}),
    ("Exp", "nn.exp", [3, 5], {}),
    ("Log", "nn.log", [3, 5], {}),
    ("Sqrt", "nn.sqrt", [3, 5], {}),
    ("Reciprocal", "nn.reciprocal", [3, 5], {}),
    ("Erf", "nn.erf", [3, 5], {}),
    ("Softplus", "nn.softplus", [3, 5], {}),
    ("Elu", "nn.elu", [3, 5], {}),
    ("Elu", "nn.elu", [3, 5], {"alpha": 0.7}),
    ("Floor", "nn.floor", [3, 5], {}),
    ("Ceil", "nn.ceil", [3, 5], {}),
    ("Round", "nn.round", [3, 5], {}),
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
    ("MaxPool", "nn.max_pool1d", SIGNAL, {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
    ("MaxPool", "nn.max_pool1d", SIGNAL, {"kernel_shape": [2], "dilations": [3], "ceil_mode": 1}),
    ("MaxPool", "nn.max_pool3d", VOLUME, {"kernel_shape": [3, 2, 1], "strides": [2, 1, 2]}),
    ("MaxPool", "nn.max_pool3d", VOLUME, {"kernel_shape": [2, 3, 2], "auto_pad": "SAME_LOWER"}),
    ("AveragePool", "nn.avg_pool1d", SIGNAL, {"kernel_shape": [3], "auto_pad": "SAME_UPPER"}),
    (
        "AveragePool",
        "nn.avg_pool1d",
        SIGNAL,
        {"kernel_shape": [3], "pads": [2, 1], "strides": [2], "count_include_pad": 1},
    ),
    (
        "AveragePool",
        "nn.avg_pool3d",
        VOLUME,
        {"kernel_shape": [3, 3, 2], "pads": [1, 0, 0, 1, 2, 1], "strides": [1, 2, 1]},
    ),
    ("GlobalAveragePool", "nn.global_avg_pool1d", SIGNAL, {}),
    ("GlobalAveragePool", "nn.global_avg_pool3d", VOLUME, {}),
    # forms we do not map stay nodes
    ("Softsign", "onnx.node", [3, 5], {}),
    ("LRN", "nn.lrn", IMAGE, {"size": 3}),
    ("LRN", "nn.lrn", IMAGE, {"size": 5, "alpha": 0.5, "beta": 0.5, "bias": 2.0}),
    ("ReduceMean", "nn.reduce_mean", [3, 5], {"axes": [1]}),
    ("ReduceMax", "nn.reduce_max", IMAGE, {"axes": [-1, 1], "keepdims": 0}),
    ("ReduceMin", "nn.reduce_min", IMAGE, {}),
    ("ReduceMean", "nn.reduce_mean", IMAGE, {"keepdims": 0}),
    ("GlobalMaxPool", "nn.reduce_max", IMAGE, {}),
    ("GlobalMaxPool", "nn.reduce_max", [2, 4, 8], {}),
    ("ReduceL2", "onnx.node", [3, 5], {"axes": [1]}),
]


@pytest.mark.parametrize(("op", "name", "shape", "attributes"), UNARY)
def test_unary(op: str, name: str, shape: list[int], attributes: dict[str, Any]) -> None:
    module, written = roundtrip(unary(op, shape, **attributes))
    assert ops(module) == [name]
    assert [node.op_type for node in written.graph.node] == [op]
    assert written.graph.node[0].name == "y_node"


BINARY = [
    ("Add", "add"),
    ("Sub", "sub"),
    ("Mul", "mul"),
    ("Max", "maximum"),
    ("Min", "minimum"),
]


@pytest.mark.parametrize(("op", "name"), BINARY)
@pytest.mark.parametrize("other", [[2, 4, 8, 10], [1, 4, 1, 1], [10], []])
def test_binary(op: str, name: str, other: list[int]) -> None:
    b = ModelBuilder()
    b.node(op, [b.input("x", IMAGE), b.input("y", other)], "z")
    b.output("z")
    module, _ = roundtrip(b.model())
    assert ops(module) == [f"nn.{name}"]


@pytest.mark.parametrize("opset", [17, 20, 24])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(opset: int, approximate: str) -> None:
    model = unary("Gelu", [3, 5], max(opset, 20), approximate=approximate)
    ctx, module = load(model)
    assert ops(module) == ["nn.gelu"]
    written = export(ctx, module, opset=opset)
    if opset >= 20:
        assert_same(model, written)
    else:
        engines = [OrtEngine(each, optimize=False) for each in (model, written)]
        want, got = (engine.run(random_feeds(model, 0))["y"] for engine in engines)
        np.testing.assert_allclose(got, want, atol=1e-6)
    assert (len(written.graph.node) == 1) == (opset >= 20)


@pytest.mark.parametrize("opset", [17, 24])
@pytest.mark.parametrize("alpha", [1.0, 1.702])
def test_swish(opset: int, alpha: float) -> None:
    """Imported from Swish (opset 24), which no runtime at hand need know; written in steps."""
    ctx, module = load(unary("Swish", [3, 5], 24, alpha=alpha))
    assert ops(module) == ["nn.swish"]
    b = ModelBuilder()
    b.const("alpha", alpha, np.float32)
    scaled = b.node("Mul", [b.input("x", [3, 5]), "alpha"], "s")
    b.node("Mul", ["x", b.node("Sigmoid", [scaled], "g")], "y")
    b.output("y")
    written = export(ctx, module, opset=opset)
    assert [node.op_type for node in written.graph.node][-1] == ("Swish" if opset == 24 else "Mul")
    if opset == 17:
        assert_same(b.model(), written)


@pytest.mark.parametrize("exponent", [2.0, 0.5, -1.5, 3])
def test_pow(exponent: float) -> None:
    for name, dtype in (("nn.pow", np.float32), ("onnx.node", np.float32)):
        b = ModelBuilder()
        value = exponent if name == "nn.pow" else [exponent, 1.0]
        x = b.node("Abs", [b.input("x", [3, 2])], "a")
        b.node("Pow", [x, b.const("e", value, dtype)], "y")
        b.output("y")
        module, _ = roundtrip(b.model())
        assert ops(module) == ["nn.abs", name]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, -2])
def test_pow_with_an_exponent_of_another_type(exponent: int, dtype: Any) -> None:
    """ONNX Runtime computes some of them in floats of 64 bits, which the file must go on asking."""
    b = ModelBuilder()
    b.node("Pow", [b.input("x", [4096]), b.const("e", exponent, dtype)], "y")
    b.output("y")
    module, written = roundtrip(b.model())
    is_kept = dtype != np.float32 and exponent in (4, -2)
    assert ops(module) == ["onnx.node" if is_kept else "nn.pow"]
    feeds = random_feeds(b.model(), 0)
    one, two = (OrtEngine(each, optimize=False).run(feeds)["y"] for each in (b.model(), written))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("shape", ["gemm_input_shape", "gemm_output_shape", "a_token_3"])
def test_names_that_the_runtime_gives_are_others(shape: str) -> None:
    """It makes a Gemm between reshapes of a product and a sum, and names their shapes so."""
    b = ModelBuilder()
    w, bias = b.const("w", np.eye(8), np.float32), b.const("b", np.ones(8), np.float32)
    b.node("MatMul", [b.input("x", [2, 3, 8]), w], "m")
    b.node("Add", ["m", bias], "a")
    b.node("Softsign", [b.node("Softplus", ["a"], "p")], "s")
    b.node("Reshape", ["s", b.const(shape, [2, 1, 3, 8], np.int64)], "y")
    b.output("y", shape=[2, 1, 3, 8])
    ctx, module = load(b.model())
    written = export(ctx, module)
    names = [t.name for t in written.graph.initializer]
    assert shape not in names and f"{shape}_kept" in names
    feeds = random_feeds(b.model(), 0)
    found = OrtEngine(written, optimize=True).run(feeds)["y"]
    np.testing.assert_allclose(found, OrtEngine(b.model(), optimize=False).run(feeds)["y"], 1e-6)


@pytest.mark.parametrize("slope", [[4, 1, 1], [1], [2, 4, 8, 10]])
def test_prelu(slope: list[int]) -> None:
    b = ModelBuilder()
    b.node("PRelu", [b.input("x", IMAGE), b.input("s", slope)], "y")
    b.output("y")
    module, _ = roundtrip(b.model())
    assert ops(module) == ["nn.prelu"]


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"])
@pytest.mark.parametrize("axes", [None, (), (1,), (0, -1)])
@pytest.mark.parametrize("noop", [0, 1])
def test_reductions(op: str, opset: int, axes: tuple[int, ...] | None, noop: int) -> None:
    b = ModelBuilder(opset=opset)
    x, attributes = b.input("x", [2, 3, 4]), dict[str, Any](keepdims=0)
    inputs = [x]
    if op == "ReduceSum" or opset == 18:
        attributes["noop_with_empty_axes"] = noop
        if axes is not None:
            inputs.append(b.const("axes", list(axes), np.int64))
    elif axes:
        attributes["axes"] = axes
    b.node(op, inputs, "y", **attributes)
    b.output("y")
    module, _ = roundtrip(b.model())
    nothing = not axes and attributes.get("noop_with_empty_axes")
    assert ops(module) == ([] if nothing else [f"nn.reduce_{op[6:].lower()}"])


def test_reductions_whose_axes_are_computed_stay_nodes() -> None:
    b = ModelBuilder(opset=18)
    inputs = [b.input("x", [2, 3]), b.input("axes", [1], np.int64)]
    b.node("ReduceMax", inputs, "y", keepdims=1)
    b.output("y", shape=["n", "m"])
    assert ops(load(b.model())[1]) == ["onnx.node"]


def test_sum_of_two_is_an_add_and_of_three_a_node() -> None:
    for names, want in ((["x", "y"], "nn.add"), (["x", "y", "x"], "onnx.node")):
        b = ModelBuilder()
        for name in dict.fromkeys(names):
            b.input(name, [3, 4])
        b.node("Sum", names, "z")
        b.output("z")
        module, _ = roundtrip(b.model())
        assert ops(module) == [want]


def test_extremum_of_one_is_itself_and_of_more_a_chain() -> None:
    for count, want in ((1, []), (2, ["nn.maximum"]), (4, ["nn.maximum"] * 3)):
        b = ModelBuilder()
        names = [b.input(f"x{i}", [3, 4]) for i in range(count)]
        b.node("Max", names, "y")
        b.output("y")
        model = b.model()
        assert ops(load(model)[1]) == want
        if count > 1:
            roundtrip(model)


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


SPATIAL = {"1d": SIGNAL, "2d": IMAGE, "3d": VOLUME}


def convolution(op: str, shape: list[int], weight: list[int], bias: bool, **attributes: Any) -> Any:
    """A model of one convolution of constant weights, and what it became."""
    rng = np.random.default_rng(0)
    b = ModelBuilder()
    inputs = [b.input("x", shape), b.const("w", rng.standard_normal(weight), np.float32)]
    if bias:
        groups = attributes.get("group", 1)
        channels = weight[0] if op == "Conv" else weight[1] * groups
        inputs.append(b.const("b", rng.standard_normal(channels), np.float32))
    b.node(op, inputs, "y", **attributes)
    b.output("y")
    return roundtrip(b.model())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rank", ["1d", "3d"])
@pytest.mark.parametrize(
    "attributes", [{}, {"group": 2, "strides": 2, "pads": 1}, {"auto_pad": "SAME_UPPER"}]
)
def test_conv_of_other_ranks(rank: str, attributes: dict[str, Any], bias: bool) -> None:
    spatial = len(SPATIAL[rank]) - 2
    given = dict(attributes)
    if "strides" in given:
        given |= {"strides": [2] * spatial, "pads": [1] * 2 * spatial}
    weight = [6, 4 // given.get("group", 1), *[3, 2, 2][:spatial]]
    module, _ = convolution("Conv", SPATIAL[rank], weight, bias, **given)
    assert ops(module) == [f"nn.conv{rank}"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rank", SPATIAL)
@pytest.mark.parametrize(
    "case",
    ["plain", "strided", "grouped", "depthwise", "dilated", "upper", "lower", "shaped", "valid"],
)
def test_conv_transpose(rank: str, case: str, bias: bool) -> None:
    shape, spatial = SPATIAL[rank], len(SPATIAL[rank]) - 2
    kernel, strides = [3, 2, 4][:spatial], [2, 3, 1][:spatial]
    groups = {"grouped": 2, "depthwise": 4}.get(case, 1)
    attributes: dict[str, Any] = {"group": groups, "strides": strides}
    if case == "plain":
        attributes = {}
    elif case == "strided":
        attributes |= {"pads": [1, 0, 2][:spatial] * 2, "output_padding": [1, 2, 0][:spatial]}
    elif case == "dilated":
        attributes |= {"dilations": [2, 1, 3][:spatial], "pads": [1] * 2 * spatial}
    elif case == "shaped":
        attributes["output_shape"] = [n * s - 1 for n, s in zip(shape[2:], strides, strict=True)]
        kernel = [4] * spatial
    elif case in ("upper", "lower"):
        attributes["auto_pad"] = f"SAME_{case.upper()}"
        kernel = [4] * spatial
    elif case == "valid":
        attributes["auto_pad"] = "VALID"
    weight = [4, 1 if case == "depthwise" else 3, *kernel]
    module, _ = convolution("ConvTranspose", shape, weight, bias, **attributes)
    assert ops(module) == [f"nn.conv_transpose{rank}"]


def test_conv_transpose_below_its_kernel_stays_a_node() -> None:
    """`SAME` of strides wider than the kernel would need pads below 0."""
    module, _ = convolution(
        "ConvTranspose", SIGNAL, [4, 2, 1], False, strides=[3], auto_pad="SAME_UPPER"
    )
    assert ops(module) == ["onnx.node"]


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
    assert ops(module) == ["onnx.node" if bias == () else "nn.fully_connected"]
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


@pytest.mark.parametrize("outputs", [["y"], ["y", "mean"]])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm(bias: bool, outputs: list[str]) -> None:
    b = ModelBuilder()
    b.input("x", [2, 3, 4])
    names = [b.const(n, np.ones(4), np.float32) for n in ("s", "b")[: 1 + bias]]
    b.node("LayerNormalization", ["x", *names], outputs, axis=-1, epsilon=1e-3)
    for name in outputs:
        b.output(name)
    kept = "nn.layer_norm" if len(outputs) == 1 else "onnx.node"
    assert ops(roundtrip(b.model())[0]) == [kept]


@pytest.mark.parametrize(
    ("attributes", "mask", "kept"),
    [
        ({}, False, "nn.attention"),
        ({"scale": 0.5}, True, "nn.attention"),
        ({"is_causal": 1}, False, "onnx.node"),
        ({"softcap": 2.0}, False, "onnx.node"),
    ],
)
def test_attention(attributes: dict[str, Any], mask: bool, kept: str) -> None:
    b = ModelBuilder(opset=23)
    names = [b.input(n, [2, 3, 4, 8]) for n in "qkv"]
    if mask:
        names.append(b.const("m", np.zeros((4, 4)), np.float32))
    b.node("Attention", names, "y", **attributes)
    b.output("y")
    assert ops(roundtrip(b.model())[0]) == [kept]


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
    assert ops(module) == ["nn.relu", "nn.neg"]


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


@pytest.mark.parametrize(
    ("equation", "shapes", "found"),
    [
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], ["nn.matmul"]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)], ["nn.transpose", "nn.matmul"]),
        (" abk , kn -> abn", [(2, 3, 4), (4, 5)], ["nn.matmul"]),
        ("ik,jk->ij", [(3, 4), (5, 4)], ["nn.transpose", "nn.matmul"]),
        ("ij,jk->ki", [(3, 4), (4, 5)], ["onnx.node"]),
        ("bij,cjk->bik", [(2, 3, 4), (2, 4, 5)], ["onnx.node"]),
        ("ii,ij->ij", [(3, 3), (3, 4)], ["onnx.node"]),
        ("bij,bjk->bik", [("n", 3, 4), (2, 4, 5)], ["nn.matmul"]),
        ("bij,bjk->bik", [(2, 3, "n"), (2, "n", 5)], ["onnx.node"]),
        ("ij,j->i", [(3, 4), (4,)], ["onnx.node"]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)], ["onnx.node"]),
        ("bij,bji", [(2, 3, 4), (2, 4, 3)], ["onnx.node"]),
    ],
)
def test_einsum(equation: str, shapes: list[Any], found: list[str]) -> None:
    b = ModelBuilder(17)
    names = [b.input(name, shape) for name, shape in zip("xw", shapes, strict=True)]
    b.node("Einsum", names, "y", equation=equation)
    b.output("y", shape=None)
    module, _ = roundtrip(b.model(), n=2)
    assert ops(module) == found


@pytest.mark.parametrize("rows", [(1,), (7,), (1, 1), (4, 8), ("n",), ("n", 8)])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("turned", [False, True])
def test_einsum_with_a_constant_sums_as_in_the_runtime(
    rows: tuple[Any, ...], columns: int, turned: bool
) -> None:
    random = np.random.default_rng(0)
    shape = (columns, 33) if turned else (33, columns)
    b = ModelBuilder(17)
    weight = b.const("w", random.standard_normal(shape), np.float32)
    equation = f"{'ab'[: len(rows)]}i,{'ki' if turned else 'ik'}->{'ab'[: len(rows)]}k"
    b.node("Einsum", [b.input("x", [*rows, 33]), weight], "y", equation=equation)
    b.output("y", shape=None)
    module, written = roundtrip(b.model(), n=1)
    few = {*rows} <= {1, "n"} or columns == 1
    assert (ops(module) == ["onnx.node"]) == (few and not turned)
    x = random.standard_normal([1 if n == "n" else n for n in (*rows, 33)]).astype(np.float32)
    one, two = (OrtEngine(each, optimize=False).run({"x": x})["y"] for each in (b.model(), written))
    np.testing.assert_array_equal(one, two)
