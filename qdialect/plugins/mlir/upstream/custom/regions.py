"""Arguments of regions that stand before them: loop variables and carried values.

scf.for %i = %lb to %ub step %s iter_args(%sum = %init) -> (f32) { .. }
        ~~ Argument                      ~~~~~~~~~~~~~~ Assignments
"""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.parser import UnresolvedOperand
from xdsl.utils.mlir_lexer import MLIRToken, MLIRTokenKind

from qdialect.plugins.mlir.upstream.custom.indices import parse_index_list, print_index_list
from qdialect.plugins.mlir.upstream.directives import (
    CustomSyntax,
    Directive,
    Operands,
    PropertyValue,
    Types,
)
from qdialect.plugins.mlir.upstream.region_directives import RegionValue, close_region, print_region
from qdialect.plugins.mlir.upstream.states import ArgumentTypes, Reading, Writing


def _argument(state: Reading) -> MLIRToken:
    return state.parser._parse_token(MLIRTokenKind.PERCENT_IDENT, "expected an argument")


def _region(arguments: Sequence[Directive | str]) -> str:
    return next(part.names[0] for part in arguments if isinstance(part, RegionValue))


def _types(arguments: Sequence[Directive | str]) -> ArgumentTypes:
    """The types of arguments: those of values, or one for all."""
    for part in arguments:
        if isinstance(part, Types):
            return ArgumentTypes(part.names[0], "")
    return ArgumentTypes("", next(part for part in arguments if isinstance(part, str)))


class Argument(CustomSyntax):
    """One argument of a region: its region, and its type as `type($value)` or a word."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        state.bind(_region(arguments), [_argument(state).span], _types(arguments))

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        (argument,) = state.bind(_region(arguments), 1)
        state.printer.print_ssa_value(argument)


class ArgumentList(CustomSyntax):
    """Arguments in round brackets: `(%i, %j)`; the number of them is that of the values of
    `$values`."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parser = state.parser
        names = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _argument(state).span
        )
        state.bind(_region(arguments), names, _types(arguments))

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        name = _region(arguments)
        count = len(state.region_arguments(name))
        for part in arguments:
            if isinstance(part, Operands):
                count -= len(state.values(part.names[0]))
        with state.printer.in_parens():
            state.printer.print_list(state.bind(name, count), state.printer.print_ssa_value)


class Assignments(CustomSyntax):
    """Arguments with their first values: `(%sum = %init, %i = %zero)`.  With the argument
    "repeated" the region has its arguments in the text too."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parser = state.parser

        def assignment() -> tuple[MLIRToken, UnresolvedOperand]:
            name = _argument(state)
            parser.parse_punctuation("=")
            return name, parser.parse_unresolved_operand()

        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, assignment)
        if "repeated" not in arguments:
            state.bind(_region(arguments), [name.span for name, _ in pairs], _types(arguments))
        state.operands[_operands(arguments)] = [value for _, value in pairs]

    def parse_optional(self, state: Reading, arguments: Sequence[Directive | str]) -> bool:
        if state.parser._current_token.kind is not MLIRTokenKind.L_PAREN:
            return False
        self.parse(state, arguments)
        return True

    def is_present(self, state: Writing, arguments: Sequence[Directive | str]) -> bool:
        return bool(state.values(_operands(arguments)))

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        values = state.values(_operands(arguments))
        name = _region(arguments)
        repeated = "repeated" in arguments
        names = state.region_arguments(name) if repeated else state.bind(name, len(values))
        with state.printer.in_parens():
            state.printer.print_list(
                zip(names, values, strict=True), lambda pair: _print_pair(state, *pair)
            )


def _operands(arguments: Sequence[Directive | str]) -> str:
    return next(part.names[0] for part in arguments if isinstance(part, Operands))


def _print_pair(state: Writing, name: Any, value: Any) -> None:
    state.printer.print_ssa_value(name)
    state.printer.print_string(" = ")
    state.printer.print_ssa_value(value)


class LoopBounds(CustomSyntax):
    """Lower bounds, upper bounds and steps, each as operands and integers: `in (4, %ub)` from 0
    by 1, else `= (0, %lb) to (4, %ub) step (1, %step)`."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parts = self._parts(arguments)
        if state.parser.parse_optional_keyword("in"):
            parse_index_list(state, *parts[1], parens=True)
            static = cast("Any", state.properties[parts[1][1]])
            rank = len(static.get_values())
            for (operands, integers), value in ((parts[0], 0), (parts[2], 1)):
                state.operands[operands] = []
                state.properties[integers] = DenseArrayBase.from_list(i64, [value] * rank)
            return
        for part, word in zip(parts, ("=", "to", "step"), strict=True):
            if word == "=":
                state.parser.parse_punctuation("=")
            else:
                state.parser.parse_keyword(word)
            parse_index_list(state, *part, parens=True)

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        parts = self._parts(arguments)
        lower, step = (self._integers(state, parts[index][1]) for index in (0, 2))
        if all(value == 0 for value in lower) and all(value == 1 for value in step):
            state.printer.print_string("in ")
            print_index_list(state, *parts[1], parens=True)
            return
        for part, word in zip(parts, ("= ", " to ", " step "), strict=True):
            state.printer.print_string(word)
            print_index_list(state, *part, parens=True)

    def _integers(self, state: Writing, name: str) -> Sequence[int]:
        return cast("Any", state.property(name)).get_values()

    def _parts(self, arguments: Sequence[Directive | str]) -> list[tuple[str, str]]:
        operands = [part.names[0] for part in arguments if isinstance(part, Operands)]
        integers = [part.kind.name for part in arguments if isinstance(part, PropertyValue)]
        return list(zip(operands, integers, strict=True))


class SwitchCases(CustomSyntax):
    """`case 2 { .. } case 5 { .. }`: a property with the integers, and the regions."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        cases, regions = self._parts(arguments)
        integers: list[int] = []
        made = state.regions.setdefault(regions.names[0], [])
        while state.parser.parse_optional_keyword("case"):
            integers.append(state.parser.parse_integer())
            region = state.parser.parse_region()
            close_region(state, region, regions.terminator)
            made.append(region)
        state.properties[cases] = DenseArrayBase.from_list(i64, integers)

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        cases, regions = self._parts(arguments)
        integers = cast("Any", state.property(cases)).get_values()
        for integer, region in zip(integers, state.regions[regions.names[0]], strict=True):
            state.new_line()
            state.printer.print_string(f"case {integer} ")
            print_region(state, region, "")

    def _parts(self, arguments: Sequence[Directive | str]) -> tuple[str, RegionValue]:
        (cases,) = [part.kind.name for part in arguments if isinstance(part, PropertyValue)]
        (regions,) = [part for part in arguments if isinstance(part, RegionValue)]
        return cases, regions


DIRECTIVES = {
    "Argument": Argument(),
    "ArgumentList": ArgumentList(),
    "Assignments": Assignments(),
    "LoopBounds": LoopBounds(),
    "SwitchCases": SwitchCases(),
}
