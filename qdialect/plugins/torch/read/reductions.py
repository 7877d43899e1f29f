"""Reductions along dimensions, positions of extremes, orders and running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import Operation, SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.base import ranked
from qdialect.ir.quant import element_type
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.common.extents import Extent, product
from qdialect.plugins.torch.program import Node
from qdialect.plugins.torch.read.arithmetic import truth
from qdialect.plugins.torch.read.builder import static
from qdialect.plugins.torch.read.rows import Results, Rule, axis, result

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer

_ONNX: dict[type[nn.NNOp], str] = {
    nn.ReduceMaxOp: "ReduceMax",
    nn.ReduceMinOp: "ReduceMin",
    nn.ReduceMeanOp: "ReduceMean",
    nn.ReduceSumOp: "ReduceSum",
}


def axes_of(node: Node, rank: int) -> list[int]:
    """The dimensions that a node reduces: all, where it names none."""
    dims: Any = node.arguments.get("dim")
    dims = [dims] if isinstance(dims, int) else dims
    return sorted({axis(d, rank) for d in dims}) if dims else list(range(rank))


def _left(extents: Sequence[Extent], axes: Sequence[int], keepdims: bool) -> list[Extent]:
    one = Extent.of(1)
    if keepdims:
        return [one if d in axes else extent for d, extent in enumerate(extents)]
    return [extent for d, extent in enumerate(extents) if d not in axes]


def by_node(
    imp: Importer, op_type: str, x: SSAValue, axes: Sequence[int], keepdims: bool
) -> SSAValue:
    """A reduction that ONNX has."""
    if not axes:
        return x
    left = _left(imp.extents(x), axes, keepdims)
    operands = [x, imp.vector(axes)]
    return imp.function(op_type, operands, element_type(x.type), left, keepdims=int(keepdims))


def reduce(kind: type[nn.NNOp]) -> Rule:
    """`mean`, `sum`, `amax`, `amin`, `max`, `min` over dimensions, or over all."""

    def rule(imp: Importer, node: Node) -> Results:
        x = imp.value(node.arguments["self"])
        element = imp.element(result(node))
        rank = len(imp.extents(x))
        axes = axes_of(node, rank)
        keepdims = bool(node.arguments.get("keepdim", False))
        if element == i1:
            reduced = by_node(imp, _ONNX[kind], imp.cast(x, i32), axes, keepdims)
            return [imp.cast(reduced, i1)]
        x = imp.cast(x, element)
        if element in FLOATS and axes:
            return [imp.build(kind, x, axes=axes, keepdims=keepdims)]
        return [by_node(imp, _ONNX[kind], x, axes, keepdims)]

    return rule


def by_onnx(op_type: str) -> Rule:
    """`prod`, `logsumexp`: reductions that ONNX has and `nn` has not."""

    def rule(imp: Importer, node: Node) -> Results:
        element = imp.element(result(node))
        if element == i1:
            return None
        x = imp.cast(imp.value(node.arguments["self"]), element)
        axes = axes_of(node, len(imp.extents(x)))
        return [by_node(imp, op_type, x, axes, bool(node.arguments.get("keepdim", False)))]

    return rule


def quantifier(op_type: str) -> Rule:
    """`any` and `all`: the largest and the smallest of truth values as integers."""

    def rule(imp: Importer, node: Node) -> Results:
        x = imp.cast(truth(imp, node.arguments["self"]), i32)
        axes = axes_of(node, len(imp.extents(x)))
        keepdims = bool(node.arguments.get("keepdim", False))
        reduced = imp.cast(by_node(imp, op_type, x, axes, keepdims), i1)
        return [imp.cast(reduced, imp.element(result(node)))]

    return rule


def count_nonzero(imp: Importer, node: Node) -> Results:
    """How many elements are not 0."""
    x = imp.cast(truth(imp, node.arguments["self"]), i64)
    return [by_node(imp, "ReduceSum", x, axes_of(node, len(imp.extents(x))), False)]


def extreme(kind: type[nn.ReduceOp], place: type[nn.ArgMaxOp | nn.ArgMinOp]) -> Rule:
    """`max` and `min`: of all elements, of two tensors, or along one dimension with positions."""
    whole = reduce(kind)

    def rule(imp: Importer, node: Node) -> Results:
        if "dim" not in node.arguments:
            return whole(imp, node)
        x = imp.value(node.arguments["self"])
        rank = len(imp.extents(x))
        if element_type(x.type) == i1:
            return None
        if not rank:
            return [x, imp.scalar(0)]
        d, keepdims = axis(node.arguments["dim"], rank), bool(node.arguments.get("keepdim"))
        if element_type(x.type) in FLOATS:
            largest = imp.build(kind, x, axes=[d], keepdims=keepdims)
        else:
            largest = by_node(imp, _ONNX[kind], x, [d], keepdims)
        return [largest, imp.emit(place(x, d, keepdims)).results[0]]

    return rule


def place(kind: type[nn.ArgMaxOp | nn.ArgMinOp]) -> Rule:
    """`argmax`, `argmin`: along a dimension, or of all elements in order."""

    def rule(imp: Importer, node: Node) -> Results:
        x = imp.value(node.arguments["self"])
        extents = imp.extents(x)
        keepdims = bool(node.arguments.get("keepdim", False))
        if not extents or element_type(x.type) == i1:
            return None
        dim = node.arguments.get("dim")
        if dim is None:
            flat = imp.reshape(x, [product(tuple(extents))])
            found = imp.emit(kind(flat, 0, False)).results[0]
            return [imp.reshape(found, [Extent.of(1)] * len(extents)) if keepdims else found]
        return [imp.emit(kind(x, axis(dim, len(extents)), keepdims)).results[0]]

    return rule


def top_k(imp: Importer, node: Node) -> Results:
    """`topk`: of floats an `nn` op, of integers ONNX's."""
    x = imp.value(node.arguments["self"])
    k = imp.integer(node.arguments["k"])
    rank = len(imp.extents(x))
    if k is None or not rank:
        return None
    d = axis(node.arguments.get("dim", -1), rank)
    return _ordered(imp, x, k, d, bool(node.arguments.get("largest", True)))


