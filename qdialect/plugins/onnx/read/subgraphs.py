"""The graphs that nodes have as attributes (bodies of If, Loop and Scan).

Names follow ONNX's scopes: a graph may read every tensor of the graphs around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """The graphs a node has as attributes."""
    graphs: list[GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graphs.append(attribute.g)
        graphs.extend(attribute.graphs)
    return graphs


def free_names(graph: GraphProto) -> list[str]:
    """The names `graph` reads from the graph around it, in order of first use."""
    known = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    known |= {t.values.name for t in graph.sparse_initializer}
    free: dict[str, None] = {}
    for node in graph.node:
        reads = [*node.input, *(n for inner in subgraphs(node) for n in free_names(inner))]
        free.update((name, None) for name in reads if name and name not in known)
        known.update(node.output)
    free.update((v.name, None) for v in graph.output if v.name not in known)
    return list(free)


def captured_names(node: NodeProto) -> list[str]:
    """The names a node's subgraphs read from the graph the node is in."""
    names = (name for graph in subgraphs(node) for name in free_names(graph))
    return list(dict.fromkeys(names))


def nested_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes and those of their subgraphs, each before the nodes inside it."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from nested_nodes(graph.node)
