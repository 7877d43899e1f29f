"""Any op that only moves elements, by its declared index map.

    transpose, reshape       the order a value is laid out in; `RESHAPE`
    slice, flip, tile, ..    dimension by dimension: `SLICE`, `STRIDED_SLICE`, `REVERSE_V2`, `TILE`,
                             `RESIZE_NEAREST_NEIGHBOR`, or `GATHER` of the indices that are read
    pads                     `PAD`, `PADV2`, `MIRROR_PAD`
    pixels                   `DEPTH_TO_SPACE`, `SPACE_TO_DEPTH`, where blocks lie as in a file
    others                   a `GATHER` of the flat operands

Kernels copy codes and some ignore that scales differ, so all values have one type.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.emitter import element_of, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import (
    LaidOut,
    channels_last,
    identity_order,
    reordered,
)
from qdialect.plugins.common.lowering.movement import flat_index, laid_out_as, movement
from qdialect.plugins.common.lowering.preconditions import common_order
from qdialect.plugins.tflite.lowering.emitter import Emitter
from qdialect.plugins.tflite.lowering.slices import sliced, taken
from qdialect.plugins.tflite.lowering.windows import surrounded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams.maps import IndexMap

ACTIVATION = "fused_activation_function"
Group = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions before and after a reshape that have as many elements."""


def moved(e: Emitter, phi: IndexMap, operands: Sequence[LaidOut]) -> LaidOut:
    """The operands (of one storage) moved by `phi`; the result has no parameters yet."""
    from qdialect.algebra.qparams.maps import Concat, Pad, Reshape
    from qdialect.algebra.qparams.maps.separable import Separable

    shape = phi.output_shape([x.shape for x in operands])
    if isinstance(phi, Reshape) and not operands[0].is_constant:
        return regrouped(e, operands[0], shape)
    renamed = laid_out_as(moved, e, phi, operands, shape)
    if renamed is not None:
        return renamed
    x = operands[0]
    if isinstance(phi, Pad):
        return _padded(e, phi, x, shape)
    if isinstance(phi, Concat):
        order = common_order(operands, len(shape))
        parts = [e.value_of(part, order) for part in operands]
        return LaidOut(shape, order, None, joined(e, parts, order.index(phi.axis), shape, order))
    if len(operands) == 1 and not phi.has_border and isinstance(phi, Separable):
        sources = [source for source in phi.sources(x.rank) if source is not None]
        if sources == list(range(x.rank)):
            return _by_dimension(e, phi, ranked(e, x, len(shape)), shape)
    return _gathered(e, phi, operands, shape)


def joined(
    e: Emitter, parts: Sequence[SSAValue], place: int, shape: Sequence[int], order: Sequence[int]
) -> SSAValue:
    """`CONCATENATION`."""
    if len(parts) == 1:
        return parts[0]
    return e.node(
        "CONCATENATION",
        parts,
        [shape[d] for d in order],
        element_of(parts[0]),
        axis=place,
        **{ACTIVATION: "NONE"},
    )


def _padded(e: Emitter, phi: Any, x: LaidOut, shape: tuple[int, ...]) -> LaidOut:
    value = e.value_of(x, x.order)
    pads = tuple(zip(reordered(phi.low, x.order), reordered(phi.high, x.order), strict=True))
    if phi.mode == "constant":
        return LaidOut(shape, x.order, None, surrounded(e, value, pads, float(phi.border_value)))
    if phi.mode == "reflect":
        paddings = e.const(np.array(pads, np.int32).reshape(-1, 2), i32)
        out = e.node(
            "MIRROR_PAD",
            [value, paddings],
            reordered(shape, x.order),
            element_of(value),
            mode="REFLECT",
        )
        return LaidOut(shape, x.order, None, out)
    if DYNAMIC in x.shape:
        raise Unlowerable("dynamic-shape", f"it pads an unknown extent ({phi.mode})")
    return _by_dimension(e, phi, x, shape)


def _by_dimension(e: Emitter, phi: Any, x: LaidOut, shape: tuple[int, ...]) -> LaidOut:
    """Each dimension by the indices that are read of it."""
    value = e.value_of(x, x.order)
    begin, end, steps = [0] * x.rank, list(x.extents), [1] * x.rank
    others: list[tuple[int, NDArray[np.int64]]] = []
    for dimension in range(x.rank):
        place = x.order.index(dimension)
        if x.shape[dimension] == DYNAMIC:
            if phi.index(dimension, 1) is not None:
                raise Unlowerable("dynamic-shape", "what it reads of an extent is not known")
            continue
        indices = phi.index(dimension, x.shape[dimension])
        if indices is None:
            continue
        index = np.asarray(indices, np.int64)
        first, step = int(index[0]), int(index[1] - index[0]) if index.size > 1 else 1
        if step > 0 and np.array_equal(index, first + step * np.arange(index.size)):
            begin[place], end[place], steps[place] = first, int(index[-1]) + 1, step
        else:
            others.append((place, index))
    value = sliced(e, value, begin, end, steps)
    for place, index in others:
        value = taken(e, value, place, index)
    return LaidOut(shape, x.order, None, value)


