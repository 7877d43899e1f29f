"""Giving symbolic extents of a model numbers before it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from qdialect.ir.ops.named_extents import check_names

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TypeProto


def bound(model: ModelProto, numbers: Mapping[str, int]) -> ModelProto:
    """The model with the extents named so (`dim_param`) as numbers; the given one stays as it
    is.  UsageError for a name that no input has."""
    weights = {tensor.name for tensor in model.graph.initializer}
    names = (
        dim.dim_param
        for value in model.graph.input
        if value.name not in weights
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    )
    check_names(numbers, dict.fromkeys(names))
    copy = type(model)()
    copy.CopyFrom(model)
    for kind in _types(copy.graph):
        for dim in kind.tensor_type.shape.dim:
            if dim.dim_param in numbers:
                dim.dim_value = numbers[dim.dim_param]
    return copy


def _types(graph: GraphProto) -> Iterator[TypeProto]:
    """Every type that the graph declares, those in subgraphs too."""
    for values in (graph.input, graph.output, graph.value_info):
        yield from (value.type for value in values if value.type.HasField("tensor_type"))
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *((attribute.g,) if attribute.HasField("g") else ())):
                yield from _types(inner)
