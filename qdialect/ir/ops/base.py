"""What all `nn` ops share: construction, assembly, verification.

The custom form is derived from the op's definition: operands, then each property
that differs from its default as `name value`, then the attribute dictionary and
the function type:

    %y = nn.conv2d %x, %w, %b strides [2, 2] pads [1, 1, 1, 1] {nn.key = "conv1"}
         : (tensor<1x3x8x8xf32>, ...) -> tensor<1x16x4x4xf32>
"""

from __future__ import annotations

import math
import re
import struct
from abc import ABC
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from typing_extensions import Self
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BoolAttr,
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, OpTraits, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    IRDLOperation,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.rounding import Rounding
from qdialect.ir.behaviors.shapes import shape_of, tensor_type
from qdialect.ir.dialects.canonicalization import Canonicalized
from qdialect.ir.dialects.construction import check_arguments
from qdialect.ir.ops.declare import behavior_of
from qdialect.ir.ops.keys import PIECE_KEYS, QPARAMS
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, compatible

if TYPE_CHECKING:
    from qdialect.ir.behaviors import Behavior

Values = Mapping[str, Any]

INTS = DenseArrayBase.constr(i64)
REAL = FloatAttr.constr(Float64Type())
REALS = DenseArrayBase.constr(f64)
FLAG = cast("AttrConstraint[BoolAttr]", IntegerAttr.constr(IntegerType(1)))
TENSOR = TensorType.constr()
HALF_EVEN = StringAttr("half_even")
_WORD = re.compile(r"[A-Za-z_][\w$.]*")
KERNEL = "nn.kernel"
"""Discardable attribute: an integer kernel of the runtime that a model is from defines the op, with
a rounding of its own.  Another op in its place changes ties, at least.  A string names the
kernels ("litert-xnn"), whose arithmetic the interpreter has bit by bit; a unit is a kernel of ONNX
Runtime, which the interpreter takes for the real function."""
KERNEL_OP = "nn.kernel_op"
"""Discardable attribute of a convolution that names LiteRT's kernels (a string): the op of the
file, which tells convolutions of one channel each from those in groups."""
KERNEL_SUMS = "nn.kernel_sums"
"""Discardable attribute of a product of 16 bits that does (a string): "i32" where its sums have 32
bits and not 64."""
KERNEL_INPUTS = "nn.kernel_inputs"
"""Discardable attribute of a product of floats by codes that does (a string), how its input is
quantized: "symmetric", "asymmetric", or "packed": with constant weights of 4 bits, an even depth of
at least 32 and at least 4 columns, which the optimized kernel takes in a way of its own."""
KERNEL_ORDER = "nn.kernel_order"
"""Discardable attribute of an op of `litert-opt` (integers): the dimensions of its result in the
order in which the file has them, outermost first; without one they are as in the file. What SIMD
leaves to scalar code, which rounds differently, are the last elements of runs of memory."""
PINNED = "nn.pinned"
"""Discardable attribute (a unit) of an op that no rewrite replaces or erases, since the runtime's
bits of others depend on it."""
_ROUNDINGS = [mode.value for mode in Rounding]


def is_kernel(op: Operation) -> bool:
    """Whether an integer kernel defines `op`."""
    return KERNEL in op.attributes


def kernels_of(op: Operation) -> str | None:
    """Whose kernel defines `op` bit by bit; None where that is no known one."""
    named = op.attributes.get(KERNEL)
    return named.data if isinstance(named, StringAttr) else None


def rounds_by_encoding(op: Operation) -> bool:
    """Whether an integer kernel defines `op` that rounds signed codes in another way than the
    unsigned ones of the same numbers: products and averages of windows of ONNX Runtime
    (measured, 1.32)."""
    return is_kernel(op) and op.name.startswith(("nn.mul", "nn.avg_pool"))


def ints(*values: int) -> DenseArrayBase:
    """A list of integers as an attribute."""
    return DenseArrayBase.from_list(i64, list(values))


def integer(value: int) -> IntegerAttr:
    """A 64-bit integer as an attribute."""
    return IntegerAttr(value, i64)


def reals(*values: float) -> DenseArrayBase:
    """A list of real numbers as an attribute."""
    return DenseArrayBase.from_list(f64, list(values))


def real(value: float) -> FloatAttr:
    """A real number as an attribute."""
    return FloatAttr(value, f64)


def boolean(value: bool) -> BoolAttr:
    """A truth value as an attribute."""
    return BoolAttr.from_bool(value)


def to_attribute(value: Any) -> Attribute:
    """A Python property value as an attribute."""
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return real(value)
    if isinstance(value, str):
        return StringAttr(value)
    values = list(value)
    if any(isinstance(v, float) for v in values):
        return reals(*values)
    return ints(*(int(v) for v in values))


_UNPACKED = "_qdialect_unpacked"


