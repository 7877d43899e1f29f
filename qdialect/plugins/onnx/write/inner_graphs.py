"""The graphs that kept nodes have as attributes: bodies of `If`, `Loop` and `Scan`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp

from qdialect.ir.weights import BlobStore
from qdialect.plugins.onnx.dialect import NodeOp, ProtoAttr
from qdialect.plugins.onnx.write.graph import node_attribute

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def graphs_of(op: NodeOp, store: BlobStore) -> Iterator[GraphProto]:
    """The graphs in the attributes of a kept node."""
    for name, attribute in op.node_attributes.data.items():
        if isinstance(attribute, ProtoAttr) and attribute.kind.data in ("graph", "graphs"):
            proto = node_attribute(name, attribute, store)
            yield from (*proto.graphs, *((proto.g,) if proto.HasField("g") else ()))


def graphs_in(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in the attributes of a node."""
    for attribute in node.attribute:
        yield from (*attribute.graphs, *((attribute.g,) if attribute.HasField("g") else ()))


def inner_names(function: FuncOp, store: BlobStore) -> Iterator[str]:
    """Every tensor name defined inside a subgraph: no outer tensor may take it."""
    for op in function.body.block.ops:
        if isinstance(op, NodeOp):
            for graph in graphs_of(op, store):
                yield from _defined(graph)


def _defined(graph: GraphProto) -> Iterator[str]:
    yield from (v.name for v in graph.input)
    yield from (t.name for t in graph.initializer)
    for node in graph.node:
        yield from node.output
        for inner in graphs_in(node):
            yield from _defined(inner)


def domains_in(graph: GraphProto) -> set[str]:
    """The domains of the nodes in a graph and in those inside."""
    found = {node.domain for node in graph.node}
    return found.union(*(domains_in(inner) for node in graph.node for inner in graphs_in(node)))
