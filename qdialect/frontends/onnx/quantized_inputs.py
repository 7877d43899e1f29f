"""Graph inputs that are codes: all nodes that read them agree on how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Attribute

from qdialect.dialects.quant import UniformType
from qdialect.frontends.onnx.node import Node
from qdialect.frontends.onnx.qoperator import read_element, reads_of
from qdialect.frontends.onnx.quantization import dequantize_element
from qdialect.frontends.onnx.types import value_type

if TYPE_CHECKING:
    from onnx import NodeProto

    from qdialect.frontends.onnx.importer import Importer


def quantized_inputs(imp: Importer) -> dict[str, UniformType]:
    """Integer graph inputs that only nodes read which agree on how."""
    graph = imp.loaded.model.graph
    found: dict[str, UniformType | None] = {}
    inputs = {v.name: value_type(v.type) for v in graph.input if v.name not in imp.statics}
    for proto in graph.node:
        for position, name in enumerate(proto.input):
            if name in inputs:
                element = _reading(imp, proto, position, inputs[name])
                found[name] = element if found.get(name, element) == element else None
    return {name: element for name, element in found.items() if element is not None}


def _reading(
    imp: Importer, proto: NodeProto, position: int, source: Attribute
) -> UniformType | None:
    """The encoding a node reads its input at `position` under, if it names one."""
    where = imp.loaded.where(proto.name)
    node = Node(proto, 0, proto.name, where, list(proto.input), list(proto.output))
    if node.op_type == "DequantizeLinear":
        return dequantize_element(imp, node, source) if position == 0 else None
    reads = (read for read in reads_of(node) if read.tensor == position)
    return next((read_element(imp, node, read, source) for read in reads), None)
