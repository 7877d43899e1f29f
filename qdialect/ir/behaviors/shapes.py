"""The shape of a tensor value in the project's one spelling."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

Shape = tuple[int, ...]

#: an unknown extent (xDSL and MLIR mark it with the smallest 64-bit integer)
DYNAMIC = -1
_KEPT = "qdialect shape"


def tensor_type(value: SSAValue) -> TensorType[Any]:
    """The type of a value that must be a ranked tensor."""
    kind = value.type
    if not isinstance(kind, TensorType):
        raise VerifyException(f"expected a ranked tensor, but got {kind}")
    return cast("TensorType[Any]", kind)


def shape_of(value: SSAValue) -> Shape:
    """The extents of a tensor value, `DYNAMIC` where unknown."""
    # Asked for all the time: kept with the type, which nobody changes.
    kept = vars(value.type)
    known: Shape | None = kept.get(_KEPT)
    if known is None:
        extents = tensor_type(value).get_shape()
        known = tuple(DYNAMIC if extent == DYNAMIC_INDEX else extent for extent in extents)
        kept[_KEPT] = known
    return known
