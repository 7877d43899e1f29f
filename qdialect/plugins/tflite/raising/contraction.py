"""Convolutions and matrix products: weights are turned as they are read, biases are in steps of
the product of the scales, whatever the file says of them (the kernels do not read it)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isclose
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr, i64
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.ops.base import KERNEL, KERNEL_INPUTS, KERNEL_OP, KERNEL_SUMS, NNOp
from qdialect.ir.quant import UniformType, quant_element
from qdialect.plugins.common.lowering.laid_out import Order, channels_last, identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tflite.raising.activations import activated
from qdialect.plugins.tflite.raising.node import Node, is_float, params_of
from qdialect.plugins.tflite.raising.raiser import Handler, Raiser, element_in
from qdialect.plugins.tflite.raising.values import Constant, Flattened
from qdialect.plugins.tflite.raising.windows import dilations, paddings, strides, total_padding

_DYNAMIC: Mapping[type[NNOp], type[NNOp]] = {nn.Conv2DOp: nn.DynamicConv2DOp}


def convolution(r: Raiser, node: Node) -> Raised:
    """`CONV_2D`, weights [out, rows, columns, in]."""
    x, w = node.input(0), node.input(1)
    kernel, stride, dilation = w.shape[1:3], strides(node, 2), dilations(node, 2)
    channels, depth = x.shape[3], w.shape[3]
    if channels < 0 or depth < 1 or channels % depth:
        raise Unraisable("channels", f"it has {channels} channels, and weights for {depth}")
    properties: dict[str, Any] = {
        "strides": stride,
        "dilations": dilation,
        "pads": paddings(node, x.shape[1:3], kernel, stride, dilation),
        "groups": channels // depth,
    }
    return _contracted(r, node, nn.Conv2DOp, (0, 1, 2), (0, 2, 3, 1), properties)


def depthwise(r: Raiser, node: Node) -> Raised:
    """`DEPTHWISE_CONV_2D`, weights [1, rows, columns, channels * multiplier]."""
    x, w = node.input(0), node.input(1)
    kernel, stride, dilation = w.shape[1:3], strides(node, 2), dilations(node, 2)
    if w.shape[0] != 1 or x.shape[3] < 1:
        raise Unraisable("channels", "its weights are not those of channels")
    properties: dict[str, Any] = {
        "strides": stride,
        "dilations": dilation,
        "pads": paddings(node, x.shape[1:3], kernel, stride, dilation),
        "groups": x.shape[3],
    }
    return _contracted(r, node, nn.Conv2DOp, (0, 1, 2), (1, 2, 3, 0), properties)


def dilated(r: Raiser, node: Node, dilation: tuple[int, ...], pads: tuple[int, ...]) -> Raised:
    """A convolution with other dilations and paddings than its options say."""
    x, w = node.input(0), node.input(1)
    is_depthwise = node.name == "DEPTHWISE_CONV_2D"
    groups = x.shape[3] if is_depthwise else x.shape[3] // w.shape[3]
    properties: dict[str, Any] = {"dilations": dilation, "pads": pads, "groups": groups}
    order = (1, 2, 3, 0) if is_depthwise else (0, 2, 3, 1)
    return _contracted(r, node, nn.Conv2DOp, (0, 1, 2), order, properties)


def convolution_3d(r: Raiser, node: Node) -> Raised:
    """`CONV_3D`, weights [depth, rows, columns, in, out]."""
    x, w = node.input(0), node.input(1)
    kernel, stride, dilation = w.shape[:3], strides(node, 3), dilations(node, 3)
    channels, depth = x.shape[4], w.shape[3]
    if channels < 0 or channels % depth:
        raise Unraisable("channels", f"it has {channels} channels, and weights for {depth}")
    properties: dict[str, Any] = {
        "strides": stride,
        "dilations": dilation,
        "pads": paddings(node, x.shape[1:4], kernel, stride, dilation),
        "groups": channels // depth,
    }
    return _contracted(r, node, nn.Conv3DOp, (0, 1, 2), (2, 3, 4, 1, 0), properties)


def transposed(r: Raiser, node: Node) -> Raised:
    """`TRANSPOSE_CONV`, weights [out, rows, columns, in]; the first input is the shape of the
    result, of which the convolution back would have the shape of the third."""
    w, x = node.input(1), node.input(2)
    shape = node.shape() if node.input(0).array is None else tuple(node.integers(0))
    stride = strides(node, 2)
    outer = _outer(_padding(node), shape[1:3], x.shape[1:3], w.shape[1:3], stride)
    properties: dict[str, Any] = {"strides": stride, **outer}
    return _contracted(r, node, nn.ConvTranspose2DOp, (2, 1, 3), (1, 2, 3, 0), properties)


def transposed_3d(r: Raiser, node: Node) -> Raised:
    """`CONV_3D_TRANSPOSE`, weights [depth, rows, columns, out, in]."""
    w, x = node.input(1), node.input(2)
    shape = node.shape() if node.input(0).array is None else tuple(node.integers(0))
    stride = strides(node, 3)
    if set(dilations(node, 3)) != {1}:
        raise Unraisable("dilation", "its kernel is dilated")
    outer = _outer(_padding(node), shape[1:4], x.shape[1:4], w.shape[:3], stride)
    properties: dict[str, Any] = {"strides": stride, **outer}
    return _contracted(r, node, nn.ConvTranspose3DOp, (2, 1, 3), (2, 3, 4, 1, 0), properties)


def transposed_with_bias(r: Raiser, node: Node) -> Raised:
    """MediaPipe's custom op `Convolution2DTransposeBias` (operand, weights, bias), whose options
    are three numbers of 32 bits: the padding (1 is SAME, 2 VALID), the strides along columns and
    rows."""
    custom = bytes.fromhex(node.op.custom.data if node.op.custom is not None else "")
    if len(custom) < 12:
        raise Unraisable("options", "its options are not known")
    padding, columns, rows = struct.unpack("<3i", custom[:12])
    if padding not in (1, 2):
        raise Unraisable("options", f"it pads in way {padding}")
    x, w = node.input(0), node.input(1)
    kind = "SAME" if padding == 1 else "VALID"
    outer = _outer(kind, node.shape()[1:3], x.shape[1:3], w.shape[1:3], (rows, columns))
    properties: dict[str, Any] = {"strides": (rows, columns), **outer}
    return _contracted(r, node, nn.ConvTranspose2DOp, (0, 1, 2), (1, 2, 3, 0), properties)


def _padding(node: Node) -> str:
    return str(node.option("padding", "SAME"))


def _outer(
    padding: str,
    size: Sequence[int],
    source: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
) -> dict[str, Any]:
    """Pads and output padding with which a transposed convolution has `size`."""
    if min((*size, *source)) < 0:
        raise Unraisable("dynamic-shape", "its shape is not known")
    same = padding == "SAME"
    begins: list[int] = []
    ends: list[int] = []
    for out, n, k, s in zip(size, source, kernel, stride, strict=True):
        begin = total_padding(out, k, s) // 2 if same else 0
        begins.append(begin)
        ends.append((n - 1) * s + k - begin - out)
    return {
        "pads": (*begins, *(max(end, 0) for end in ends)),
        "output_padding": tuple(max(-end, 0) for end in ends),
    }


def _contracted(
    r: Raiser,
    node: Node,
    kind: type[NNOp],
    places: tuple[int, int, int],
    weight_order: Order,
    properties: dict[str, Any],
) -> Raised:
    """A convolution of the inputs at `places` (operand, weight, bias)."""
    x, w = node.input(places[0]), node.input(places[1])
    order = channels_last(x.rank)
    channels = node.shape()[-1]
    if properties.get("groups") == 1:
        del properties["groups"]
    if _is_hybrid(x, w) and kind not in _DYNAMIC:
        w = _as_floats(r, w)
    if _is_hybrid(x, w):
        out = _hybrid_convolution(
            r, node, kind, (x, w, places[2]), (order, weight_order), properties
        )
        return Raised(order, activated(r, out, node.activation))
    bias = _bias(r, node, x, w, places[2], channels)
    parts = [r.value(x, order), r.value(w, weight_order)]
    element = element_in(r, node, order)
    out = r.op(kind, *parts, *([] if bias is None else [bias]), element=element, **properties)
    in_groups = node.name == "CONV_2D" and "groups" in properties
    # The optimized kernels leave groups to the reference kernel.
    kernel = "litert-ref" if in_groups and r.kernel == "litert-opt" else r.kernel
    r.marked(out, kernel)
    _state_sums(node, out, places[2])
    return Raised(order, activated(r, out, node.activation))


def _bias(
    r: Raiser, node: Node, x: Raised, w: Raised, place: int, channels: int
) -> SSAValue | None:
    """The bias, in steps of the scale of the operand times those of the weight."""
    if not node.has(place):
        return None
    bias = node.input(place)
    source, weight = params_of(x), params_of(w)
    if source is None or weight is None:
        if not is_float(bias):
            raise Unraisable("bias", "a bias of integers is added to floats")
        return r.value(_vector(bias, channels))
    bias = _vector(bias, channels)
    scales = [source.scale * scale for scale in weight.scale_list()]
    _compare(r, bias, scales)
    if len(scales) not in (1, channels):
        raise Unraisable("bias", f"its weights have {len(scales)} scales for {channels} channels")
    if bias.array is None:
        stated = params_of(bias)
        if stated is None or stated.scale_list() != scales:
            raise Unraisable("bias", "its bias is no constant, and not in steps of the products")
        return r.value(bias)
    array = bias.array
    if array.dtype.itemsize == 8:
        if array.size and (array.min() < -(1 << 31) or array.max() >= 1 << 31):
            raise Unraisable("bias", "its bias needs more than 32 bits")
        array = array.astype(np.int32)
    params = (
        QParams.per_tensor("i32", scales[0])
        if len(scales) == 1 and weight.is_per_tensor
        else QParams.per_axis("i32", 0, scales)
    )
    source_op = bias.source if isinstance(bias, Constant) else None
    return r.value(Constant((0,), None, array, UniformType(params), source_op))


def _state_sums(node: Node, value: SSAValue, place: int) -> None:
    """Say that a kernel of 16 bits adds in 32, as the bias of 32 bits of its op makes it."""
    element = quant_element(value.type)
    if element is None or element.qparams.storage.spelling != "i16" or not node.has(place):
        return
    bias = node.input(place).element
    if bias == i64 or (isinstance(bias, UniformType) and bias.qparams.storage.width == 64):
        return
    if str(node.option("quantized_bias_type", "")) != "INT32":
        raise Unraisable("bias", "LiteRT reads its bias of 32 bits as one of 64")
    assert isinstance(value.owner, Operation)
    value.owner.attributes[KERNEL_SUMS] = StringAttr("i32")


def _vector(bias: Raised, channels: int) -> Raised:
    """A bias of one dimension."""
    if bias.shape == (channels,):
        return bias
    if bias.array is None or bias.array.size != channels:
        raise Unraisable("bias", f"its bias has the shape {bias.shape}, not {(channels,)}")
    source = bias.source if isinstance(bias, Constant) else None
    return Constant((0,), None, bias.array.reshape(channels), bias.element, source)


def _compare(r: Raiser, bias: Raised, scales: Sequence[float]) -> None:
    """A remark where the file says another scale of a bias than the one it is taken with."""
    stated = params_of(bias)
    if stated is None:
        return
    said = stated.scale_list()
    if len(said) in (1, len(scales)) and all(
        isclose(a, b, rel_tol=1e-5)
        for a, b in zip(said * (len(scales) // len(said)), scales, strict=True)
    ):
        return
    r.remark(
        "bias-scale",
        f"the file says its bias has scale {said[0]:.6g}, but it is added as in steps of "
        f"{scales[0]:.6g}",
    )


# -- hybrid ------------------------------------------------------------------------


def _is_hybrid(x: Raised, w: Raised) -> bool:
    """Whether floats meet codes: they are quantized as the op runs."""
    if not is_float(x) or params_of(w) is None:
        return False
    return not (isinstance(w, Constant) and w.is_dequantized)


def _as_floats(r: Raiser, w: Raised) -> Constant:
    r.remark("weight-only", "its weights are taken as floats, and its operand as it is")
    source = w.source if isinstance(w, Constant) else None
    if w.array is None:
        raise Unraisable("not-constant", "its weight is no constant")
    return Constant(w.order, None, w.array, w.element, source, True)


def _as_bytes(w: Raised) -> Constant:
    """A weight of codes, of 8 bits each."""
    params = params_of(w)
    if w.array is None or params is None:
        raise Unraisable("not-constant", "its weight is no constant")
    source = w.source if isinstance(w, Constant) else None
    if params.storage.width < 8:
        params = params.with_storage("i8")
    return Constant(w.order, None, w.array, UniformType(params), source)


def _bits(w: Raised) -> int:
    params = params_of(w)
    return 0 if params is None else params.storage.width


def _mark_hybrid(r: Raiser, value: SSAValue, w: Raised, is_taken: bool) -> Operation:
    """The op of a hybrid product, which names its kernel; `is_taken` says whether XNNPACK takes
    it if its weight is a constant of the file."""
    made, params = value.owner, params_of(w)
    assert isinstance(made, Operation) and params is not None
    if not any(params.zero_point_list()):
        of_xnnpack = is_taken and isinstance(w, Constant) and w.source is not None
        kernel = "litert-xnn" if of_xnnpack else "litert-opt"
        made.attributes[KERNEL] = StringAttr(kernel if r.engine == "litert-xnn" else r.engine)
    return made


def _inputs(r: Raiser, node: Node, w: Raised) -> str:
    """How LiteRT's own kernels quantize the rows that a weight [out, in] is multiplied with."""
    channels, depth = w.shape
    fits = _bits(w) == 4 and channels >= 4 and depth >= 32 and depth % 2 == 0
    if r.engine != "litert-ref" and fits:
        return "packed"
    return "asymmetric" if node.flag("asymmetric_quantize_inputs") else "symmetric"


