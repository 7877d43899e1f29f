"""Keeping ONNX Runtime's own rewriting away from what it gets wrong.

With its optimizations on, the runtime makes one kernel of DequantizeLinear, a float op and
QuantizeLinear without looking at all the parameters: a Conv, a Sigmoid or a pool with a scale
per channel in or out becomes a kernel that takes one scale and fails when it runs, a Softmax one
that uses the first, a product whose weights have a scale per row one that takes them for scales
per column; MaxPool and Conv become kernels on 4-bit integers, of which there are none, and an
AveragePool one that takes no dilations.  Of two pairs in a row it makes one, and so rounds once,
to a third scale.  A Relu before codes that are floats of 8 bits it removes, as if they ended at 0,
and with a Clip there it does not load.  Of casts around an ArgMax or a MaxPool it looks at no
sign, though a negative scale turns the order of codes around.  In models of opset 21 or later it
moves casts of i8 past movement ops (its own too, around a product that it makes a Gemm of with the
Add below) and then does not load its own nodes.

What is written means the same with and without the runtime's optimizations: a Sum of one operand,
which the runtime neither removes nor looks through, stands between.

    DequantizeLinear (axis 1) -> Sum -> Conv -> Sum -> QuantizeLinear (axis 1)
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import NodeProto

    from qdialect.plugins.onnx.write.graph import GraphWriter

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"

_KERNELS = frozenset(
    {
        *("AveragePool", "Conv", "Gemm", "GlobalAveragePool", "LeakyRelu"),
        *("MatMul", "Sigmoid", "Softmax", "Where"),
    }
)
"""Ops that the runtime makes one kernel of with the casts around them, whatever their scales."""

_NARROW = frozenset({21, 22, 25, 26})
"""`TensorProto.DataType` of the integers of 4 and 2 bits."""


_SMALL_FLOATS, _CLAMPS = frozenset({17, 19}), frozenset({"Clip", "Relu"})
"""`TensorProto.DataType` of floats of 8 bits, and ops that the runtime takes for a part of a
quantize."""

_MOVED_PAST = frozenset({"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Ops past which the runtime moves a DequantizeLinear."""

_INT8 = 3
"""`TensorProto.DataType`."""


def shield(graph: GraphWriter, opset: int) -> None:
    """Put a Sum wherever the runtime would fail, or change what the nodes mean."""
    work = _Shields(graph, opset)
    nodes = list(graph.nodes)
    graph.nodes.clear()
    for node in nodes:
        work.add(node)


