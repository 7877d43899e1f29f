"""`tosa.resize` as the op of `nn` that reads the same pixels with the same weights.

TOSA states where each result lies as a fraction, `nn` how coordinates are transformed, so each
transformation is tried. A bilinear resize of integers is not divided by its weights: its result
has the scale of the operand over their sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.dialects.attributes import keyword_of
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.base import NNOp, ranked
from qdialect.ir.ops.resize import (
    LINEAR_COORDINATES,
    NEAREST,
    NEAREST_COORDINATES,
    nearest_indices,
    ratios,
)
from qdialect.ir.quant import UniformType
from qdialect.plugins.common.lowering.laid_out import channels_last
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised, all_known
from qdialect.plugins.tosa.raising.facts import numbers
from qdialect.plugins.tosa.raising.movement import as_typed
from qdialect.plugins.tosa.raising.raiser import Handler, Raiser


def resize(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """Nearest or bilinear, with channels last."""
    x, order = operands[0], channels_last(4)
    scale, offset = numbers(op, 1, r.session), numbers(op, 2, r.session)
    out = shape_of(op.results[0])
    if not all_known((*x.shape, *out)):
        raise Unraisable("dynamic-shape", "its shape is not known")
    sizes = (out[0], out[3], out[1], out[2])
    shape = tuple(x.shape[d] for d in (0, 3, 1, 2))
    places = [(scale[2 * d], scale[2 * d + 1], offset[d]) for d in (0, 1)]
    if keyword_of(op, "mode", "NEAREST_NEIGHBOR") != "BILINEAR":
        found = _nearest(shape, sizes, places)
        stored = as_typed(r, x, op.operands[0], order)
        return Raised(order, r.op(nn.ResizeNearestOp, stored, sizes=sizes, **found))
    found = _linear(shape, sizes, places)
    if not r.meanings.is_quantized(op.results[0]) and str(x.storage)[:1] == "f":
        return Raised(order, r.op(nn.ResizeLinearOp, r.plain(x, order), sizes=sizes, **found))
    if r.meanings.storage(op.operands[0]).width != 8:
        raise Unraisable("storage", "it weighs integers of 16 bits")
    source = QParams.per_tensor("i8", r.meanings.scale(op.operands[0]))
    sums = QParams.per_tensor("i32", source.scale / (places[0][0] * places[1][0]))
    stored = r.typed(x, source, order)
    made = r.op(nn.ResizeLinearOp, stored, sizes=sizes, element=UniformType(sums), **found)
    return Raised(order, made)


def _nearest(
    shape: tuple[int, ...], sizes: tuple[int, ...], places: Sequence[tuple[int, int, int]]
) -> dict[str, Any]:
    """The properties with which the same pixels are read."""
    expected = [
        _read(size, count, place)
        for size, count, place in zip(shape[2:], sizes[2:], places, strict=True)
    ]
    for coordinates in NEAREST_COORDINATES:
        for nearest in NEAREST:
            chosen = {"coordinates": coordinates, "nearest": nearest}
            indices = nearest_indices(shape, {"sizes": sizes, **chosen}).indices[2:]
            read = [
                tuple(range(size)) if found is None else found
                for size, found in zip(shape[2:], indices, strict=True)
            ]
            if read == expected:
                return chosen
    raise Unraisable("pixels", "no transformation of coordinates reads the same pixels")


def _read(size: int, count: int, place: tuple[int, int, int]) -> tuple[int, ...]:
    """The pixels that TOSA reads along a dimension."""
    above, below, offset = place
    at = np.arange(count) * below + offset
    nearest = at // above + (2 * (at % above) >= above)
    return tuple(np.clip(nearest, 0, size - 1).tolist())


def _linear(
    shape: tuple[int, ...], sizes: tuple[int, ...], places: Sequence[tuple[int, int, int]]
) -> dict[str, Any]:
    """The properties with which results lie at the same fractions, in the same parts."""
    value = Block(arg_types=[ranked(f32, shape)]).args[0]
    for coordinates in LINEAR_COORDINATES:
        op: NNOp = nn.ResizeLinearOp(value, sizes=sizes, coordinates=coordinates)
        found = ratios(op)
        op.erase(safe_erase=False)
        if found is None:
            continue
        pairs = zip(found, places, sizes[2:], strict=True)
        if all(_is_same(tuple(ours), place, count) for ours, place, count in pairs):
            return {"coordinates": coordinates}
    raise Unraisable("weights", "no transformation of coordinates gives the same weights")


def _is_same(ours: Sequence[int], place: Sequence[int], count: int) -> bool:
    """Whether results lie at the same places: of one result any step gives it."""
    return ours[0] == place[0] and ours[2] == place[2] and (count == 1 or ours[1] == place[1])


HANDLERS: Mapping[str, Handler] = {"resize": resize}
