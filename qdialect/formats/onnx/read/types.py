"""ONNX value types as IR types."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

from qdialect.dialects.onnx import ELEMENTS, OpaqueType, package
from qdialect.ops.base import ranked
from qdialect.ops.shapes import DYNAMIC

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
