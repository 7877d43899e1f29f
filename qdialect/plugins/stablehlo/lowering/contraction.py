"""Convolutions and matrix products: i8 times i8 into i32, on the product of the scales.

Layouts are attributes there, so that values are taken in whatever order they are laid out;
channels come last in results and in weights, where engines find parameters along a dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.passes.rescale.split_rescale import accumulator_qparams
from qdialect.plugins.common.lowering.emitter import storage_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import (
    LaidOut,
    Order,
    channels_last,
    identity_order,
    matrix_shapes,
)
from qdialect.plugins.common.lowering.preconditions import exact_result, is_on_codes, quantized
from qdialect.plugins.common.lowering.windows import turned
from qdialect.plugins.stablehlo.dialect import ConvolutionDimensionsAttr, DotDimensionsAttr
from qdialect.plugins.stablehlo.lowering.emitter import (
    Emitter,
    long,
    longs,
    pairs,
    supported_qparams,
)
from qdialect.plugins.stablehlo.lowering.rescale import centered, moved

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sides(
    e: Emitter, op: Operation, operands: Sequence[LaidOut]
) -> tuple[QParams, LaidOut, LaidOut]:
    """Check both factors and the bias; the parameters of the sums, and factors that are
    stored alike, the second with zero points 0, as StableHLO wants them."""
    exact_result(e, op)
    x, w = operands[:2]
    lhs, rhs = quantized(x, "input"), quantized(w, "weight")
    behavior = e.session.behaviors.get(op)
    assert behavior is not None and behavior.accumulator is not None
    if not lhs.is_per_tensor:
        raise Unlowerable("axis", "its input has parameters along a dimension")
    sums = accumulator_qparams(op, behavior.accumulator, lhs, rhs)
    if len(operands) > 2:
        bias = quantized(operands[2], "bias")
        expected = sums if sums.is_per_tensor else sums.with_axis(0)
        if bias != expected:
            raise Unlowerable(
                "bias", "its bias is no i32 on the scale of the sums", "run split-rescale"
            )
    if lhs.storage.spelling == rhs.storage.spelling and not any(rhs.zero_point_list()):
        return sums, x, w
    return sums, *_alike(e, x, w)


def _alike(e: Emitter, x: LaidOut, w: LaidOut) -> tuple[LaidOut, LaidOut]:
    """Both with zero points 0, in 8 bits if constant weights allow it, else in 16: the same
    numbers."""
    params = quantized(w)
    supported_qparams(params)
    if w.array is not None and quantized(x).storage.spelling == "i8":
        steps = w.array.astype(np.int64) - _along(params, w.rank)
        codes = steps.astype(np.int8)
        if (codes == steps).all():
            return x, LaidOut(w.shape, w.order, centered(params, "i8"), None, codes)
    return _wide(e, x), _wide(e, w)


def _along(params: QParams, rank: int) -> NDArray[np.int64]:
    """Zero points, as they repeat."""
    zeros = np.array(params.zero_point_list(), np.int64)
    if params.axis is not None:
        shape = [1] * rank
        shape[params.axis] = -1
        zeros = zeros.reshape(shape)
    return zeros


def _wide(e: Emitter, x: LaidOut) -> LaidOut:
    """Codes less their zero points, in 16 bits."""
    params = quantized(x)
    if params.storage.width > 8:
        raise Unlowerable("storage", f"a factor is stored as {params.storage}", "8-bit storage")
    wide = centered(params, "i16")
    value = moved(e, e.value_of(x, x.order), e.element(wide, x.order))
    return LaidOut(x.shape, x.order, wide, value)


def _factors(
    e: Emitter, op: Operation, operands: Sequence[LaidOut]
) -> tuple[QParams | None, LaidOut, LaidOut]:
    """See `sides`; floats have no parameters."""
    if is_on_codes(op):
        return sides(e, op, operands)
    x, w = operands[:2]
    if not isinstance(storage_of(x), AnyFloat):
        raise Unlowerable("type", f"it multiplies {storage_of(x)}")
    return None, x, w


def _element(e: Emitter, sums: QParams | None, x: LaidOut, order: Order) -> Attribute:
    return storage_of(x) if sums is None else e.element(sums, order)


def biased(
    e: Emitter,
    value: SSAValue,
    operands: Sequence[LaidOut],
    layout: tuple[QParams | None, Order, int],
) -> SSAValue:
    """`value` plus the bias; `layout`: the qparams of the sums, the order of `value`, and the
    dimension that the bias varies along."""
    if len(operands) < 3:
        return value
    sums, order, along = layout
    bias, place, rank = operands[2], order.index(along), len(order)
    element = _element(e, sums, bias, order)
    shape = [1] * rank
    shape[place] = bias.shape[0]
    extents = shape_of(value)
    if bias.array is not None:
        addend = e.const(bias.array.reshape(shape), element)
        where = range(rank)
    else:
        addend, where = e.value_of(bias), range(place, place + 1)
    if shape_of(addend) != extents:
        addend = e.op(
            "broadcast_in_dim", [addend], extents, element, broadcast_dimensions=longs(where)
        )
    return e.op("add", [value, addend], extents, element)


def convolution(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.conv1d`, `nn.conv2d`, `nn.conv3d`, in groups or not."""
    sums, x, w = _factors(e, op, operands)
    assert isinstance(op, NNOp)
    v, shape = op.values, shape_of(op.results[0])
    spatial, order = x.rank - 2, channels_last(x.rank)
    kernel = (*range(2, x.rank), 1, 0)
    names = [str(d) for d in range(spatial)]
    # Which role each dimension of `nn` has, in the order of `x`.
    roles = ["b", "f", *names]
    # A known bug of IREE, `stablehlo-depthwise`: not channels last, where each is a group.
    input_order = identity_order(x.rank) if v["groups"] == x.shape[1] > 1 else x.order
    input_roles = tuple(roles[d] for d in input_order)
    dimensions = ConvolutionDimensionsAttr((input_roles, (*names, "i", "o"), ("b", *names, "f")))
    extents = [shape[d] for d in order]
    value = e.op(
        "convolution",
        [e.value_of(x, input_order), e.value_of(w, kernel)],
        extents,
        _element(e, sums, x, order),
        window_strides=longs(v["strides"]),
        padding=pairs(list(zip(v["pads"][:spatial], v["pads"][spatial:], strict=True))),
        rhs_dilation=longs(v["dilations"]),
        dimension_numbers=dimensions,
        feature_group_count=long(v["groups"]),
        batch_group_count=long(1),
    )
    value = biased(e, value, operands, (sums, order, 1))
    return e.result(value, order, sums, shape)


