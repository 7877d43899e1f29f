"""Elementwise ops with more forms than the op of the same meaning has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.torch.program import Node, Ref
from qdialect.plugins.torch.read.rows import Results, Rule, result, unread

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer

_ONNX = {nn.AddOp: "Add", nn.SubOp: "Sub"}


def scaled_sum(kind: type[nn.AddOp | nn.SubOp], reverse: bool = False) -> Rule:
    """`add`, `sub` and `rsub`: self + alpha * other."""

    def rule(imp: Importer, node: Node) -> Results:
        name = node.results[0]
        if not isinstance(name, str) or unread(node, ("self", "other", "alpha")):
            return None
        element = imp.element(name)
        pair = [imp.cast(imp.value(node.arguments[a], element), element) for a in ("self", "other")]
        alpha = node.arguments.get("alpha", 1)
        if alpha != 1:
            factor = imp.scalar(alpha, element)
            pair[1] = _product(imp, pair[1], factor)
        if reverse:
            pair.reverse()
        if element in FLOATS:
            return [imp.build(kind, *pair)]
        return [imp.onnx(_ONNX[kind], pair, imp.type(name))]

    return rule


def _product(imp: Importer, value: SSAValue, factor: SSAValue) -> SSAValue:
    from qdialect.ir.quant import element_type

    if element_type(value.type) in FLOATS:
        return imp.build(nn.MulOp, value, factor)
    return imp.onnx("Mul", [value, factor], value.type)  # pyright: ignore[reportArgumentType]


def clamp(low: float | None = None, high: float | None = None) -> Rule:
    """`clamp`, `relu6`, `hardtanh`: between numbers, of floats."""

    def rule(imp: Importer, node: Node) -> Results:
        x = node.arguments["self"]
        if node.results[0] is None or not imp.has_type(x, result(node)):
            return None
        names = [("min", "min_val"), ("max", "max_val")]
        bounds = [
            next((node.arguments[n] for n in pair if node.arguments.get(n) is not None), default)
            for pair, default in zip(names, (low, high), strict=True)
        ]
        if not imp.is_float(x) or any(isinstance(bound, Ref) for bound in bounds):
            return None
        given = {
            name: float(bound)
            for name, bound in zip(("min", "max"), bounds, strict=True)
            if bound is not None and not math.isinf(bound)
        }
        if any(math.isnan(bound) for bound in given.values()):
            return None
        return [imp.build(nn.ClipOp, imp.value(x), **given)]

    return rule


def first_of(*rules: Rule) -> Rule:
    """The first rule that covers a form."""

    def rule(imp: Importer, node: Node) -> Results:
        return next((r for one in rules if (r := one(imp, node)) is not None), None)

    return rule


def alias(imp: Importer, node: Node) -> Results:
    """Ops that give their operand back: `alias`, `detach`, `contiguous`, `clone`."""
    return [imp.value(node.arguments["self"])]


def dropout(imp: Importer, node: Node) -> Results:
    """`dropout` of a model that is not being trained."""
    if node.arguments.get("train") and node.arguments.get("p", 0.5):
        raise imp.unsupported("drops values at random: export the model after model.eval()")
    return [imp.value(node.arguments["input"])]


def first_alias(imp: Importer, node: Node) -> Results:
    """`native_dropout` of a model in evaluation: its operand, and a mask that nobody reads."""
    if imp.reads(node, 1) or node.arguments.get("train"):
        return None
    return [imp.value(node.arguments["input"]), None]


def convert(imp: Importer, node: Node) -> Results:
    """`to`, `_to_copy` and `type_as`: the numbers in the type of the result."""
    name = node.results[0]
    if not isinstance(name, str):
        return None
    return [imp.cast(imp.value(node.arguments["self"]), imp.element(name))]
