"""Signatures of functions: visibility, arguments with attributes, results."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, StringAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.plugins.mlir.upstream.directives import CustomSyntax, Directive, PropertyValue
from qdialect.plugins.mlir.upstream.region_directives import RegionValue
from qdialect.plugins.mlir.upstream.states import Reading, Writing

_VISIBILITIES = ("public", "private", "nested")


class Names(NamedTuple):
    """The properties of a signature, and the region of its body."""

    type: str
    arguments: str
    results: str
    body: str


def _names(arguments: Sequence[Directive | str]) -> Names:
    properties = [part.kind.name for part in arguments if isinstance(part, PropertyValue)]
    (body,) = [part.names[0] for part in arguments if isinstance(part, RegionValue)]
    return Names(properties[0], properties[1], properties[2], body)


class Visibility(CustomSyntax):
    """`private`, `nested`, `public`: a property that need not be there."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        word = state.parser.parse_optional_keyword_in(_VISIBILITIES)
        if word is not None:
            state.properties[self._name(arguments)] = StringAttr(word)

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        value = state.property(self._name(arguments))
        if isinstance(value, StringAttr):
            state.printer.print_string(f" {value.data}")

    def _name(self, arguments: Sequence[Directive | str]) -> str:
        (name,) = [part.kind.name for part in arguments if isinstance(part, PropertyValue)]
        return name


class Signature(CustomSyntax):
    """`(%x: f32 {a}, %y: i32) -> (f32 {b})`: properties with the function type, the attributes of
    arguments and of results; the arguments are those of the region."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parser = state.parser
        names = _names(arguments)
        bound: list[Parser.Argument] = []

        def argument() -> tuple[Attribute, dict[str, Attribute]]:
            token = parser._current_token
            if token.kind is not MLIRTokenKind.PERCENT_IDENT:
                return parser.parse_type(), parser.parse_optional_attr_dict()
            parser._consume_token()
            parser.parse_punctuation(":")
            kind = parser.parse_type()
            attributes = parser.parse_optional_attr_dict()
            bound.append(Parser.Argument(token.span, kind, parser.parse_optional_location()))
            return kind, attributes

        def result() -> tuple[Attribute, dict[str, Attribute]]:
            return parser.parse_type(), parser.parse_optional_attr_dict()

        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        outputs: list[tuple[Attribute, dict[str, Attribute]]] = []
        if parser.parse_optional_punctuation("->"):
            if parser._current_token.kind is MLIRTokenKind.L_PAREN:
                outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, result)
            else:
                outputs = [(parser.parse_type(), {})]
        state.properties[names.type] = FunctionType.from_lists(
            [kind for kind, _ in inputs], [kind for kind, _ in outputs]
        )
        for name, entries in ((names.arguments, inputs), (names.results, outputs)):
            if any(attributes for _, attributes in entries):
                made = [DictionaryAttr(attributes) for _, attributes in entries]
                state.properties[name] = ArrayAttr(made)
        if bound or not inputs:
            state.given_arguments[names.body] = bound

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        names = _names(arguments)
        kind = cast("FunctionType", state.property(names.type))
        block = state.regions[names.body][0].first_block
        values: Sequence[Any] = () if block is None else block.args
        notes = self._notes(state, names.arguments, len(kind.inputs.data))
        with state.printer.in_parens():
            for index, (entry, note) in enumerate(zip(kind.inputs.data, notes, strict=True)):
                state.printer.print_string(", " if index else "")
                if block is not None:
                    state.printer.print_ssa_value(values[index])
                    state.printer.print_string(": ")
                self._print(state, entry, note)
        state.bind(names.body, len(values))
        if kind.outputs.data:
            notes = self._notes(state, names.results, len(kind.outputs.data))
            bare = len(notes) == 1 and not notes[0]
            state.printer.print_string(" -> " if bare else " -> (")
            for index, (entry, note) in enumerate(zip(kind.outputs.data, notes, strict=True)):
                state.printer.print_string(", " if index else "")
                self._print(state, entry, note)
            state.printer.print_string("" if bare else ")")

    def _notes(self, state: Writing, name: str, count: int) -> list[dict[str, Attribute]]:
        found = state.property(name)
        if not isinstance(found, ArrayAttr):
            return [{}] * count
        entries = cast("ArrayAttr[DictionaryAttr]", found).data
        return [dict(entry.data) for entry in entries]

    def _print(self, state: Writing, kind: Attribute, note: dict[str, Attribute]) -> None:
        state.printer.print_attribute(kind)
        if note:
            state.printer.print_string(" ")
            state.printer.print_attr_dict(note)


DIRECTIVES = {
    "Signature": Signature(),
    "Visibility": Visibility(),
}
