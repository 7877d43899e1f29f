"""Ops that move elements: what the file says along its dimensions, along those of the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops import shape_of
from qdialect.ir.quant import UniformType
from qdialect.plugins.common.lowering.laid_out import Order, channels_last
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised, all_known
from qdialect.plugins.tflite.raising.casts import joined
from qdialect.plugins.tflite.raising.node import Node, params_of
from qdialect.plugins.tflite.raising.raiser import (
    Handler,
    Raiser,
    along,
    common_order,
    settled,
)
from qdialect.plugins.tflite.raising.slices import slices_of
from qdialect.plugins.tflite.target_requirements import rescales

_FAR = (1 << 31) - 1


def transpose(r: Raiser, node: Node) -> Raised:
    """Another order, and no op."""
    x, perm = node.input(0), node.integers(1)
    if sorted(perm) != list(range(x.rank)):
        raise Unraisable("perm", f"{perm} is no permutation of {x.rank} dimensions")
    if x.array is not None:
        return settled(r, node, turned(x, perm))
    return settled(r, node, Raised(tuple(x.order[p] for p in perm), x.value))


def turned(x: Raised, perm: Sequence[int]) -> Raised:
    """A constant whose dimension d was dimension `perm[d]`."""
    assert x.array is not None
    array = np.ascontiguousarray(x.array.transpose(perm))
    element = x.element
    if isinstance(element, UniformType) and element.qparams.axis is not None:
        element = UniformType(element.qparams.with_axis(list(perm).index(element.qparams.axis)))
    elif isinstance(element, UniformType) and not element.qparams.is_per_tensor:
        raise Unraisable("blocks", "its scales are those of blocks")
    return replace(x, array=array, element=element)


def concat(r: Raiser, node: Node) -> Raised:
    """`CONCATENATION`."""
    operands = [node.input(index) for index in range(len(node.inputs))]
    order = common_order(operands)
    axis = order[node.number("axis") % len(order)]
    settle = joined if rescales(node.op) else settled
    values = [r.value(settle(r, node, x), order) for x in operands]
    out = values[0] if len(values) == 1 else r.op(nn.ConcatOp, *values, axis=axis)
    return Raised(order, out)


def split(r: Raiser, node: Node) -> list[Raised]:
    """`SPLIT` into equal parts; the first input is the dimension."""
    x, count = node.input(1), len(node.op.results)
    axis = node.integers(0)[0] % x.rank
    size = x.shape[axis]
    if size < 0 or size % count:
        raise Unraisable("sizes", f"it splits {size} into {count}")
    return _split(r, node, x, axis, [size // count] * count)


def split_v(r: Raiser, node: Node) -> list[Raised]:
    """`SPLIT_V` into parts of given sizes, one of which may be -1."""
    x, sizes = node.input(0), node.integers(1)
    axis = node.integers(2)[0] % x.rank
    if -1 in sizes:
        if x.shape[axis] < 0:
            raise Unraisable("dynamic-shape", "the size of a part is not known")
        sizes[sizes.index(-1)] = x.shape[axis] - sum(n for n in sizes if n >= 0)
    return _split(r, node, x, axis, sizes)


def _split(r: Raiser, node: Node, x: Raised, axis: int, sizes: Sequence[int]) -> list[Raised]:
    value = r.value(x)
    parts = _parts(r, value, x.order[axis], sizes)
    return [settled(r, node, Raised(x.order, part), i) for i, part in enumerate(parts)]


def _parts(r: Raiser, value: SSAValue, axis: int, sizes: Sequence[int]) -> list[SSAValue]:
    from qdialect.ir.quant import element_type

    if len(sizes) == 1:
        return [value]
    kinds = nn.SplitOp.infer([shape_of(value)], {"sizes": tuple(sizes), "axis": axis})
    from qdialect.ir.ops.base import ranked

    types = [ranked(element_type(value.type), shape) for shape in kinds]
    made = r.append(nn.SplitOp(value, axis=axis, sizes=tuple(sizes), result_types=types))
    return list(made.results)


def with_dimension(order: Order, axis: int) -> tuple[Order, int]:
    """An order with a new dimension `axis` of the file, and where it lies in the value."""
    rank = len(order)
    place = order[axis] if axis < rank else rank
    moved = [d + (d >= place) for d in order]
    return (*moved[:axis], place, *moved[axis:]), place


def pack(r: Raiser, node: Node) -> Raised:
    """`PACK`: along a new dimension."""
    operands = [node.input(index) for index in range(len(node.inputs))]
    order = common_order(operands)
    axis = node.number("axis") % (len(order) + 1)
    new, place = with_dimension(order, axis)
    values = [r.value(settled(r, node, x), order) for x in operands]
    columns = [r.op(nn.UnsqueezeOp, value, axes=[place]) for value in values]
    out = columns[0] if len(columns) == 1 else r.op(nn.ConcatOp, *columns, axis=place)
    return Raised(new, out)


def unpack(r: Raiser, node: Node) -> list[Raised]:
    """`UNPACK`: one result for each index of a dimension."""
    x = node.input(0)
    axis = node.number("axis") % x.rank
    place, count = x.order[axis], len(node.op.results)
    if x.shape[axis] != count:
        raise Unraisable("sizes", f"it takes {count} of {x.shape[axis]}")
    order = tuple(d - (d > place) for i, d in enumerate(x.order) if i != axis)
    found: list[Raised] = []
    for index, part in enumerate(_parts(r, r.value(x), place, [1] * count)):
        out = r.op(nn.SqueezeOp, part, axes=[place])
        found.append(settled(r, node, Raised(order, out), index))
    return found


def slice_(r: Raiser, node: Node) -> Raised:
    """`SLICE`, by begins and sizes."""
    x, begin, size = node.input(0), node.integers(1), node.integers(2)
    stops = [_FAR if n < 0 else a + n for a, n in zip(begin, size, strict=True)]
    return _sliced(r, node, x, begin, stops, [1] * x.rank)


def _sliced(
    r: Raiser,
    node: Node,
    x: Raised,
    starts: Sequence[int],
    stops: Sequence[int],
    steps: Sequence[int],
) -> Raised:
    out = r.op(
        nn.SliceOp,
        r.value(x),
        starts=along(x.order, starts),
        stops=along(x.order, stops),
        steps=along(x.order, steps),
    )
    return settled(r, node, Raised(x.order, out))


def strided_slice(r: Raiser, node: Node) -> Raised:
    """`STRIDED_SLICE`, with all its masks."""
    x = node.input(0)
    found = slices_of(node, x.shape)
    starts: list[int] = []
    stops: list[int] = []
    steps: list[int] = []
    for start, stop, step in found.bounds(x.shape):
        steps.append(step)
        starts.append((0 if step > 0 else _FAR) if start is None else start)
        stops.append((_FAR if step > 0 else -_FAR) if stop is None else stop)
    taken = _sliced(r, node, x, starts, stops, steps)
    value, order = r.value(taken), taken.order
    if found.dropped:
        places = sorted(order[d] for d in found.dropped)
        value = r.op(nn.SqueezeOp, value, axes=places)
        left = [d for i, d in enumerate(order) if i not in found.dropped]
        order = tuple(sorted(left).index(d) for d in left)
    for axis in found.added:
        order, place = with_dimension(order, axis)
        value = r.op(nn.UnsqueezeOp, value, axes=[place])
    return Raised(order, value)


def tile(r: Raiser, node: Node) -> Raised:
    """`TILE`."""
    x = node.input(0)
    out = r.op(nn.TileOp, r.value(x), repeats=along(x.order, node.integers(1)))
    return settled(r, node, Raised(x.order, out))


def pad(r: Raiser, node: Node) -> Raised:
    """`PAD` with real 0 of the result, or `PADV2` with a number."""
    x = settled(r, node, node.input(0))
    amounts = node.array(1).reshape(-1, 2)
    low, high = (along(x.order, [int(n) for n in amounts[:, k]]) for k in (0, 1))
    fill: dict[str, Any] = {}
    if node.has(2):
        number, own = node.array(2).reshape(-1)[0], params_of(x)
        if own is not None:
            fill["value"] = (int(number) - own.zero_point) * own.scale
        else:
            fill["value"] = float(number)
    return Raised(x.order, r.op(nn.PadOp, r.value(x), low=low, high=high, **fill))


def mirror_pad(r: Raiser, node: Node) -> Raised:
    """`MIRROR_PAD`: a border that is not repeated, or that is."""
    x = node.input(0)
    amounts = node.array(1).reshape(-1, 2)
    low = [int(n) for n in along(x.order, amounts[:, 0].tolist())]
    high = [int(n) for n in along(x.order, amounts[:, 1].tolist())]
    value = r.value(x)
    if str(node.option("mode", "REFLECT")) == "REFLECT":
        out = r.op(nn.PadOp, value, low=low, high=high, mode="reflect")
        return settled(r, node, Raised(x.order, out))
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        size = shape_of(value)[axis]
        if not before and not after:
            continue
        if size < 0:
            raise Unraisable("dynamic-shape", "it repeats a border of unknown extent")
        where = np.pad(np.arange(size), (before, after), mode="symmetric").astype(np.int64)
        value = r.op(nn.GatherOp, value, r.constant(where, i64), axis=axis)
    return settled(r, node, Raised(x.order, value))


def reverse(r: Raiser, node: Node) -> Raised:
    """`REVERSE_V2`."""
    x = node.input(0)
    axes = sorted({x.order[axis % x.rank] for axis in node.integers(1)})
    return settled(r, node, Raised(x.order, r.op(nn.FlipOp, r.value(x), axes=axes)))


def _phases(kind: type[nn.DepthToSpaceOp | nn.SpaceToDepthOp]) -> Handler:
    def raise_it(r: Raiser, node: Node) -> Raised:
        order = channels_last(4)
        out = r.op(kind, r.value(node.input(0), order), block=node.number("block_size"))
        return settled(r, node, Raised(order, out))

    return raise_it


def broadcast_to(r: Raiser, node: Node) -> Raised:
    """`BROADCAST_TO`."""
    shape = node.integers(1)
    x = r.with_rank(node.input(0), len(shape))
    if not all_known(shape):
        raise Unraisable("dynamic-shape", "its shape is not known")
    out = r.op(nn.ExpandOp, r.value(x), shape=along(x.order, shape))
    return settled(r, node, Raised(x.order, out))


HANDLERS: Mapping[str, Handler] = {
    "TRANSPOSE": transpose,
    "CONCATENATION": concat,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "PACK": pack,
    "UNPACK": unpack,
    "SLICE": slice_,
    "STRIDED_SLICE": strided_slice,
    "TILE": tile,
    "PAD": pad,
    "PADV2": pad,
    "MIRROR_PAD": mirror_pad,
    "REVERSE_V2": reverse,
    "DEPTH_TO_SPACE": _phases(nn.DepthToSpaceOp),
    "SPACE_TO_DEPTH": _phases(nn.SpaceToDepthOp),
    "BROADCAST_TO": broadcast_to,
}