def sort(imp: Importer, node: Node) -> Results:
    """`sort`, `argsort`: the first of all."""
    x = imp.value(node.arguments["self"])
    extents = imp.extents(x)
    if not extents:
        return None
    d = axis(node.arguments.get("dim", -1), len(extents))
    size = extents[d].number
    if size is None or element_type(x.type) == i1:
        return None
    values, indices = _ordered(imp, x, size, d, bool(node.arguments.get("descending", False)))
    return [indices] if node.op == "aten.argsort" else [values, indices]


def _ordered(imp: Importer, x: SSAValue, k: int, d: int, largest: bool) -> list[SSAValue]:
    if element_type(x.type) in FLOATS:
        return list(imp.emit(nn.TopKOp(x, k, d, largest)).results)
    extents = list(imp.extents(x))
    extents[d] = Extent.of(k)
    shape = static(extents)
    types = [ranked(element_type(x.type), shape), ranked(i64, shape)]
    first = imp.onnx("TopK", [x, imp.vector([k])], *types, axis=d, largest=int(largest))
    values = list[SSAValue](cast("Operation", first.owner).results)
    for value in values:
        imp.state(value, extents)
    return values


def running_sum(imp: Importer, node: Node) -> Results:
    """`cumsum`."""
    name = result(node)
    element = imp.element(name)
    if element == i1:
        return None
    x = imp.cast(imp.value(node.arguments["self"]), element)
    rank = len(imp.extents(x))
    if not rank:
        return [x]
    d = imp.scalar(axis(node.arguments["dim"], rank))
    return [imp.function("CumSum", [x, d], element, imp.extents(x))]


