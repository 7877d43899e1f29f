"""`custom<DynamicIndexList>`: integers and operands in one list, `[0, %offset]`."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, i64
from xdsl.parser import UnresolvedOperand
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.plugins.mlir.upstream.directives import (
    CustomSyntax,
    Directive,
    Operands,
    PropertyValue,
)
from qdialect.plugins.mlir.upstream.states import Reading, Writing


def parse_index_list(state: Reading, operands: str, static: str, *, parens: bool = False) -> None:
    """Read `[0, %offset]` into operands and a property of integers."""
    parser = state.parser
    values: list[UnresolvedOperand] = []
    integers: list[int] = []

    def element() -> None:
        value = parser.parse_optional_unresolved_operand()
        if value is None:
            integers.append(parser.parse_integer())
        else:
            values.append(value)
            integers.append(DYNAMIC_INDEX)

    delimiter = parser.Delimiter.PAREN if parens else parser.Delimiter.SQUARE
    parser.parse_comma_separated_list(delimiter, element)
    state.operands[operands] = values
    state.properties[static] = DenseArrayBase.from_list(i64, integers)


def print_index_list(state: Writing, operands: str, static: str, *, parens: bool = False) -> None:
    """Write what `parse_index_list` reads."""
    values = iter(state.values(operands))
    given = cast("Any", state.property(static))
    integers: Sequence[int] = [] if given is None else given.get_values()
    state.printer.print_string("(" if parens else "[")
    for index, integer in enumerate(integers):
        state.printer.print_string(", " if index else "")
        if integer == DYNAMIC_INDEX:
            state.printer.print_ssa_value(next(values))
        else:
            state.printer.print_int(integer)
    state.printer.print_string(")" if parens else "]")


class DynamicIndexList(CustomSyntax):
    """Operands, and a property with the integers: a list in square brackets."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parse_index_list(state, *_parts(arguments))

    def parse_optional(self, state: Reading, arguments: Sequence[Directive | str]) -> bool:
        if state.parser._current_token.kind is not MLIRTokenKind.L_SQUARE:
            return False
        self.parse(state, arguments)
        return True

    def is_present(self, state: Writing, arguments: Sequence[Directive | str]) -> bool:
        operands, static = _parts(arguments)
        integers = cast("Any", state.property(static))
        return bool(state.values(operands)) or bool(integers is not None and integers.get_values())

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        print_index_list(state, *_parts(arguments))


def _parts(arguments: Sequence[Directive | str]) -> tuple[str, str]:
    (operands,) = [part.names[0] for part in arguments if isinstance(part, Operands)]
    (static,) = [part.kind.name for part in arguments if isinstance(part, PropertyValue)]
    return operands, static


DIRECTIVES = {"DynamicIndexList": DynamicIndexList()}
