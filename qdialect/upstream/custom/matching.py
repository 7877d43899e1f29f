"""Positions in the transform dialect: lists of dimensions, packed lists of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i64

from qdialect.upstream.custom.indices import parse_index_list, print_index_list
from qdialect.upstream.directives import (
    CustomSyntax,
    Directive,
    Operands,
    PropertyValue,
)
from qdialect.upstream.states import Reading, Writing


def _properties(arguments: Sequence[Directive | str]) -> list[str]:
    return [part.kind.name for part in arguments if isinstance(part, PropertyValue)]


class TransformMatchDims(CustomSyntax):
    """`1, 2`, `except(1, 2)`, `all`: properties with the integers and the two flags."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        positions, inverted, everything = _properties(arguments)
        parser = state.parser
        integers: list[int] = []
        if parser.parse_optional_keyword("all"):
            state.properties[everything] = UnitAttr()
        elif parser.parse_optional_keyword("except"):
            state.properties[inverted] = UnitAttr()
            integers = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_integer
            )
        else:
            integers = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, parser.parse_integer
            )
        state.properties[positions] = DenseArrayBase.from_list(i64, integers)

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        positions, inverted, everything = _properties(arguments)
        if state.property(everything) is not None:
            state.printer.print_string("all")
            return
        integers = cast("Any", state.property(positions)).get_values()
        without = state.property(inverted) is not None
        state.printer.print_string("except(" if without else "")
        state.printer.print_list(integers, state.printer.print_int)
        state.printer.print_string(")" if without else "")


class PackedOrDynamicIndexList(CustomSyntax):
    """`*(%sizes)`, or a list of operands and integers."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        packed, operands, static = self._parts(arguments)
        parser = state.parser
        if parser.parse_optional_punctuation("*"):
            parser.parse_punctuation("(")
            state.operands[packed] = [parser.parse_unresolved_operand()]
            parser.parse_punctuation(")")
            return
        parse_index_list(state, operands, static)

    def is_present(self, state: Writing, arguments: Sequence[Directive | str]) -> bool:
        packed, _, static = self._parts(arguments)
        integers = cast("Any", state.property(static))
        return bool(state.values(packed)) or bool(integers is not None and integers.get_values())

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        packed, operands, static = self._parts(arguments)
        if state.values(packed):
            state.printer.print_string("*(")
            state.printer.print_ssa_value(state.values(packed)[0])
            state.printer.print_string(")")
        else:
            print_index_list(state, operands, static)

    def _parts(self, arguments: Sequence[Directive | str]) -> tuple[str, str, str]:
        operands = [part.names[0] for part in arguments if isinstance(part, Operands)]
        return operands[0], operands[1], _properties(arguments)[0]


DIRECTIVES = {
    "PackedOrDynamicIndexList": PackedOrDynamicIndexList(),
    "TransformMatchDims": TransformMatchDims(),
}
