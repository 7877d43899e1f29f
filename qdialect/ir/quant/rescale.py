"""`quant.rescale`: quantized to quantized, an integer change of qparams.

With input parameters (s, z), result parameters (s', z') and R the rounding:

    real form          q' = clamp(R((q - z) * s / s') + z')
    fixed-point form   q' = clamp(R((q - z) * multiplier * 2^-shift) + z')

clamped to the bounds of the result storage.  The real form takes the scales from
the types and is rounded once, as if computed with real numbers; the rounding `reciprocal`
is of this form, and half to even but where the module's arithmetic is that of floats.
The fixed-point form is exact integer arithmetic; it has one (multiplier, shift) pair, or
one per cell of the parameter field in row-major order.

    %1 = quant.rescale %0 : T to T
    %1 = quant.rescale %0 rounding half_up multiplier [1518500250] shift [32] : T to T

Upstream has no such op: lower it before text is handed to mlir-opt.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from typing_extensions import Self
from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.qparams.parameters import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.ir.dialects.accessors import plain_accessors
from qdialect.ir.dialects.construction import checked_construction
from qdialect.ir.quant.conversion import (
    ConversionOp,
    check_same_shape,
    check_shape,
    parse_conversion,
    print_conversion,
    wrong_type,
)
from qdialect.ir.quant.elements import quant_element
from qdialect.ir.quant.types import UniformType

MAX_SHIFT = 62
_ROUNDINGS = {mode.value: mode for mode in Rounding}


@checked_construction
@plain_accessors
@irdl_op_definition
class RescaleOp(ConversionOp):
    """Change of qparams in integers; see the module for the formula."""

    name = "quant.rescale"

    rounding_name = opt_prop_def(StringAttr, prop_name="rounding")
    multiplier = opt_prop_def(DenseArrayBase.constr(i32))
    shift = opt_prop_def(DenseArrayBase.constr(i8))

    def __init__(
        self,
        input: SSAValue | Operation,
        result_type: Attribute,
        rounding: Rounding = Rounding.HALF_EVEN,
        multiplier: Sequence[int] | None = None,
        shift: Sequence[int] | None = None,
    ) -> None:
        properties: dict[str, Attribute] = {}
        if rounding is not Rounding.HALF_EVEN:
            properties["rounding"] = StringAttr(rounding.value)
        if multiplier is not None:
            properties["multiplier"] = DenseArrayBase.from_list(i32, multiplier)
        if shift is not None:
            properties["shift"] = DenseArrayBase.from_list(i8, shift)
        super().__init__(input, result_type, properties)

    @property
    def rounding(self) -> Rounding:
        """R: how the rescaled value becomes an integer."""
        # Asked of every rescale by every pass: the accessors of xDSL search for the field.
        if "rounding" not in self.properties:
            return Rounding.HALF_EVEN
        name = self.rounding_name
        assert name is not None
        return _ROUNDINGS[name.data]

    @property
    def fixed_point(self) -> list[tuple[int, int]] | None:
        """The (multiplier, shift) pairs, or None in the real form."""
        if "multiplier" not in self.properties:
            return None
        if self.multiplier is None or self.shift is None:
            return None
        return list(zip(self.multiplier.get_values(), self.shift.get_values(), strict=True))

    @property
    def input_qparams(self) -> QParams:
        """The qparams of the operand."""
        return _uniform(self, "operand", self.input.type).data

    @property
    def result_qparams(self) -> QParams:
        """The qparams of the result."""
        return _uniform(self, "result", self.result.type).data

    # -- custom form --------------------------------------------------------

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the custom form, from behind the name of the op."""
        operand = parser.parse_unresolved_operand()
        rounding = Rounding.HALF_EVEN
        if parser.parse_optional_keyword("rounding"):
            rounding = _ROUNDINGS[parser.parse_keyword_in(_ROUNDINGS)]
        multiplier = _parse_integers(parser, "multiplier", -(1 << 31), 1 << 31)
        shift = _parse_integers(parser, "shift", -128, 128)
        attributes = parser.parse_optional_attr_dict()
        input_type, result_type = parse_conversion(parser, cls.name)
        value = parser.resolve_operand(operand, input_type)
        op = cls(value, result_type, rounding, multiplier, shift)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        """Write the custom form, from behind the name of the op."""
        printer.print_string(" ")
        printer.print_ssa_value(self.input)
        if self.rounding_name is not None and self.rounding_name.data != Rounding.HALF_EVEN:
            printer.print_string(f" rounding {self.rounding_name.data}")
        if self.multiplier is not None:
            printer.print_string(f" multiplier {list(self.multiplier.get_values())}")
        if self.shift is not None:
            printer.print_string(f" shift {list(self.shift.get_values())}")
        printer.print_op_attributes(self.attributes)
        print_conversion(printer, self)

    # -- verifier -----------------------------------------------------------

    def verify_(self) -> None:
        """VerifyException unless types, rounding, multipliers and shifts fit each other."""
        source = _uniform(self, "operand", self.input.type)
        target = _uniform(self, "result", self.result.type)
        check_same_shape(self)
        if self.rounding_name is not None and self.rounding_name.data not in _ROUNDINGS:
            raise self._error(
                f"rounding must be one of {', '.join(_ROUNDINGS)}, "
                f"but got '{self.rounding_name.data}'"
            )
        for role, qparams in (("input", source.data), ("result", target.data)):
            if qparams.storage.is_float or qparams.storage.quantile is not None:
                raise self._error(f"{role} storage must be an integer without a look-up table")
        if source.data.expressed != target.data.expressed:
            raise self._error(
                "input and result must have the same expressed type, "
                f"but got {source.data.expressed} and {target.data.expressed}"
            )
        check_shape(self.input.type, source)
        check_shape(self.result.type, target)
        self._verify_fixed_point(source.data, target.data)

    def _verify_fixed_point(self, source: QParams, target: QParams) -> None:
        if self.multiplier is None and self.shift is None:
            return
        if self.multiplier is None or self.shift is None:
            raise self._error("multiplier and shift must be given together")
        multipliers, shifts = self.multiplier.get_values(), self.shift.get_values()
        if len(multipliers) != len(shifts):
            raise self._error(
                f"multiplier and shift must have the same length, "
                f"but got {len(multipliers)} and {len(shifts)}"
            )
        if len(multipliers) != 1:
            cells = _field_cells(source, target)
            if cells is None:
                raise self._error(
                    "one multiplier per parameter needs input and result parameters to lie on "
                    "the same axes and blocks"
                )
            if len(multipliers) != cells:
                raise self._error(
                    f"number of multipliers must be 1 or {cells}, the number of scales, "
                    f"but got {len(multipliers)}"
                )
        if self.rounding is Rounding.RECIPROCAL:
            raise self._error("rounding reciprocal is of scales, not of multiplier and shift")
        for multiplier in multipliers:
            if multiplier < 0:
                raise self._error(f"multiplier must not be negative, but got {multiplier}")
        for shift in shifts:
            if not 0 <= shift <= MAX_SHIFT:
                raise self._error(f"shift must be in [0, {MAX_SHIFT}], but got {shift}")

    def _error(self, message: str) -> VerifyException:
        return VerifyException(f"'{self.name}' op {message}")


def _uniform(op: ConversionOp, role: str, type: Attribute) -> UniformType:
    element = quant_element(type)
    if element is None:
        raise wrong_type(op, role, type, "uniform quantized type")
    return element


def _field_cells(source: QParams, target: QParams) -> int | None:
    """Cells of the common refinement of two fields; None unless one refines the other
    trivially (it is per tensor, or on the same axes and blocks)."""
    if source.is_per_tensor:
        return prod(target.grid)
    if target.is_per_tensor:
        return prod(source.grid)
    same = (source.layout, source.blocks, source.grid) == (
        target.layout,
        target.blocks,
        target.grid,
    )
    return prod(source.grid) if same else None


def _parse_integers(parser: Parser, keyword: str, low: int, high: int) -> list[int] | None:
    """`keyword [1, 2]`, if present; every integer in [low, high)."""
    if parser.parse_optional_keyword(keyword) is None:
        return None

    def element() -> int:
        position = parser.pos
        value = parser.parse_integer(allow_boolean=False)
        if not low <= value < high:
            parser.raise_error("integer value too large", position)
        return value

    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, element)