def _hybrid_convolution(
    r: Raiser,
    node: Node,
    kind: type[NNOp],
    operands: tuple[Raised, Raised, int],
    orders: tuple[Order, Order],
    properties: dict[str, Any],
) -> SSAValue:
    x, w, place = operands
    r.remark("dynamic", "its operand is quantized as it runs")
    out = r.op(
        _DYNAMIC[kind], r.value(x, orders[0]), r.value(_as_bytes(w), orders[1]), **properties
    )
    is_taken = node.name == "CONV_2D" and _bits(w) == 8
    _mark_hybrid(r, out, w, is_taken).attributes[KERNEL_OP] = StringAttr(node.name)
    if not node.has(place):
        return out
    rank = len(orders[0])
    bias = r.value(_vector(node.input(place), node.shape()[-1]))
    column = r.op(nn.UnsqueezeOp, bias, axes=range(1, rank - 1))
    return r.op(nn.AddOp, out, column)


# -- products ----------------------------------------------------------------------


def fully_connected(r: Raiser, node: Node) -> Raised:
    """`FULLY_CONNECTED`: rows of the operand, in whatever dimensions they lie, by weights
    [out, in]."""
    x, w = node.input(0), node.input(1)
    if str(node.option("weights_format", "DEFAULT")) != "DEFAULT":
        raise Unraisable("weights-format", "its weights are shuffled")
    channels, depth = w.shape
    rows = x if x.rank == 2 and x.shape[1] == depth else r.reshaped(x, (-1, depth))
    if isinstance(x, Flattened):
        assert x.columns is not None and w.array is not None
        rows = Raised((0, 1), x.value)
        w = replace(w, array=np.ascontiguousarray(w.array[:, np.argsort(x.columns)]))
    order = identity_order(2)
    params = params_of(w)
    element = element_in(r, node, identity_order(len(node.shape())))
    if _is_hybrid(x, w) and params is not None and params.layout.value != "block":
        r.remark("dynamic", "its operand is quantized as it runs")
        # [out, in] read as [in, out]
        weight = r.value(_as_bytes(w), (1, 0))
        out = r.op(nn.DynamicMatMulOp, r.value(rows, order), weight)
        made = _mark_hybrid(r, out, w, _bits(w) == 8 or depth % 2 == 0)
        made.attributes[KERNEL_INPUTS] = StringAttr(_inputs(r, node, w))
        if node.has(2):
            out = r.op(nn.AddOp, out, r.value(_vector(node.input(2), channels)))
    else:
        if _is_hybrid(x, w):
            w = _as_floats(r, w)
        bias = _bias(r, node, x, w, 2, channels)
        parts = [r.value(rows, order), r.value(w, order)]
        out = r.computed(
            nn.FullyConnectedOp, *parts, *([] if bias is None else [bias]), element=element
        )
        _state_sums(node, out, 2)
    out = activated(r, out, node.activation)
    result = Raised(order, out)
    if len(node.shape()) == 2:
        return result
    return r.reshaped(result, _rows(x, node, channels))


