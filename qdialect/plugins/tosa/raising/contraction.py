"""Convolutions and matrix products: sums in 32 bits, on the product of the scales.

A weight that is a constant may have any scale. It gets the one with which the sums have the scale
that is stated of them, or else that makes the rescale behind exact: m * 2**-k for each channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nextafter
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.quant import UniformType
from qdialect.plugins.common.lowering.laid_out import channels_last, identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tosa.raising.facts import constant_of, name_of, number, rescaling_of, windows
from qdialect.plugins.tosa.raising.raiser import Handler, Raiser

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORWARD = ("reshape", "slice", "identity")
"""Ops that leave the last dimension, of one kind of users, as it is."""


def convolution(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`conv2d`, `conv3d` and `depthwise_conv2d`."""
    x, w = operands[:2]
    name, rank = name_of(op), x.rank
    order = channels_last(rank)
    pad, stride, dilation = windows(op, "pad", "stride", "dilation")
    properties: dict[str, Any] = {
        "strides": stride,
        "dilations": dilation,
        "pads": (*pad[::2], *pad[1::2]),
    }
    channels = shape_of(op.results[0])[-1]
    groups = 1
    if name == "depthwise_conv2d":
        if w.array is None:
            raise Unraisable("weight", "the weight of its channels is no constant")
        height, width, groups, many = w.array.shape
        array = w.array.transpose(2, 3, 0, 1).reshape(groups * many, 1, height, width)
        w = Raised(identity_order(4), None, np.ascontiguousarray(array), w.element)
        weight_order = identity_order(4)
    else:
        weight_order = channels_last(rank)
    kind = nn.Conv3DOp if rank == 5 else nn.Conv2DOp
    if groups > 1 or name == "depthwise_conv2d":
        properties["groups"] = groups
    return _contracted(r, op, operands, (x, order), (w, weight_order), kind, channels, properties)


