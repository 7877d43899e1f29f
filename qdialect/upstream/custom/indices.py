"""`custom<DynamicIndexList>`: integers and operands in one list, `[0, %offset, [4]]`."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, i1, i64
from xdsl.parser import UnresolvedOperand
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.upstream.directives import (
    CustomSyntax,
    Directive,
    Operands,
    PropertyValue,
)
from qdialect.upstream.states import Reading, Writing


def parse_index_list(
    state: Reading, operands: str, static: str, flags: str = "", *, parens: bool = False
) -> None:
    """Read `[0, %offset]` into operands, a property of integers, and one of flags: which of
    them stand in brackets, `[4]`, if the list may have those."""
    parser = state.parser
    values: list[UnresolvedOperand] = []
    integers: list[int] = []
    scalable: list[bool] = []

    def element() -> None:
        bracket = bool(flags) and parser.parse_optional_punctuation("[") is not None
        value = parser.parse_optional_unresolved_operand()
        if value is None:
            integers.append(parser.parse_integer())
        else:
            values.append(value)
            integers.append(DYNAMIC_INDEX)
        if bracket:
            parser.parse_punctuation("]")
        scalable.append(bracket)

    delimiter = parser.Delimiter.PAREN if parens else parser.Delimiter.SQUARE
    parser.parse_comma_separated_list(delimiter, element)
    state.operands[operands] = values
    state.properties[static] = DenseArrayBase.from_list(i64, integers)
    if flags:
        state.properties[flags] = DenseArrayBase.from_list(i1, cast("Any", scalable))


def print_index_list(
    state: Writing, operands: str, static: str, flags: str = "", *, parens: bool = False
) -> None:
    """Write what `parse_index_list` reads."""
    values = iter(state.values(operands))
    given = cast("Any", state.property(static))
    integers: Sequence[int] = [] if given is None else given.get_values()
    marks = cast("Any", state.property(flags)) if flags else None
    scalable: Sequence[bool] = marks.get_values() if marks else [False] * len(integers)
    state.printer.print_string("(" if parens else "[")
    for index, (integer, mark) in enumerate(zip(integers, scalable, strict=False)):
        state.printer.print_string(", " if index else "")
        state.printer.print_string("[" if mark else "")
        if integer == DYNAMIC_INDEX:
            state.printer.print_ssa_value(next(values))
        else:
            state.printer.print_int(integer)
        state.printer.print_string("]" if mark else "")
    state.printer.print_string(")" if parens else "]")


class DynamicIndexList(CustomSyntax):
    """Operands, and a property with the integers: a list in square brackets, or in round ones
    where the last argument says so."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parse_index_list(state, *_parts(arguments), parens=_parens(arguments))

    def parse_optional(self, state: Reading, arguments: Sequence[Directive | str]) -> bool:
        first = MLIRTokenKind.L_PAREN if _parens(arguments) else MLIRTokenKind.L_SQUARE
        if state.parser._current_token.kind is not first:
            return False
        self.parse(state, arguments)
        return True

    def is_present(self, state: Writing, arguments: Sequence[Directive | str]) -> bool:
        operands, static, _ = _parts(arguments)
        integers = cast("Any", state.property(static))
        return bool(state.values(operands)) or bool(integers is not None and integers.get_values())

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        print_index_list(state, *_parts(arguments), parens=_parens(arguments))


def _parts(arguments: Sequence[Directive | str]) -> tuple[str, str, str]:
    """The names of the operands, of the integers, and of the flags of scalable extents."""
    operands = [part.names[0] for part in arguments if isinstance(part, Operands)]
    properties = [part.kind.name for part in arguments if isinstance(part, PropertyValue)]
    return operands[0], properties[0], properties[1] if len(properties) > 1 else ""


def _parens(arguments: Sequence[Directive | str]) -> bool:
    return any(isinstance(part, str) and "Delimiter::Paren" in part for part in arguments)


DIRECTIVES = {"DynamicIndexList": DynamicIndexList()}
