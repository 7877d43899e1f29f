"""Integer nodes that compute shapes: constants where they are known, one where two are equal on
every run, and nothing where nobody reads them any more.

    val_1 = Shape(ids, start=1, end=2)
    val_46 = Slice(Shape(q), [-2], [-1])     // q is batch x 4 x sequence x 8: val_46 is val_1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.ir.ops import ConstantOp
from qdialect.packages import package
from qdialect.plugins.common.extents import MOST, Numbers
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.shape_values import FUNCTIONS
from qdialect.plugins.onnx.read.subgraphs import captured_names
from qdialect.plugins.onnx.read.types import value_type

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

_DTYPES: dict[Attribute, Any] = {i1: np.bool_, i32: np.int32, i64: np.int64}


class ShapeArithmetic:
    """The integer nodes of one import that compute shapes."""

    def __init__(self, imp: Importer) -> None:
        self._imp = imp
        self._same: dict[tuple[Any, ...], str] = {}
        self._made: dict[Operation, Node] = {}
        self._followed: set[int] = set()

    def result(self, node: Node) -> list[SSAValue] | None:
        """Nothing, where a node of shape arithmetic need not compute what is known or there."""
        function = FUNCTIONS.get(node.op_type) if not node.domain else None
        if function is None or len(node.outputs) != 1:
            return None
        name = node.output(0)
        kind = value_type(self._imp.loaded.types.get(name))
        element = (
            cast("TensorType[Attribute]", kind).element_type
            if isinstance(kind, TensorType)
            else None
        )
        if element not in _DTYPES:
            return None
        try:
            found = function(self._imp.symbols, node)
        except (ValueError, IndexError):  # the node is broken, which its own rule says
            return None
        if found is None or found.size > MOST:
            return None
        self._imp.symbols.note(name, found)
        self._followed.add(node.index)
        array = self._constant(name, _DTYPES[element])
        if array is not None:
            self._imp.statics[name] = package("onnx.numpy_helper").from_array(array, name)
            return []
        first = self._same.setdefault(_key(found, element), name)
        if first == name:
            return None
        self._imp.values[name] = self._imp.value(first)
        return []

    def _constant(self, name: str, dtype: Any) -> NDArray[Any] | None:
        """The value where it is the same on every run, and the type holds it."""
        found = self._imp.symbols.static(name)
        if found is None or not np.array_equal(found.astype(dtype), found):
            return None
        return found.astype(dtype)

    def follow(self, node: Node, ops: Sequence[Operation]) -> None:
        """Note the ops that a node became."""
        if node.index in self._followed:
            self._made.update(dict.fromkeys(ops, node))

    def drop_unread(self) -> None:
        """Erase shape arithmetic that the model reads, but nothing does here."""
        graph = self._imp.loaded.model.graph
        read = {n for proto in graph.node for n in (*proto.input, *captured_names(proto))}
        for op, node in reversed(self._made.items()):
            if node.output(0) not in read or any(v.first_use is not None for v in op.results):
                continue
            constants = [v.owner for v in op.operands if isinstance(v.owner, ConstantOp)]
            _erase(op)
            for constant in dict.fromkeys(constants):
                if constant.result.first_use is None:
                    _erase(constant)


def _key(found: Numbers, element: Attribute) -> tuple[Any, ...]:
    return element, found.shape, *found.reshape(-1)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
