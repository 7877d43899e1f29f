"""`custom<DynamicIndexList>`: integers and operands in one list, `[0, %offset, [4]]`."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, i1, i64
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.upstream.directives import CustomSyntax, Directive, Operands, PropertyValue
from qdialect.upstream.states import Reading, Writing


class DynamicIndexList(CustomSyntax):
    """Operands, and a property with the integers: a list in brackets (with a delimiter among
    the arguments, in others)."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parser = state.parser
        values: list[UnresolvedOperand] = []
        integers: list[int] = []
        scalable: list[bool] = []

        def element() -> None:
            bracket = parser.parse_optional_punctuation("[") is not None
            value = parser.parse_optional_unresolved_operand()
            if value is None:
                integers.append(parser.parse_integer())
            else:
                values.append(value)
                integers.append(DYNAMIC_INDEX)
            if bracket:
                parser.parse_punctuation("]")
            scalable.append(bracket)

        parser.parse_comma_separated_list(_delimiter(parser, arguments), element)
        operands, static, flags = _parts(arguments)
        state.operands[operands] = values
        state.properties[static] = DenseArrayBase.from_list(i64, integers)
        if flags:
            state.properties[flags] = DenseArrayBase.from_list(i1, cast("Any", scalable))

    def parse_optional(self, state: Reading, arguments: Sequence[Directive | str]) -> bool:
        first = (
            MLIRTokenKind.L_PAREN
            if _delimiter(state.parser, arguments) is Parser.Delimiter.PAREN
            else MLIRTokenKind.L_SQUARE
        )
        if state.parser._current_token.kind is not first:
            return False
        self.parse(state, arguments)
        return True

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        operands, static, flags = _parts(arguments)
        values = iter(state.values(operands))
        given = cast("Any", state.property(static))
        integers: Sequence[int] = [] if given is None else given.get_values()
        marks = cast("Any", state.property(flags)) if flags else None
        scalable: Sequence[bool] = marks.get_values() if marks else [False] * len(integers)
        round_brackets = _delimiter(None, arguments) is Parser.Delimiter.PAREN
        state.printer.print_string("(" if round_brackets else "[")
        for index, (integer, mark) in enumerate(zip(integers, scalable, strict=False)):
            state.printer.print_string(", " if index else "")
            state.printer.print_string("[" if mark else "")
            if integer == DYNAMIC_INDEX:
                state.printer.print_ssa_value(next(values))
            else:
                state.printer.print_int(integer)
            state.printer.print_string("]" if mark else "")
        state.printer.print_string(")" if round_brackets else "]")


def _parts(arguments: Sequence[Directive | str]) -> tuple[str, str, str]:
    """The names of the operands, of the integers, and of the flags of scalable extents."""
    operands = [part.names[0] for part in arguments if isinstance(part, Operands)]
    properties = [part.kind.name for part in arguments if isinstance(part, PropertyValue)]
    return operands[0], properties[0], properties[1] if len(properties) > 1 else ""


def _delimiter(parser: object, arguments: Sequence[Directive | str]) -> Parser.Delimiter:
    del parser
    words = [part for part in arguments if isinstance(part, str)]
    inside = any("Delimiter::Paren" in word for word in words)
    return Parser.Delimiter.PAREN if inside else Parser.Delimiter.SQUARE


DIRECTIVES = {"DynamicIndexList": DynamicIndexList()}
