"""Syntax of memory and shapes: initial values of globals, bare maps, extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    MemRefType,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute

from qdialect.plugins.mlir.upstream.directives import CustomSyntax, Directive, PropertyValue
from qdialect.plugins.mlir.upstream.states import Reading, Writing


def _properties(arguments: Sequence[Directive | str]) -> list[str]:
    return [part.kind.name for part in arguments if isinstance(part, PropertyValue)]


class GlobalMemrefOpTypeAndInitialValue(CustomSyntax):
    """`memref<2xf32>`, `memref<2xf32> = uninitialized`, `memref<2xf32> = dense<0.0>`: the value
    without the type, which is a tensor."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        type_name, value_name = _properties(arguments)
        parser = state.parser
        kind = parser.parse_type()
        state.properties[type_name] = kind
        if not parser.parse_optional_punctuation("="):
            return
        if parser.parse_optional_keyword("uninitialized"):
            state.properties[value_name] = UnitAttr()
            return
        memory = cast("MemRefType[Any]", kind)
        tensor: Any = TensorType(memory.element_type, memory.shape)
        parser.parse_keyword("dense")
        state.properties[value_name] = parser.parse_dense_int_or_fp_elements_attr(tensor)

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        type_name, value_name = _properties(arguments)
        state.printer.print_attribute(cast("Attribute", state.property(type_name)))
        value = state.property(value_name)
        if isinstance(value, UnitAttr):
            state.printer.print_string(" = uninitialized")
        elif value is not None:
            text = state.text(value)
            state.printer.print_string(f" = {text.rpartition(' : ')[0]}")


class BareMap(CustomSyntax):
    """`(d0, d1) -> (d1, d0)`: an affine map without `affine_map<>`."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        made = AffineMapAttr(state.parser.parse_affine_map())
        state.properties[_properties(arguments)[0]] = made

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        value = cast("AffineMapAttr", state.property(_properties(arguments)[0]))
        state.printer.print_string(str(value.data))


class Extents(CustomSyntax):
    """`[1, 2]`: a property that is a tensor of `index`."""

    def parse(self, state: Reading, arguments: Sequence[Directive | str]) -> None:
        parser = state.parser
        extents = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        kind = TensorType(IndexType(), [len(extents)])
        made = DenseIntOrFPElementsAttr.from_list(kind, extents)
        state.properties[_properties(arguments)[0]] = made

    def print(self, state: Writing, arguments: Sequence[Directive | str]) -> None:
        value = cast("Any", state.property(_properties(arguments)[0]))
        with state.printer.in_square_brackets():
            state.printer.print_list(value.get_values(), state.printer.print_int)


DIRECTIVES = {
    "BareMap": BareMap(),
    "Extents": Extents(),
    "GlobalMemrefOpTypeAndInitialValue": GlobalMemrefOpTypeAndInitialValue(),
}
