"""Graph inputs and constants that are codes: all nodes that read them agree on how.

A node that moves elements reads codes as whoever reads its result does: the table of an
embedding is quantized though a Gather stands before the DequantizeLinear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import UnrankedTensorType
from xdsl.ir import Attribute

from qdialect.ir.quant import UniformType, element_type
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.qoperator import read_element, reads_of
from qdialect.plugins.onnx.read.quantization import dequantize_element, storage_name
from qdialect.plugins.onnx.read.scale_places import placed
from qdialect.plugins.onnx.read.types import value_type

if TYPE_CHECKING:
    from onnx import NodeProto

    from qdialect.plugins.onnx.read.importer import Importer


def quantized_inputs(imp: Importer) -> dict[str, UniformType]:
    """Integer graph inputs that only nodes read which agree on how, and those of which the
    metadata says how, if no node that reads them says something else."""
    graph, stated = imp.loaded.model.graph, dict(imp.interface_types)
    found: dict[str, UniformType | None] = {}
    inputs = {v.name: value_type(v.type) for v in graph.input if v.name not in imp.statics}
    for proto in graph.node:
        for position, name in enumerate(proto.input):
            if name in inputs:
                element = _reading(imp, proto, position, inputs[name])
                found[name] = element if found.get(name, element) == element else None
                if element not in (None, stated.get(name)):
                    stated.pop(name, None)
    known = {name: element for name, element in found.items() if element is not None}
    return known | {name: e for name, e in stated.items() if suits(e, inputs.get(name))}


def suits(element: UniformType, source: Attribute | None) -> bool:
    """Whether a tensor of this type can hold codes of `element`."""
    return source is not None and storage_name(element_type(source)) == storage_name(element)


def _reading(
    imp: Importer, proto: NodeProto, position: int, source: Attribute
) -> UniformType | None:
    """The encoding a node reads its input at `position` under, if it names one."""
    where = imp.loaded.where(proto.name)
    node = Node(proto, 0, proto.name, where, list(proto.input), list(proto.output))
    node = placed(imp, node, source)
    if node.op_type == "DequantizeLinear":
        return dequantize_element(imp, node, source) if position == 0 else None
    reads = (read for read in reads_of(node) if read.tensor == position)
    return next((read_element(imp, node, read, source) for read in reads), None)


_MOVES = frozenset(
    {"Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)


def quantized_constants(imp: Importer) -> dict[str, UniformType]:
    """Integer constants that reach a dequantize of one scale through movements only."""
    graph = imp.loaded.model.graph
    moved = {n.input[0] for n in graph.node if _moves(n) and n.input[0] in imp.statics}
    if not moved:
        return {}
    found: dict[str, UniformType] = {}
    for name in moved:
        source = imp.type_of(name)
        if storage_name(element_type(source)) is not None:
            element = read_below(imp, name, source)
            if element is not None and element.qparams.is_per_tensor:
                found[name] = element
    return found


def _moves(proto: NodeProto) -> bool:
    return not proto.domain and proto.op_type in _MOVES and len(proto.output) == 1


def read_below(imp: Importer, name: str, source: Attribute) -> UniformType | None:
    """The one encoding of all that reads a tensor of type `source`, itself or moved; of those that
    read it moved, one per tensor."""
    # What moved it has another shape, which encodings of one scale do not ask for.
    anywhere = UnrankedTensorType(element_type(source))
    elements: set[UniformType | None] = set()
    seen, pending = {name}, [name]
    while pending:
        tensor = pending.pop()
        for proto, position in imp.readers.get(tensor, ()):
            if _moves(proto) and position == 0:
                if proto.output[0] not in seen:
                    seen.add(proto.output[0])
                    pending.append(proto.output[0])
            else:
                kind = source if tensor == name else anywhere
                elements.add(_reading(imp, proto, position, kind))
    return elements.pop() if len(elements) == 1 else None
