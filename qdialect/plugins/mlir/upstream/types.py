"""The types that the custom form of an op leaves out, from those that it has.

A rule is a word of the column `types`: `lhs=same:result`, `result=element:tensor`,
`condition=is:i1`. `RULES` has what each word computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ComplexType,
    FunctionType,
    MemRefType,
    TensorType,
    UnrankedMemRefType,
    UnrankedTensorType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

Types = Sequence[Attribute]
_Tensor = (TensorType, UnrankedTensorType)


def _same(types: Types) -> Types:
    return types


def element_of(kind: Attribute) -> Attribute:
    """The element type of a shaped or complex type; VerifyException for others."""
    containers = (TensorType, UnrankedTensorType, MemRefType, UnrankedMemRefType, VectorType)
    if not isinstance(kind, (*containers, ComplexType)):
        raise VerifyException(f"{kind} has no element type")
    return cast("Any", kind).element_type


def with_element(kind: Attribute, element: Attribute) -> Attribute:
    """A type of the same shape with another element type; `element` itself for a scalar."""
    if isinstance(kind, VectorType):
        vector = cast("VectorType[Any]", kind)
        return VectorType(element, vector.shape, vector.scalable_dims)
    if isinstance(kind, TensorType):
        tensor = cast("TensorType[Any]", kind)
        return TensorType(element, tensor.shape, tensor.encoding)
    if isinstance(kind, UnrankedTensorType):
        return UnrankedTensorType(element)
    return element


def _elements(types: Types) -> Types:
    kind = cast("TensorType[Any]", types[0])
    count = 1
    for extent in kind.get_shape():
        count *= extent
    return [kind.element_type] * count


def _tensors(types: Types) -> Types:
    return [kind for kind in types if isinstance(cast("object", kind), _Tensor)]


RULES: Mapping[str, Callable[[Types], Types]] = {
    "same": _same,
    "element": lambda types: [element_of(kind) for kind in types],
    "i1like": lambda types: [with_element(kind, i1) for kind in types],
    "inputs": lambda types: cast("FunctionType", types[0]).inputs.data,
    "outputs": lambda types: cast("FunctionType", types[0]).outputs.data,
    "elements": _elements,
    "tensors": _tensors,
    "i1each": lambda types: [i1] * len(types),
}
"""Types from types, by the word of the rule."""