def _rows(x: Raised, node: Node, channels: int) -> tuple[int, ...]:
    """The shape of the result: that of the operand but for its last dimension."""
    shape = node.shape()
    if list(shape).count(-1) < 2:
        return shape
    if len(shape) == x.rank and x.shape[:-1] == shape[:-1]:
        raise Unraisable("dynamic-shape", "several of its extents are not known")
    return shape


def product(r: Raiser, node: Node) -> Raised:
    """`BATCH_MATMUL`, of operands that may be transposed."""
    a, b = node.input(0), node.input(1)
    lhs = node.flag("adj_x")
    rhs = node.flag("adj_y")
    rank = max(a.rank, b.rank)
    order = identity_order(rank)
    if _is_hybrid(a, b):
        b = _as_floats(r, b)
    parts = [r.value(a, _turned(a.rank, lhs)), r.value(b, _turned(b.rank, rhs))]
    element = element_in(r, node, order)
    return Raised(order, r.computed(nn.MatMulOp, *parts, element=element))


def _turned(rank: int, is_turned: bool) -> Order:
    """The order in which a matrix is read, its two dimensions exchanged or not."""
    order = list(identity_order(rank))
    if is_turned:
        order[-2], order[-1] = order[-1], order[-2]
    return tuple(order)


HANDLERS: Mapping[str, Handler] = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": depthwise,
    "CONV_3D": convolution_3d,
    "CONV_3D_TRANSPOSE": transposed_3d,
    "TRANSPOSE_CONV": transposed,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": product,
}

CUSTOM: Mapping[str, Handler] = {"Convolution2DTransposeBias": transposed_with_bias}
"""Custom ops whose function is published."""
