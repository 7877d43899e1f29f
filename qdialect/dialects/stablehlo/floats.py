"""Operations on floats, truth values and plain integers."""

from __future__ import annotations

from abc import ABC

from typing_extensions import override
from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, Data, Operation, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from qdialect.dialects.stablehlo.ops import BinaryOp, StablehloOp, UnaryOp

_TENSOR = TensorType.constr()
_DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")


@irdl_attr_definition
class ComparisonDirectionAttr(Data[str], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<comparison_direction GT>`"""

    name = "stablehlo.comparison_direction"

    @override
    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> str:
        direction = parser.parse_identifier()
        if direction not in _DIRECTIONS:
            parser.raise_error(f"a comparison is one of {', '.join(_DIRECTIONS)}")
        return direction


@irdl_op_definition
class CompareOp(BinaryOp):
    """Truth values, element by element."""

    name = "stablehlo.compare"
    comparison_direction = prop_def(ComparisonDirectionAttr)
    compare_type = opt_prop_def(Attribute)


@irdl_op_definition
class SelectOp(StablehloOp):
    """`on_true` where `pred` is true, else `on_false`."""

    name = "stablehlo.select"
    pred = operand_def(_TENSOR)
    on_true = operand_def(_TENSOR)
    on_false = operand_def(_TENSOR)
    result = result_def(_TENSOR)


@irdl_op_definition
class ReduceOp(StablehloOp):
    """`body` combines two scalars and ends with `stablehlo.return`."""

    name = "stablehlo.reduce"
    inputs = var_operand_def(_TENSOR)
    dimensions = prop_def(DenseArrayBase.constr(i64))
    body = region_def("single_block")
    outputs = var_result_def(_TENSOR)


@irdl_op_definition
class ReverseOp(UnaryOp):
    """Dimensions read from their end."""

    name = "stablehlo.reverse"
    dimensions = prop_def(DenseArrayBase.constr(i64))


class _FunctionOp(UnaryOp, ABC):
    """An elementwise function, as upstream defines it."""


def _function(mnemonic: str) -> type[Operation]:
    scope = {"__doc__": f"`stablehlo.{mnemonic}`", "name": f"stablehlo.{mnemonic}"}
    title = "".join(part.title() for part in mnemonic.split("_"))
    return irdl_op_definition(type(f"{title}Op", (_FunctionOp,), scope))


@irdl_op_definition
class PowerOp(BinaryOp):
    """`lhs` to the power `rhs`."""

    name = "stablehlo.power"


@irdl_op_definition
class AndOp(BinaryOp):
    """`stablehlo.and`, bit by bit"""

    name = "stablehlo.and"


@irdl_op_definition
class OrOp(BinaryOp):
    """`stablehlo.or`, bit by bit"""

    name = "stablehlo.or"


@irdl_op_definition
class XorOp(BinaryOp):
    """`stablehlo.xor`, bit by bit"""

    name = "stablehlo.xor"


_FUNCTIONS = (
    *("abs", "ceil", "exponential_minus_one", "floor", "log", "log_plus_one", "logistic"),
    *("negate", "not", "round_nearest_even", "sqrt", "tanh"),
)

FLOAT_OPS: list[type[Operation]] = [
    *map(_function, _FUNCTIONS),
    AndOp,
    OrOp,
    XorOp,
    CompareOp,
    PowerOp,
    ReduceOp,
    ReverseOp,
    SelectOp,
]
"""The operations of this file."""
