"""Reading the attributes of TOSA ops by name.

An op may be of a class of ours, of xDSL's, or be read without one: its properties are found in all
three.  InputError (`bad-tosa`) where one is missing or of another kind.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, UnregisteredOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.str_enum import StrEnum

from qdialect.errors import InputError


def _name(op: Operation) -> str:
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def attribute(op: Operation, name: str) -> Attribute | None:
    """A property or attribute; None where the op has none of this name."""
    found = op.properties.get(name)
    return op.attributes.get(name) if found is None else found


def required(op: Operation, name: str) -> Attribute:
    """The same; InputError (`bad-tosa`) where it is missing."""
    found = attribute(op, name)
    if found is None:
        raise InputError(f"'{_name(op)}' op has no attribute '{name}'", code="bad-tosa")
    return found


def integers_of(op: Operation, name: str) -> list[int]:
    """An array of integers (`array<i64: ...>`, or the `[...]` of older text)."""
    found = required(op, name)
    if isinstance(found, DenseArrayBase):
        return [int(n) for n in found.get_values()]
    if isinstance(found, ArrayAttr):
        items = cast("ArrayAttr[Attribute]", found).data
        return [item.value.data for item in items if isinstance(item, IntegerAttr)]
    raise _no_number(op, name)


def _no_number(op: Operation, name: str) -> InputError:
    return InputError(f"'{_name(op)}' op has no number in '{name}'", code="bad-tosa")


def integer_of(op: Operation, name: str) -> int:
    """An integer."""
    found = required(op, name)
    if not isinstance(found, IntegerAttr):
        raise _no_number(op, name)
    return int(cast("Any", found).value.data)


def number_of(op: Operation, name: str) -> float:
    """An integer or float (NaN and infinities too)."""
    found = required(op, name)
    if isinstance(found, FloatAttr | IntegerAttr):
        return cast("Any", found).value.data
    raise _no_number(op, name)


def flag_of(op: Operation, name: str) -> bool:
    """A truth value; false where there is none."""
    found = attribute(op, name)
    return isinstance(found, IntegerAttr) and bool(cast("Any", found).value.data)


def keyword_of(op: Operation, name: str, default: str) -> str:
    """The name in an enum attribute, whichever dialect's class or text holds it."""
    found = attribute(op, name)
    if found is None:
        return default
    data: object = getattr(found, "data", None)
    if isinstance(data, StrEnum):
        return data.value
    text = data if isinstance(data, str) else str(found)
    return text.rpartition("<")[2].rpartition(" ")[2].strip('<>" ')
