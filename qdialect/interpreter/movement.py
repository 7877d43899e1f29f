"""Kernels of constants and of ops that copy elements, between channels and space too.

Stored integers are copied as they are: qparams are the types' business. Concat
of operands whose qparams differ from the result's stores each operand anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from xdsl.ir import Attribute, Operation

from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.errors import InputError
from qdialect.interpreter.quantize import (
    field,
    is_quantized,
    load,
    properties,
    quantize,
    quantize_on,
    real_zeros,
    store,
)
from qdialect.interpreter.real import Real
from qdialect.interpreter.values import Array, Evaluation, Kernel, constant, declared_shape, place
from qdialect.interpreter.windows import windows
from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import normalize_axis, reshape, slice_bounds
from qdialect.ir.quant import quant_element


def _constant(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    assert isinstance(op, nn.ConstantOp)
    return [constant(op, evaluation)]


def _reshape(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Row-major order under the shape of `shape`, or else of the result type."""
    target = properties(op).get("shape")
    if target is not None:
        return [operands[0].reshape(reshape(operands[0].shape, target))]
    return [operands[0].reshape(declared_shape(op.results[0].type))]


def _reshape_to(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The extents that the second operand holds: 0 copies one unless `allowzero`; InputError
    (`bad-shape`) where they do not fit."""
    x, target = operands[0], [int(n) for n in operands[1].reshape(-1)]
    shape = list(target)
    for d, n in enumerate(target):
        if n == 0 and not properties(op)["allowzero"] and d < x.ndim:
            shape[d] = x.shape[d]
    known = prod(n for n in shape if n != -1)
    if shape.count(-1) == 1 and known and not x.size % known:
        shape[shape.index(-1)] = x.size // known
    if min((0, *shape)) < 0 or prod(shape) != x.size:
        raise InputError(
            f"'{op.name}' cannot reshape {list(x.shape)} to {target}",
            where=place(op),
            code="bad-shape",
        )
    return [x.reshape(shape)]


def _flatten(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Two dimensions, split at `axis`."""
    x = operands[0]
    axis = normalize_axis(properties(op)["axis"], x.ndim, past_end=True)
    return [x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))]


def _transpose(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Result dimension k is input dimension perm[k]."""
    return [operands[0].transpose(properties(op)["perm"])]


def _slice(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """x[starts:stops:steps]"""
    v, x = properties(op), operands[0]
    bounds = zip(x.shape, v["starts"], v["stops"], v["steps"], strict=True)
    # A stop of -1 out of `slice_bounds` means "before the first element".
    places = (range(*slice_bounds(*bound)) for bound in bounds)
    return [x[tuple(_as_slice(place) for place in places)]]


def _as_slice(places: range) -> slice:
    stop = places.stop if places.stop >= 0 else None
    return slice(places.start, stop, places.step) if len(places) else slice(0)


def _pad(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """`low` and `high` elements around each dimension; constant padding is `value`
    in real units, quantized half even with the result's qparams."""
    v, x = properties(op), operands[0]
    widths = list(zip(v["low"], v["high"], strict=True))
    if v["mode"] != "constant":
        return [np.pad(x, widths, v["mode"])]
    result = np.empty(tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)), x.dtype)
    element = quant_element(op.results[0].type)
    if element is None:
        result[...] = v["value"]
    else:
        extents = field(element.qparams, result.shape)[0].shape
        fill = Real.floats(np.full(extents, v["value"]))
        result[...] = quantize(fill, element.qparams, Rounding.HALF_EVEN)
    result[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, widths, strict=True))] = x
    return [result]


