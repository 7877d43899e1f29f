"""Ops that read or write elements at places: select, index, gather, scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import element_type
from qdialect.plugins.common.extents import Extent, broadcast
from qdialect.plugins.torch.program import Node
from qdialect.plugins.torch.read.builder import static
from qdialect.plugins.torch.read.repeats import expanded
from qdialect.plugins.torch.read.rows import Results, Rule, axis, result
from qdialect.plugins.torch.read.sizes import run_time_number

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer

_END = 2**63 - 1
_ONE = Extent.of(1)


def select(imp: Importer, node: Node) -> Results:
    """`select`: one place of a dimension, which goes away."""
    x = imp.value(node.arguments["self"])
    extents = list(imp.extents(x))
    d = axis(node.arguments.get("dim", 0), len(extents))
    index = imp.integer(node.arguments["index"])
    if index is None:
        return _by_size(imp, node, x, d)
    starts, stops = [0] * len(extents), [_END] * len(extents)
    starts[d], stops[d] = index, index + 1 if index != -1 else _END
    part = imp.build(nn.SliceOp, x, starts=starts, stops=stops, steps=[1] * len(extents))
    return [imp.reshape(part, extents[:d] + extents[d + 1 :])]


def _by_size(imp: Importer, node: Node, x: SSAValue, d: int) -> Results:
    place = imp.number(node.arguments["index"])
    if place is None:
        return None
    return [imp.build(nn.GatherOp, x, run_time_number(imp, place), axis=d)]


def index_select(imp: Importer, node: Node) -> Results:
    """`index_select`: places of one dimension."""
    x, index = imp.value(node.arguments["self"]), imp.value(node.arguments["index"])
    rank = len(imp.extents(x))
    if not rank:
        return None
    if not imp.extents(index):
        index = imp.reshape(index, [_ONE])
    return [imp.build(nn.GatherOp, x, index, axis=axis(node.arguments["dim"], rank))]


def index(imp: Importer, node: Node) -> Results:
    """`x[indices]`: one tensor of integers is a gather; several, broadcast together, are places
    in dimensions next to each other, or in front."""
    x = imp.value(node.arguments["self"])
    places = _places(imp, node.arguments["indices"])
    if places is None:
        return None
    if len(places) == 1:
        ((d, where),) = places.items()
        return [imp.build(nn.GatherOp, x, where, axis=d)]
    dims = list(places)
    extents = imp.extents(x)
    perm = dims + [d for d in range(len(extents)) if d not in dims]
    met = _shape_together(imp, list(places.values()))
    if met is None:
        return None
    tuples = _tuples(imp, list(places.values()), met)
    moved = x if perm == sorted(perm) else imp.build(nn.TransposeOp, x, perm=perm)
    rest = [extents[d] for d in perm[len(dims) :]]
    y = imp.function("GatherND", [moved, tuples], element_type(x.type), [*met, *rest])
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    if not adjacent or dims[0] == 0:
        return [y]
    before = dims[0]
    count, first = len(met), len(met) + before
    order = [*range(count, first), *range(count), *range(first, len(met) + len(rest))]
    return [imp.build(nn.TransposeOp, y, perm=order)]


def _places(imp: Importer, indices: Sequence[Any]) -> dict[int, SSAValue] | None:
    """Tensors of places by their dimensions; None where one is a mask."""
    found = {d: imp.value(entry) for d, entry in enumerate(indices) if entry is not None}
    kinds = {element_type(value.type) for value in found.values()}
    if not found or any(kind == i1 or str(kind) == "ui8" for kind in kinds):
        return None
    return {d: imp.cast(value, i64) for d, value in found.items()}


def _shape_together(imp: Importer, values: Sequence[SSAValue]) -> list[Extent] | None:
    met = broadcast([imp.extents(value) for value in values])
    known = [extent for extent in met if extent is not None]
    return known if len(known) == len(met) else None


def _tuples(imp: Importer, values: Sequence[SSAValue], met: Sequence[Extent]) -> SSAValue:
    """Places as ONNX has them: a last dimension over the indexed dimensions."""
    columns = [imp.reshape(expanded(imp, value, met), [*met, _ONE]) for value in values]
    if len(columns) == 1:
        return columns[0]
    return imp.build(nn.ConcatOp, *columns, axis=len(met))


def index_put(imp: Importer, node: Node) -> Results:
    """`x[indices] = values`, of places in the first dimensions, or of one mask."""
    arguments = node.arguments
    x = imp.value(arguments["self"])
    element = element_type(x.type)
    values = imp.cast(imp.value(arguments["values"]), element)
    extents = imp.extents(x)
    given = arguments["indices"]
    places = _places(imp, given)
    if places is None:
        return _masked_put(imp, x, values, given, bool(arguments.get("accumulate")))
    dims = list(places)
    met = _shape_together(imp, list(places.values()))
    if met is None or dims != list(range(len(dims))):
        return None
    tuples = _tuples(imp, list(places.values()), met)
    update = expanded(imp, values, [*met, *extents[len(dims) :]])
    extra = {"reduction": "add"} if arguments.get("accumulate") else {}
    return [imp.function("ScatterND", [x, tuples, update], element, extents, **extra)]


def _masked_put(
    imp: Importer, x: SSAValue, values: SSAValue, indices: Sequence[Any], accumulate: bool
) -> Results:
    """One value where a mask over the first dimensions says so."""
    if len(indices) != 1 or indices[0] is None or accumulate:
        return None
    mask = imp.value(indices[0])
    if element_type(mask.type) != i1 or any(e != _ONE for e in imp.extents(values)):
        return None
    behind = len(imp.extents(x)) - len(imp.extents(mask))
    mask = imp.reshape(mask, [*imp.extents(mask), *[_ONE] * behind])
    value = imp.reshape(values, [])
    return [imp.emit(nn.SelectOp(mask, value, x)).results[0]]


def gather(imp: Importer, node: Node) -> Results:
    """`gather`, `take_along_dim`: for each index the element at that place of a dimension."""
    x = imp.value(node.arguments["self"])
    where = imp.value(node.arguments.get("index", node.arguments.get("indices")))
    extents = imp.extents(where)
    if not extents:
        return [imp.reshape(x, [])]
    if node.op == "aten.take_along_dim" and (
        node.arguments.get("dim") is None or extents != imp.shape(result(node))
    ):
        return None
    d = axis(node.arguments["dim"], len(extents))
    return [imp.function("GatherElements", [x, where], element_type(x.type), extents, axis=d)]


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add"}


def scatter(reduction: str | None = None) -> Rule:
    """`scatter`, `scatter_add`, `scatter_reduce`: elements written to places of a dimension."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        x, where = imp.value(arguments["self"]), imp.value(arguments["index"])
        element, extents = element_type(x.type), imp.extents(where)
        named = reduction or arguments.get("reduce")
        if not extents or element == i1 or arguments.get("include_self") is False:
            return None
        if named is not None and named not in _REDUCTIONS:
            return None
        if "src" in arguments:
            source = imp.value(arguments["src"])
            if imp.extents(source) != extents:
                sizes = static(extents)
                if DYNAMIC in sizes:
                    return None
                zeros, ones = [0] * len(sizes), [1] * len(sizes)
                source = imp.build(nn.SliceOp, source, starts=zeros, stops=sizes, steps=ones)
        else:
            source = expanded(imp, imp.value(arguments["value"], element), extents)
        source = imp.cast(source, element)
        extra = {} if named is None else {"reduction": _REDUCTIONS[named]}
        d = axis(arguments["dim"], len(extents))
        operands = [x, where, source]
        return [imp.function("ScatterElements", operands, element, imp.extents(x), axis=d, **extra)]

    return rule


