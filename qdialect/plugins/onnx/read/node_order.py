"""The nodes of a graph in an order in which each reads what others before it made.

ONNX asks for that order, but runtimes sort nodes by themselves, so that converters (the one of
ONNX Runtime to float16) write files without it.  Nodes keep their order as far as it can stand.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from qdialect.plugins.onnx.read.subgraphs import captured_names

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


def in_order(model: ModelProto) -> ModelProto:
    """The model with its nodes sorted; itself where they are, or where there is a cycle."""
    nodes = list(model.graph.node)
    order = _order(nodes)
    if order == sorted(order) or len(order) < len(nodes):
        return model
    made = type(model)()
    made.CopyFrom(model)
    del made.graph.node[:]
    made.graph.node.extend(nodes[index] for index in order)
    return made


def _order(nodes: list[NodeProto]) -> list[int]:
    """The first node that can be next, again and again; not all nodes where there is a cycle."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    sources = [
        {makers[name] for name in (*node.input, *captured_names(node)) if name in makers}
        for node in nodes
    ]
    readers: list[list[int]] = [[] for _ in nodes]
    for reader, found in enumerate(sources):
        for maker in found:
            readers[maker].append(reader)
    missing = [len(found) for found in sources]
    ready = [index for index, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heappop(ready))
        for reader in readers[order[-1]]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    return order
