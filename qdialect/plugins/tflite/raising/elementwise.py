"""Ops of two operands, comparisons, logic and choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.laid_out import Order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tflite.raising import squares
from qdialect.plugins.tflite.raising.activations import activated
from qdialect.plugins.tflite.raising.node import Node, is_float, is_plain_integer, params_of
from qdialect.plugins.tflite.raising.raiser import (
    Handler,
    Raiser,
    common_order,
    element_in,
)


def broadcast(r: Raiser, operands: Sequence[Raised]) -> tuple[Order, list[SSAValue]]:
    """Operands of one rank, in one order: that of the largest."""
    order = common_order(operands)
    rank = len(order)
    return order, [r.value(r.with_rank(x, rank), order) for x in operands]


def _arithmetic(kind: type[NNOp]) -> Handler:
    def raise_it(r: Raiser, node: Node) -> Raised:
        operands = [node.input(0), node.input(1)]
        if node.params() is None and any(params_of(x) and not is_float(x) for x in operands):
            raise Unraisable("type", "it computes plain numbers of codes")
        order, values = broadcast(r, operands)
        if kind is nn.DivOp and is_plain_integer(operands[0]):
            raise Unraisable("type", "it divides integers")
        if kind is nn.DivOp and "i16" in {
            p.storage.spelling for x in operands if (p := params_of(x))
        }:
            raise Unraisable("no-counterpart", "nothing of ours rounds its quotients of 16 bits")
        out = r.computed(kind, *values, element=element_in(r, node, order))
        return Raised(order, activated(r, out, node.activation))

    return raise_it


def _extremum(kind: type[NNOp]) -> Handler:
    """`MAXIMUM` and `MINIMUM`, which compare codes as they are."""

    def raise_it(r: Raiser, node: Node) -> Raised:
        operands = _on_one_scale(r, node, [node.input(0), node.input(1)])
        order, values = broadcast(r, operands)
        return Raised(order, r.op(kind, *values))

    return raise_it


def _on_one_scale(r: Raiser, node: Node, operands: Sequence[Raised]) -> list[Raised]:
    """Operands whose codes are taken as they are, with the qparams of the result."""
    params = node.params()
    if params is None:
        return list(operands)
    if any(params_of(x) != params for x in operands):
        r.remark("qparams-ignored", "it takes codes as they are, and their qparams differ")
    return [r.retyped(x, params) if params_of(x) != params else x for x in operands]


def squared_difference(r: Raiser, node: Node) -> Raised:
    """`SQUARED_DIFFERENCE`: of codes in the integers that the kernels have."""
    operands = [node.input(0), node.input(1)]
    if all(params_of(x) is not None for x in operands) and node.params() is not None:
        return squares.of_codes(r, node)
    order, values = broadcast(r, operands)
    difference = r.op(nn.SubOp, *values)
    return Raised(order, r.op(nn.MulOp, difference, difference))


def power(r: Raiser, node: Node) -> Raised:
    """`POW`, by one exponent or by several."""
    operands = [node.input(0), node.input(1)]
    exponent = operands[1].array
    if not all(is_float(x) for x in operands):
        raise Unraisable("type", "it raises integers to powers")
    if exponent is not None and exponent.size == 1 and operands[0].rank >= exponent.ndim:
        x = operands[0]
        value = float(exponent.reshape(-1)[0])
        return Raised(x.order, r.op(nn.PowOp, r.value(x), exponent=value))
    order, values = broadcast(r, operands)
    shape = [node.shape()[order.index(d)] for d in range(len(order))]
    return Raised(order, r.onnx("Pow", values, (node.kind(), shape))[0])


def floor_div(r: Raiser, node: Node) -> Raised:
    """`FLOOR_DIV` of floats."""
    operands = [node.input(0), node.input(1)]
    if not all(is_float(x) for x in operands):
        raise Unraisable("no-counterpart", "ONNX divides integers toward zero")
    order, values = broadcast(r, operands)
    return Raised(order, r.op(nn.FloorOp, r.op(nn.DivOp, *values)))


def floor_mod(r: Raiser, node: Node) -> Raised:
    """`FLOOR_MOD` of integers, whose sign is that of the divisor, as ONNX's Mod has it."""
    operands = [node.input(0), node.input(1)]
    if not all(is_plain_integer(x) for x in operands):
        raise Unraisable("no-counterpart", "the remainder of floats has another sign in ONNX")
    order, values = broadcast(r, operands)
    shape = [node.shape()[order.index(d)] for d in range(len(order))]
    return Raised(order, r.onnx("Mod", values, (node.kind(), shape))[0])


def _comparison(mode: str) -> Handler:
    def raise_it(r: Raiser, node: Node) -> Raised:
        operands = [node.input(0), node.input(1)]
        if len({params_of(x) for x in operands}) > 1:
            raise Unraisable("qparams", "it compares codes of different qparams")
        order, values = broadcast(r, operands)
        return Raised(order, r.op(nn.CompareOp, *values, mode=mode))

    return raise_it


def _logical(op_type: str) -> Handler:
    def raise_it(r: Raiser, node: Node) -> Raised:
        operands = [node.input(index) for index in range(len(node.inputs))]
        order, values = broadcast(r, operands)
        shape = [node.shape()[order.index(d)] for d in range(len(order))]
        return Raised(order, r.onnx(op_type, values, (i1, shape))[0])

    return raise_it


def select(r: Raiser, node: Node) -> Raised:
    """`SELECT` and `SELECT_V2`: by a condition, which a vector is of the first dimension for the
    former."""
    condition = node.input(0)
    choices = _on_one_scale(r, node, [node.input(1), node.input(2)])
    rank = max(x.rank for x in choices)
    if node.name == "SELECT" and condition.rank == 1 < rank:
        condition = r.reshaped(condition, (condition.shape[0], *(1,) * (rank - 1)))
    order = common_order([*choices, condition])
    rank = len(order)
    values = [r.value(r.with_rank(x, rank), order) for x in (condition, *choices)]
    return Raised(order, r.op(nn.SelectOp, *values))


def add_n(r: Raiser, node: Node) -> Raised:
    """`ADD_N`: one after the other."""
    operands = [node.input(index) for index in range(len(node.inputs))]
    if node.params() is not None:
        raise Unraisable("no-counterpart", "it adds codes of many tensors")
    order, values = broadcast(r, operands)
    total = values[0]
    for value in values[1:]:
        total = r.op(nn.AddOp, total, value)
    return Raised(order, total)


HANDLERS: Mapping[str, Handler] = {
    "ADD": _arithmetic(nn.AddOp),
    "SUB": _arithmetic(nn.SubOp),
    "MUL": _arithmetic(nn.MulOp),
    "DIV": _arithmetic(nn.DivOp),
    "ADD_N": add_n,
    "MAXIMUM": _extremum(nn.MaximumOp),
    "MINIMUM": _extremum(nn.MinimumOp),
    "SQUARED_DIFFERENCE": squared_difference,
    "POW": power,
    "FLOOR_DIV": floor_div,
    "FLOOR_MOD": floor_mod,
    "EQUAL": _comparison("eq"),
    "NOT_EQUAL": _comparison("ne"),
    "GREATER": _comparison("gt"),
    "GREATER_EQUAL": _comparison("ge"),
    "LESS": _comparison("lt"),
    "LESS_EQUAL": _comparison("le"),
    "LOGICAL_AND": _logical("And"),
    "LOGICAL_OR": _logical("Or"),
    "LOGICAL_NOT": _logical("Not"),
    "SELECT": select,
    "SELECT_V2": select,
}