def slice_scatter(imp: Importer, node: Node) -> Results:
    """`x[start:end:step] = src` along one dimension."""
    arguments = node.arguments
    x = imp.value(arguments["self"])
    source = imp.cast(imp.value(arguments["src"]), element_type(x.type))
    extents = imp.extents(x)
    d = axis(arguments.get("dim", 0), len(extents))
    size = extents[d].number
    start = imp.integer(arguments.get("start") or 0)
    step = imp.integer(arguments.get("step", 1))
    if imp.extents(source) == extents:
        return [source]
    if start is None or step is None or (start < 0 and size is None):
        return None
    return [_inserted(imp, x, source, d, start if start >= 0 else start + (size or 0), step)]


def _inserted(
    imp: Importer, x: SSAValue, source: SSAValue, d: int, start: int, step: int
) -> SSAValue:
    rank = len(imp.extents(x))
    starts, steps = [0] * rank, [1] * rank
    starts[d], steps[d] = start, step
    return imp.build(nn.InsertOp, x, source, starts=starts, steps=steps)


def select_scatter(imp: Importer, node: Node) -> Results:
    """`x[index] = src` along one dimension."""
    arguments = node.arguments
    x = imp.value(arguments["self"])
    extents = list(imp.extents(x))
    d = axis(arguments["dim"], len(extents))
    place, size = imp.integer(arguments["index"]), extents[d].number
    if place is None or (place < 0 and size is None):
        return None
    source = imp.cast(imp.value(arguments["src"]), element_type(x.type))
    source = expanded(imp, source, extents[:d] + extents[d + 1 :])
    source = imp.reshape(source, [*extents[:d], _ONE, *extents[d + 1 :]])
    return [_inserted(imp, x, source, d, place if place >= 0 else place + (size or 0), 1)]


