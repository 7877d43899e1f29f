"""An op as a rule of inference sees it: types, attributes and constants by name; and what rules
demand of them, in one form each.

    pad must be at least 0, but is [0, -1]
    bias must have the shape [3], but has [4]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Block, Operation
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.dialects import attributes
from qdialect.plugins.mlir.upstream.operand_types import Named
from qdialect.plugins.mlir.upstream.shapes import (
    Shape,
    element_or_self,
    fit,
    listed,
    shape_of,
    storage_text,
)

MOST_NUMBERS = 1 << 12
"""Constants with more elements are not read."""

# -- what rules demand --------------------------------------------------------------


def demand(holds: object, message: str) -> None:
    """VerifyException with the message unless something holds."""
    if not holds:
        raise VerifyException(message)


def must_be(what: str, found: object, *allowed: object) -> None:
    """Something is one of what is allowed."""
    if found not in allowed:
        words = " or ".join(dict.fromkeys(map(str, allowed)))
        raise VerifyException(f"{what} must be {words}, but is {found}")


def must_agree(what: str, *found: object) -> None:
    """Some things are equal."""
    if any(one != found[0] for one in found):
        raise VerifyException(f"{what} must be one, but are {' and '.join(map(str, found))}")


def must_fit(what: str, found: Shape | None, expected: Shape | None) -> None:
    """A shape is as expected where both are known."""
    if not fit(found, expected):
        raise VerifyException(
            f"{what} must have the shape {listed(expected)}, but has {listed(found)}"
        )


def at_least(least: int, what: str, numbers: Sequence[float]) -> None:
    """No number is smaller."""
    if min(numbers, default=least) < least:
        raise VerifyException(f"{what} must be at least {least}, but is {[*numbers]}")


def dimensions(what: str, dims: Sequence[int], rank: int) -> None:
    """Different dimensions of so many."""
    if len({*dims}) != len(dims) or not all(0 <= d < rank for d in dims):
        raise VerifyException(f"{what} must be of {rank} dimensions, from 0, but is {[*dims]}")


# -- what they read -----------------------------------------------------------------


class Inferred(NamedTuple):
    """What is inferred of a result: its shape as far as it is known, and its element type or
    None."""

    shape: Shape | None
    element: Attribute | None = None


Results = Sequence[Inferred] | None
"""What is inferred of the first results, if anything is."""

Rule = Callable[["View"], Results]
"""Infers results; VerifyException where the op breaks a rule."""


class View:
    """The parts of an op by the names that its row has for them."""

    def __init__(self, op: Operation, named: Named) -> None:
        self.op, self._values = op, named

    # types

    def kinds(self, name: str) -> list[Attribute]:
        """The types of the values of this name."""
        return [value.type for value in self._values[name]]

    def kind(self, name: str) -> Attribute:
        """The type of the one value of this name."""
        return self._values[name][0].type

    @property
    def result(self) -> Attribute:
        """The type of the first result."""
        return self.op.results[0].type

    def shape(self, name: str) -> Shape | None:
        """Its shape."""
        return shape_of(self.kind(name))

    def ranked(self, name: str) -> Shape:
        """Its shape, which has a rank; () of another type."""
        return self.shape(name) or ()

    def extents(self, name: str, rank: int) -> Shape:
        """Its shape, whose rank is known: no extent is where the type has no rank."""
        shape = self.shape(name)
        return (-1,) * rank if shape is None else shape

    def element(self, name: str) -> Attribute:
        """Its element type."""
        return element_or_self(self.kind(name))

    def storage(self, name: str) -> str:
        """Its element type as text; of quantized numbers that of what is stored."""
        return storage_text(self.kind(name))

    def like(self, name: str) -> Inferred:
        """A result of its shape and element type."""
        return Inferred(self.shape(name), self.element(name))

    # attributes and constants

    def attribute(self, name: str) -> Attribute | None:
        """A property, or an attribute of that name."""
        return attributes.attribute(self.op, name)

    def integers(self, name: str) -> Sequence[int]:
        """A list of integers; empty without the attribute."""
        return attributes.integers_of(self.op, name, ())

    def counted(self, count: int, *names: str) -> Sequence[Sequence[int]]:
        """Lists of so many integers each."""
        found = [self.integers(name) for name in names]
        for name, numbers in zip(names, found, strict=True):
            demand(
                len(numbers) == count,
                f"{name} must have {count} numbers, one for each dimension, but is {[*numbers]}",
            )
        return found

    def integer(self, name: str, default: int = 0) -> int:
        """An integer."""
        return attributes.integer_of(self.op, name, default)

    def flag(self, name: str) -> bool:
        """A truth value; false without the attribute."""
        return attributes.flag_of(self.op, name)

    def keyword(self, name: str) -> str:
        """The case of an enumeration; empty without the attribute."""
        return attributes.keyword_of(self.op, name)

    def record(self, name: str, kind: type[Any]) -> Any:
        """An attribute of a class of ours."""
        found = self.attribute(name)
        demand(isinstance(found, kind), f"attribute '{name}' cannot be {found}")
        return found

    def constant(self, name: str) -> tuple[float, ...] | None:
        """The numbers of a constant operand; None where they are not known, or are many."""
        owner = self._values[name][0].owner
        if not isinstance(owner, Operation) or not owner.has_trait(ConstantLike):
            return None
        found = attributes.attribute(owner, "values") or attributes.attribute(owner, "value")
        if not isinstance(found, DenseIntOrFPElementsAttr):
            return None
        dense = cast("Any", found)
        return None if len(dense) > MOST_NUMBERS else dense.get_values()

    def sizes(self, name: str) -> Shape | None:
        """The same as a shape."""
        found = self.constant(name)
        return None if found is None else tuple(int(n) for n in found)

    # regions

    def body(self, number: int) -> Block | None:
        """The first block of a region; None of an empty one."""
        return self.op.regions[number].first_block

    def taken(self, number: int) -> list[Attribute]:
        """The types of the arguments of that block."""
        block = self.body(number)
        return [] if block is None else [*block.arg_types]

    def returned(self, number: int) -> list[Attribute]:
        """The types of what the last op of that block takes."""
        block = self.body(number)
        return [] if block is None or block.last_op is None else [*block.last_op.operand_types]


def types(kinds: Sequence[Attribute]) -> str:
    """Types for people."""
    return f"({', '.join(map(str, kinds))})"
