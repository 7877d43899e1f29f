"""Ops that move elements: what StableHLO says along its dimensions, along those of the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.dialects.attributes import integer_of, integers_of
from qdialect.ir.ops import ReshapeOp, shape_of
from qdialect.ir.ops.reduction import ReduceOp
from qdialect.ir.quant import element_type, quant_element
from qdialect.plugins.common.lowering.laid_out import identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.stablehlo.raising.elementwise import common_order
from qdialect.plugins.stablehlo.raising.facts import qparams, record, scalar_of
from qdialect.plugins.stablehlo.raising.raiser import Handler, Raiser


def along(x: Raised, items: Sequence[int]) -> list[int]:
    """What is said dimension by dimension of StableHLO, in the dimensions of the value."""
    found = [0] * x.rank
    for place, item in zip(x.order, items, strict=True):
        found[place] = item
    return found


def _same_type(op: Operation) -> None:
    """Unraisable unless operands and result have one element type."""
    kinds = {_moved_element(v) for v in (*op.operands, *op.results)}
    if len(kinds) > 1:
        raise Unraisable("type", "it moves elements of different types together")


def _moved_element(value: SSAValue) -> object:
    """The element type, but for the dimension that parameters vary along."""
    element = quant_element(value.type)
    if element is None or element.qparams.axis is None:
        return element_type(value.type)
    params = element.qparams
    return (params.storage, tuple(params.scale_list()), tuple(params.zero_point_list()))


def _transpose(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """Another order, and no op."""
    (x,), perm = operands, integers_of(op, "permutation")
    if x.array is not None:
        raise Unraisable("constant", "its operand is a constant that is not computed")
    return Raised(tuple(x.order[p] for p in perm), x.value)


def _reshape(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    (x,), shape = operands, shape_of(op.results[0])
    params = qparams(x)
    if params is not None and not params.is_per_tensor:
        raise Unraisable("axis", "it reshapes what has parameters along a dimension")
    if x.shape == tuple(shape):
        return x
    value = r.value(x, identity_order(x.rank))
    return Raised(identity_order(len(shape)), extended(r, value, shape))


def extended(r: Raiser, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """`value` with other extents of the same elements; a reduction keeps its dimensions where
    that gives them."""
    if shape_of(value) == tuple(shape):
        return value
    owner = value.owner
    if isinstance(owner, ReduceOp) and not owner.values["keepdims"]:
        axes = owner.values["axes"]
        kept = [1 if d in axes else n for d, n in enumerate(shape_of(owner.input))]
        if kept == list(shape):
            element = element_type(value.type)
            return r.op(type(owner), owner.input, axes=axes, keepdims=True, element=element)
    return r.append(ReshapeOp(value, list(shape))).results[0]


def _broadcast(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    (x,), shape = operands, shape_of(op.results[0])
    dims = integers_of(op, "broadcast_dimensions")
    params = qparams(x)
    if params is not None and not params.is_per_tensor:
        raise Unraisable("axis", "it repeats what has parameters along a dimension")
    if len(dims) == len(shape):
        # Dimensions stay where the value has them.
        order = tuple(x.order[dims.index(d)] for d in range(x.rank))
        extents = [0] * x.rank
        for place, n in zip(order, shape, strict=True):
            extents[place] = n
        value = r.value(x)
        if shape_of(value) != tuple(extents):
            value = r.op(nn.ExpandOp, value, shape=extents)
        return Raised(order, value)
    # In the order of the result's dimensions, with an extent 1 where it has more.
    order = tuple(sorted(dims).index(d) for d in dims)
    value = r.value(x, order)
    placed = [1] * len(shape)
    for d, n in zip(dims, x.shape, strict=True):
        placed[d] = n
    value = extended(r, value, placed)
    if tuple(placed) != tuple(shape):
        value = r.op(nn.ExpandOp, value, shape=list(shape))
    return Raised(identity_order(len(shape)), value)


def _slice(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    (x,) = operands
    starts, stops, steps = (
        along(x, integers_of(op, name)) for name in ("start_indices", "limit_indices", "strides")
    )
    return Raised(x.order, r.op(nn.SliceOp, r.value(x), starts=starts, stops=stops, steps=steps))


def _starts(op: Operation, operands: Sequence[Raised], sizes: Sequence[int]) -> list[int]:
    """Constant start indices, moved so that the slice is inside."""
    numbers = [scalar_of(index) for index in operands]
    if any(n is None for n in numbers):
        raise Unraisable("indices", "where it begins is known at run time only")
    shape = shape_of(op.operands[0])
    bounds = zip(numbers, sizes, shape, strict=True)
    return [min(max(int(cast("Any", n)), 0), extent - size) for n, size, extent in bounds]


def _dynamic_slice(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    x, *indices = operands
    sizes = integers_of(op, "slice_sizes")
    first = _starts(op, indices, sizes)
    starts = along(x, first)
    stops = along(x, [a + n for a, n in zip(first, sizes, strict=True)])
    out = r.op(nn.SliceOp, r.value(x), starts=starts, stops=stops, steps=[1] * x.rank)
    return Raised(x.order, out)


def _dynamic_update_slice(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    x, update, *indices = operands
    starts = along(x, _starts(op, indices, update.shape))
    values = [r.value(x), r.value(update, x.order)]
    out = r.op(nn.InsertOp, *values, starts=starts, steps=[1] * x.rank)
    return Raised(x.order, out)


def _pad(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """With one number; where it is negative, elements are cut off."""
    x, fill = operands
    _same_type(op)
    low, high = (along(x, integers_of(op, f"edge_padding_{side}")) for side in ("low", "high"))
    if any(integers_of(op, "interior_padding")):
        raise Unraisable("pads", "it puts numbers between elements")
    number = scalar_of(fill)
    if number is None:
        raise Unraisable("pads", "what it pads with is known at run time only")
    if isinstance(element_type(op.results[0].type), IntegerType):
        raise Unraisable("type", "nn pads real numbers")
    value = r.value(x)
    if min((*low, *high), default=0) < 0:
        extents = shape_of(value)
        starts = [max(-a, 0) for a in low]
        stops = [n - max(-b, 0) for n, b in zip(extents, high, strict=True)]
        value = r.op(nn.SliceOp, value, starts=starts, stops=stops, steps=[1] * x.rank)
        low, high = [max(a, 0) for a in low], [max(b, 0) for b in high]
    params = qparams(x)
    if params is None:
        out = r.op(nn.PadOp, value, low=low, high=high, value=float(number))
        return Raised(x.order, out)
    if not params.is_per_tensor:
        raise Unraisable("axis", "its scales vary along a dimension")
    return Raised(x.order, _padded_codes(r, value, params, int(number), (low, high)))


def _padded_codes(
    r: Raiser, value: SSAValue, params: QParams, code: int, pads: tuple[list[int], list[int]]
) -> SSAValue:
    """What the code stands for is what is padded with."""
    number = (code - params.zero_point) * params.scale
    return r.op(nn.PadOp, value, low=pads[0], high=pads[1], value=number)


def _concatenate(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    _same_type(op)
    order = common_order(operands, operands[0].rank)
    axis = order[integer_of(op, "dimension")]
    values = [r.value(x, order) for x in operands]
    first = quant_element(values[0].type)
    if first is not None and first.qparams.axis == axis:
        raise Unraisable("axis", "its parameters vary along the dimension that it joins")
    return Raised(order, r.op(nn.ConcatOp, *values, axis=axis))


def _reverse(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    (x,) = operands
    axes = [x.order[d] for d in integers_of(op, "dimensions")]
    return Raised(x.order, r.op(nn.FlipOp, r.value(x), axes=axes))


# -- gather --------------------------------------------------------------------------


def _gather(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """Rows along one dimension: an embedding, or a lookup in a table by the bits of codes."""
    x, indices = operands
    numbers = record(op, "dimension_numbers")
    sizes = integers_of(op, "slice_sizes")
    mapped, dropped = numbers["start_index_map"], numbers["collapsed_slice_dims"]
    offsets, vector = numbers["offset_dims"], numbers["index_vector_dim"] or 0
    if numbers["operand_batching_dims"] or len(mapped) != 1 or tuple(dropped) != tuple(mapped):
        raise Unraisable("gather", "it takes no rows along one dimension")
    axis = mapped[0]
    if any(size != n for d, (size, n) in enumerate(zip(sizes, x.shape, strict=True)) if d != axis):
        raise Unraisable("gather", "it takes parts of rows")
    rank = len(shape_of(op.results[0]))
    positions = [d for d in range(indices.rank) if d != vector]
    expected = (*range(axis), *range(axis + len(positions), rank))
    if tuple(offsets) != expected:
        raise Unraisable("gather", "rows are not where the index was")
    where = _indices(r, indices, int(vector), x.shape[int(axis)])
    if x.array is not None and x.rank == 1:
        table = _table(r, op, x, indices)
        if table is not None:
            return table
    order = identity_order(x.rank)
    value = r.value(x, order)
    return Raised(identity_order(rank), r.op(nn.GatherOp, value, where, axis=axis))


def _indices(r: Raiser, indices: Raised, vector: int, extent: int) -> SSAValue:
    """Indices without their last dimension of one, and inside: StableHLO moves what is outside
    to the nearest."""
    shape = tuple(n for d, n in enumerate(indices.shape) if d != vector)
    if indices.array is not None:
        inside = np.clip(indices.array.reshape(shape).astype(np.int64), 0, extent - 1)
        return r.constant(inside, i64)
    value = r.value(indices, identity_order(indices.rank))
    if shape_of(value) != shape:
        value = r.append(ReshapeOp(value, list(shape))).results[0]
    kind: Attribute = element_type(value.type)
    width = str(kind)[1:]
    if width not in ("8", "16", "32", "64"):
        raise Unraisable("indices", f"it is indexed by {kind}")
    dtype = np.dtype(f"i{int(width) // 8}")
    bounds = [r.constant(np.full((1,) * len(shape), n, dtype), kind) for n in (0, extent - 1)]
    return r.op(nn.MinimumOp, r.op(nn.MaximumOp, value, bounds[0]), bounds[1])


def _table(r: Raiser, op: Operation, entries: Raised, indices: Raised) -> Raised | None:
    """A lookup by `code - lowest code`, as `nn.table` is written in StableHLO."""
    source = _codes_of_index(op.operands[1])
    if source is None or entries.array is None:
        return None
    codes, lowest = source
    x = r.known.get(codes)
    element = quant_element(codes.type)
    if x is None or element is None or not element.qparams.is_per_tensor:
        return None
    storage = element.qparams.storage
    full = 1 << storage.width
    if entries.array.size != full or lowest != storage.full_range[0]:
        return None
    target = element_type(op.results[0].type)
    table = r.constant(np.ascontiguousarray(entries.array), target)
    return Raised(x.order, r.op(nn.TableOp, r.value(x), table, element=target))


def _codes_of_index(value: SSAValue) -> tuple[SSAValue, int] | None:
    """The quantized value whose bits, less a constant, are an index."""
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "stablehlo.reshape":
        owner = owner.operands[0].owner
    if not isinstance(owner, Operation) or owner.name != "stablehlo.subtract":
        return None
    left, right = (v.owner for v in owner.operands)
    if not isinstance(right, Operation) or not isinstance(left, Operation):
        return None
    if right.name == "stablehlo.broadcast_in_dim":
        inner = right.operands[0].owner
        right = inner if isinstance(inner, Operation) else right
    if right.name != "stablehlo.constant" or left.name != "stablehlo.convert":
        return None
    bits = left.operands[0].owner
    if not isinstance(bits, Operation) or bits.name != "stablehlo.bitcast_convert":
        return None
    from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

    number = right.properties.get("value")
    if not isinstance(number, DenseIntOrFPElementsAttr):
        return None
    return bits.operands[0], int(cast("Any", number).get_values()[0])


HANDLERS: Mapping[str, Handler] = {
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.pad": _pad,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
