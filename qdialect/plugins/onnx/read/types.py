"""ONNX value types as IR types."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    i64,
)
from xdsl.ir import Attribute

from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import element_type
from qdialect.ir.quant.elements import is_tensor
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import ELEMENTS, OpaqueType

if TYPE_CHECKING:
    from onnx import TensorShapeProto, TypeProto

UNKNOWN = OpaqueType("")
"""The type of a value that shape inference could not tell anything about."""


def value_type(proto: TypeProto | None) -> Attribute:
    """A tensor type, ranked when the rank is known; `!onnx.type` for other values."""
    if proto is None or not proto.WhichOneof("value"):
        return UNKNOWN
    if not proto.HasField("tensor_type"):
        text: str = package("google.protobuf.text_format").MessageToString(proto, as_one_line=True)
        return OpaqueType(text.strip())
    tensor = proto.tensor_type
    element = ELEMENTS.get(tensor.elem_type)
    if element is None:
        return UNKNOWN
    if not tensor.HasField("shape"):
        return UnrankedTensorType(element)
    return ranked(element, shape_of(tensor.shape))


def extents(type: TensorType[Attribute]) -> tuple[int, ...]:
    """The dimensions of a tensor type, `DYNAMIC` where unknown."""
    return tuple(DYNAMIC if n == DYNAMIC_INDEX else n for n in type.get_shape())


def is_open(type: Attribute) -> bool:
    """Whether it leaves an extent, the rank, or all open."""
    shape = _extents(type)
    return shape is None or DYNAMIC in shape


def met(first: Attribute, second: Attribute) -> Attribute:
    """What either of two types of a value says; the first where they contradict each other."""
    one, other = _extents(first), _extents(second)
    if first == UNKNOWN or (one is None and other is not None and is_tensor(first)):
        return second
    if one is None or other is None or len(one) != len(other):
        return first
    known = [b if a == DYNAMIC else a for a, b in zip(one, other, strict=True)]
    return ranked(element_type(first), known)


def _extents(type: Attribute) -> tuple[int, ...] | None:
    return extents(cast("TensorType[Attribute]", type)) if isinstance(type, TensorType) else None


def shape_of(shape: TensorShapeProto) -> tuple[int, ...]:
    """Extents, `DYNAMIC` where symbolic or unknown (a negative number is unknown)."""
    return tuple(
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else DYNAMIC for d in shape.dim
    )


def dim_names(proto: TypeProto, *, always: bool = False) -> Attribute | None:
    """Declared extents and the names of symbolic ones; None if no extent has a name
    (unless `always`), or no rank is declared."""
    if not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
        return None
    dims = proto.tensor_type.shape.dim
    if not always and not any(d.dim_param for d in dims):
        return None
    entries: list[Attribute] = [
        StringAttr(d.dim_param) if d.dim_param else IntegerAttr(extent, i64)
        for d, extent in zip(dims, shape_of(proto.tensor_type.shape), strict=True)
    ]
    return ArrayAttr(entries)
