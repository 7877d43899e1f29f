"""An op as a rule of inference sees it: types, attributes and constants by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects import attributes
from qdialect.upstream.operand_types import groups
from qdialect.upstream.shapes import Shape, element_or_self, shape_of, storage_of
from qdialect.upstream.table import Row

MOST_NUMBERS = 1 << 12
"""Constants with more elements are not read."""


class Inferred(NamedTuple):
    """What is inferred of a result: its shape as far as it is known, and its element type or
    None."""

    shape: Shape | None
    element: Attribute | None = None


Rule = Callable[["View"], Sequence[Inferred]]
"""Infers results; none of them, or VerifyException where the op breaks a rule."""


def demand(holds: object, message: str) -> None:
    """VerifyException with the message unless something holds."""
    if not holds:
        raise VerifyException(message)


class View:
    """The parts of an op by the names that its row has for them."""

    def __init__(self, op: Operation, row: Row) -> None:
        self.op = op
        self._values: dict[str, Sequence[SSAValue]] = {}
        for word, values in (("operand", row.operands), ("result", row.results)):
            names = [value.name for value in values]
            self._values.update(zip(names, groups(op, row, word), strict=True))

    # -- types ----------------------------------------------------------------------

    def kinds(self, name: str) -> list[Attribute]:
        """The types of the values of this name."""
        return [value.type for value in self._values[name]]

    def kind(self, name: str) -> Attribute:
        """The type of the one value of this name."""
        return self._values[name][0].type

    def shape(self, name: str) -> Shape | None:
        """Its shape."""
        return shape_of(self.kind(name))

    def extents(self, name: str, rank: int) -> Shape:
        """Its shape, whose rank is known: no extent is where the type has no rank."""
        shape = self.shape(name)
        return (-1,) * rank if shape is None else shape

    def element(self, name: str) -> Attribute:
        """Its element type."""
        return element_or_self(self.kind(name))

    def storage(self, name: str) -> str:
        """Its element type as text; of quantized numbers that of what is stored."""
        return str(storage_of(self.kind(name)))

    # -- attributes and constants -----------------------------------------------------

    def attribute(self, name: str) -> Attribute | None:
        """A property, or an attribute of that name."""
        return attributes.attribute(self.op, name)

    def integers(self, name: str) -> Sequence[int]:
        """A list of integers; empty without the attribute."""
        return attributes.integers_of(self.op, name, ())

    def integer(self, name: str, default: int = 0) -> int:
        """An integer."""
        return attributes.integer_of(self.op, name, default)

    def flag(self, name: str) -> bool:
        """A truth value; false without the attribute."""
        return attributes.flag_of(self.op, name)

    def keyword(self, name: str) -> str:
        """The case of an enumeration; empty without the attribute."""
        return attributes.keyword_of(self.op, name)

    def constant(self, name: str) -> Sequence[float] | None:
        """The numbers of a constant operand; None where they are not known, or are many."""
        owner = self._values[name][0].owner
        if not isinstance(owner, Operation) or not owner.has_trait(ConstantLike):
            return None
        found = attributes.attribute(owner, "values") or attributes.attribute(owner, "value")
        dense: Any = found if isinstance(found, DenseIntOrFPElementsAttr) else None
        return None if dense is None or len(dense) > MOST_NUMBERS else dense.get_values()

    # -- regions ----------------------------------------------------------------------

    def body(self, number: int) -> Block | None:
        """The first block of a region; None of an empty one."""
        return self.op.regions[number].first_block

    def returned(self, number: int) -> list[Attribute]:
        """The types of what the last op of that block takes."""
        block = self.body(number)
        return [] if block is None or block.last_op is None else [*block.last_op.operand_types]


def number_in(attribute: Attribute | None) -> tuple[float, Attribute] | None:
    """A number and its type; None of what is no number."""
    if not isinstance(attribute, FloatAttr | IntegerAttr):
        return None
    number = cast("Any", attribute)
    return number.value.data, number.type
