"""From IR types to qparams and back: what a value's type says about quantization."""

from __future__ import annotations

from functools import cache
from typing import cast, overload

from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    AnyFloat,
    AnyTensorType,
    AnyUnrankedTensorType,
    IntegerType,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute

from qdialect.algebra.qparams.parameters import QParams
from qdialect.ir.quant.types import UniformType

FLOAT_TYPES: dict[str, AnyFloat] = {
    str(kind): kind
    for kind in (
        builtin.f16,
        builtin.bf16,
        builtin.tf32,
        builtin.f32,
        builtin.f64,
        builtin.f80,
        builtin.f128,
        builtin.f8E5M2,
        builtin.f8E4M3,
        builtin.f8E4M3FN,
        builtin.f8E5M2FNUZ,
        builtin.f8E4M3FNUZ,
        builtin.f8E4M3B11FNUZ,
        builtin.f8E3M4,
        builtin.f8E8M0FNU,
        builtin.f6E2M3FN,
        builtin.f6E3M2FN,
        builtin.f4E2M1FN,
    )
}
"""The builtin float types by name."""


FLOATS: frozenset[Attribute] = frozenset((builtin.f32, builtin.f16, builtin.bf16, builtin.f64))
"""Element types on which `nn` ops compute in floats."""

_CACHE = "qdialect elements"


@cache
def _is_tensor(kind: type[Attribute]) -> bool:
    """`isinstance` on attributes is slow: their classes are abstract ones."""
    return issubclass(kind, TensorType | UnrankedTensorType)


@cache
def _is_uniform(kind: type[Attribute]) -> bool:
    return issubclass(kind, UniformType)


def integer_width(type: Attribute) -> int | None:
    """The width of an integer type; None for any other type."""
    if not isinstance(type, IntegerType):
        return None
    return cast("IntegerType[int]", type).width.data


def is_tensor(type: Attribute) -> bool:
    """Whether `type` is a tensor type, ranked or not."""
    return _is_tensor(type.__class__)


def element_type(type: Attribute) -> Attribute:
    """The element type of a tensor; any other type itself."""
    if is_tensor(type):
        return cast("AnyTensorType | AnyUnrankedTensorType", type).element_type
    return type


def quant_element(type: Attribute) -> UniformType | None:
    """The `!quant.uniform` that a scalar type is, or a tensor type holds; else None."""
    element = element_type(type)
    return cast("UniformType", element) if _is_uniform(element.__class__) else None


def same_type(one: Attribute, other: Attribute) -> bool:
    """Whether two types are equal; of quantized ones mostly the scales tell at once."""
    if one is other:
        return True
    a, b = quant_element(one), quant_element(other)
    if a is not None and b is not None and a.data.scales != b.data.scales:
        return False
    return one == other


def difference(first: Attribute, second: Attribute) -> str:
    """How the qparams of two types differ, for the end of a message that shows the types; empty
    if not both are quantized. See `QParams.difference`."""
    a, b = quant_element(first), quant_element(second)
    return "" if a is None or b is None else a.data.difference(b.data)


def storage_type(qparams: QParams) -> IntegerType:
    """The signless integer type that holds stored values.

    Raises ValueError for float storage.
    """
    if qparams.storage.is_float:
        raise ValueError(f"storage {qparams.storage} is not an integer")
    return _signless(qparams.storage.width)


@cache
def _signless(width: int) -> IntegerType:
    return IntegerType(width)


def expressed_type(qparams: QParams) -> AnyFloat:
    """The float type of the real values."""
    return FLOAT_TYPES[qparams.expressed]


@overload
def with_element(type: TensorType[Attribute], element: Attribute) -> TensorType[Attribute]: ...
@overload
def with_element(type: Attribute, element: Attribute) -> Attribute: ...
def with_element(type: Attribute, element: Attribute) -> Attribute:
    """`type` with another element type: same shape and encoding; a scalar becomes `element`."""
    if type.__class__ is TensorType:
        # A network asks for the same few types again and again. An entry refers to the element
        # type, so that its `id` stays unique.
        cache: dict[int, tuple[Attribute, Attribute]] = vars(type).setdefault(_CACHE, {})
        known = cache.get(id(element))
        if known is None:
            known = cache[id(element)] = (
                element,
                _with_element(cast("AnyTensorType", type), element),
            )
        return known[1]
    if isinstance(type, UnrankedTensorType):
        return UnrankedTensorType(element)
    return element


def _with_element(tensor: TensorType[Attribute], element: Attribute) -> TensorType[Attribute]:
    """The parts are right, as they are those of a type and a type: xDSL need not verify them
    again, which takes most of the time of making one."""
    made: TensorType[Attribute] = object.__new__(TensorType)
    vars(made).update(shape=tensor.shape, element_type=element, encoding=tensor.encoding)
    return made
