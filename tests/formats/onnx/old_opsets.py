"""Ops in the forms that opsets before 13 had: attributes that became inputs, other meanings.

Each case is the nodes of a model from `x`, and the opsets that have this form.
"""

# pyright: basic
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

SHAPE = (2, 3, 4, 4)


@dataclass(frozen=True)
class Case:
    name: str
    nodes: tuple[NodeProto, ...]
    opsets: range
    constants: dict[str, Any] = field(default_factory=dict)

    def model(self, opset: int, guarded: bool = False) -> onnx.ModelProto:
        """From `x` to `y`; `guarded` adds a node that later opsets would change."""
        nodes, outputs = list(self.nodes), ["y"]
        if guarded:
            nodes += _guard(opset)
            outputs.append("guarded")
        graph = helper.make_graph(
            nodes,
            self.name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
            [_unshaped(name) for name in outputs],
            [numpy_helper.from_array(np.asarray(v), name) for name, v in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=4)


def _unshaped(name: str) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=name)
    info.type.tensor_type.elem_type = TensorProto.FLOAT
    return info


def _guard(opset: int) -> list[NodeProto]:
    """An `If` with nodes inside that mean something else in later opsets."""

    def body(name: str, value: str) -> onnx.GraphProto:
        if opset < 9:
            node = helper.make_node("Upsample", [value], [name], scales=[1.0, 1.0, 2.0, 2.0])
        else:
            node = helper.make_node("ConvTranspose", [value, "kernel"], [name])
        return helper.make_graph([node], name, [], [_unshaped(name)])

    truth = helper.make_tensor("truth", TensorProto.BOOL, [], [True])
    kernel = numpy_helper.from_array(np.full((3, 1, 2, 2), 0.5, np.float32))
    return [
        helper.make_node("Constant", [], ["kernel"], value=kernel),
        helper.make_node("Constant", [], ["chosen"], value=truth),
        helper.make_node("Neg", ["x"], ["negative"]),
        helper.make_node(
            "If",
            ["chosen"],
            ["guarded"],
            then_branch=body("inside", "x"),
            else_branch=body("other", "negative"),
        ),
    ]


def _case(
    name: str,
    first: int,
    last: int,
    kind: str,
    *inputs: str,
    outputs: tuple[str, ...] = ("y",),
    constants: dict[str, Any] | None = None,
    **attributes: Any,
) -> Case:
    node = helper.make_node(kind, ["x", *inputs], outputs, **attributes)
    return Case(name, (node,), range(first, last + 1), constants or {})


def _floats(*values: float) -> Any:
    return np.array(values, np.float32)


_WEIGHT = (np.arange(3 * 3 * 3 * 3, dtype=np.float32).reshape(3, 3, 3, 3) % 7 - 3) / 4
_CHANNELS = {f"c{i}": _floats(0.5, 1.5, 2.0 + i) for i in range(4)}
_CODES = {"s": np.float32(0.05), "z": np.uint8(100)}

