"""Scales and zero points that nodes compute from constants alone: they are known at import.

    sc = Cast(s: f16[32])                    DequantizeLinear(q, sc)
    sc = DequantizeLinear(t: f8[32,4], u)    DequantizeLinear<block_size=16>(w, sc)

The nodes are run on their own, as the runtime runs them.  What reads the input of the model, or
makes large tensors, stays computed.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from qdialect.packages import package
from qdialect.plugins.onnx.read.node import Node, is_stateful
from qdialect.plugins.onnx.read.probe import answers
from qdialect.plugins.onnx.read.quark_ops import DEQUANTIZE, QUANTIZE
from qdialect.plugins.onnx.read.subgraphs import subgraphs

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

    from qdialect.plugins.onnx.read.graph_tensors import GraphTensors

_CASTS = (
    QUANTIZE
    | DEQUANTIZE
    | {
        (domain, f"{kind}Linear")
        for domain in ("", "com.microsoft")
        for kind in ("Quantize", "Dequantize")
    }
    | {("com.microsoft", kind) for kind in ("MatMulNBits", "MatMulBnb4", "GatherBlockQuantized")}
)
_MOST_NODES = 16
_MOST_ELEMENTS = 1 << 22


class KnownParameters:
    """The parameters of the casts of one graph."""

    def __init__(self, tensors: GraphTensors) -> None:
        self._tensors = tensors

    def find(self, node: Node) -> None:
        """Add to the constants what a cast has for parameters, if constants make it."""
        if (node.domain, node.op_type) not in _CASTS:
            return
        statics = self._tensors.statics
        for name in node.inputs[1:]:
            if name and name not in statics and name in self._makers:
                found = self._computed(name)
                if found is not None:
                    statics[name] = found

    @cached_property
    def _makers(self) -> dict[str, NodeProto]:
        graph = self._tensors.loaded.model.graph
        return {name: node for node in graph.node for name in node.output if name}

    def _computed(self, name: str) -> TensorProto | None:
        nodes, constants = list["NodeProto"](), dict[str, "TensorProto"]()
        if not self._gather(name, nodes, constants):
            return None
        onnx, loaded = package("onnx"), self._tensors.loaded
        graph = onnx.GraphProto(name="parameters", node=nodes)
        for key, tensor in constants.items():
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = key
        graph.output.append(onnx.ValueInfoProto(name=name))
        model = onnx.ModelProto(ir_version=loaded.model.ir_version, graph=graph)
        model.opset_import.extend(loaded.model.opset_import)
        found = answers(model, {})
        if found is None or not hasattr(found[0], "dtype") or found[0].dtype.isbuiltin != 1:
            return None  # it does not run, or is of a type that numpy lacks
        return package("onnx.numpy_helper").from_array(found[0], name)

    def _gather(self, name: str, nodes: list[NodeProto], constants: dict[str, TensorProto]) -> bool:
        """Collect what computes a tensor, in order; False if that is not constants alone."""
        statics = self._tensors.statics
        if name in statics:
            tensor = statics[name]
            constants[name] = tensor
            external = tensor.data_location == package("onnx").TensorProto.EXTERNAL
            return not external and prod(tensor.dims) <= _MOST_ELEMENTS
        node = self._makers.get(name)
        if node is None or is_stateful(node) or subgraphs(node) or len(nodes) >= _MOST_NODES:
            return False
        if any(other is node for other in nodes):
            return True
        if not all(self._gather(read, nodes, constants) for read in node.input if read):
            return False
        nodes.append(node)
        return True
