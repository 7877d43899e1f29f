"""Properties that look otherwise in some ops: bare words, types with values."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IndexType,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.plugins.mlir.upstream.attributes import is_default, stripped
from qdialect.plugins.mlir.upstream.directives import CustomSyntax, Directive, PropertyValue
from qdialect.plugins.mlir.upstream.states import Reading, Writing
from qdialect.plugins.mlir.upstream.table import Property

_UNKNOWN = -1
"""What a property says for an extent that is not known."""


class WordDictionary(CustomSyntax):
    """`attr-dict` in which enumerations are bare words: `{nan_mode = IGNORE}`."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parser = state.parser
        if parser._current_token.kind is not MLIRTokenKind.L_BRACE:
            return

        def entry() -> None:
            name = parser.parse_identifier_or_str_literal()
            kind = state.row.properties.get(name)
            target = state.attributes if kind is None else state.properties
            if not parser.parse_optional_punctuation("="):
                target[name] = UnitAttr()
            elif kind is not None and _is_word(parser, kind):
                text = f"#{kind.detail}<{parser.parse_identifier()}>"
                target[name] = Parser(parser.ctx, text).parse_attribute()
            else:
                target[name] = parser.parse_attribute()

        parser.parse_comma_separated_list(parser.Delimiter.BRACES, entry)

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        shown = sorted(name for name in state.properties if self._shows(state, name))
        if not shown:
            return
        state.printer.print_string(" ")
        with state.printer.in_braces():
            state.printer.print_list(shown, lambda name: self._print_entry(state, name))

    def _shows(self, state: Writing, name: str) -> bool:
        kind = state.row.properties.get(name)
        usual = kind is not None and is_default(kind, state.properties[name])
        return name not in state.written and not usual

    def _print_entry(self, state: Writing, name: str) -> None:
        value = state.properties[name]
        kind = state.row.properties.get(name)
        if kind is None or kind.kind not in ("dialect", "keyword"):
            state.printer.print_identifier_or_string_literal(name)
            if not isinstance(value, UnitAttr):
                state.printer.print_string(" = ")
                state.printer.print_attribute(value)
            return
        word = stripped(state.printer, value, kind.detail).strip("<>")
        state.printer.print_string(f"{name} = {word}")


def _is_word(parser: Parser, kind: Property) -> bool:
    word = parser._current_token.kind is MLIRTokenKind.BARE_IDENT
    return word and kind.kind in ("dialect", "keyword")


class VariableOpTypeOrInitialValue(CustomSyntax):
    """`: tensor<2x3xf32>` or `= dense<1> : tensor<2xi8>`: properties with the shape, the element
    type, and the value."""

    spaced = False

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        shape, element, initial = _names(arguments)
        if state.parser.parse_optional_punctuation("="):
            value = state.parser.parse_attribute()
            state.properties[initial] = value
            kind = cast("Any", value).get_type()
        else:
            state.parser.parse_punctuation(":")
            kind = cast("Any", state.parser.parse_type())
        extents = [_UNKNOWN if n == DYNAMIC_INDEX else n for n in kind.get_shape()]
        state.properties[shape] = DenseIntOrFPElementsAttr.from_list(
            TensorType(IndexType(), [len(extents)]), extents
        )
        state.properties[element] = kind.element_type

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        shape, element, initial = (state.property(name) for name in _names(arguments))
        if initial is not None:
            state.printer.print_string(" = ")
            state.printer.print_attribute(initial)
            return
        extents = [int(n) for n in cast("Any", shape).get_values()]
        known = [DYNAMIC_INDEX if n == _UNKNOWN else n for n in extents]
        kind: Attribute = TensorType(cast("Attribute", element), known)
        state.printer.print_string(" : ")
        state.printer.print_attribute(kind)


def _names(arguments: Sequence[Directive | str]) -> list[str]:
    return [part.kind.name for part in arguments if isinstance(part, PropertyValue)]


DIRECTIVES = {
    "VariableOpTypeOrInitialValue": VariableOpTypeOrInitialValue(),
    "WordDictionary": WordDictionary(),
}
