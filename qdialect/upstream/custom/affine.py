"""Subscripts of affine accesses: `%m[%i + 1, symbol(%n) * 2]`, a map and its operands.

Each value is a dimension of the map, or a symbol where the text says so, in the order in which
they first occur.
"""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.parser import UnresolvedOperand
from xdsl.parser.affine_parser import AffineParser
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.upstream.affine import AffineReader
from qdialect.upstream.directives import (
    CustomSyntax,
    Directive,
    Operands,
    PropertyValue,
)
from qdialect.upstream.states import Reading, Writing

_PLACE = re.compile(r"\b([ds])([0-9]+)\b")


class _Values:
    """The values in the subscripts of one access, in the order in which they occur."""

    def __init__(self, state: Reading) -> None:
        self._state = state
        self.dimensions: dict[str, UnresolvedOperand] = {}
        self.symbols: dict[str, UnresolvedOperand] = {}

    def reader(self, affine: AffineParser) -> Callable[[], AffineExpr | None]:
        """What reads one value with `affine`, if there is one."""

        def read() -> AffineExpr | None:
            if affine._current_token.kind is MLIRTokenKind.PERCENT_IDENT:
                return AffineExpr.dimension(self._place(self.dimensions))
            if affine.parse_optional_keyword("symbol") is None:
                return None
            affine.parse_punctuation("(")
            place = self._place(self.symbols)
            affine.parse_punctuation(")")
            return AffineExpr.symbol(place)

        return read

    def _place(self, values: dict[str, UnresolvedOperand]) -> int:
        operand = self._state.parser.parse_unresolved_operand()
        name = f"{operand.operand_name}#{operand.index}"
        values.setdefault(name, operand)
        return list(values).index(name)


class Subscripts(CustomSyntax):
    """`[%i + 1, symbol(%n)]`: a property with the map, and its operands."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        values = _Values(state)
        affine = AffineReader(state.parser._parser_state)
        read = values.reader(affine)
        results = state.parser.parse_comma_separated_list(
            state.parser.Delimiter.SQUARE, lambda: affine._parse_affine_expr(read)
        )
        made = AffineMap(len(values.dimensions), len(values.symbols), tuple(results))
        state.properties[_map(arguments)] = AffineMapAttr(made)
        state.operands[_operands(arguments)] = [
            *values.dimensions.values(),
            *values.symbols.values(),
        ]

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        places = cast("Any", state.property(_map(arguments))).data
        values = state.values(_operands(arguments))
        with state.printer.in_square_brackets():
            for index, result in enumerate(places.results):
                state.printer.print_string(", " if index else "")
                self._print(state, str(result), places.num_dims, values)

    def _print(self, state: Writing, text: str, dimensions: int, values: Sequence[Any]) -> None:
        position = 0
        for found in _PLACE.finditer(text):
            state.printer.print_string(text[position : found.start()])
            place = int(found[2])
            if found[1] == "d":
                state.printer.print_ssa_value(values[place])
            else:
                state.printer.print_string("symbol(")
                state.printer.print_ssa_value(values[dimensions + place])
                state.printer.print_string(")")
            position = found.end()
        state.printer.print_string(text[position:])


def _map(arguments: Sequence[Directive | str]) -> str:
    return next(part.kind.name for part in arguments if isinstance(part, PropertyValue))


def _operands(arguments: Sequence[Directive | str]) -> str:
    return next(part.names[0] for part in arguments if isinstance(part, Operands))


DIRECTIVES = {"Subscripts": Subscripts()}
