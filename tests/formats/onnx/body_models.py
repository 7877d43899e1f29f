"""Models with `If`, `Loop` and `Scan` whose bodies hold quantized parts."""

# pyright: basic
from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnx import numpy_helper as arrays

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
ROW = (2, 4)


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs, outputs, name=f"{kind}_{outputs[0]}", **attributes)


def tensor(name: str, shape: tuple[int | None, ...] | None = ROW, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def codes(source: str, result: str) -> list[NodeProto]:
    """Quantize, relu between casts (twice), dequantize: relus that become none or one."""
    return [
        node("QuantizeLinear", [source, "s", "z"], [f"{result}_q"]),
        node("DequantizeLinear", [f"{result}_q", "s", "z"], [f"{result}_d"]),
        node("Relu", [f"{result}_d"], [f"{result}_r"]),
        node("Relu", [f"{result}_r"], [f"{result}_rr"]),
        node("QuantizeLinear", [f"{result}_rr", "s", "z"], [f"{result}_q2"]),
        node("DequantizeLinear", [f"{result}_q2", "s", "z"], [result]),
    ]


def product(source: str, result: str) -> list[NodeProto]:
    """A product with a constant weight of codes from around the body."""
    return [
        node("DequantizeLinear", ["w", "ws", "wz"], [f"{result}_w"]),
        *codes(source, f"{result}_x"),
        node("MatMul", [f"{result}_x", f"{result}_w"], [f"{result}_m"]),
        node("QuantizeLinear", [f"{result}_m", "s", "z"], [f"{result}_c"]),
        node("DequantizeLinear", [f"{result}_c", "s", "z"], [result]),
    ]


def graph(
    name: str, nodes: list[NodeProto], inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]
) -> GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs)


def model(
    nodes: list[NodeProto], results: list[ValueInfoProto], *more: ValueInfoProto
) -> ModelProto:
    constants = {
        "s": np.float32(0.05),
        "z": np.uint8(100),
        "w": (np.arange(16).reshape(4, 4) % 7 - 3).astype(np.int8),
        "ws": np.float32(0.25),
        "wz": np.int8(0),
        "three": np.int64(3),
        "yes": np.bool_(True),
    }
    made = helper.make_graph(
        nodes,
        "bodies",
        [tensor("x"), *more],
        results,
        [arrays.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


def if_() -> ModelProto:
    """Both branches read a value and constants from around; one is nested."""
    inner = node(
        "If",
        ["c"],
        ["n"],
        then_branch=graph("deep", codes("u", "deep_y"), [], [tensor("deep_y")]),
        else_branch=graph("flat", [node("Neg", ["u"], ["flat_y"])], [], [tensor("flat_y")]),
    )
    nodes = [
        node("Sigmoid", ["x"], ["t"]),
        node(
            "If",
            ["c"],
            ["y"],
            then_branch=graph("then", product("t", "then_y"), [], [tensor("then_y")]),
            else_branch=graph(
                "else", [*codes("t", "u"), inner, *codes("n", "else_y")], [], [tensor("else_y")]
            ),
        ),
        *codes("t", "v"),
    ]
    return model(nodes, [tensor("y"), tensor("v")], tensor("c", (), BOOL))


def loop() -> ModelProto:
    """A carried value, an output per iteration, and a condition that is handed on."""
    body = graph(
        "body",
        [*product("a", "b"), *codes("b", "each"), node("Identity", ["on"], ["on_"])],
        [tensor("i", (), INT64), tensor("on", (), BOOL), tensor("a")],
        [tensor("on_", (), BOOL), tensor("b"), tensor("each")],
    )
    nodes = [node("Loop", ["three", "yes", "x"], ["y", "all"], body=body)]
    return model(nodes, [tensor("y"), tensor("all", (None, *ROW))])


def growing() -> ModelProto:
    """A carried value that gets longer, though its type says otherwise."""
    body = graph(
        "body",
        [
            *codes("a", "b"),
            node("Concat", ["b", "x"], ["longer"], axis=0),
            node("Identity", ["on"], ["on_"]),
        ],
        [tensor("i", (), INT64), tensor("on", (), BOOL), tensor("a", (2, 4))],
        [tensor("on_", (), BOOL), tensor("longer", (None, 4))],
    )
    nodes = [node("Loop", ["three", "", "x"], ["y"], body=body)]
    return model(nodes, [tensor("y", (None, 4))])


def scan() -> ModelProto:
    """A state, and rows of the input."""
    body = graph(
        "body",
        [
            node("Add", ["state", "row"], ["sum"]),
            *codes("sum", "next"),
            *codes("row", "out"),
        ],
        [tensor("state", (4,)), tensor("row", (4,))],
        [tensor("next", (4,)), tensor("out", (4,))],
    )
    nodes = [
        node("ReduceMax", ["x", "zero"], ["first"], keepdims=0),
        node("Scan", ["first", "x"], ["last", "rows"], body=body, num_scan_inputs=1),
    ]
    made = model(nodes, [tensor("last", (4,)), tensor("rows")])
    made.graph.initializer.append(arrays.from_array(np.array([0]), "zero"))
    return made


def function() -> ModelProto:
    """A local function that is called twice, once in a body."""
    call = helper.make_node("F", ["x", "s", "z"], ["f"], domain="local")
    inside = helper.make_node("F", ["f", "s", "z"], ["g"], domain="local")
    opsets = [helper.make_opsetid("", 21)]
    local = helper.make_function("local", "F", ["a", "s", "z"], ["b"], codes("a", "b"), opsets)
    nodes = [
        call,
        node(
            "If",
            ["c"],
            ["y"],
            then_branch=graph("then", [inside], [], [tensor("g")]),
            else_branch=graph("else", [node("Neg", ["f"], ["h"])], [], [tensor("h")]),
        ),
    ]
    made = model(nodes, [tensor("y")], tensor("c", (), BOOL))
    made.opset_import.append(helper.make_opsetid("local", 1))
    made.functions.append(local)
    return made


MODELS = {"if": if_, "loop": loop, "growing": growing, "scan": scan, "function": function}


def nodes_in(graph: GraphProto) -> list[NodeProto]:
    """The nodes of a graph and of those inside."""
    found = list(graph.node)
    for each in graph.node:
        for attribute in each.attribute:
            if attribute.HasField("g"):
                found += nodes_in(attribute.g)
    return found
