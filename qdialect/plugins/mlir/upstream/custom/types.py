"""Lists of types, and types that are left out where they are the usual ones."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.plugins.mlir.upstream.attributes import builtin_type
from qdialect.plugins.mlir.upstream.directives import CustomSyntax, Directive, Types
from qdialect.plugins.mlir.upstream.states import Reading, Writing


def _names(arguments: Sequence[Directive | str]) -> list[str]:
    return [part.names[0] for part in arguments if isinstance(part, Types)]


def _words(arguments: Sequence[Directive | str]) -> list[str]:
    return [part for part in arguments if isinstance(part, str)]


class TypeList(CustomSyntax):
    """`f32` or `(f32, i32)`; with the argument "brackets" one type is written in them too."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parser = state.parser
        found: list[Attribute] = []
        if parser._current_token.kind is MLIRTokenKind.L_PAREN:
            found += parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        else:
            found += parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        state.types[_names(arguments)[0]] = found

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        types = state.types(_names(arguments)[0])
        bare = len(types) == 1 and "brackets" not in _words(arguments)
        state.printer.print_string("" if bare else "(")
        state.printer.print_list(types, state.printer.print_attribute)
        state.printer.print_string("" if bare else ")")


class TypeUnless(CustomSyntax):
    """` : i32`, left out where the type is the one that is the last argument."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        if not self.parse_optional(state, arguments):
            state.types[_names(arguments)[0]] = [builtin_type(_words(arguments)[0])]

    def parse_optional(self, state: Reading, arguments: Sequence[Directive | str]) -> bool:
        found = state.parser.parse_optional_punctuation(":") is not None
        if found:
            state.types[_names(arguments)[0]] = [state.parser.parse_type()]
        return found

    def is_present(self, state: Writing, arguments: Sequence[Directive | str]) -> bool:
        usual = builtin_type(_words(arguments)[0])
        return any(kind != usual for kind in state.types(_names(arguments)[0]))

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        if self.is_present(state, arguments):
            state.printer.print_string("  : ")
            state.printer.print_attribute(state.types(_names(arguments)[0])[0])


class FirstTypeUnless(CustomSyntax):
    """Two types; the first is left out where it is the one that is the last argument:
    `vector<2xi1>, vector<2xi32>`, `i32`."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        first, second = _names(arguments)
        kind = state.parser.parse_type()
        if state.parser.parse_optional_punctuation(","):
            state.types[first] = [kind]
            state.types[second] = [state.parser.parse_type()]
        else:
            state.types[first] = [builtin_type(_words(arguments)[0])]
            state.types[second] = [kind]

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        first, second = _names(arguments)
        (kind,) = state.types(first)
        if kind != builtin_type(_words(arguments)[0]):
            state.printer.print_attribute(kind)
            state.printer.print_string(", ")
        state.printer.print_attribute(state.types(second)[0])


DIRECTIVES = {
    "TypeList": TypeList(),
    "TypeUnless": TypeUnless(),
    "FirstTypeUnless": FirstTypeUnless(),
}