CASES = [
    _case("clip", 7, 10, "Clip", min=-0.5, max=0.75),
    _case("clip below", 7, 10, "Clip", min=0.25),
    _case("clip inputs", 11, 12, "Clip", "lo", constants={"lo": np.float32(-0.5)}),
    _case("pad", 7, 10, "Pad", pads=[0, 0, 1, 2, 0, 0, 1, 0], value=0.5),
    _case("pad reflect", 7, 10, "Pad", pads=[0, 0, 1, 2, 0, 0, 1, 0], mode="reflect"),
    _case("pad edge", 7, 10, "Pad", pads=[0, 0, 1, 2, 0, 0, 1, 0], mode="edge"),
    _case("pad cut", 7, 10, "Pad", pads=[0, 0, -1, 2, 0, 0, 1, -1]),
    _case("slice", 7, 9, "Slice", starts=[1, -3], ends=[2, 1000], axes=[1, 2]),
    _case("slice no axes", 7, 9, "Slice", starts=[0, 1], ends=[-1, 3]),
    _case("upsample", 7, 8, "Upsample", scales=[1.0, 1.0, 2.0, 3.0], mode="nearest"),
    _case("upsample linear", 7, 8, "Upsample", scales=[1.0, 1.0, 2.0, 2.0], mode="linear"),
    _case("upsample input", 9, 9, "Upsample", "k", constants={"k": _floats(1, 1, 2, 2)}),
    _case("resize", 10, 10, "Resize", "k", constants={"k": _floats(1, 1, 2, 3)}),
    _case(
        "resize linear", 10, 10, "Resize", "k", constants={"k": _floats(1, 1, 2, 2)}, mode="linear"
    ),
    _case("resize less", 10, 10, "Resize", "k", constants={"k": _floats(1, 1, 0.5, 0.75)}),
    _case("dropout", 7, 11, "Dropout", ratio=0.25),
    _case("batch norm", 7, 12, "BatchNormalization", *_CHANNELS, constants=_CHANNELS, momentum=0.5),
    _case("unsqueeze", 7, 12, "Unsqueeze", axes=[0, 5]),
    _case("reduce sum", 7, 12, "ReduceSum", axes=[1, 3], keepdims=0),
    _case("reduce sum all", 7, 12, "ReduceSum"),
    _case("reduce mean", 7, 12, "ReduceMean", axes=[2, 3]),
    _case("reduce max", 7, 12, "ReduceMax", axes=[1]),
    _case("softmax", 7, 12, "Softmax"),
    _case("softmax 2", 7, 12, "Softmax", axis=2),
    _case("softmax 0", 7, 12, "Softmax", axis=0),
    _case("softmax last", 7, 12, "Softmax", axis=3),
    _case("log softmax", 7, 12, "LogSoftmax", axis=1),
    _case("hardmax", 7, 12, "Hardmax", axis=2),
    _case("split", 7, 12, "Split", outputs=("y", "rest"), axis=2, split=[1, 3]),
    _case("split equal", 7, 12, "Split", outputs=("rest", "y"), axis=2),
    _case("top k", 7, 9, "TopK", outputs=("y", "at"), k=2, axis=1),
    _case("flatten", 7, 12, "Flatten", axis=2),
    _case("max pool", 7, 12, "MaxPool", kernel_shape=[2, 2], pads=[1, 0, 0, 1]),
    _case("max pool 1", 8, 12, "MaxPool", outputs=("y", "at"), kernel_shape=[2, 2], strides=[2, 2]),
    _case(
        "average", 7, 12, "AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    _case("average ceil", 10, 12, "AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    _case("conv", 7, 12, "Conv", "w", constants={"w": _WEIGHT}, auto_pad="SAME_UPPER"),
    _case("transposed conv", 7, 12, "ConvTranspose", "w", constants={"w": _WEIGHT}, strides=[2, 2]),
    _case("instance norm", 7, 12, "InstanceNormalization", "c0", "c1", constants=_CHANNELS),
    _case("depth to space", 7, 12, "SpaceToDepth", blocksize=2),
    _case("power", 7, 12, "Pow", "e", constants={"e": np.float32(2)}),
    _case("max of many", 8, 12, "Max", "c", "c", constants={"c": _floats(0.1, 0.2, 0.3, 0.4)}),
    _case("add", 7, 12, "Add", "c", constants={"c": _floats(0.1, 0.2, 0.3, 0.4)}),
    _case("prelu", 7, 12, "PRelu", "c", constants={"c": np.full((3, 1, 1), 0.25, np.float32)}),
    _case("thresholded", 10, 12, "ThresholdedRelu", alpha=0.5),
    _case("expand", 8, 12, "Expand", "k", constants={"k": np.array([2, 2, 3, 4, 4])}),
    _case("tile", 7, 12, "Tile", "k", constants={"k": np.array([1, 2, 1, 1])}),
    _case("gather", 7, 12, "Gather", "k", constants={"k": np.array([[1, 0], [2, 2]])}, axis=1),
    _case("lrn", 7, 12, "LRN", size=3),
    _case("lp norm", 7, 12, "LpNormalization", axis=1, p=2),
    _case("selu", 7, 12, "Selu"),
    Case(
        "squeeze",
        (
            helper.make_node("ReduceMax", ["x"], ["m"], axes=[1, 3]),
            helper.make_node("Squeeze", ["m"], ["y"], axes=[1, 3]),
        ),
        range(7, 13),
    ),
    Case(
        "product",
        (
            helper.make_node("Flatten", ["x"], ["f"]),
            helper.make_node("Gemm", ["f", "w", "b"], ["y"], alpha=0.5, transB=1),
        ),
        range(7, 13),
        {"w": np.resize(_WEIGHT, (5, 48)), "b": _floats(1, 2, 3, 4, 5)},
    ),
    Case(
        "layer norm",
        (
            helper.make_node("ReduceMean", ["x"], ["m"], axes=[-1]),
            helper.make_node("Sub", ["x", "m"], ["d"]),
            helper.make_node("Pow", ["d", "two"], ["p"]),
            helper.make_node("ReduceMean", ["p"], ["v"], axes=[-1]),
            helper.make_node("Add", ["v", "e"], ["a"]),
            helper.make_node("Sqrt", ["a"], ["r"]),
            helper.make_node("Div", ["d", "r"], ["y"]),
        ),
        range(7, 13),
        {"two": np.float32(2), "e": np.float32(1e-5)},
    ),
    Case(
        "codes",
        (
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("Relu", ["d"], ["r"]),
            helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]),
            helper.make_node("QuantizeLinear", ["p", "s", "z"], ["q2"]),
            helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["y"]),
        ),
        range(10, 13),
        _CODES,
    ),
    Case(
        "clip of codes",
        (
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("Clip", ["d"], ["r"], min=-1.0, max=1.0),
            helper.make_node("Pad", ["r"], ["p"], pads=[0, 0, 1, 1, 0, 0, 1, 1]),
            helper.make_node("QuantizeLinear", ["p", "s", "z"], ["q2"]),
            helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["y"]),
        ),
        range(10, 11),
        _CODES,
    ),
]