def _gathered(
    e: Emitter, phi: IndexMap, operands: Sequence[LaidOut], shape: tuple[int, ...]
) -> LaidOut:
    """Each element by its place in all operands flat, one after the other."""
    if phi.has_border:
        raise Unlowerable("border", "it fills a border that is no pad")
    if any(DYNAMIC in x.shape for x in operands):
        raise Unlowerable("dynamic-shape", "what it reads of an extent is not known")
    index, count = flat_index(phi, operands, shape)
    parts = [e.reshaped(e.value_of(x), (prod(x.shape),)) for x in operands if prod(x.shape)]
    source = joined(e, parts, 0, (count,), (0,))
    out = taken(e, source, 0, index.reshape(-1))
    return LaidOut(shape, identity_order(len(shape)), None, e.reshaped(out, shape))


def regrouped(e: Emitter, x: LaidOut, shape: tuple[int, ...]) -> LaidOut:
    """A reshape as `x` is laid out. Dimensions that are split or joined are groups, and groups may
    lie in any order: with channels last, [N, a b, H, W] as [N, a, b, H, W] is [N, H, W, a b] as
    [N, H, W, a, b]."""
    groups = _groups(x.shape, shape)
    if groups is None:
        order = identity_order(len(shape))
        return LaidOut(shape, order, None, e.reshaped(e.value_of(x), shape))

    # Dimensions of 1 stay beside what they lie beside, and new ones are behind the last group.
    keyed: list[tuple[int, Group]] = []
    for group in groups:
        places = [x.order.index(d) for d in group[0] if x.shape[d] != 1]
        places = places or [x.order.index(d) for d in group[0]]
        keyed.append((min(places) if places else keyed[-1][0] if keyed else -1, group))
    laid = [group for _, group in sorted(keyed, key=lambda pair: pair[0])]
    value = e.value_of(x, tuple(d for group in laid for d in group[0]))
    order = tuple(d for group in laid for d in group[1])
    return LaidOut(shape, order, None, e.reshaped(value, reordered(shape, order)))


def _groups(before: Sequence[int], after: Sequence[int]) -> list[Group] | None:
    """Dimensions of `before` and those of `after` with as many elements, in order, in as many
    groups as possible; None where unknown extents hide them."""
    groups: list[Group] = []
    i = j = 0
    while i < len(before) or j < len(after):
        left, right = [i] if i < len(before) else [], [j] if j < len(after) else []
        i, j = i + len(left), j + len(right)
        # An unknown extent is one on both sides, or the whole is left as it is.
        while (a := prod(before[d] for d in left)) != (b := prod(after[d] for d in right)):
            if min(a, b) < 0:
                return None
            if a < b and i < len(before):
                left, i = [*left, i], i + 1
            elif b < a and j < len(after):
                right, j = [*right, j], j + 1
            else:
                return None
        groups.append((tuple(left), tuple(right)))
    unknown = [d for d in before if d == DYNAMIC]
    return groups if len(unknown) <= 1 else None


_move = movement(moved)


def move(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> Sequence[LaidOut]:
    """Any op that is declared as a movement; operands on other scales than the result are rescaled
    first."""
    from qdialect.plugins.tflite.lowering.rescale import on_scale

    behavior = e.session.behaviors.get(op)
    if behavior is not None and behavior.requantizes_inputs and len(op.results) == 1:
        params = qparams_of(op.results[0])
        if params is not None:
            operands = [x if x.params is None else on_scale(e, x, params) for x in operands]
    results = _move(e, op, operands)
    return [results] if isinstance(results, LaidOut) else results


def reshape(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> Sequence[LaidOut]:
    """`nn.reshape`, `nn.flatten`: what rows of channels last were is remembered for a layer that
    takes them (`products.fully_connected`)."""
    results = move(e, op, operands)
    (x,), out = operands, results[0]
    rows = out.value is not None and x.value is not None and out.rank == 2 and x.rank > 2
    if rows and out.value is not None and x.order != identity_order(x.rank):
        e.flattened[out.value] = x
    return results


# -- pixels ------------------------------------------------------------------------------


def depth_to_space(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> Sequence[LaidOut]:
    """`nn.depth_to_space` of which channels are blocks first (`DCR`): `DEPTH_TO_SPACE`."""
    return _pixels(e, op, operands, "DEPTH_TO_SPACE")


def space_to_depth(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> Sequence[LaidOut]:
    """`nn.space_to_depth`: `SPACE_TO_DEPTH`."""
    return _pixels(e, op, operands, "SPACE_TO_DEPTH")


def _pixels(e: Emitter, op: Operation, operands: Sequence[LaidOut], name: str) -> Sequence[LaidOut]:
    assert isinstance(op, NNOp)
    (x,), shape, block = operands, shape_of(op.results[0]), op.values["block"]
    if op.values["mode"] != "DCR" or x.is_constant:
        return move(e, op, operands)
    if x.params != qparams_of(op.results[0]):
        raise Unlowerable("qparams", "its operands are not on one scale", "integerize")
    order = channels_last(4)
    value = e.value_of(x, order)
    out = e.node(name, [value], reordered(shape, order), element_of(value), block_size=block)
    return [e.result(out, order, x.params, shape)]