def copy(imp: Importer, node: Node) -> Results:
    """`copy`: the other tensor in the type and shape of the first."""
    name = result(node)
    source = imp.cast(imp.value(node.arguments["src"]), imp.element(name))
    return [expanded(imp, source, imp.shape(name))]


def one_hot(imp: Importer, node: Node) -> Results:
    """`one_hot`: a new last dimension with 1 at the place that the integer says."""
    x = imp.value(node.arguments["self"])
    classes = imp.integer(node.arguments.get("num_classes", -1))
    if classes is None or classes < 0:
        return None
    import numpy as np

    pair = imp.constant(np.array([0, 1], np.int64), i64)
    extents = [*imp.extents(x), Extent.of(classes)]
    return [imp.function("OneHot", [x, imp.vector([classes]), pair], i64, extents, axis=-1)]


def diagonal(imp: Importer, node: Node) -> Results:
    """`diagonal`: the elements at (k, k + offset) of two dimensions, in a new last one."""
    import numpy as np

    x = imp.value(node.arguments["self"])
    rank = len(imp.extents(x))
    a, b = (axis(node.arguments.get(n, k), rank) for n, k in (("dim1", 0), ("dim2", 1)))
    offset = imp.integer(node.arguments.get("offset", 0)) or 0
    rows, columns = imp.extents(x)[a].number, imp.extents(x)[b].number
    if rows is None or columns is None:
        return None
    down, along = max(-offset, 0), max(offset, 0)
    count = max(min(rows - down, columns - along), 0)
    rest = [d for d in range(rank) if d not in (a, b)]
    moved = imp.build(nn.TransposeOp, x, perm=[*rest, a, b])
    extents = [imp.extents(x)[d] for d in rest]
    flat = imp.reshape(moved, [*extents, Extent.of(rows * columns)])
    places = np.arange(count, dtype=np.int64) * (columns + 1) + down * columns + along
    return [imp.build(nn.GatherOp, flat, imp.vector(places.tolist()), axis=len(rest))]


def unfold(imp: Importer, node: Node) -> Results:
    """`Tensor.unfold`: windows along a dimension, their elements in a new last one."""
    import numpy as np

    arguments = node.arguments
    x = imp.value(arguments["self"])
    extents = imp.extents(x)
    d = axis(arguments["dimension"], len(extents))
    total = extents[d].number
    size, step = int(arguments["size"]), int(arguments["step"])
    if total is None or not extents:
        return None
    windows = (total - size) // step + 1
    places = np.arange(windows)[:, None] * step + np.arange(size)
    where = imp.constant(places.astype(np.int64), i64)
    y = imp.build(nn.GatherOp, x, where, axis=d)
    rank = len(extents) + 1
    perm = [k for k in range(rank) if k != d + 1] + [d + 1]
    return [imp.build(nn.TransposeOp, y, perm=perm)]