def to_python(attribute: Attribute) -> Any:
    """The Python value of a property attribute; unknown kinds stay attributes."""
    if isinstance(attribute, DenseArrayBase):
        # Unpacked once: attributes do not change.
        known = vars(attribute)
        if _UNPACKED not in known:
            known[_UNPACKED] = tuple(cast("Sequence[int | float]", attribute.get_values()))
        return known[_UNPACKED]
    if isinstance(attribute, IntegerAttr):
        number = cast("IntegerAttr[IntegerType]", attribute)
        value = number.value.data
        return bool(value) if number.type == i1 else int(value)
    if isinstance(attribute, FloatAttr):
        return attribute.value.data
    if isinstance(attribute, StringAttr):
        return attribute.data
    return attribute


_LARGEST_EXTENT = 2**63 - 1


def ranked(element: Attribute, shape: Sequence[int]) -> TensorType[Any]:
    """The tensor type of a shape as `shape_of` gives it."""
    return _ranked(element, tuple(shape))


@lru_cache(maxsize=1024)
def _ranked(element: Attribute, shape: tuple[int, ...]) -> TensorType[Any]:
    if (largest := max(shape, default=0)) > _LARGEST_EXTENT:
        raise VerifyException(f"an extent of {largest} is no 64-bit integer")
    return TensorType(element, [DYNAMIC_INDEX if n == DYNAMIC else n for n in shape])


@cache
def _is_plain(kind: type[Attribute]) -> bool:
    """Whether such an element type says nothing on quantization."""
    return issubclass(kind, AnyFloat | IntegerType | IndexType)


def _is_uniformly_plain(op: NNOp) -> bool:
    """Whether all values have one element type that is not quantized: every port takes that."""
    values = (*op.operands, *op.results)
    element: Attribute = tensor_type(values[0]).element_type
    return _is_plain(element.__class__) and all(
        tensor_type(value).element_type == element for value in values
    )


