"""Shapes as values."""

from __future__ import annotations

from typing_extensions import override
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure

from qdialect.dialects.tosa.base import TosaOp


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


@irdl_op_definition
class ConstShapeOp(TosaOp):
    """`values`: the extents, of type `index`."""

    name = "tosa.const_shape"
    values = prop_def(DenseIntOrFPElementsAttr)
    output = result_def(ShapeType)
    traits = traits_def(Pure(), ConstantLike())


OPS = [ConstShapeOp]
