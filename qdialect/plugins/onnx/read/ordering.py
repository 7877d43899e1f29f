"""Comparisons, extreme elements and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import element_type
from qdialect.plugins.onnx.read.compute import Rule
from qdialect.plugins.onnx.read.movement import movable
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

Results = list[SSAValue] | None


def compare(mode: str) -> Rule:
    """A comparison of floats, or of quantized values of one encoding."""

    def rule(imp: Importer, node: Node) -> Results:
        names = node.inputs
        if imp.opset < 7 or any(movable(imp, name) is None for name in names):
            return None
        if len({element_type(imp.type_of(name)) for name in names}) != 1:
            return None
        operands = [imp.value(name) for name in names]
        return [imp.build(nn.CompareOp, *operands, output=node.output(0), mode=mode)]

    return rule


def negation(imp: Importer, node: Node) -> Results:
    """`Not` of an equality (of an order it would say something else about NaN)."""
    name = node.input(0)
    owner = imp.values[name].owner if name in imp.values else None
    if not isinstance(owner, nn.CompareOp):
        return None
    mode = {"eq": "ne", "ne": "eq"}.get(owner.mode.data)
    if mode is None:
        return None
    operands = (owner.lhs, owner.rhs)
    return [imp.build(nn.CompareOp, *operands, output=node.output(0), mode=mode)]


def place(kind: type[Any]) -> Rule:
    """`ArgMax` or `ArgMin`."""

    def rule(imp: Importer, node: Node) -> Results:
        shape = movable(imp, node.input(0))
        axis = int(node.get("axis", 0))
        if not shape or not -len(shape) <= axis < len(shape) or shape[axis] == 0:
            return None
        keep, last = node.flag("keepdims", True), node.flag("select_last_index", False)
        x = imp.value(node.input(0))
        return [imp.build(kind, x, output=node.output(0), axis=axis, keepdims=keep, last=last)]

    return rule


def top_k(imp: Importer, node: Node) -> Results:
    """`TopK` of a constant number of elements."""
    shape, axis = movable(imp, node.input(0)), int(node.get("axis", -1))
    given = imp.static_ints(node.input(1)) if imp.opset >= 10 else (int(node.get("k", -1)),)
    if not shape or given is None or len(given) != 1 or not all(node.outputs):
        return None
    if len(node.outputs) != 2 or not -len(shape) <= axis < len(shape):
        return None
    k, extent = given[0], shape[axis]
    if k < 0 or (extent != DYNAMIC and k > extent):
        return None
    largest, ranked = node.flag("largest", True), node.flag("sorted", True)
    op = nn.TopKOp(imp.value(node.input(0)), k, axis, largest, ranked)
    return list(imp.emit(op).results)