def fully_connected(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.fully_connected`: the weight has a row for each result."""
    sums, x, w = _factors(e, op, operands)
    shape, order = shape_of(op.results[0]), identity_order(2)
    element = _element(e, sums, x, order)
    value = _dot(e, (e.value_of(x), e.value_of(w)), (0, (1,), (1,)), shape, element)
    value = biased(e, value, operands, (sums, order, 1))
    return e.result(value, order, sums, shape)


def matmul(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.matmul`, its batches as they broadcast."""
    sums, a, b = sides(e, op, operands)
    result = shape_of(op.results[0])
    left, right = matrix_shapes(a.shape, b.shape)
    shape = (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])
    value = product(e, (a, b), shape, e.element(sums))
    return e.result(e.reshaped(value, result), identity_order(len(result)), sums, result)


def product(
    e: Emitter, factors: tuple[LaidOut, LaidOut], shape: Sequence[int], element: Attribute
) -> SSAValue:
    """Matrices in the last two dimensions of both, the others as they broadcast."""
    a, b = factors
    left, right = matrix_shapes(a.shape, b.shape)
    lhs, rhs = e.reshaped(e.value_of(a), left), e.reshaped(e.value_of(b), right)
    if prod(right[:-2]) == 1:
        # One matrix for all batches.
        rhs = e.reshaped(rhs, right[-2:])
        rows = (*left[:-1], right[-1])
        value = _dot(e, (lhs, rhs), (0, (len(left) - 1,), (0,)), rows, element)
        return e.reshaped(value, shape)
    batches = shape[:-2]
    rank = len(shape)
    lhs, rhs = (
        e.broadcast(
            LaidOut(s, identity_order(len(s)), q.params, v),
            (*batches, *s[-2:]),
            identity_order(rank),
        )
        for s, q, v in ((left, a, lhs), (right, b, rhs))
    )
    return _dot(e, (lhs, rhs), (len(batches), (rank - 1,), (rank - 2,)), shape, element)


def _dot(
    e: Emitter,
    factors: tuple[SSAValue, SSAValue],
    dimensions: tuple[int, tuple[int, ...], tuple[int, ...]],
    shape: Sequence[int],
    element: Attribute,
) -> SSAValue:
    """Batches are the first dimensions of both."""
    batches, left, right = dimensions
    numbers = DotDimensionsAttr((tuple(range(batches)), tuple(range(batches)), left, right))
    return e.op("dot_general", factors, shape, element, dot_dimension_numbers=numbers)


def transposed(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.conv_transpose1d`, `nn.conv_transpose2d`, `nn.conv_transpose3d` of floats: a convolution
    of what is spread out, with the kernel backwards."""
    if is_on_codes(op):
        raise Unlowerable("transposed", "StableHLO spreads out no codes")
    assert isinstance(op, NNOp)
    v, shape, (x, w) = op.values, shape_of(op.results[0]), operands[:2]
    spatial, groups, order = x.rank - 2, v["groups"], channels_last(x.rank)
    names = [str(d) for d in range(spatial)]
    pads: list[tuple[int, int]] = []
    for d in range(spatial):
        reach = (w.shape[d + 2] - 1) * v["dilations"][d]
        before = reach - v["pads"][d]
        spread = (x.shape[d + 2] - 1) * v["strides"][d] + 1
        pads.append((before, shape[d + 2] + reach - spread - before))
    dimensions = ConvolutionDimensionsAttr(
        (("b", "f", *names), ("o", "i", *names), ("b", *names, "f"))
    )
    value = e.op(
        "convolution",
        [e.value_of(x), _backwards(e, w, groups)],
        [shape[d] for d in order],
        storage_of(x),
        window_strides=longs([1] * spatial),
        padding=pairs(pads),
        lhs_dilation=longs(v["strides"]),
        rhs_dilation=longs(v["dilations"]),
        dimension_numbers=dimensions,
        feature_group_count=long(groups),
        batch_group_count=long(1),
    )
    value = biased(e, value, operands, (None, order, 1))
    return e.result(value, order, None, shape)


def _backwards(e: Emitter, w: LaidOut, groups: int) -> SSAValue:
    """[in, out / groups, kernel...] as [out, in / groups, kernel backwards...]."""
    if w.array is not None:
        array = turned(w.array, groups)
        return e.const(array, storage_of(w))
    kernel, (takes, gives) = w.shape[2:], w.shape[:2]
    value = e.reshaped(e.value_of(w), (groups, takes // groups, gives, *kernel))
    value = e.permuted(value, (0, 2, 1, *range(3, 3 + len(kernel))))
    value = e.reshaped(value, (groups * gives, takes // groups, *kernel))
    along = longs(range(2, w.rank))
    return e.op("reverse", [value], shape_of(value), storage_of(w), dimensions=along)
