"""Ops that move elements: views, transposes, slices, joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.ir import ops as nn
from qdialect.ir.quant import element_type
from qdialect.plugins.common.extents import Extent
from qdialect.plugins.torch.program import Node
from qdialect.plugins.torch.read.rows import Results, axis, result
from qdialect.plugins.torch.read.sizes import vector_of

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from qdialect.plugins.torch.read.importer import Importer

_TO_THE_END = 2**63 - 1


def view(imp: Importer, node: Node) -> Results:
    """`view`, `reshape`, `flatten`, `unflatten`, `squeeze`, `unsqueeze`: the shape that the
    program says the result has."""
    name = node.results[0]
    assert isinstance(name, str)
    return [imp.reshape(imp.value(node.arguments["self"]), imp.shape(name))]


def permute(imp: Importer, node: Node) -> Results:
    """`permute`: result dimension k is dimension dims[k]."""
    x = imp.value(node.arguments["self"])
    rank = len(imp.extents(x))
    return [imp.build(nn.TransposeOp, x, perm=[axis(d, rank) for d in node.arguments["dims"]])]


def transpose(imp: Importer, node: Node) -> Results:
    """`transpose` of two dimensions, and `t` of a matrix."""
    x = imp.value(node.arguments["self"])
    rank = len(imp.extents(x))
    if rank < 2:
        return [x]
    a = axis(node.arguments.get("dim0", 0), rank)
    b = axis(node.arguments.get("dim1", 1), rank)
    perm = list(range(rank))
    perm[a], perm[b] = b, a
    return [imp.build(nn.TransposeOp, x, perm=perm)]


def concat(imp: Importer, node: Node) -> Results:
    """`cat`; empty vectors among the operands count for nothing."""
    name = node.results[0]
    assert isinstance(name, str)
    element = imp.element(name)
    values = [imp.cast(imp.value(t), element) for t in node.arguments["tensors"]]
    rank = len(imp.shape(name))
    values = [v for v in values if len(imp.extents(v)) == rank]
    if len(values) == 1:
        return [values[0]]
    return [imp.build(nn.ConcatOp, *values, axis=axis(node.arguments.get("dim", 0), rank))]


def split(imp: Importer, node: Node) -> Results:
    """`chunk`, `split` and `split_with_sizes`: the parts that the program says there are."""
    names = node.results[0]
    if not isinstance(names, list) or None in names:
        return None
    x = imp.value(node.arguments["self"])
    d = axis(node.arguments.get("dim", 0), len(imp.extents(x)))
    sizes = [imp.shape(str(name))[d].number for name in names]
    if any(size is None for size in sizes):
        return None
    return list(imp.emit(nn.SplitOp(x, axis=d, sizes=sizes)).results)


def slice_(imp: Importer, node: Node) -> Results:
    """`slice`: start, end and step along one dimension."""
    arguments = node.arguments
    x = imp.value(arguments["self"])
    shape = imp.extents(x)
    d = axis(arguments.get("dim", 0), len(shape))
    step = imp.integer(arguments.get("step", 1))
    start = imp.integer(arguments.get("start") or 0)
    end = arguments.get("end")
    if "length" in arguments and start is not None:
        length = imp.integer(arguments["length"])
        if length is None or start < 0 <= start + length:
            return None
        end = start + length
    stop = _TO_THE_END if end is None else imp.integer(end)
    if end is not None and imp.number(end) == shape[d]:
        stop = _TO_THE_END
    if step is None or start is None or stop is None:
        return _by_sizes(imp, node, x, d)
    rank = len(shape)
    starts, stops, steps = [0] * rank, [_TO_THE_END] * rank, [1] * rank
    starts[d], stops[d], steps[d] = start, stop, step
    if start == 0 and stop == _TO_THE_END and step == 1:
        return [x]
    return [imp.build(nn.SliceOp, x, starts=starts, stops=stops, steps=steps)]


def _by_sizes(imp: Importer, node: Node, x: SSAValue, d: int) -> Results:
    """A slice between sizes that the run computes."""
    arguments = node.arguments
    start, end = (arguments.get("start") or 0, arguments.get("end"))
    bounds = [imp.number(start), Extent.of(_TO_THE_END) if end is None else imp.number(end)]
    step = imp.integer(arguments.get("step", 1))
    known = [bound for bound in bounds if bound is not None]
    if len(known) != 2 or step is None or "length" in arguments:
        return None
    vectors = [vector_of(imp, bound) for bound in known]
    operands = [x, *vectors, imp.vector([d]), imp.vector([step])]
    return [imp.function("Slice", operands, element_type(x.type), imp.shape(result(node)))]