def _concat(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Operands one after another; stored anew, half even, where qparams differ."""
    axis = normalize_axis(properties(op)["axis"], operands[0].ndim)
    if not is_quantized(op):
        return [np.concatenate(operands, axis)]
    kind = op.results[0].type
    target = quant_element(kind)
    if target is None:
        reals = (load(v, o.type) for v, o in zip(operands, op.operands, strict=True))
        parts = [store(real, kind, Rounding.HALF_EVEN, evaluation) for real in reals]
        return [np.concatenate(parts, axis)]
    total = sum(value.shape[axis] for value in operands)
    shape = (*operands[0].shape[:axis], total, *operands[0].shape[axis + 1 :])
    parameters = field(target.qparams, shape)
    parts, begin = list[Array](), 0
    for value, operand in zip(operands, op.operands, strict=True):
        stretch = slice(begin, begin + value.shape[axis])
        parameters_here = tuple(_part(parameter, axis, stretch) for parameter in parameters)
        parts.append(_requantized(value, operand.type, parameters_here, target.qparams))
        begin = stretch.stop
    return [np.concatenate(parts, axis)]


def _part(parameter: Array, axis: int, stretch: slice) -> Array:
    if parameter.shape[axis] == 1:
        return parameter
    return parameter[(slice(None),) * axis + (stretch,)]


def _requantized(
    value: Array, kind: Attribute, target: tuple[Array, ...], qparams: QParams
) -> Array:
    """`value` of type `kind` under the (scales, zero points) `target` on the storage of
    `qparams`; itself if those are its own."""
    scales, zero_points = target
    source = quant_element(kind)
    if source is not None and source.qparams.storage == qparams.storage:
        parameters_here = field(source.qparams, value.shape)
        if all(np.all(a == b) for a, b in zip(parameters_here, target, strict=True)):
            return value
    real = load(value, kind)
    return quantize_on(real, scales, zero_points, qparams.storage, Rounding.HALF_EVEN)


def _squeeze(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.squeeze(operands[0], tuple(properties(op)["axes"]))]


def _unsqueeze(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.expand_dims(operands[0], tuple(properties(op)["axes"]))]


def _expand(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    shape = np.broadcast_shapes(operands[0].shape, tuple(properties(op)["shape"]))
    return [np.broadcast_to(operands[0], shape)]


def _tile(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.tile(operands[0], properties(op)["repeats"])]


def _repeat(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    x = operands[0]
    for axis, count in enumerate(properties(op)["repeats"]):
        x = np.repeat(x, count, axis)
    return [x]


def _flip(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.flip(operands[0], tuple(properties(op)["axes"]))]


def _split(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    v = properties(op)
    return np.split(operands[0], np.cumsum(v["sizes"])[:-1], v["axis"])


# -- between channels and space ---------------------------------------------------


def _depth_to_space(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    """y[n, c, h * r + i, w * r + j] = x[n, channel(c, i, j), h, w]"""
    x, r = operands[0], properties(op)["block"]
    n, channels, h, w = x.shape
    result = np.empty((n, channels // (r * r), h * r, w * r), x.dtype)
    for i, j, chosen in _phases(op, channels // (r * r)):
        result[:, :, i::r, j::r] = x[:, chosen]
    return [result]


def _space_to_depth(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    """y[n, channel(c, i, j), h, w] = x[n, c, h * r + i, w * r + j]"""
    x, r = operands[0], properties(op)["block"]
    n, channels, h, w = x.shape
    result = np.empty((n, channels * r * r, h // r, w // r), x.dtype)
    for i, j, chosen in _phases(op, channels):
        result[:, chosen] = x[:, :, i::r, j::r]
    return [result]


def _phases(op: Operation, channels: int) -> list[tuple[int, int, slice]]:
    """Row and column in the block, and the channels of the deep side that hold it."""
    v = properties(op)
    r: int = v["block"]
    found: list[tuple[int, int, slice]] = []
    for i in range(r):
        for j in range(r):
            phase = i * r + j
            if v["mode"] == "DCR":
                chosen = slice(phase * channels, (phase + 1) * channels)
            else:
                chosen = slice(phase, channels * r * r, r * r)
            found.append((i, j, chosen))
    return found


def _im2col(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Windows as columns; padding is real 0, the zero point of each stored cell."""
    v, x = properties(op), operands[0]
    top, left, bottom, right = v["pads"]
    element = quant_element(op.operands[0].type)
    if element is not None:
        zeros = np.broadcast_to(real_zeros(element.qparams, x.shape), x.shape)
        filled = np.pad(zeros, ((0, 0), (0, 0), (top, bottom), (left, right)), "edge")
        filled = filled.astype(x.dtype)
        filled[:, :, top : top + x.shape[2], left : left + x.shape[3]] = x
        x, top, left, bottom, right = filled, 0, 0, 0, 0
    pads = (top, left, bottom, right)
    view = windows(x, v["kernel"], v["strides"], pads, v["dilations"], 0)
    n, channels, kh, kw, oh, ow = view.shape
    return [view.reshape(n, channels * kh * kw, oh * ow)]


_ROUND: Mapping[str, Callable[[float], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
}


def _resize_nearest(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    """Each dimension reads the nearest index; coordinates in f32."""
    v, x = properties(op), operands[0]
    for axis, size in enumerate(x.shape):
        if v.get("sizes") is not None:
            out = int(v["sizes"][axis])
            scale = np.float32(out) / np.float32(size) if size else np.float32(1)
        else:
            scale = np.float32(v["scales"][axis])
            out = math.floor(np.float32(size) * scale)
        coordinates = (_coordinate(j, scale, size, out, v["coordinates"]) for j in range(out))
        nearest = [_ROUND[v["nearest"]](float(at)) for at in coordinates]
        x = np.take(x, np.array([min(max(i, 0), size - 1) for i in nearest], np.int64), axis)
    return [x]


def _coordinate(j: int, scale: np.float32, size: int, out: int, mode: str) -> np.float32:
    """Where in the input result index j lies."""
    if mode == "asymmetric":
        return np.float32(j) / scale
    if mode == "half_pixel":
        return (np.float32(j) + np.float32(0.5)) / scale - np.float32(0.5)
    if out == 1:
        return np.float32(0)
    return np.float32(j) * np.float32(size - 1) / np.float32(out - 1)


KERNELS: Mapping[str, Kernel] = {
    nn.ConstantOp.name: _constant,
    nn.ReshapeOp.name: _reshape,
    nn.ReshapeToOp.name: _reshape_to,
    nn.FlattenOp.name: _flatten,
    nn.TransposeOp.name: _transpose,
    nn.SliceOp.name: _slice,
    nn.PadOp.name: _pad,
    nn.ConcatOp.name: _concat,
    nn.SqueezeOp.name: _squeeze,
    nn.UnsqueezeOp.name: _unsqueeze,
    nn.ExpandOp.name: _expand,
    nn.TileOp.name: _tile,
    nn.RepeatOp.name: _repeat,
    nn.FlipOp.name: _flip,
    nn.SplitOp.name: _split,
    nn.DepthToSpaceOp.name: _depth_to_space,
    nn.SpaceToDepthOp.name: _space_to_depth,
    nn.Im2colOp.name: _im2col,
    nn.ResizeNearestOp.name: _resize_nearest,
}
