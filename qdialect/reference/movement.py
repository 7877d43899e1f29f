"""Kernels of constants and of ops that copy elements.

Stored integers are copied as they are: qparams are the types' business. Concat
of operands whose qparams differ from the result's stores each operand anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from xdsl.ir import Attribute, Operation

from qdialect import ops as nn
from qdialect.errors import InputError
from qdialect.numerics.rounding import Rounding
from qdialect.ops.shapes import normalize_axis, reshape, slice_bounds
from qdialect.qparams import QParams
from qdialect.quant import quant_element
from qdialect.reference.elementwise import properties
from qdialect.reference.quantize import field, is_quantized, load, quantize, quantize_on, store
from qdialect.reference.real import Real
from qdialect.reference.values import Array, Evaluation, Kernel, constant, declared_shape, place


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
        own = tuple(_part(parameter, axis, stretch) for parameter in parameters)
        parts.append(_requantized(value, operand.type, own, target.qparams))
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
        own = field(source.qparams, value.shape)
        if all(np.all(a == b) for a, b in zip(own, target, strict=True)):
            return value
    real = load(value, kind)
    return quantize_on(real, scales, zero_points, qparams.storage, Rounding.HALF_EVEN)


KERNELS: Mapping[str, Kernel] = {
    nn.ConstantOp.name: _constant,
    nn.ReshapeOp.name: _reshape,
    nn.ReshapeToOp.name: _reshape_to,
    nn.FlattenOp.name: _flatten,
    nn.TransposeOp.name: _transpose,
    nn.SliceOp.name: _slice,
    nn.PadOp.name: _pad,
    nn.ConcatOp.name: _concat,
}