def transposed(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`transpose_conv2d`; weight [out, kernel, in]."""
    outer, stride = windows(op, "out_pad", "stride")
    if outer[0] > 0 or outer[2] > 0:
        raise Unraisable("pads", "it puts rows before the first that the kernel reaches")
    ends = [outer[1], outer[3]]
    properties: dict[str, Any] = {
        "strides": stride,
        "pads": (-outer[0], -outer[2], *(max(-end, 0) for end in ends)),
        "output_padding": tuple(max(end, 0) for end in ends),
    }
    if any(end >= step for end, step in zip(properties["output_padding"], stride, strict=True)):
        raise Unraisable("pads", "it puts more rows behind the last than its stride")
    x, w = operands[:2]
    channels = shape_of(op.results[0])[-1]
    return _contracted(
        r,
        op,
        operands,
        (x, channels_last(4)),
        (w, (1, 2, 3, 0)),
        nn.ConvTranspose2DOp,
        channels,
        properties,
    )


def _contracted(
    r: Raiser,
    op: Operation,
    operands: Sequence[Raised],
    x: tuple[Raised, tuple[int, ...]],
    w: tuple[Raised, tuple[int, ...]],
    kind: type[NNOp],
    channels: int,
    properties: dict[str, Any],
) -> Raised:
    (given, order), (weight, weight_order) = x, w
    if not is_sum(op):
        parts = [r.plain(given, order), r.plain(weight, weight_order)]
        bias = _float_bias(r, operands, channels)
        out = r.op(kind, *parts, *([] if bias is None else [bias]), **properties)
        return Raised(order, out)
    zeros = number(op, 3, r.session), number(op, 4, r.session)
    source = _operand_params(r, op, given, 0, zeros[0])
    along = 1 if kind is nn.ConvTranspose2DOp else 0
    params = _weight_params(r, op, weight, source, (along, channels, zeros[1]))
    scales = [source.scale * scale for scale in params.scale_list()]
    sums = (
        QParams.per_tensor("i32", scales[0])
        if params.is_per_tensor
        else QParams.per_axis("i32", 1, scales)
    )
    bias = _bias(r, op, operands, channels, sums)
    parts = [r.typed(given, source, order), r.typed(weight, params, weight_order)]
    out = r.op(
        kind, *parts, *([] if bias is None else [bias]), element=UniformType(sums), **properties
    )
    return Raised(order, out)


def is_sum(op: Operation) -> bool:
    """Whether an op sums integers; Unraisable where not in 32 bits, of 8-bit codes."""
    kinds = [str(_storage(value)) for value in (op.operands[0], op.operands[1], op.results[0])]
    if kinds[0] in ("f32", "f16", "bf16"):
        if len(set(kinds)) > 1:
            raise Unraisable("type", f"it sums {kinds[0]} in {kinds[2]}")
        return False
    if kinds[0] != "i8" or kinds[1] not in ("i8", "i4") or kinds[2] != "i32":
        raise Unraisable("storage", f"it sums products of {kinds[0]} and {kinds[1]} in {kinds[2]}")
    return True


def _storage(value: SSAValue) -> object:
    from qdialect.ir.quant import element_type, quant_element, storage_type

    element = quant_element(value.type)
    return element_type(value.type) if element is None else storage_type(element.qparams)


def _operand_params(r: Raiser, op: Operation, x: Raised, place: int, zero: int) -> QParams:
    present = x.params
    if (
        present is not None
        and present.is_per_tensor
        and present.zero_point == zero
        and present.storage.signed
    ):
        return present
    expected = r.meanings.params(op.operands[place], zero)
    return QParams.per_tensor(f"i{expected.storage.width}", expected.scale, zero)


def _weight_params(
    r: Raiser, op: Operation, w: Raised, source: QParams, place: tuple[int, int, int]
) -> QParams:
    """The qparams of the weight; `place` is its dimension of channels, their number and the
    zero point."""
    along, channels, zero = place
    if w.array is None:
        return _operand_params(r, op, w, 1, zero)
    stated = r.meanings.stated(op.operands[1])
    storage = f"i{r.meanings.storage(op.operands[1]).width}"
    if stated is not None and set(stated.zero_point_list()) == {zero}:
        scales = stated.scale_list()
    else:
        scales = [_factor(sums, source.scale) for sums in _sum_scales(r, op, channels)]
    if len(scales) == channels > 1 and len(set(scales)) > 1:
        return QParams.per_axis(storage, along, scales, [zero] * channels)
    return QParams.per_tensor(storage, scales[0], zero)


def _sum_scales(r: Raiser, op: Operation, channels: int) -> list[float]:
    """The scales of the sums: those with which a rescale behind them is that of the types, else
    what is stated of them, else any."""
    value = op.results[0]
    while True:
        users = [use.operation for use in value.uses]
        if len(users) != 1 or not users[0].results:
            break
        given = rescaling_of(users[0], r.session)
        if given is not None:
            target = r.meanings.scale(users[0].results[0])
            if len(given.pairs) in (1, channels):
                return [float(ratio) * target or target for ratio in given.ratios]
            break
        if name_of(users[0]) not in _FORWARD:
            break
        value = users[0].results[0]
        if shape_of(value)[-1:] != (channels,):
            break
    stated = r.meanings.stated(op.results[0])
    return [r.meanings.scale(op.results[0])] if stated is None else stated.scale_list()


def _factor(product: float, scale: float) -> float:
    """The double whose product with `scale` is `product`, or comes nearest."""
    found = product / scale
    for other in (found, nextafter(found, 0.0), nextafter(found, float("inf"))):
        if other * scale == product:
            return other
    return found


def _float_bias(r: Raiser, operands: Sequence[Raised], channels: int) -> SSAValue | None:
    bias = operands[2]
    if bias.array is not None:
        if not bias.array.any():
            return None
        array = np.ascontiguousarray(np.broadcast_to(bias.array, (channels,)))
        bias = Raised((0,), None, array, bias.element)
    elif bias.shape != (channels,):
        raise Unraisable("bias", "one bias is added to all channels")
    return r.plain(bias)


def _bias(
    r: Raiser, op: Operation, operands: Sequence[Raised], channels: int, sums: QParams
) -> SSAValue | None:
    """The bias on the scale of the sums; none where it is zero."""
    bias = operands[2]
    array: NDArray[Any] | None = constant_of(op.operands[2], r.session)
    if array is not None and not array.any():
        return None
    if array is not None:
        array = np.ascontiguousarray(np.broadcast_to(array, (channels,)))
        bias = Raised((0,), None, array, bias.element)
    elif bias.shape != (channels,):
        raise Unraisable("bias", "one bias is added to all channels")
    params = sums if sums.is_per_tensor else QParams.per_axis("i32", 0, sums.scale_list())
    return r.typed(bias, params)


def product(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`matmul` and, with the second operand transposed, `matmul_t`."""
    a, b = operands[:2]
    swapped = name_of(op) == "matmul_t"
    order = identity_order(3)
    turned = (0, 2, 1) if swapped else order
    if not is_sum(op):
        return Raised(order, r.op(nn.MatMulOp, r.plain(a, order), r.plain(b, turned)))
    zeros = number(op, 2, r.session), number(op, 3, r.session)
    lhs = _operand_params(r, op, a, 0, zeros[0])
    rhs = (
        _weight_params(r, op, b, lhs, (0, 1, zeros[1]))
        if b.array is not None
        else _operand_params(r, op, b, 1, zeros[1])
    )
    sums = QParams.per_tensor("i32", lhs.scale * rhs.scale)
    parts = [r.typed(a, lhs, order), r.typed(b, rhs, turned)]
    return Raised(order, r.op(nn.MatMulOp, *parts, element=UniformType(sums)))


HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(("conv2d", "conv3d", "depthwise_conv2d"), convolution),
    "transpose_conv2d": transposed,
    **dict.fromkeys(("matmul", "matmul_t"), product),
}
