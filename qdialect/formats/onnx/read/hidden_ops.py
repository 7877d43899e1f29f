"""Nodes that the ONNX checker and shape inference are not to look at.

They see such a node as one of a domain they know nothing of, and take it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from qdialect.dialects.onnx import package

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

_HIDDEN = "qdialect.unknown"


def hide_newer_ops(light: ModelProto) -> None:
    """Hide ops that ONNX has only since a later opset, as runtimes have had some for longer
    (ONNX Runtime writes `LayerNormalization` into models of any opset)."""
    defs = package("onnx.defs")
    opset = next((o.version for o in light.opset_import if o.domain in ("", "ai.onnx")), 1)
    known: dict[str, bool] = {}

    def is_newer(node: NodeProto) -> bool:
        kind = node.op_type
        if kind not in known:
            known[kind] = not defs.has(kind, opset, "") and defs.has(kind)
        return known[kind] and node.domain in ("", "ai.onnx")

    hide(light, [node for node in _nodes(light.graph) if is_newer(node)])


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of those inside."""
    from qdialect.formats.onnx.read.load import subgraphs

    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from _nodes(inner)


def hide(model: ModelProto, nodes: Sequence[NodeProto]) -> None:
    """Put nodes into a domain in which the checker and inference know nothing."""
    if nodes and all(entry.domain != _HIDDEN for entry in model.opset_import):
        model.opset_import.append(package("onnx.helper").make_opsetid(_HIDDEN, 1))
    for node in nodes:
        node.domain = _HIDDEN