def spread(imp: Importer, node: Node) -> Results:
    """`var`, `std`, `var_mean`, `std_mean`: the sum of squares around the mean, over the count
    less a correction."""
    arguments = node.arguments
    if not imp.is_float(arguments["self"]):
        return None
    x = imp.value(arguments["self"])
    extents = imp.extents(x)
    axes = axes_of(node, len(extents))
    count = product(tuple(extents[d] for d in axes)).number
    correction = arguments.get("correction", 1 if arguments.get("unbiased", True) else 0)
    correction = 1 if correction is None else correction
    if count is None or count <= correction or not axes:
        return None
    keepdims = bool(arguments.get("keepdim", False))
    mean = imp.build(nn.ReduceMeanOp, x, axes=axes, keepdims=True)
    around = imp.build(nn.SubOp, x, mean)
    squares = imp.build(nn.MulOp, around, around)
    y = imp.build(nn.ReduceMeanOp, squares, axes=axes, keepdims=keepdims)
    if correction:
        factor = imp.scalar(count / (count - correction), element_type(x.type))
        y = imp.build(nn.MulOp, y, factor)
    if node.op.startswith("aten.std"):
        y = imp.build(nn.SqrtOp, y)
    if not node.op.endswith("_mean"):
        return [y]
    return [y, mean if keepdims else imp.build(nn.ReduceMeanOp, x, axes=axes, keepdims=False)]


def norm(imp: Importer, node: Node) -> Results:
    """`norm`, `linalg_vector_norm`: the order 1, 2, infinity, or any other number."""
    import math

    arguments = node.arguments
    element = imp.element(result(node))
    if element not in FLOATS:
        return None
    order = arguments.get("ord", arguments.get("p", 2))
    order = 2 if order is None else order
    x = imp.cast(imp.value(arguments["self"]), element)
    axes = axes_of(node, len(imp.extents(x)))
    keepdims = bool(arguments.get("keepdim", False))
    if not axes:  # one number
        if order == 0:
            return [imp.cast(truth(imp, arguments["self"]), element)]
        return [imp.build(nn.AbsOp, x)]
    if order == 2:
        return [by_node(imp, "ReduceL2", x, axes, keepdims)]
    size = imp.build(nn.AbsOp, x)
    if order == 1:
        return [imp.build(nn.ReduceSumOp, size, axes=axes, keepdims=keepdims)]
    if math.isinf(order):
        kind = nn.ReduceMaxOp if order > 0 else nn.ReduceMinOp
        return [imp.build(kind, size, axes=axes, keepdims=keepdims)]
    if order == 0:
        there = imp.cast(truth(imp, arguments["self"]), element)
        return [imp.build(nn.ReduceSumOp, there, axes=axes, keepdims=keepdims)]
    powers = imp.build(nn.PowOp, size, exponent=float(order))
    total = imp.build(nn.ReduceSumOp, powers, axes=axes, keepdims=keepdims)
    return [imp.build(nn.PowOp, total, exponent=1.0 / float(order))]


def log_softmax(imp: Importer, node: Node) -> Results:
    """`log_softmax` along one dimension."""
    name = result(node)
    element = imp.element(name)
    if element not in FLOATS:
        return None
    x = imp.cast(imp.value(node.arguments["self"]), element)
    extents = imp.extents(x)
    if not extents:
        return None
    d = axis(node.arguments["dim"], len(extents))
    return [imp.function("LogSoftmax", [x], element, extents, axis=d)]


def similarity(imp: Importer, node: Node) -> Results:
    """`cosine_similarity`: the product of both, each over its length (at least eps)."""
    element = imp.element(result(node))
    operands = [node.arguments[name] for name in ("x1", "x2")]
    if element not in FLOATS or not all(imp.is_float(operand) for operand in operands):
        return None
    values = [imp.value(operand) for operand in operands]
    ranks = {len(imp.extents(value)) for value in values}
    if len(ranks) != 1:
        return None
    d = axis(node.arguments.get("dim", 1), ranks.pop())
    eps = imp.scalar(float(node.arguments.get("eps", 1e-8)), element)
    units: list[SSAValue] = []
    for value in values:
        length = imp.build(nn.MaximumOp, by_node(imp, "ReduceL2", value, [d], True), eps)
        units.append(imp.build(nn.DivOp, value, length))
    both = imp.build(nn.MulOp, *units)
    return [imp.build(nn.ReduceSumOp, both, axes=[d], keepdims=False)]
