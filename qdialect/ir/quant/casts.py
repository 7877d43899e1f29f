"""`quant.qcast`, `quant.dcast`, `quant.scast`: upstream's three conversions.

Each takes a scalar or tensor and works element by element.  Checks and messages
are upstream's, in upstream's order.  Rounding, which upstream leaves open, may
be fixed per op by the discardable attribute `quant.rounding`: half to even of x / scale,
as ONNX has it, without one; `"reciprocal"` as PyTorch has it:

    %0 = quant.qcast %x {quant.rounding = "reciprocal"} : tensor<4xf32> to tensor<4x!q>

    q = clamp(roundeven(x * fl(1 / scale)) + zero point)
"""

from __future__ import annotations

from typing_extensions import Self
from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import Operation
from xdsl.irdl import irdl_op_definition
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.rounding import Rounding
from qdialect.ir.dialects.accessors import plain_accessors
from qdialect.ir.dialects.construction import checked_construction
from qdialect.ir.quant.conversion import (
    ConversionOp,
    check_expressed,
    check_same_shape,
    check_shape,
    check_storage,
    float_element,
    parse_conversion,
    print_conversion,
    quantized_element,
    storage_or_quantized_element,
)

ROUNDING_KEY = "quant.rounding"
"""Discardable attribute (a string): how a cast rounds."""


def cast_rounding(op: Operation) -> Rounding:
    """How a cast rounds: its `quant.rounding` attribute, ties to even without one.

    Raises ValueError when the attribute is not a rounding.
    """
    value = op.attributes.get(ROUNDING_KEY)
    if value is None:
        return Rounding.HALF_EVEN
    return Rounding(value.data if isinstance(value, StringAttr) else str(value))


class CastOp(ConversionOp):
    """One of upstream's conversions: `quant.xcast %input attr-dict : T to T`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the custom form, from behind the name of the op."""
        operand = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        input_type, result_type = parse_conversion(parser, cls.name)
        op = cls(parser.resolve_operand(operand, input_type), result_type)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        """Write the custom form, from behind the name of the op."""
        printer.print_string(" ")
        printer.print_ssa_value(self.input)
        printer.print_op_attributes(self.attributes)
        print_conversion(printer, self)


@checked_construction
@plain_accessors
@irdl_op_definition
class QCastOp(CastOp):
    """Float to quantized: q = clamp(round(x / scale + zero point))."""

    name = "quant.qcast"

    def verify_(self) -> None:
        """VerifyException unless the types are a float and a quantized type that expresses it."""
        float_type = float_element(self, "operand", self.input.type)
        quantized = quantized_element(self, "result", self.result.type)
        check_same_shape(self)
        check_expressed(quantized, float_type)
        check_shape(self.result.type, quantized)


@checked_construction
@plain_accessors
@irdl_op_definition
class DCastOp(CastOp):
    """Quantized to float: x = (q - zero point) * scale."""

    name = "quant.dcast"

    def verify_(self) -> None:
        """VerifyException unless the types are a quantized type and the float that it expresses."""
        quantized = quantized_element(self, "operand", self.input.type)
        float_type = float_element(self, "result", self.result.type)
        check_same_shape(self)
        check_expressed(quantized, float_type)
        check_shape(self.input.type, quantized)


@checked_construction
@plain_accessors
@irdl_op_definition
class SCastOp(CastOp):
    """Quantized to its storage integer, or back: the bits do not change."""

    name = "quant.scast"

    def verify_(self) -> None:
        """VerifyException unless the types are a quantized type and its storage, or the reverse."""
        source = storage_or_quantized_element(self, "operand", self.input.type)
        target = storage_or_quantized_element(self, "result", self.result.type)
        check_same_shape(self)
        if isinstance(source, IntegerType):
            integer, quantized = source, target
        else:
            quantized, integer = source, target
        if isinstance(quantized, IntegerType) or not isinstance(integer, IntegerType):
            raise VerifyException(
                f"'{self.name}' op failed to verify that input must be integer and result must "
                "be quantized, or vice versa"
            )
        check_storage(quantized, integer)
        check_shape(self.input.type, quantized)
