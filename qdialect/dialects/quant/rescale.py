"""`quant.rescale`: quantized to quantized, an integer change of qparams."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from qdialect.numerics.rounding import Rounding


@irdl_op_definition
class RescaleOp(IRDLOperation):
    """q' = clamp(round((q - zp) * scale / scale') + zp')."""

    name = "quant.rescale"

    input = operand_def()
    result = result_def()
    rounding_attr = opt_prop_def(StringAttr, prop_name="rounding")

    traits = traits_def(Pure())

    def __init__(
        self,
        input: SSAValue | Operation,
        result_type: Attribute,
        rounding: Rounding = Rounding.HALF_EVEN,
    ) -> None:
        properties = (
            {} if rounding is Rounding.HALF_EVEN else {"rounding": StringAttr(rounding.value)}
        )
        super().__init__(operands=[input], result_types=[result_type], properties=properties)

    @property
    def rounding(self) -> Rounding:
        """How the rescaled value becomes an integer."""
        if self.rounding_attr is None:
            return Rounding.HALF_EVEN
        return Rounding(self.rounding_attr.data)

    @classmethod
    def parse(cls, parser: Parser) -> RescaleOp:
        operand = parser.parse_unresolved_operand()
        rounding = Rounding.HALF_EVEN
        if parser.parse_optional_keyword("rounding"):
            rounding = Rounding(parser.parse_keyword_in([mode.value for mode in Rounding]))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        input_type = parser.parse_type()
        parser.parse_keyword("to")
        result_type = parser.parse_type()
        op = cls(parser.resolve_operand(operand, input_type), result_type, rounding)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.input)
        if self.rounding is not Rounding.HALF_EVEN:
            printer.print_string(f" rounding {self.rounding.value}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.input.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)
