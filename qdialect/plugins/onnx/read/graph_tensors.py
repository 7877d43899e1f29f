"""The tensors of the graph that is imported, by name: constants, and values of nodes.

A tensor is a constant (`statics`) until something reads it as a value; then it is in `values` too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, SSAValue

from qdialect.ir.ops.base import ranked
from qdialect.plugins.onnx.read.load import LoadedModel
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.types import value_type

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import TensorProto

_FEW = 1 << 16
"""Elements of a tensor that is kept as an array."""


class GraphTensors:
    """What is known of the tensors of a graph, as far as its nodes are imported."""

    def __init__(self, loaded: LoadedModel) -> None:
        model = loaded.model
        self.loaded = loaded
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
        self.values: dict[str, SSAValue] = {}
        self.statics: dict[str, TensorProto] = {t.name: t for t in model.graph.initializer}
        #: the least and the greatest of codes that are constants, where nodes say it
        self.code_bounds: dict[str, tuple[int, int]] = {}
        self._types: dict[str, Attribute] = {}
        self._arrays: dict[str, NDArray[Any]] = {}

    def type_of(self, name: str) -> Attribute:
        """The type `value(name)` has or would have; None-like `!onnx.type` if absent."""
        if name in self.values:
            return self.values[name].type
        if name in self.statics:
            if name not in self._types:
                tensor = self.statics[name]
                element = self.loaded.tensors.element(tensor)
                self._types[name] = ranked(element, tuple(tensor.dims))
            return self._types[name]
        return value_type(None)

    def static(self, name: str) -> NDArray[Any] | None:
        """The value of a tensor known at import, else None."""
        if name not in self._arrays:
            tensor = self.statics.get(name)
            array = None if tensor is None else self.loaded.tensors.array(tensor)
            if array is None or array.size > _FEW:
                return array
            self._arrays[name] = array
        return self._arrays[name]

    def static_ints(self, name: str) -> tuple[int, ...] | None:
        """A list of integers known at import, else None."""
        array = self.static(name)
        return None if array is None else tuple(int(v) for v in array.reshape(-1))


def axes_of(tensors: GraphTensors, node: Node, position: int) -> tuple[int, ...] | None:
    """Axes from an attribute (older opsets) or a constant input; None if unknown."""
    if node.input(position):
        return tensors.static_ints(node.input(position))
    return node.get("axes", ())
