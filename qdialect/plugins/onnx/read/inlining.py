"""Calls of a model's local functions are replaced by their nodes, as long as that is no explosion.

Each function may call the one before twice, so that thirty functions stand for a billion nodes.
They are counted, once for each function, before anything is inlined.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from qdialect.errors import InputError, Where
from qdialect.packages import package
from qdialect.plugins.onnx.read.subgraphs import nested_nodes, subgraphs

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

    Name = tuple[str, str, str]

MOST = 100_000
"""Nodes that calls may stand for, if they are more than `FACTOR` for each node of the file."""
FACTOR = 100


def inlined(model: ModelProto, where: Where) -> ModelProto:
    """The model without local functions; InputError if one calls itself, or if calls stand for
    too many nodes or are nested too deeply."""
    written = sum(1 for f in model.functions for _ in nested_nodes(f.node)) + len(model.graph.node)
    most = max(MOST, FACTOR * written)
    try:
        total = _Count(model, where).of(model.graph.node)
    except RecursionError:
        raise InputError(
            "local functions are nested too deeply", where=where, code="invalid-onnx"
        ) from None
    if total > most:
        raise InputError(
            f"calls of local functions stand for {total} nodes, which are more than {most}",
            where=where,
            code="too-large",
        )
    copied: ModelProto = package("onnx").ModelProto()
    copied.CopyFrom(model)
    for function in copied.functions:
        for node in nested_nodes(function.node):
            for graph in subgraphs(node):
                _compute_outputs(graph)
    return package("onnx.inliner").inline_local_functions(copied)


def _compute_outputs(graph: GraphProto) -> None:
    """Give a body that returns what it is given a node that does: the inliner of ONNX (1.23) has
    new names for all outputs of bodies, and only nodes that make them learn those."""
    made = {name for node in graph.node for name in node.output}
    for place, output in enumerate(graph.output):
        if output.name not in made:
            name = f"{output.name}__returned_{place}"
            graph.node.add(op_type="Identity", input=[output.name], output=[name])
            output.name = name


class _Count:
    """How many nodes the functions of a model stand for."""

    def __init__(self, model: ModelProto, where: Where) -> None:
        self._where = where
        self._functions: dict[Name, FunctionProto] = {
            (f.domain, f.name, f.overload): f for f in model.functions
        }
        self._known: dict[Name, int | None] = {}

    def of(self, nodes: Iterable[NodeProto]) -> int:
        return sum(self._of_node(node) for node in nested_nodes(nodes))

    def _of_node(self, node: NodeProto) -> int:
        name = (node.domain, node.op_type, node.overload)
        function = self._functions.get(name)
        if function is None:
            return 1
        if name not in self._known:
            self._known[name] = None
            self._known[name] = self.of(function.node)
        known = self._known[name]
        if known is None:
            raise InputError(
                f"local function '{function.name}' calls itself",
                where=self._where,
                code="invalid-onnx",
            )
        return known
