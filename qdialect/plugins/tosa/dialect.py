"""TOSA: its attributes and types, and those that xDSL lacks. Its ops are rows of
`qdialect.plugins.mlir.upstream`.

Nothing in this file knows of `nn` or `quant`, so that it could go upstream as it is.

Text is exchanged in the generic form only: the custom forms of MLIR 22 and 24 differ.
"""

from __future__ import annotations

from typing_extensions import override
from xdsl.dialects import tosa as upstream
from xdsl.dialects.builtin import IntAttr
from xdsl.dialects.tosa import NanMode, NanModeAttr
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from qdialect.plugins.mlir.enumerations import enumeration

PROPAGATE = NanModeAttr(NanMode.PROPAGATE)
ResizeModeAttr = enumeration("tosa.resize_mode", "NEAREST_NEIGHBOR", "BILINEAR")
"""How `tosa.resize` reads between elements."""


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """`!tosa.shape<n>`: n extents."""

    name = "tosa.shape"
    rank: IntAttr

    @override
    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.rank.data))

    @classmethod
    @override
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))]


TOSA = Dialect("tosa", [], [*upstream.TOSA.attributes, ResizeModeAttr, ShapeType])
