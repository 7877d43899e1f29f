"""Reading the attributes of ops of other dialects by name.

An op may be of a class of ours, of xDSL's, or be read without one: its properties are found in all
three.  InputError (`bad-op`) where one is missing or of another kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.str_enum import StrEnum

from qdialect.errors import InputError


def _error(op: Operation, name: str, what: str) -> InputError:
    op_name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
    return InputError(f"'{op_name}' op has no {what} '{name}'", code="bad-op")


def attribute(op: Operation, name: str) -> Attribute | None:
    """A property or attribute; None where the op has none of this name."""
    found = op.properties.get(name)
    return op.attributes.get(name) if found is None else found


def required(op: Operation, name: str) -> Attribute:
    """The same; InputError where it is missing."""
    found = attribute(op, name)
    if found is None:
        raise _error(op, name, "attribute")
    return found


def integers_of(op: Operation, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
    """The integers of an array, of dense elements or of a list; `default` without the attribute."""
    found = attribute(op, name)
    if found is None and default is not None:
        return tuple(default)
    if isinstance(found, DenseArrayBase | DenseIntOrFPElementsAttr):
        return tuple(int(cast("Any", n)) for n in found.get_values())
    if isinstance(found, ArrayAttr):
        items = cast("ArrayAttr[Attribute]", found).data
        return tuple(item.value.data for item in items if isinstance(item, IntegerAttr))
    raise _error(op, name, "list of integers")


def pairs_of(op: Operation, name: str, count: int) -> list[tuple[int, int]]:
    """Two integers for each of `count` dimensions; 0 without the attribute."""
    numbers = integers_of(op, name, (0,) * (2 * count))
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def integer_of(op: Operation, name: str, default: int | None = None) -> int:
    """An integer; `default` without the attribute."""
    found = attribute(op, name)
    if found is None and default is not None:
        return default
    if not isinstance(found, IntegerAttr):
        raise _error(op, name, "integer")
    return int(cast("Any", found).value.data)


def number_of(op: Operation, name: str) -> float:
    """An integer or float (NaN and infinities too)."""
    found = attribute(op, name)
    if not isinstance(found, FloatAttr | IntegerAttr):
        raise _error(op, name, "number")
    return cast("Any", found).value.data


def flag_of(op: Operation, name: str) -> bool:
    """A truth value; false where there is none."""
    found = attribute(op, name)
    return isinstance(found, IntegerAttr) and bool(cast("Any", found).value.data)


def keyword_of(op: Operation, name: str, default: str = "") -> str:
    """The name in an enum attribute, whichever dialect's class or text holds it; or a string."""
    found = attribute(op, name)
    if found is None:
        return default
    data: object = getattr(found, "data", None)
    if isinstance(data, StrEnum):
        return data.value
    text = data if isinstance(data, str) else str(found)
    return text.rpartition("<")[2].rpartition(" ")[2].strip('<>" ')


def strings(values: Sequence[str]) -> ArrayAttr[StringAttr]:
    """A list of names as an attribute."""
    return _strings(tuple(values))


@lru_cache(maxsize=1 << 10)
def _strings(values: tuple[str, ...]) -> ArrayAttr[StringAttr]:
    # A scale and its zero point are parameters of several nodes.
    return ArrayAttr([string(value) for value in values])


@lru_cache(maxsize=1 << 10)
def string(value: str) -> StringAttr:
    """A name as an attribute: many stand in several places."""
    return StringAttr(value)


def string_list(attribute: Attribute | None) -> list[str]:
    """The strings of an array attribute, or of a single string; [] for anything else."""
    if isinstance(attribute, StringAttr):
        return [attribute.data]
    entries: Any = getattr(attribute, "data", ())
    if not isinstance(entries, tuple):
        return []
    return [entry.data for entry in entries if isinstance(entry, StringAttr)]  # pyright: ignore[reportUnknownVariableType]
