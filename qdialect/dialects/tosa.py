"""TOSA: its attributes and types, and those that xDSL lacks. Its ops are rows of
`qdialect.upstream`.

Nothing in this file knows of `nn` or `quant`, so that it could go upstream as it is.

Text is exchanged in the generic form only: the custom forms of MLIR 22 and 24 differ.
"""

from __future__ import annotations

from typing_extensions import override
from xdsl.dialects import tosa as upstream
from xdsl.dialects.builtin import IntAttr
from xdsl.dialects.tosa import NanMode, NanModeAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

PROPAGATE = NanModeAttr(NanMode.PROPAGATE)


class ResizeMode(StrEnum):
    """How `tosa.resize` interpolates."""

    NEAREST_NEIGHBOR = "NEAREST_NEIGHBOR"
    BILINEAR = "BILINEAR"


@irdl_attr_definition
class ResizeModeAttr(EnumAttribute[ResizeMode]):
    """How `tosa.resize` reads between elements."""

    name = "tosa.resize_mode"

    @override
    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> ResizeMode:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(ResizeMode)


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
