"""Which torch type holds the values of an IR type, inside of a module and at its interface.

Stored integers are one to an element in the smallest type that torch computes with:
unsigned ones of 16 and 32 bits in the next signed type, except at the interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from xdsl.dialects.builtin import IndexType, IntegerType, Signedness
from xdsl.ir import Attribute

from qdialect.errors import UnsupportedError
from qdialect.ir.quant import UniformType, element_type

_FLOATS = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}
_SIGNED = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
_UNSIGNED = {8: torch.uint8, 16: torch.uint16, 32: torch.uint32, 64: torch.uint64}
_WIDEST = 32
"""Bits of codes that are exact in the doubles they are computed with."""
_INNER = {torch.uint16: torch.int32, torch.uint32: torch.int64}


def interface_dtype(type: Attribute) -> torch.dtype:
    """The type of inputs and results; UnsupportedError where torch has none."""
    element = element_type(type)
    if isinstance(element, UniformType):
        storage = element.qparams.storage
        if storage.is_float or storage.quantile is not None:
            raise UnsupportedError(
                f"stored values of {storage} (floats, or with a table) have no form in PyTorch"
            )
        if storage.width > _WIDEST:
            raise UnsupportedError(f"codes of {storage.width} bits have no form in PyTorch")
        return _integer(storage.width, storage.signed)
    if isinstance(element, IndexType):
        return torch.int64
    if isinstance(element, IntegerType):
        width = cast("IntegerType[int, Signedness]", element).width.data
        signed = is_signed(type)
        return torch.bool if width == 1 and signed else _integer(width, signed)
    name = str(element)
    if name not in _FLOATS:
        raise UnsupportedError(f"values of type {element} have no form in PyTorch")
    return _FLOATS[name]


def inner_dtype(type: Attribute) -> torch.dtype:
    """The type of values inside of a module."""
    kind = interface_dtype(type)
    return _INNER.get(kind, kind)


def is_signed(type: Attribute) -> bool:
    """Whether the integers of an IR type, stored ones too, have a sign."""
    element = element_type(type)
    if isinstance(element, UniformType):
        return element.qparams.storage.signed
    unsigned = Signedness.UNSIGNED
    integer = cast("IntegerType[int, Signedness]", element)
    return not isinstance(element, IntegerType) or integer.signedness.data is not unsigned


def float_dtype(name: str) -> torch.dtype:
    """The float type that is spelled so: `f32`, `bf16`; UnsupportedError."""
    if name not in _FLOATS:
        raise UnsupportedError(f"floats of type {name} have no form in PyTorch")
    return _FLOATS[name]


# -- what torch leaves without types ----------------------------------------------------


def from_array(array: Any) -> Tensor:
    """A tensor of the memory of a numpy array."""
    return cast("Any", torch).from_numpy(array)


def integers(values: Tensor) -> list[int]:
    """The elements in row-major order."""
    return [int(n) for n in cast("Any", values.reshape(-1)).tolist()]


def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """`x` under what its extents and `shape` broadcast to."""
    return x.expand(cast("Any", torch).broadcast_shapes(x.shape, tuple(shape)))


def _integer(width: int, signed: bool) -> torch.dtype:
    for bits, kind in (_SIGNED if signed else _UNSIGNED).items():
        if width <= bits:
            return kind
    raise UnsupportedError(f"integers of {width} bits have no form in PyTorch")
