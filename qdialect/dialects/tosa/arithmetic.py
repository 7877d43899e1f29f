"""Elementwise operations, lookups and comparisons.

Most differ in name only, so they are made from a table.
"""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr
from xdsl.dialects.tosa import NanModeAttr
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.irdl import result_def as result

from qdialect.dialects.tosa.base import AXIS, TENSOR, TosaOp


class _Unary(TosaOp):
    input1 = operand_def(TENSOR)
    output = result(TENSOR)


class _UnaryInput(TosaOp):
    input = operand_def(TENSOR)
    output = result(TENSOR)


class _Binary(TosaOp):
    """Operands of one rank; extents of 1 are repeated."""

    input1 = operand_def(TENSOR)
    input2 = operand_def(TENSOR)
    output = result(TENSOR)


class _Extremum(_Binary):
    nan_mode = opt_prop_def(NanModeAttr)


def _named(base: type[TosaOp], *names: str) -> list[type[IRDLOperation]]:
    made: list[type[IRDLOperation]] = []
    for name in names:
        title = "".join(part.capitalize() for part in name.split("_")) + "Op"
        body = {"name": f"tosa.{name}", "__module__": __name__, "__doc__": base.__doc__}
        made.append(irdl_op_definition(type(title, (base,), body)))
    return made


@irdl_op_definition
class ArithmeticRightShiftOp(_Binary):
    """`round`: add half of what is shifted out first."""

    name = "tosa.arithmetic_right_shift"
    round = prop_def(BoolAttr)


@irdl_op_definition
class MulOp(_Binary):
    """Products of i8 and i16 are i32; of i32 they are shifted right, rounding half up."""

    name = "tosa.mul"
    shift = operand_def(TENSOR)


@irdl_op_definition
class NegateOp(_Unary):
    """`tosa.negate`, as upstream defines it."""

    name = "tosa.negate"
    input1_zp = operand_def(TENSOR)
    output_zp = operand_def(TENSOR)


@irdl_op_definition
class TableOp(_Unary):
    """i8: 256 entries; i16: 513, between which it interpolates (result i32, 7 bits finer)."""

    name = "tosa.table"
    table = operand_def(TENSOR)


@irdl_op_definition
class SelectOp(TosaOp):
    """`tosa.select`, as upstream defines it."""

    name = "tosa.select"
    input1 = operand_def(TENSOR)
    input2 = operand_def(TENSOR)
    input3 = operand_def(TENSOR)
    output = result(TENSOR)


@irdl_op_definition
class ArgMaxOp(TosaOp):
    """The first index of the largest element, as i32."""

    name = "tosa.argmax"
    input = operand_def(TENSOR)
    axis = prop_def(AXIS)
    nan_mode = opt_prop_def(NanModeAttr)
    output = result(TENSOR)


_FLOAT_UNARY = ("exp", "log", "rsqrt", "reciprocal", "sin", "cos", "ceil", "floor")

OPS: list[type[IRDLOperation]] = [
    ArithmeticRightShiftOp,
    MulOp,
    NegateOp,
    TableOp,
    SelectOp,
    ArgMaxOp,
    *_named(_Unary, "abs", "bitwise_not", "clz", "logical_not", "identity", *_FLOAT_UNARY),
    *_named(_UnaryInput, "erf", "sigmoid", "tanh", "cast"),
    *_named(
        _Binary,
        "add",
        "sub",
        "pow",
        "intdiv",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_left_shift",
        "logical_right_shift",
        "equal",
        "greater",
        "greater_equal",
    ),
    *_named(_Extremum, "maximum", "minimum"),
]
