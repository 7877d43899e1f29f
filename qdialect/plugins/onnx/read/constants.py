"""Nodes whose value is known: they join the initializers, and become ops when read."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from qdialect.ir.quant import element_type
from qdialect.packages import package
from qdialect.plugins.onnx.read.movement import alias
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    from onnx import TensorProto

    from qdialect.plugins.onnx.read.importer import Importer

#: `ConstantOfShape` results of more elements stay nodes
FOLD_LIMIT = 1 << 16
_FLOAT = 1

_TYPED = {
    "value_float": "float32",
    "value_floats": "float32",
    "value_int": "int64",
    "value_ints": "int64",
}


def constant(imp: Importer, node: Node) -> list[SSAValue] | None:
    """`Constant` of a number type, under its output's name."""
    tensor = _value(node)
    if tensor is None:
        return None
    imp.loaded.tensors.check(tensor)
    imp.statics[node.output(0)] = tensor
    return []


def _value(node: Node) -> TensorProto | None:
    if len(node.attributes) != 1:
        return None
    name, value = next(iter(node.attributes.items()))
    if name == "value":
        return value
    if name not in _TYPED:
        return None
    return _tensor(value, _TYPED[name])


def constant_of_shape(imp: Importer, node: Node) -> list[SSAValue] | None:
    """`ConstantOfShape` of a constant shape, up to `FOLD_LIMIT` elements."""
    import numpy as np

    shape = imp.static_ints(node.input(0))
    if shape is None or min((0, *shape)) < 0 or prod(shape) > FOLD_LIMIT:
        return None
    fill = node.attributes.get("value")
    if fill is None:
        array = np.zeros(shape, np.float32)
    else:
        scalar = imp.loaded.tensors.array(fill)
        if scalar is None or scalar.size != 1 or scalar.dtype.kind not in "fiub":
            return None
        array = np.full(shape, scalar.reshape(-1)[0])
    imp.statics[node.output(0)] = _tensor(array, str(array.dtype))
    return []


def cast(imp: Importer, node: Node) -> list[SSAValue] | None:
    """`Cast` of a known shape to f32, and of f32 to f32, as exporters write the scale of scores."""
    name = node.input(0)
    if node.get("to", 0) != _FLOAT:
        return None
    element = element_type(imp.type_of(name))
    # Weights are integers of fewer bits.
    if element == i64 and (shape := imp.symbols.static(name)) is not None:
        imp.statics[node.output(0)] = _tensor(shape, "float32")
        return []
    return alias(imp, node) if element == f32 else None


def _tensor(value: Any, dtype: str) -> TensorProto:
    import numpy as np

    return package("onnx.numpy_helper").from_array(np.asarray(value, dtype))