class _Shields:
    """The walk: nodes are written again in order, with what stands between them."""

    def __init__(self, graph: GraphWriter, opset: int) -> None:
        self.graph = graph
        self.opset = opset
        self.makers: dict[str, NodeProto] = {n: node for node in graph.nodes for n in node.output}
        self.reads = Counter(name for node in graph.nodes for name in node.input)
        quantizes = [n for n in graph.nodes if n.op_type == _QUANTIZE]
        #: what is quantized with nothing between
        self.quantized = {n.input[0] for n in quantizes if not self._gets_apart(n)}
        self.shielded: dict[str, str] = {}

    def add(self, node: NodeProto) -> None:
        """Write a node, reading from a Sum what it must not see the origin of."""
        for index, name in enumerate(node.input):
            maker = self.makers.get(name)
            if maker is not None and self._is_mistaken(maker, node, index):
                node.input[index] = self._apart(name)
        self.graph.nodes.append(node)

    def _gets_apart(self, quantize: NodeProto) -> bool:
        maker = self.makers.get(quantize.input[0])
        return maker is not None and self._is_mistaken(maker, quantize, 0)

    def _is_mistaken(self, maker: NodeProto, reader: NodeProto, index: int) -> bool:
        """Whether the runtime would take both for one kernel that there is none of, or for a
        part of one pair of casts."""
        if reader.op_type == _QUANTIZE and maker.op_type == _DEQUANTIZE:
            return self._is_second_pair(maker, reader)
        if self._is_of_product(maker, reader):
            return True
        if any(map(self._is_turned, _casts_of(maker, reader))):
            return True
        if reader.op_type == _QUANTIZE:
            if self._storage(reader) in _SMALL_FLOATS and maker.op_type in _CLAMPS:
                return True
            return self._is_narrow(reader) or (self._is_along(reader) and maker.op_type in _KERNELS)
        if maker.op_type != _DEQUANTIZE:
            return False
        codes = self.graph.initializers.get(maker.input[0])
        if codes is None and (self._is_narrow(maker) or self._is_moved(maker, reader)):
            return True
        if reader.op_type not in _KERNELS:
            return False
        if codes is None:
            return self._is_along(maker) or _is_dilated_mean(reader)
        if 0 in codes.dims:
            return True
        return self._is_along(maker) and not _is_weight(reader, index, maker, len(codes.dims))

    def _is_along(self, cast: NodeProto) -> bool:
        """Whether a cast has a scale for each index of a dimension, or block."""
        scale = self.graph.initializers.get(cast.input[1])
        return scale is not None and len(scale.dims) > 0 and list(scale.dims) != [1]

    def _is_narrow(self, cast: NodeProto) -> bool:
        return self._storage(cast) in _NARROW

    def _storage(self, cast: NodeProto) -> int:
        """The `TensorProto.DataType` of codes, by the zero point."""
        zero = self.graph.initializers.get(cast.input[2]) if len(cast.input) > 2 else None
        return 0 if zero is None else zero.data_type

    def _is_moved(self, dequantize: NodeProto, reader: NodeProto) -> bool:
        """Whether the runtime moves a cast past its reader to where it does not load it."""
        return (
            self.opset >= 21
            and reader.op_type in _MOVED_PAST
            and self._storage(dequantize) == _INT8
            and reader.output[0] not in self.quantized
        )

    def _is_of_product(self, maker: NodeProto, reader: NodeProto) -> bool:
        """Whether the runtime makes a Gemm between reshapes of a product of codes and an Add, and
        moves a cast past the first where it does not load it."""
        if self.opset < 21 or (maker.op_type, reader.op_type) != ("MatMul", "Add"):
            return False
        cast = self.makers.get(maker.input[0])
        if cast is None or cast.op_type != _DEQUANTIZE or self._storage(cast) != _INT8:
            return False
        return any(map(self._is_static, reader.input))

    def _is_static(self, name: str) -> bool:
        """Whether a tensor is a constant, or a dequantized one."""
        maker = self.makers.get(name)
        if maker is not None and maker.op_type == _DEQUANTIZE:
            name = maker.input[0]
        return name in self.graph.initializers

    def _is_turned(self, cast: NodeProto) -> bool:
        """Whether a cast of something computed has a negative scale: the larger the codes, the
        smaller the numbers."""
        if cast.input[0] in self.graph.initializers:
            return False
        scale = cast.input[1]
        return scale in self.graph.initializers and bool((self.graph.values(scale) < 0).any())

    def _is_second_pair(self, dequantize: NodeProto, quantize: NodeProto) -> bool:
        """Whether what is quantized was quantized just before, and only for that."""
        first = self.makers.get(dequantize.input[0])
        if first is None or first.op_type != _QUANTIZE:
            return False
        if self.reads[dequantize.input[0]] != 1 or self.reads[quantize.input[0]] != 1:
            return False
        return list(first.input[1:]) != list(quantize.input[1:])

    def _apart(self, name: str) -> str:
        if name not in self.shielded:
            made = self.graph.tensor(f"{name}_apart")
            self.graph.node("Sum", [name], [made], f"{made}_Sum")
            self.shielded[name] = made
        return self.shielded[name]


def _casts_of(maker: NodeProto, reader: NodeProto) -> list[NodeProto]:
    return [
        node for node, kind in ((maker, _DEQUANTIZE), (reader, _QUANTIZE)) if node.op_type == kind
    ]


def _is_dilated_mean(node: NodeProto) -> bool:
    return node.op_type == "AveragePool" and any(a.name == "dilations" for a in node.attribute)


def _is_weight(reader: NodeProto, index: int, cast: NodeProto, rank: int) -> bool:
    """Whether a constant with several scales is where a kernel takes one: weights with a scale
    per output channel, or per block, and biases."""
    given = {attribute.name: attribute.i for attribute in cast.attribute}
    axis = given.get("axis", 1) % max(rank, 1)
    if reader.op_type not in ("Conv", "Gemm", "MatMul") or index == 0:
        return False
    if index == 2 or given.get("block_size"):
        return True
    if reader.op_type == "MatMul":
        return axis == rank - 1
    turned = any(a.name == "transB" and a.i for a in reader.attribute)
    return axis == (0 if turned or reader.op_type == "Conv" else 1)
