"""Arrays of types that numpy lacks, as the package `ml_dtypes` has them.

At run time such values are held in types of numpy (`values`): 4-bit integers one to a byte,
bf16 in float32, smaller floats as their bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute

from qdialect.ir.quant import UniformType, element_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FLOATS = {
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
    "f4E2M1FN": "float4_e2m1fn",
}


def is_narrow(array: NDArray[Any]) -> bool:
    """Whether the elements are of a type that numpy itself lacks."""
    return array.dtype.isbuiltin == 2


def as_laid_out(array: NDArray[Any]) -> NDArray[Any]:
    """A caller's array as values are held; one of a type of numpy as it is."""
    if not is_narrow(array):
        return array
    name = array.dtype.name
    if name == "bfloat16":
        return array.astype(np.float32)
    if name.startswith(("int", "uint")):
        return array.astype(np.int8 if name[0] == "i" else np.uint8)
    return array.view(np.uint8)


def as_narrow(array: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """The inverse of `as_laid_out`, for values of an IR type."""
    name = _narrow_name(type)
    if name is None or is_narrow(array):
        return array
    import ml_dtypes

    dtype: Any = np.dtype(getattr(ml_dtypes, name))
    return array.view(dtype) if "float" in name and name != "bfloat16" else array.astype(dtype)


def _narrow_name(type: Attribute) -> str | None:
    element = element_type(type)
    if isinstance(element, UniformType):
        storage = element.qparams.storage
        if storage.is_float:
            return _FLOATS.get(storage.keyword)
        width, signed = storage.width, storage.signed
    elif isinstance(element, IntegerType):
        integer = cast("IntegerType[int]", element)
        width, signed = integer.width.data, integer.signedness.data is not Signedness.UNSIGNED
    else:
        return _FLOATS.get(str(element))
    return f"{'' if signed else 'u'}int{width}" if width in (2, 4) else None