class NNOp(IRDLOperation, ABC):
    """Base of all `nn` ops."""

    # xDSL's definitions of ops take no ClassVar of a small name.
    traits: OpTraits = traits_def(Canonicalized())  # pyright: ignore[reportIncompatibleVariableOverride]

    #: whether the verifier reads nothing but types, properties and attributes, and of scales and
    #: zero points only which are equal (and those of a declared bias): see `ir.verify.cache`
    VERIFIES_TYPES_ONLY: ClassVar[bool] = True

    def __init__(
        self,
        *operands: SSAValue | Operation | None,
        element: Attribute | None = None,
        result_types: Sequence[Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        **properties: Any,
    ):
        """Build the op; result shapes are inferred.

        `element` is the element type of the results (that of the first operand
        by default), `properties` are given as Python values.  Raises
        `VerifyException` when shapes do not fit, and TypeError for operands and
        properties that the op does not take (see `ir.dialects.construction`).
        """
        # Optional operands are the last ones.
        count = len(operands)
        while count and operands[count - 1] is None:
            count -= 1
        values = [SSAValue.get(cast("SSAValue", operand)) for operand in operands[:count]]
        definition = type(self).get_irdl_definition()
        complete: dict[str, Attribute] = {
            name: prop.default_value
            for name, prop in definition.properties.items()
            if prop.default_value is not None
        }
        complete.update((k, to_attribute(v)) for k, v in properties.items() if v is not None)
        check_arguments(type(self), values, complete, () if element is None else (element,))
        if result_types is None:
            python = {name: to_python(attribute) for name, attribute in complete.items()}
            try:
                shapes = self.infer([shape_of(v) for v in values], python)
            except ShapeError as error:
                raise VerifyException(f"'{self.name}' op {error}") from None
            kind = element or tensor_type(values[0]).element_type
            result_types = [ranked(kind, shape) for shape in shapes]
        Operation.__init__(
            self,
            operands=values,
            result_types=result_types,
            properties=complete,
            attributes=attributes or {},
        )

    @classmethod
    def behavior(cls) -> Behavior:
        """What the op declares of itself."""
        return behavior_of(cls.name)

    # -- shape inference ---------------------------------------------------

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        """Result shapes from operand shapes and property values; ShapeError."""
        raise NotImplementedError

    def infer_results(self) -> list[Shape]:
        """Result shapes as this op's operands and properties give them; ShapeError."""
        return self.infer_from([shape_of(operand) for operand in self.operands])

    def infer_from(self, operands: Sequence[Shape]) -> list[Shape]:
        """Result shapes as this op gives them for operands of other extents; ShapeError."""
        return self.infer(operands, self.values)

    @property
    def values(self) -> dict[str, Any]:
        """All properties as Python values."""
        return {name: to_python(attribute) for name, attribute in self.properties.items()}

    # -- verification ------------------------------------------------------

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        try:
            inferred = self.infer_results()
        except ShapeError as error:
            raise VerifyException(f"'{self.name}' op {error}") from None
        if len(inferred) != len(self.results):
            raise VerifyException(
                f"'{self.name}' op has {len(self.results)} results, expected {len(inferred)}"
            )
        for index, (result, shape) in enumerate(zip(self.results, inferred, strict=True)):
            if not compatible(shape_of(result), shape):
                raise VerifyException(
                    f"'{self.name}' op result #{index} has shape {show(shape_of(result))}, "
                    f"but the operands give {show(shape)}"
                )
        rounding = self.properties.get("rounding")
        if isinstance(rounding, StringAttr) and rounding.data not in _ROUNDINGS:
            raise VerifyException(
                f"'{self.name}' op rounding must be one of {', '.join(_ROUNDINGS)}, "
                f"but is '{rounding.data}'"
            )
        if not _is_uniformly_plain(self):
            from qdialect.ir.ops.ports import verify_ports

            verify_ports(self, self.behavior())
        if QPARAMS in self.attributes or PIECE_KEYS in self.attributes:
            from qdialect.ir.ops.component_qparams import verify_pieces

            verify_pieces(self)

    # -- assembly ----------------------------------------------------------

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the custom form, after the name of the op."""
        definition = cls.get_irdl_definition()
        unresolved = (
            parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
            )
            or []
        )
        properties: dict[str, Attribute] = {}
        while (name := parser.parse_optional_identifier()) is not None:
            if name not in definition.properties:
                parser.raise_error(f"'{cls.name}' has no property '{name}'")
            if name in properties:
                parser.raise_error(f"property '{name}' is given twice")
            properties[name] = _parse_value(parser, definition.properties[name].constr)
        for name, prop in definition.properties.items():
            if name not in properties and prop.default_value is not None:
                properties[name] = prop.default_value
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        signature = parser.parse_function_type()
        operands = parser.resolve_operands(unresolved, signature.inputs.data, position)
        return cls.create(
            operands=operands,
            result_types=signature.outputs.data,
            properties=properties,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        """Write the custom form, after the name of the op."""
        definition = type(self).get_irdl_definition()
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        for name, prop in definition.properties.items():
            attribute = self.properties.get(name)
            if attribute is not None and attribute != prop.default_value:
                printer.print_string(f" {name} ")
                _print_value(printer, attribute)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


class UnaryOp(NNOp):
    """One operand, result of the same shape."""

    input = operand_def(TENSOR)
    result = result_def(TENSOR)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        return [operands[0]]


class FunctionOp(UnaryOp):
    """A real function of one variable; on a quantized operand the exact result is
    quantized with `rounding`, which is a lookup table."""

    rounding = prop_def(StringAttr, HALF_EVEN)


def show(shape: Shape) -> str:
    """A shape as in type text: `1x?x8`."""
    return "x".join("?" if d == DYNAMIC else str(d) for d in shape) or "scalar"


def _parse_value(parser: Parser, constraint: object) -> Attribute:
    """The value of a property that is constrained in this way."""
    is_real = constraint in (REAL, REALS)
    numbers = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_optional_number(parser, is_real)
    )
    if numbers is not None:
        if None in numbers:
            parser.raise_error("expected a number")
        return reals() if is_real and not numbers else to_attribute(numbers)
    number = _parse_optional_number(parser, is_real)
    if number is not None:
        return real(number) if isinstance(number, float) else integer(number)
    word = parser.parse_optional_identifier()
    if word in ("true", "false"):
        return boolean(word == "true")
    if word is None:
        word = parser.parse_optional_str_literal()
    # What follows a colon is the signature of the op, not the type of a string.
    return parser.parse_attribute() if word is None else StringAttr(word)


def _parse_optional_number(parser: Parser, is_real: bool) -> int | float | None:
    """A number; as a real number, a hexadecimal one is the bits of it, as everywhere in MLIR."""
    start = parser.pos
    number = parser.parse_optional_number()
    text = parser.lexer.input.content[start : parser.pos]
    if not is_real or not isinstance(number, int) or text[:2] not in ("0x", "0X"):
        return number
    if number >> 64:
        parser.raise_error("a real number has 64 bits", start, parser.pos)
    return struct.unpack("<d", number.to_bytes(8, "little"))[0]


def _print_value(printer: Printer, attribute: Attribute) -> None:
    value = to_python(attribute)
    if isinstance(value, tuple):
        numbers = cast("tuple[int | float, ...]", value)
        printer.print_string(f"[{', '.join(map(_number_text, numbers))}]")
    elif isinstance(value, bool):
        printer.print_string("true" if value else "false")
    elif isinstance(value, int | float):
        printer.print_string(_number_text(value))
    elif isinstance(value, str) and _WORD.fullmatch(value) and value not in ("true", "false"):
        printer.print_string(value)
    else:
        printer.print_attribute(attribute)


def _number_text(value: float) -> str:
    """Shortest text that reads back to the same number and is an MLIR literal."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    mantissa, exponent, power = repr(value).partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + exponent + power
