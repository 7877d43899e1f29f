"""The orders of the uses of values, which a file may state where they are not the usual one.

Usual is the reverse of the order in which a walk over the ops, outer before inner, meets them.  A
stated order lists for each use in the usual order its place in the list of uses, or pairs of place
and position for those few that are elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue, Use

from qdialect.plugins.mlir.bytecode.cursor import Malformed


class UseOrder(NamedTuple):
    """An order as the file states it."""

    is_pairs: bool
    numbers: tuple[int, ...]
    at: int
    """The byte of the file behind it."""


class UseOrders:
    """The values of a file that is being read whose uses have to be put in order."""

    def __init__(self) -> None:
        self._stated: dict[SSAValue, UseOrder] = {}
        self._unsorted: set[SSAValue] = set()

    def note(self, value: SSAValue, order: UseOrder) -> None:
        """The uses of `value` have this order."""
        self._stated[value] = order

    def unsorted(self, value: SSAValue) -> None:
        """Uses of `value` stood before it, so that the order of reading is not the usual one."""
        self._unsorted.add(value)

    def apply(self, module: ModuleOp) -> None:
        """Put the uses of all values that were noted in order, when all ops are there."""
        if not self._stated and not self._unsorted:
            return
        numbers = numbered_ops(module)
        for value in self._unsorted:
            if value not in self._stated:
                relink(value, usual_order(value, numbers))
        for value, order in self._stated.items():
            usual = usual_order(value, numbers)
            places = _places(order, len(usual))
            uses = usual[:]
            for use, place in zip(usual, places, strict=True):
                uses[place] = use
            relink(value, uses)


def numbered_ops(module: ModuleOp) -> dict[Operation, int]:
    """All ops, numbered as a walk meets them."""
    return {op: number for number, op in enumerate(module.walk())}


def usual_order(value: SSAValue, numbers: dict[Operation, int]) -> list[Use]:
    """The uses of a value in the usual order."""
    return sorted(value.uses, key=lambda use: (numbers[use.operation], use.index), reverse=True)


def relink(value: SSAValue, uses: Sequence[Use]) -> None:
    """Give a value its uses in another order."""
    for use in uses:
        value.remove_use(use)
    for use in reversed(uses):
        value.add_use(use)


def stated_order(value: SSAValue, numbers: dict[Operation, int]) -> list[int] | None:
    """For each use in the usual order its place; None if that is the order."""
    keys = [(numbers[use.operation], use.index) for use in value.uses]
    order = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
    return None if order == list(range(len(keys))) else order


def _places(order: UseOrder, count: int) -> Sequence[int]:
    places = list(order.numbers)
    if order.is_pairs:
        pairs = list(zip(places[::2], places[1::2], strict=False))
        if len(places) % 2 or any(max(pair) >= count for pair in pairs):
            raise Malformed(order.at, f"an order of uses that are not {count}")
        places = list(range(count))
        for place, position in pairs:
            places[position] = place
    if sorted(places) != list(range(count)):
        raise Malformed(order.at, f"an order of uses that are not {count}")
    return places
