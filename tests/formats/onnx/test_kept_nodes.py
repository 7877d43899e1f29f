"""Nodes we do not know: kept as they are, read back, exported and evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import ModelBuilder, assert_same, export, load, ops, roundtrip, unary
from xdsl.parser import Parser
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import VerifyException

from qdialect.errors import QError
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.write import OrtEngine, evaluate_node, write_model


def kept(module: Any) -> list[NodeOp]:
    return [op for op in module.walk() if isinstance(op, NodeOp)]


TEXTS = [
    '%0 = onnx.node "Neg" (%x) : (tensor<3xf32>) -> tensor<3xf32>',
    '%0 = onnx.node "Foo" domain "org.x" (%x) attributes {axis = 1 : i64, a = "b"}'
    ' {nn.key = "foo"} : (tensor<3xf32>) -> tensor<3xf32>',
    '%0, %1 = onnx.node "LSTM" (%x, %x) absent [1, 3] absent_results [0] stateful'
    " : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<*xf32>)",
    '%0 = onnx.node "If" (%x, %x) captures ["a\\"b"]'
    " attributes {then_branch = #onnx.proto<graph, dense<[1, 2]> : tensor<2xui8>>}"
    ' : (tensor<3xf32>, tensor<3xf32>) -> !onnx.type<"sequence_type { }">',
    '%0 = onnx.node "Cast" (%x) attributes {} : (tensor<3xf32>) -> tensor<3x!onnx.type<"string">>',
]


@pytest.mark.parametrize("text", TEXTS)
def test_assembly_reads_back(text: str) -> None:
    ctx = new_context()
    source = f"func.func @f(%x: tensor<3xf32>) {{\n  {text}\n  func.return\n}}"
    module = Parser(ctx, source).parse_module()
    module.verify()
    printed = str(module)
    assert str(Parser(ctx, printed).parse_module()) == printed


def test_verifier_checks_positions() -> None:
    ctx = new_context()
    for text, reason in (
        ('onnx.node "A" (%x) absent [3] : (tensor<3xf32>) -> ()', "`absent` must list"),
        ('onnx.node "A" () captures ["a"] : () -> ()', "fewer operands than names"),
    ):
        source = f"func.func @f(%x: tensor<3xf32>) {{ {text} func.return }}"
        with pytest.raises(VerifyException, match=reason):
            Parser(ctx, source).parse_module().verify()


def test_unknown_op_stays_with_the_same_result() -> None:
    b = ModelBuilder()
    b.input("x", [4, 5])
    b.node("Relu", ["x"], "r")
    b.node("TopK", ["r", b.const("k", [2], np.int64)], ["v", "i"], axis=1)
    b.node("GatherElements", ["v", b.const("one", [[1]] * 4, np.int64)], "g", axis=1)
    b.output("g")
    b.output("i", np.int64)
    module, written = roundtrip(b.model())
    assert ops(module) == ["nn.relu", "nn.top_k", "onnx.node"]
    assert [n.op_type for n in written.graph.node] == ["Relu", "TopK", "GatherElements"]


def test_absent_inputs_and_outputs() -> None:
    rng = np.random.default_rng(0)
    b = ModelBuilder()
    b.input("x", [5, 2, 3])
    weights = [b.const(n, rng.standard_normal(s), np.float32) for n, s in (("w", (1, 16, 3)),)]
    weights.append(b.const("r", rng.standard_normal((1, 16, 4)), np.float32))
    h = b.const("h", rng.standard_normal((1, 2, 4)), np.float32)
    b.node("LSTM", ["x", *weights, "", "", h], ["", "yh", "yc"], hidden_size=4, clip=3.0)
    b.output("yh")
    b.output("yc")
    module, written = roundtrip(b.model())
    (node,) = kept(module)
    assert [v is None for v in node.node_inputs()] == [False, False, False, True, True, False]
    assert list(written.graph.node[0].output) == ["", "yh", "yc"]


def test_all_kinds_of_attributes() -> None:
    node = helper.make_node("Anything", ["x"], ["y"], "n", domain="org.example")
    given = [
        helper.make_attribute("i", 3),
        helper.make_attribute("zero", 0),
        helper.make_attribute("f", 0.1),
        helper.make_attribute("s", "text"),
        helper.make_attribute("latin", b"\xff\xfe"),
        helper.make_attribute("ints", [1, 2]),
        helper.make_attribute("floats", [0.5, 1e-8]),
        helper.make_attribute("strings", ["a", "b"]),
        helper.make_attribute("inf", float("inf")),
        helper.make_attribute(
            "t", helper.make_tensor("t", TensorProto.FLOAT, [100], np.arange(100.0))
        ),
        helper.make_attribute("none", [], attr_type=onnx.AttributeProto.FLOATS),
        helper.make_attribute("type", helper.make_tensor_type_proto(1, [3])),
    ]
    node.attribute.extend(given)
    b = ModelBuilder()
    b.input("x", [3])
    b.nodes.append(node)
    b.output("y", shape=[3])
    ctx, module = load(b.model())
    written = export(ctx, module)
    assert list(written.graph.node[0].attribute) == sorted(given, key=lambda entry: entry.name)
    assert written.graph.node[0].name == "n"


def test_effects() -> None:
    b = ModelBuilder()
    b.node("RandomUniform", [], "r", shape=[3])
    b.node("Selu", [b.input("x", [3])], "n")
    b.node("Custom", ["x"], "c", domain="org.example")
    b.node("Add", ["r", "n"], "y")
    for name in ("y", "c"):
        b.output(name, shape=[3])
    _, module = load(b.model())
    effects = {op.op_type.data: is_side_effect_free(op) for op in kept(module)}
    assert effects == {"RandomUniform": False, "Selu": True, "Custom": False}


def if_model(inner_op: str = "Neg") -> onnx.ModelProto:
    """Both branches read `h` (computed outside) and `w` (a constant outside)."""
    out = helper.make_tensor_value_info("b", TensorProto.FLOAT, [3])
    then = helper.make_graph(
        [helper.make_node("Add", ["h", "w"], ["a"]), helper.make_node("Neg", ["a"], ["b"])],
        "then",
        [],
        [out],
    )
    other = helper.make_graph(
        [helper.make_node(inner_op, ["h"], ["a"]), helper.make_node("Mul", ["a", "x"], ["b"])],
        "else",
        [],
        [out],
    )
    b = ModelBuilder()
    b.input("x", [3])
    b.input("c", [], np.bool_)
    b.const("w", [1, 2, 3], np.float32)
    b.node("Relu", ["x"], "h")
    b.node("If", ["c"], "y", then_branch=then, else_branch=other)
    b.output("y", shape=[3])
    return b.model()


def test_subgraphs_keep_what_they_read() -> None:
    module, written = roundtrip(if_model())
    (node,) = kept(module)
    assert set(node.captured()) == {"h", "w", "x"}
    assert not [op for op in module.walk() if op.name == "nn.relu" and not op.results[0].uses]
    assert [n.op_type for n in written.graph.node] == ["Relu", "If"]


def test_subgraphs_follow_renamed_values() -> None:
    ctx, module = load(if_model())
    relu = next(op for op in module.walk() if op.name == "nn.relu")
    for key in list(relu.attributes):
        del relu.attributes[key]
    written = export(ctx, module)
    assert written.graph.node[0].output[0] != "h"
    assert_same(if_model(), written)


def test_outer_names_do_not_meet_inner_ones() -> None:
    """A value renamed to what a branch calls one of its own values gets another name."""
    from xdsl.dialects.builtin import ArrayAttr, StringAttr

    ctx, module = load(if_model())
    relu = next(op for op in module.walk() if op.name == "nn.relu")
    relu.attributes["nn.outputs"] = ArrayAttr([StringAttr("a")])
    written = export(ctx, module)
    assert written.graph.node[0].output[0] != "a"
    assert_same(if_model(), written)


def test_randomness_inside_a_subgraph_counts() -> None:
    (node,) = kept(load(if_model("RandomNormalLike"))[1])
    assert node.stateful is not None


def test_quantized_value_read_by_a_node_comes_as_integers() -> None:
    b = ModelBuilder()
    b.input("x", [4, 6])
    b.quantize("x", 0.05, 100, "u8")
    b.node("GatherElements", ["x_q", b.const("i", [[1, 3]] * 4, np.int64)], "g", axis=1)
    b.output(b.dequantize("g", "y", "x_s", "x_z", 0, 0.05))
    module, written = roundtrip(b.model())
    assert "onnx.node" in ops(module)
    types = [n.op_type for n in written.graph.node]
    assert types == ["QuantizeLinear", "GatherElements", "DequantizeLinear"]


def test_strings_and_sequences() -> None:
    b = ModelBuilder()
    b.node("SequenceConstruct", [b.input("x", [3]), b.input("y", [3])], "s")
    b.node("SequenceAt", ["s", b.const("one", 1, np.int64)], "z")
    b.output("z", shape=[3])
    module, _ = roundtrip(b.model())
    assert '!onnx.type<"sequence_type' in str(module)
    b = ModelBuilder()
    b.initializers.append(helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"b"]))
    b.node("Identity", ["s"], "t")
    b.node("Gather", ["t", b.input("i", [1], np.int64)], "u")
    b.outputs.append(helper.make_tensor_value_info("u", TensorProto.STRING, [1]))
    ctx, module = load(b.model())
    export(ctx, module)
    assert 'tensor<2x!onnx.type<"string">>' in str(module)


def test_changed_opset_refuses_nodes_that_changed() -> None:
    ctx, module = load(unary("ReduceL2", [3, 4], opset=17, axes=[1]))
    with pytest.raises(QError, match="'ReduceL2' changed between opset 17"):
        export(ctx, module, opset=18)
    ctx, module = load(unary("Softsign", [3, 4], opset=17))
    assert export(ctx, module, opset=18).opset_import[0].version == 18


def test_what_only_the_runtime_has_is_the_same_in_each_opset() -> None:
    b = ModelBuilder(9)
    b.node("LayerNormalization", [b.input("x", [2, 3]), b.const("w", np.ones(1), np.float16)], "y")
    b.output("y", np.float16, shape=[2, 3])
    b.inputs[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    ctx, module = load(b.model(check=False))
    written = write_model(module, ctx, opset=10).whole()
    assert written.opset_import[0].version == 10
    with pytest.raises(QError, match="'LayerNormalization' changed between opset 9"):
        export(ctx, module, opset=17)


def test_a_later_opset_keeps_nodes_that_it_gave_attributes() -> None:
    b = ModelBuilder(13)
    b.node("Shape", [b.input("x", ["n", 3])], "extents")
    b.node("Cast", ["extents"], "y", to=TensorProto.FLOAT)
    b.output("y", shape=[2])
    ctx, module = load(b.model())
    assert [node.op_type.data for node in kept(module)] == ["Shape", "Cast"]
    written = export(ctx, module, opset=25)
    assert written.opset_import[0].version == 25
    made = OrtEngine(written, optimize=False).run({"x": np.zeros((4, 3), np.float32)})
    assert made["y"].tolist() == [4, 3]


@pytest.mark.parametrize("opset", [13, 17])
def test_evaluate_node(opset: int) -> None:
    x = np.array([[-1.0, 2.0, 3.0]], np.float32)
    ctx, module = load(unary("Softsign", [1, 3], opset=opset))
    (node,) = kept(module)
    (result,) = evaluate_node(node, [x], ctx.blobs)
    np.testing.assert_allclose(result, x / (1 + np.abs(x)), rtol=1e-6)


def test_evaluate_node_with_a_subgraph() -> None:
    ctx, module = load(if_model())
    (node,) = kept(module)
    values = {"h": [1, 0, 2], "w": [1, 2, 3], "x": [4, 5, 6]}
    captured = [np.array(values[name], np.float32) for name in node.captured()]
    (then,) = evaluate_node(node, [np.array(True), *captured], ctx.blobs)
    (other,) = evaluate_node(node, [np.array(False), *captured], ctx.blobs)
    np.testing.assert_array_equal(then, [-2, -2, -5])
    np.testing.assert_array_equal(other, [-4, 0, -12])


def test_evaluate_node_that_nothing_runs() -> None:
    b = ModelBuilder()
    b.node("Custom", [b.input("x", [3])], "y", domain="org.example")
    b.output("y", shape=[3])
    ctx, module = load(b.model())
    with pytest.raises(QError, match="'Custom' cannot be evaluated"):
        evaluate_node(kept(module)[0], [np.zeros(3, np.float32)], ctx.blobs)
