"""Operations on floats, truth values and plain integers."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from qdialect.dialects.stablehlo.attributes import ComparisonDirectionAttr
from qdialect.dialects.stablehlo.ops import BinaryOp, StablehloOp, UnaryOp

_TENSOR = TensorType.constr()


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


_FUNCTIONS = (
    *("abs", "ceil", "exponential_minus_one", "floor", "log", "log_plus_one", "logistic"),
    *("negate", "round_nearest_even", "sqrt", "tanh"),
)

FLOAT_OPS: list[type[Operation]] = [
    *map(_function, _FUNCTIONS),
    CompareOp,
    PowerOp,
    ReduceOp,
    ReverseOp,
    SelectOp,
]
"""The operations of this file."""
