"""What the ops of the dialect share: shape, parts of verifiers and of the custom form.

Checks raise `VerifyException` with upstream's message.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    Signedness,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.dialects.canonicalization import Canonicalized
from qdialect.ir.dialects.construction import check_arguments
from qdialect.ir.quant.bare import BareVerifyException
from qdialect.ir.quant.elements import element_type
from qdialect.ir.quant.integrity import shape_error
from qdialect.ir.quant.types import AnyType, CalibratedType, QuantizedType


class ConversionOp(IRDLOperation):
    """An op from one scalar or tensor to another of the same shape, element by element."""

    VERIFIES_TYPES_ONLY: ClassVar[bool] = True
    input = operand_def()
    result = result_def()

    traits = traits_def(Pure(), Canonicalized())

    def __init__(
        self,
        input: SSAValue | Operation,
        result_type: Attribute,
        properties: Mapping[str, Attribute] = MappingProxyType({}),
    ) -> None:
        # What xDSL's constructor of declared ops sorts out first is plain here, and so is
        # mostly what `SSAValue.get` does.
        value = input if type(input) is OpResult else SSAValue.get(input)
        check_arguments(type(self), (value,), properties, (result_type,))
        Operation.__init__(
            self,
            operands=(value,),
            result_types=(result_type,),
            properties=properties,
        )


def wrong_type(op: ConversionOp, role: str, type: Attribute, expected: str) -> VerifyException:
    """The error for an operand or result (`role`) that is not `expected`, alone or in a tensor."""
    return VerifyException(
        f"'{op.name}' op {role} #0 must be scalar or tensor of {expected}, but got '{type}'"
    )


def float_element(op: ConversionOp, role: str, type: Attribute) -> AnyFloat:
    """The float type of an operand or result; VerifyException for another type."""
    element = element_type(type)
    if isinstance(element, AnyFloat):
        return element
    raise wrong_type(op, role, type, "floating-point")


def quantized_element(op: ConversionOp, role: str, type: Attribute) -> QuantizedType:
    """The quantized type of an operand or result; VerifyException for another type."""
    element = element_type(type)
    if isinstance(element, QuantizedType):
        return element
    raise wrong_type(op, role, type, "quantized type")


def storage_or_quantized_element(
    op: ConversionOp, role: str, type: Attribute
) -> IntegerType | QuantizedType:
    """The signless integer or quantized type of an operand or result; VerifyException."""
    element = element_type(type)
    if isinstance(element, QuantizedType):
        return element
    if isinstance(element, IntegerType):
        integer = cast("IntegerType", element)
        if integer.signedness.data is Signedness.SIGNLESS:
            return integer
    raise wrong_type(op, role, type, "signless integer or quantized type")


def check_same_shape(op: ConversionOp) -> None:
    """Both scalar, both unranked, or ranked with equal shapes (`4` and `?` differ)."""
    source, target = op.input.type, op.result.type
    if isinstance(source, TensorType) and isinstance(target, TensorType):
        same = source.shape == target.shape
    else:
        kinds = (TensorType, UnrankedTensorType)
        same = [isinstance(source, kind) for kind in kinds] == [
            isinstance(target, kind) for kind in kinds
        ]
    if not same:
        raise VerifyException(
            f"'{op.name}' op failed to verify that input and result are both scalars or "
            "both tensors with matching shape"
        )


def check_expressed(quantized: QuantizedType, float_type: AnyFloat) -> None:
    """VerifyException unless `quantized` expresses `float_type`."""
    if quantized.data.expressed != str(float_type):
        raise BareVerifyException("expressed type in quantized type expected to match float type")


def check_storage(quantized: QuantizedType, integer: IntegerType) -> None:
    """VerifyException unless `integer` has the width of the storage of `quantized`."""
    if not isinstance(quantized, CalibratedType):
        storage = quantized.data.storage
        # The keyword says how the bits are read; the integer type is signless.
        plain = not storage.is_float and storage.quantile is None
        if plain and storage.width == integer.width.data:
            return
    raise BareVerifyException("storage type in quantized type expected to match integer type")


def check_shape(container: Attribute, quantized: QuantizedType) -> None:
    """Raise if the encoding does not fit the shape of the container."""
    if isinstance(quantized, AnyType | CalibratedType):
        return
    message = shape_error(container, quantized.data)
    if message is not None:
        raise BareVerifyException(message)


def parse_conversion(parser: Parser, name: str) -> tuple[Attribute, Attribute]:
    """`: T to T`."""
    parser.parse_punctuation(":")
    source = parser.parse_type()
    if parser.parse_optional_keyword("to") is None:
        parser.raise_error(f"custom op '{name}' expected 'to'")
    return source, parser.parse_type()


def print_conversion(printer: Printer, op: ConversionOp) -> None:
    """` : T to T`."""
    printer.print_string(" : ")
    printer.print_attribute(op.input.type)
    printer.print_string(" to ")
    printer.print_attribute(op.result.type)
