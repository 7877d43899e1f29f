"""Attributes, types and locations of MLIR that xDSL has no class for.

Nothing computes with them. They are kept as the text that they have in MLIR, so that a module
goes back as it came:

    sparse<[[0, 0], [1, 2]], [1, 5]> : tensor<3x4xi32>
    #foo<"bar"> : i32
    distinct[0]<42 : i32>
    loc("model.py":1:2 to 3:4)
"""

from __future__ import annotations

from typing import Any, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, BuiltinAttribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.printer import Printer


@irdl_attr_definition
class VerbatimAttr(ParametrizedAttribute, BuiltinAttribute):
    """An attribute as its text, and its type, or `NoneAttr` if it has none."""

    name = "builtin.verbatim"
    text: StringAttr
    type: Attribute

    def get_type(self) -> Attribute:
        """The type behind the colon."""
        return self.type

    @override
    def print_builtin(self, printer: Printer) -> None:
        """Write the text and the type."""
        printer.print_string(self.text.data)
        if not isinstance(self.type, NoneAttr):
            printer.print_string(" : ")
            printer.print_attribute(self.type)


@irdl_attr_definition
class VerbatimType(ParametrizedAttribute, BuiltinAttribute, TypeAttribute):
    """A type as its text."""

    name = "builtin.verbatim_type"
    text: StringAttr

    @override
    def print_builtin(self, printer: Printer) -> None:
        """Write the text."""
        printer.print_string(self.text.data)


@irdl_attr_definition
class RangeEndAttr(ParametrizedAttribute, BuiltinAttribute):
    """The end of a range of a file: the metadata of a fused location whose one part is the
    start, so that who looks for a place finds the start."""

    name = "builtin.range_end"
    line: IntAttr
    column: IntAttr

    @override
    def print_builtin(self, printer: Printer) -> None:
        """Write the line and the column."""
        printer.print_string(f"{self.line.data}:{self.column.data}")


def range_of(location: FusedLoc) -> tuple[FileLineColLoc, RangeEndAttr] | None:
    """The start and the end of a range; None for other fused locations."""
    end = location.metadata
    locations: object = cast("Any", location).locations
    if not isinstance(end, RangeEndAttr) or not isinstance(locations, ArrayAttr):
        return None
    parts = cast("ArrayAttr[Attribute]", locations).data
    return (parts[0], end) if len(parts) == 1 and isinstance(parts[0], FileLineColLoc) else None
