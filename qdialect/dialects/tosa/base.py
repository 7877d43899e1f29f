"""What the operations share."""

from __future__ import annotations

from abc import ABC

from typing_extensions import override
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, i32, i64
from xdsl.dialects.tosa import NanMode, NanModeAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, traits_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.str_enum import StrEnum

TENSOR = TensorType.constr()
I64S = DenseArrayBase.constr(i64)
I32S = DenseArrayBase.constr(i32)
AXIS = IntegerAttr.constr(i32)
PROPAGATE = NanModeAttr(NanMode.PROPAGATE)


class TosaOp(IRDLOperation, ABC):
    """An operation without side effects."""

    traits = traits_def(Pure())


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


__all__ = [
    "AXIS",
    "I32S",
    "I64S",
    "PROPAGATE",
    "TENSOR",
    "ResizeMode",
    "ResizeModeAttr",
    "TosaOp",
]
