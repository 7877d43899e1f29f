"""Attributes with the names that a model's file gives to inputs, results and dimensions."""

from __future__ import annotations

#: graph inputs and results: the tensor names of the model
ARG_NAME = "nn.name"
RESULT_NAMES = "nn.result_names"
#: tensor names of an op's results, where they are not its key
OUTPUTS = "nn.outputs"
#: symbolic dimensions of a graph input (on the argument) or of all results
DIMS = "onnx.dims"
GRAPH_NAME = "onnx.graph"


def derived_outputs(key: str, count: int) -> list[str]:
    """The tensor names of an op's results unless `nn.outputs` tells others."""
    return [key, *(f"{key}_{index}" for index in range(1, count))]
