"""RESHAPE, SQUEEZE and EXPAND_DIMS: dimensions are merged and split where they lie if they lie
beside each other, else the order of the file is restored first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.ir import ops as nn
from qdialect.ir.ops import ConstantOp, shape_of
from qdialect.ir.quant import UniformType, quant_element
from qdialect.plugins.common.lowering.laid_out import Order, identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised, all_known
from qdialect.plugins.tflite.dialect import TfliteNodeOp
from qdialect.plugins.tflite.raising.movement import with_dimension
from qdialect.plugins.tflite.raising.node import Node, params_of
from qdialect.plugins.tflite.raising.raiser import Handler, Raiser, along, settled
from qdialect.plugins.tflite.raising.values import Flattened

if TYPE_CHECKING:
    from numpy.typing import NDArray


def reshape(r: Raiser, node: Node) -> Raised:
    """`RESHAPE`, to the shape of its result, of its second input or of its option."""
    x, shape = node.input(0), list(node.shape())
    if not all_known(shape):
        shape = _stated(node, shape)
    if x.array is not None:
        return settled(r, node, _constant(x, node.shape()))
    if list(shape).count(-1) > 1:
        return _computed(r, node, x)
    flat = _flattened(r, node, x)
    if flat is not None:
        return flat
    return settled(r, node, _placed(r, x, shape))


def _flattened(r: Raiser, node: Node, x: Raised) -> Raised | None:
    """A reshape to rows that only weights read, of a value that lies in another order: nothing is
    turned here, but the weights are."""
    shape, known = node.shape(), x.shape
    identity = identity_order(x.rank)
    is_flat = len(shape) == 2 and x.rank > 2 and shape[0] == known[0] and x.order[0] == 0
    if not is_flat or x.order == identity or not all_known(known[1:]):
        return None
    if params_of(x) != node.params() or not _only_weights_read(node.op):
        return None
    columns = columns_of(x)
    value = r.append(nn.ReshapeOp(r.value(x), [known[0], len(columns)])).results[0]
    return Flattened((0, 1), value, columns=columns)


def columns_of(x: Raised) -> NDArray[Any]:
    """Where each element behind the first dimension is, in the order in which the value lies."""
    extents = along(x.order, x.shape)[1:]
    places = np.arange(prod(extents)).reshape(extents)
    return places.transpose([d - 1 for d in x.order[1:]]).reshape(-1)


def _only_weights_read(op: TfliteNodeOp) -> bool:
    """Whether all that reads a result are products with constant weights in no blocks."""
    uses = list(op.results[0].uses)
    for use in uses:
        user = use.operation
        if not isinstance(user, TfliteNodeOp) or user.op.data != "FULLY_CONNECTED" or use.index:
            return False
        weight = user.operands[1]
        element = quant_element(weight.type)
        source = weight.owner
        if isinstance(source, TfliteNodeOp) and source.op.data == "DEQUANTIZE":
            source = source.operands[0].owner
        if not isinstance(source, ConstantOp):
            return False
        if element is not None and element.qparams.layout.value == "block":
            return False
        if shape_of(weight)[1] != shape_of(op.results[0])[1]:
            return False
    return bool(uses)


def _stated(node: Node, shape: list[int]) -> list[int]:
    if node.has(1) and node.input(1).array is not None:
        return node.integers(1)
    if not node.has(1):
        stated = [int(n) for n in node.option("new_shape", ())]
        return stated or shape
    return shape


def _computed(r: Raiser, node: Node, x: Raised) -> Raised:
    if not node.has(1):
        raise Unraisable("dynamic-shape", "several extents of its result are not known")
    value = r.value(x, identity_order(x.rank))
    extents = r.value(node.input(1))
    out = r.op(nn.ReshapeToOp, value, extents, allowzero=True)
    return settled(r, node, Raised(identity_order(len(node.shape())), out))


def _constant(x: Raised, shape: Sequence[int]) -> Raised:
    assert x.array is not None
    element = x.element
    if isinstance(element, UniformType) and not element.qparams.is_per_tensor:
        params = element.qparams
        axis = _axis_of(params.axis, x.array.shape, shape)
        element = UniformType(params.with_axis(axis))
    array = x.array.reshape(shape)
    return replace(x, order=identity_order(array.ndim), array=array, element=element)


def _axis_of(axis: int | None, before: Sequence[int], after: Sequence[int]) -> int:
    """Where a dimension is in another shape of the same elements; Unraisable if it is split or
    merged."""
    if axis is not None:
        front, size = prod(before[:axis]), before[axis]
        for place, extent in enumerate(after):
            if extent == size and prod(after[:place]) == front:
                return place
    raise Unraisable("axis", "it mixes dimensions of different scales")


def groups_of(
    before: Sequence[int], after: Sequence[int]
) -> list[tuple[list[int], list[int]]] | None:
    """The dimensions that become dimensions, in the finest groups; None for other shapes or
    unknown ones."""
    if not all_known((*before, *after)) or 0 in before or prod(before) != prod(after):
        return None
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        left, right = ([i] if i < len(before) else []), ([j] if j < len(after) else [])
        one, other = (before[i] if left else 1), (after[j] if right else 1)
        if one == 1 != other and left:
            right, other = [], 1
        elif other == 1 != one and right:
            left, one = [], 1
        while one != other:
            if one < other:
                left.append(left[-1] + 1 if left else i)
                one *= before[left[-1]]
            else:
                right.append(right[-1] + 1 if right else j)
                other *= after[right[-1]]
        found.append((left, right))
        i += len(left)
        j += len(right)
    return found


def _placed(r: Raiser, x: Raised, shape: Sequence[int]) -> Raised:
    """A reshape of the value as it lies, if the dimensions that merge lie one after the other."""
    known = x.shape
    if list(shape).count(-1) == 1 and all_known(known):
        rest = prod(n for n in shape if n != -1)
        shape = [prod(known) // rest if n == -1 else n for n in shape] if rest else shape
    found = None if x.order == identity_order(x.rank) else groups_of(known, shape)
    order = None if found is None else _order_behind(x.order, found, shape)
    if order is None:
        return r.reshaped(x, shape)
    value = r.value(x)
    extents = [0] * len(shape)
    for place, extent in zip(order, shape, strict=True):
        extents[place] = extent
    out = value
    if list(shape_of(value)) != extents:
        out = r.append(nn.ReshapeOp(value, extents)).results[0]
    return Raised(order, out)


def _order_behind(
    order: Order, groups: Sequence[tuple[list[int], list[int]]], shape: Sequence[int]
) -> Order | None:
    """The order of the result if each group lies together and in its order."""
    starts: list[tuple[float, list[int]]] = []
    last = -1.0
    for left, right in groups:
        places = [order[d] for d in left]
        if places and places != list(range(places[0], places[0] + len(places))):
            return None
        # A dimension of extent 1 that comes from nowhere lies behind the one before it.
        last = float(places[0]) if places else last + 1e-3
        if right:
            starts.append((last, right))
    found = [0] * len(shape)
    place = 0
    for _, right in sorted(starts, key=lambda start: start[0]):
        for d in right:
            found[d] = place
            place += 1
    return tuple(found) if place == len(shape) else None


def squeeze(r: Raiser, node: Node) -> Raised:
    """`SQUEEZE`: the dimensions it names, or all of extent 1."""
    x = node.input(0)
    named = [int(axis) % x.rank for axis in node.option("squeeze_dims", ())]
    if not named and not all_known(x.shape):
        raise Unraisable("dynamic-shape", "which dimensions have extent 1 is not known")
    axes = sorted(set(named)) or [d for d, n in enumerate(x.shape) if n == 1]
    if x.array is not None:
        return settled(r, node, _constant(x, [n for d, n in enumerate(x.shape) if d not in axes]))
    if not axes:
        return settled(r, node, x)
    places = sorted(x.order[axis] for axis in axes)
    left = [place for d, place in enumerate(x.order) if d not in axes]
    order = tuple(sorted(left).index(place) for place in left)
    return settled(r, node, Raised(order, r.op(nn.SqueezeOp, r.value(x), axes=places)))


def expand_dims(r: Raiser, node: Node) -> Raised:
    """`EXPAND_DIMS`: a new dimension."""
    x = node.input(0)
    axis = node.integers(1)[0] % (x.rank + 1)
    if x.array is not None:
        shape = [*x.shape]
        shape.insert(axis, 1)
        return settled(r, node, _constant(x, shape))
    order, place = with_dimension(x.order, axis)
    return settled(r, node, Raised(order, r.op(nn.UnsqueezeOp, r.value(x), axes=[place])))


HANDLERS: Mapping[str, Handler] = {
    "RESHAPE": reshape,
    "SQUEEZE": squeeze,
    "EXPAND_DIMS": expand_dims,
}
