"""Ops that repeat, turn around or shift elements, and those that join and take apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import element_type
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.common.extents import Extent, broadcast, product
from qdialect.plugins.torch.program import Node, Ref
from qdialect.plugins.torch.read.builder import static
from qdialect.plugins.torch.read.pooling import batched, unbatched
from qdialect.plugins.torch.read.rows import Results, Rule, axis, pair, result
from qdialect.plugins.torch.read.sizes import run_time_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.torch.read.importer import Importer

_ONE = Extent.of(1)


def expanded(imp: Importer, x: SSAValue, extents: Sequence[Extent]) -> SSAValue:
    """`x` broadcast to these extents."""
    if tuple(imp.extents(x)) == tuple(extents):
        return x
    if DYNAMIC not in static(extents):
        return imp.build(nn.ExpandOp, x, shape=static(extents))
    shape = run_time_shape(imp, tuple(extents))
    return imp.function("Expand", [x, shape], element_type(x.type), extents)


def expand(imp: Importer, node: Node) -> Results:
    """`expand`, `expand_as`, `broadcast_to`."""
    name = result(node)
    return [expanded(imp, imp.value(node.arguments["self"]), imp.shape(name))]


def repeat(imp: Importer, node: Node) -> Results:
    """`repeat` and `tile`: copies along dimensions, of which there may be new ones."""
    x = imp.value(node.arguments["self"])
    times = [imp.integer(n) for n in node.arguments.get("repeats", node.arguments.get("dims"))]
    extents = imp.extents(x)
    counts = [n for n in times if n is not None]
    if len(counts) != len(times):
        return None
    counts = [1] * (len(extents) - len(counts)) + counts
    extents = (*[_ONE] * (len(counts) - len(extents)), *extents)
    x = imp.reshape(x, extents)
    return [imp.build(nn.TileOp, x, repeats=counts)]


def repeat_interleave(imp: Importer, node: Node) -> Results:
    """Each element so many times, along one dimension or of all in order."""
    times = imp.integer(node.arguments.get("repeats"))
    x = imp.value(node.arguments["self"])
    if times is None or isinstance(node.arguments.get("repeats"), Ref):
        return None
    extents = imp.extents(x)
    dim = node.arguments.get("dim")
    if dim is None:
        x = imp.reshape(x, [product(tuple(extents))])
        dim, extents = 0, imp.extents(x)
    d = axis(dim, len(extents))
    return [
        imp.build(nn.RepeatOp, x, repeats=[times if k == d else 1 for k in range(len(extents))])
    ]


def flip(imp: Importer, node: Node) -> Results:
    """`flip`: the last element first."""
    x = imp.value(node.arguments["self"])
    rank = len(imp.extents(x))
    axes = sorted({axis(d, rank) for d in node.arguments["dims"]})
    return [imp.build(nn.FlipOp, x, axes=axes) if axes and rank else x]


def roll(imp: Importer, node: Node) -> Results:
    """`roll`: what leaves at one end comes in at the other."""
    x = imp.value(node.arguments["self"])
    original = imp.extents(x)
    shifts = [imp.integer(n) for n in node.arguments["shifts"]]
    dims: list[int] = node.arguments.get("dims") or [0]
    if not node.arguments.get("dims"):
        x = imp.reshape(x, [product(tuple(original))])
    rank = len(imp.extents(x))
    for shift, dim in zip(shifts, dims, strict=True):
        d = axis(dim, rank)
        size = imp.extents(x)[d].number
        if size is None or shift is None:
            return None
        first = shift % size if size else 0
        if first:
            parts = imp.emit(nn.SplitOp(x, axis=d, sizes=[size - first, first])).results
            x = imp.build(nn.ConcatOp, parts[1], parts[0], axis=d)
    return [imp.reshape(x, original)]


def stack(imp: Importer, node: Node) -> Results:
    """`stack`: tensors next to each other along a new dimension."""
    name = result(node)
    element = imp.element(name)
    values = [imp.cast(imp.value(t), element) for t in node.arguments["tensors"]]
    rank = len(imp.shape(name))
    d = axis(node.arguments.get("dim", 0), rank)
    parts: list[SSAValue] = []
    for value in values:
        extents = list(imp.extents(value))
        extents.insert(d, _ONE)
        parts.append(imp.reshape(value, extents))
    return [parts[0] if len(parts) == 1 else imp.build(nn.ConcatOp, *parts, axis=d)]


def unbind(imp: Importer, node: Node) -> Results:
    """`unbind`: the parts along a dimension, without it."""
    names = node.results[0]
    if not isinstance(names, list) or not names:
        return None
    x = imp.value(node.arguments["self"])
    extents = list(imp.extents(x))
    d = axis(node.arguments.get("dim", 0), len(extents))
    parts = imp.emit(nn.SplitOp(x, axis=d, sizes=[1] * len(names))).results
    rest = extents[:d] + extents[d + 1 :]
    return [imp.reshape(part, rest) for part in parts]


def moved(imp: Importer, node: Node) -> Results:
    """`movedim`: dimensions at other places, the rest in order."""
    x = imp.value(node.arguments["self"])
    rank = len(imp.extents(x))
    lists = [node.arguments[name] for name in ("source", "destination")]
    source, target = ([axis(d, rank) for d in pair(v, 1, 0)] for v in lists)
    places = dict(zip(target, source, strict=True))
    rest = iter(d for d in range(rank) if d not in source)
    return [
        imp.build(
            nn.TransposeOp, x, perm=[places[d] if d in places else next(rest) for d in range(rank)]
        )
    ]


def reversed_dimensions(last: int | None) -> Rule:
    """`numpy_T`: all dimensions in reverse; `mT` and `adjoint`: the last two."""

    def rule(imp: Importer, node: Node) -> Results:
        x = imp.value(node.arguments["self"])
        order = list(range(len(imp.extents(x))))
        kept = 0 if last is None else len(order) - last
        return [imp.build(nn.TransposeOp, x, perm=order[:kept] + order[kept:][::-1])]

    return rule


def triangle(upper: bool) -> Rule:
    """`tril`, `triu`: zeros on one side of a diagonal."""

    def rule(imp: Importer, node: Node) -> Results:
        x = imp.value(node.arguments["self"])
        diagonal = imp.integer(node.arguments.get("diagonal", 0))
        element = element_type(x.type)
        if diagonal is None:
            return None
        y = imp.cast(x, i32) if element == i1 else x
        k = imp.scalar(diagonal)
        y = imp.function("Trilu", [y, k], element_type(y.type), imp.extents(x), upper=int(upper))
        return [imp.cast(y, element)]

    return rule


def meshgrid(imp: Importer, node: Node) -> Results:
    """`meshgrid`: each vector along its own dimension of one grid."""
    vectors = [imp.value(t) for t in node.arguments["tensors"]]
    indexing = node.arguments.get("indexing", "ij")
    order = list(range(len(vectors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    sizes = [imp.extents(v)[0] if imp.extents(v) else _ONE for v in vectors]
    shape = [sizes[k] for k in order]
    results: list[SSAValue] = []
    for k, vector in enumerate(vectors):
        own = [_ONE] * len(vectors)
        own[order.index(k)] = sizes[k]
        results.append(expanded(imp, imp.reshape(vector, own), shape))
    return results


def broadcast_tensors(imp: Importer, node: Node) -> Results:
    """Tensors of one shape."""
    values = [imp.value(t) for t in node.arguments["tensors"]]
    met = broadcast([imp.extents(v) for v in values])
    if any(extent is None for extent in met):
        return None
    extents = [extent for extent in met if extent is not None]
    return [expanded(imp, value, extents) for value in values]


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(mode: str | None = None) -> Rule:
    """`pad`, `constant_pad_nd`, `reflection_pad*d`, `replication_pad*d`; negative ones crop."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        x = imp.value(arguments["self"])
        rank = len(imp.extents(x))
        numbers = [imp.integer(n) for n in arguments.get("pad", arguments.get("padding"))]
        kind = _PAD_MODES.get(mode or arguments.get("mode", "constant"))
        known = [n for n in numbers if n is not None]
        if kind is None or len(known) != len(numbers):
            return None
        low, high = [0] * rank, [0] * rank
        for k in range(len(known) // 2):
            low[rank - 1 - k], high[rank - 1 - k] = known[2 * k], known[2 * k + 1]
        more = [max(n, 0) for n in low], [max(n, 0) for n in high]
        value = arguments.get("value")
        # What is cropped may be what is repeated, but what is left goes around.
        if kind == "wrap":
            x, low, high = _cropped(imp, x, low, high), *more
        if any((*more[0], *more[1])):
            x = _padded(imp, x, *more, kind, 0 if value is None else value)
        return [_cropped(imp, x, low, high)]

    return rule


def _cropped(imp: Importer, x: SSAValue, low: list[int], high: list[int]) -> SSAValue:
    if min((*low, *high)) >= 0:
        return x
    starts = [max(-n, 0) for n in low]
    stops = [min(n, 0) or 2**63 - 1 for n in high]
    return imp.build(nn.SliceOp, x, starts=starts, stops=stops, steps=[1] * len(starts))


def _padded(
    imp: Importer, x: SSAValue, low: list[int], high: list[int], kind: str, value: float
) -> SSAValue:
    element = element_type(x.type)
    if element in FLOATS and abs(value) != float("inf"):
        return imp.build(nn.PadOp, x, low=low, high=high, mode=kind, value=float(value))
    y = imp.cast(x, i32) if element == i1 else x
    kept = element_type(y.type)
    extents = [
        extent + Extent.of(a + b) for extent, a, b in zip(imp.extents(x), low, high, strict=True)
    ]
    operands = [y, imp.vector(low + high), imp.scalar(value, kept)]
    y = imp.function("Pad", operands[: 3 if kind == "constant" else 2], kept, extents, mode=kind)
    return imp.cast(y, element)


def pixel_shuffle(imp: Importer, node: Node) -> Results:
    """Channels as blocks of pixels."""
    x = imp.value(node.arguments["self"])
    block = int(node.arguments["upscale_factor"])
    extents = imp.extents(x)
    if len(extents) < 3:
        return None
    flat = imp.reshape(x, (product(tuple(extents[:-3])), *extents[-3:]))
    y = imp.build(nn.DepthToSpaceOp, flat, block=block, mode="CRD")
    return [imp.reshape(y, imp.shape(result(node)))]


def pixel_unshuffle(imp: Importer, node: Node) -> Results:
    """Blocks of pixels as channels: `space_to_depth` with the phase inside the channel."""
    x = imp.value(node.arguments["self"])
    block = int(node.arguments["downscale_factor"])
    extents = imp.extents(x)
    if len(extents) < 3:
        return None
    *batch, c, h, w = extents
    rows, columns = h.over(Extent.of(block)), w.over(Extent.of(block))
    if rows is None or columns is None:
        return None
    k, d = Extent.of(block), len(batch)
    x = imp.reshape(x, (*batch, c, rows, k, columns, k))
    perm = [*range(d), d, d + 2, d + 4, d + 1, d + 3]
    x = imp.build(nn.TransposeOp, x, perm=perm)
    return [imp.reshape(x, imp.shape(result(node)))]


def channel_shuffle(imp: Importer, node: Node) -> Results:
    """Channels of groups interleaved."""
    x = imp.value(node.arguments["self"])
    groups = Extent.of(int(node.arguments["groups"]))
    n, c, *rest = imp.extents(x)
    each = c.over(groups)
    if each is None:
        return None
    y = imp.reshape(x, (n, groups, each, *rest))
    y = imp.build(nn.TransposeOp, y, perm=[0, 2, 1, *range(3, 3 + len(rest))])
    return [imp.reshape(y, (n, c, *rest))]


def columns(imp: Importer, node: Node) -> Results:
    """`im2col`: the windows of images as columns, [N, C * kh * kw, places]."""
    arguments = node.arguments
    given = batched(imp, imp.value(arguments["self"]), 2)
    if given is None:
        return None
    x, added = given
    sizes = [e.number for e in imp.extents(x)[2:]]
    kernel, dilation, padding, stride = (
        pair(arguments[name], 2, default)
        for name, default in (("kernel_size", 1), ("dilation", 1), ("padding", 0), ("stride", 1))
    )
    if any(padding):
        pads = [0, 0, *padding]
        x = _padded(imp, x, pads, pads, "constant", 0)
    for d, size in enumerate(sizes):
        if size is None:
            return None
        span = dilation[d] * (kernel[d] - 1) + 1
        count = (size + 2 * padding[d] - span) // stride[d] + 1
        taps, places = _multiples(kernel[d], dilation[d]), _multiples(count, stride[d])
        where = imp.constant(taps[:, None] + places[None, :], i64)
        x = imp.build(nn.GatherOp, x, where, axis=2 + 2 * d)
    y = imp.build(nn.TransposeOp, x, perm=[0, 1, 2, 4, 3, 5])
    n, c, kh, kw, rows, places_along = imp.extents(y)
    y = imp.reshape(y, (n, c * kh * kw, rows * places_along))
    return [unbatched(imp, y, added)]


def _multiples(count: int, step: int) -> NDArray[Any]:
    """0, step, 2 step ... as i64."""
    import numpy as np

    return np.arange(count, dtype=np.int64) * step
