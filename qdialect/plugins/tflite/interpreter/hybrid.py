"""Products of floats and weights of codes, whose input LiteRT quantizes as it runs.

Each row of a matrix, or each image of a convolution, is quantized by itself:

    symmetric    s = r / 127, r the largest |x|;  q = round(x * (127 / r)), within +-127
    asymmetric   s = (high - low) / 255, the range with 0 inside;  q = round(x / s) + z
    XNNPACK      the same in f32, q = rint(x * (255 / (high - low))) + z

Sums of (q - z) * q_w are exact; they are scaled in f32, each engine in an order of its own. What
SIMD (vectors of 8) rounds is half away after an addition in f32. `nn.kernel_inputs` says how the
input of a matrix product is quantized; convolutions with scales per channel are asymmetric. A bias,
a third operand, is added in the scaling: XNNPACK rounds product and sum once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from qdialect.interpreter.quantize import field, properties
from qdialect.interpreter.values import Array, Evaluation
from qdialect.interpreter.windows import windows
from qdialect.ir import ops as nn
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.base import KERNEL_INPUTS
from qdialect.ir.quant import quant_element
from qdialect.plugins.tflite.interpreter import Row
from qdialect.plugins.tflite.interpreter.contraction import KERNEL_OP, product
from qdialect.plugins.tflite.interpreter.wide import in_scalars

Singles = NDArray[np.float32]
single: Any = np.float32


# -- inputs -----------------------------------------------------------------------------


def _where(condition: Any, yes: Any, no: Any) -> NDArray[Any]:
    """Elements of `yes` where the condition holds, of `no` elsewhere."""
    return np.where(*(np.asarray(part) for part in (condition, yes, no)))


class Inputs:
    """Rows of codes less their zero points, and the scale of each row."""

    def __init__(self, steps: NDArray[np.int64], scales: Singles) -> None:
        self.steps = steps
        self.scales = scales


Quantize = Callable[[Singles], Inputs]
"""Quantizes each row of a matrix."""


def symmetric(x: Singles) -> Inputs:
    """Zero points are 0; a row of zeros has the scale 1."""
    size = np.abs(x).max(axis=1, initial=0, keepdims=True)
    empty = size == 0
    some = _where(empty, single(1), size)
    codes = np.clip(_rounded(x * (single(127) / some)), -127, 127)
    scales = _where(empty, single(1), some / single(127))
    return Inputs(_where(empty, 0, codes), scales[:, 0])


def asymmetric(x: Singles) -> Inputs:
    """The range of each row has 255 steps, and 0 inside."""
    low = np.minimum(x.min(axis=1, initial=0), single(0))
    high = np.maximum(x.max(axis=1, initial=0), single(0))
    steps, scales = np.zeros(x.shape, np.int64), np.ones(len(x), np.float32)
    for row in np.nonzero(low != high)[0]:
        scale = float(high[row] - low[row]) / 255.0
        zero = _zero(float(low[row]) / scale, float(high[row]) / scale)
        scales[row] = single(scale)
        codes = _rounded((x[row] * single(1.0 / float(scales[row])))[None])[0] + zero
        steps[row] = np.clip(codes, -128, 127) - zero
    return Inputs(steps, scales)


def _zero(low: float, high: float) -> int:
    """The zero point from the end of the range, in steps, that is nearer to 0."""
    exact = -128.0 - low if 128.0 + abs(low) < 127.0 + abs(high) else 127.0 - high
    return int(np.clip(np.trunc(exact + np.copysign(0.5, exact)), -128, 127))


def _rounded(x: Singles) -> NDArray[np.int64]:
    """Half away from zero: whole vectors of 8 by an addition in f32, the rest exactly."""
    quick = np.trunc(x + np.copysign(single(0.5), x))
    scalar = in_scalars(x.shape[1])
    return _where(scalar, _away(x), quick).astype(np.int64)


def _away(x: Singles) -> Singles:
    whole = np.trunc(x)
    return whole + _where(np.abs(x - whole) >= 0.5, np.copysign(single(1), x), single(0))


def packed(x: Singles) -> Inputs:
    """Symmetric, each code rounded half away exactly."""
    size = np.abs(x).max(axis=1, initial=0, keepdims=True)
    some = _where(size == 0, single(127), size)
    codes = _away(x * (single(127) / some)).astype(np.int64)
    return Inputs(codes, (some / single(127))[:, 0])


def of_xnnpack(x: Singles) -> Inputs:
    """All in f32, rounded half to even."""
    low = np.minimum(x.min(axis=1, initial=0), single(0))
    high = np.maximum(x.max(axis=1, initial=0), single(0))
    flat = low == high
    scale = _where(flat, single(1), single(255) / _where(flat, single(1), high - low))
    least, most = low * scale, high * scale
    is_low = (single(-128) + least) + (single(127) + most) > 0
    ends = _where(is_low, single(-128) - least, single(127) - most)
    zeros = np.rint(np.clip(ends, -128, 127)).astype(np.int64)[:, None]
    codes = np.rint(x * scale[:, None]).astype(np.int64) + zeros
    return Inputs(np.clip(codes, -128, 127) - zeros, np.asarray(single(1) / scale))


# -- scales -----------------------------------------------------------------------------

Scale = Callable[[NDArray[np.int64], Any, Any, Any], Singles]
"""Sums, scales of inputs and of weights, and the bias (or None), all shaped like the sums."""


def _after(sums: NDArray[np.int64], x: Any, weight: Any, bias: Any) -> Singles:
    return _added(sums.astype(single) * weight * x, bias)


def _before(sums: NDArray[np.int64], x: Any, weight: Any, bias: Any) -> Singles:
    return _added(sums.astype(single) * (weight * x), bias)


def _turned(sums: NDArray[np.int64], x: Any, weight: Any, bias: Any) -> Singles:
    return _added(sums.astype(single) * x * weight, bias)


def _depthwise(sums: NDArray[np.int64], x: Any, weight: Any, bias: Any) -> Singles:
    """Vectors of 4 channels as `_after`, the rest the other way round."""
    count = sums.shape[1]
    scalar = in_scalars(count, 4).reshape(1, -1, *(1 for _ in sums.shape[2:]))
    return _where(scalar, _turned(sums, x, weight, bias), _after(sums, x, weight, bias))


def _added(y: Singles, bias: Any) -> Singles:
    return y if bias is None else y + bias


def of_nibbles(made: Inputs, weight: NDArray[np.int64], scales: Any, bias: Any) -> Singles:
    """The product with weights of 4 bits that LiteRT packs, as codes from 0: what their zero point
    adds and the bias come first."""
    rows = made.scales[:, None]
    shift = -7 * made.steps.sum(axis=1, keepdims=True)
    first = _added(shift.astype(single) * rows * scales, bias)
    return first + product(made.steps, weight + 7).astype(single) * rows * scales


def _fused(sums: NDArray[np.int64], x: Any, weight: Any, bias: Any) -> Singles:
    """The product with the scale of the weight and the sum with the bias are rounded once."""
    scaled = (sums.astype(single) * x).astype(np.float64) * np.asarray(weight, np.float64)
    if bias is None:
        return scaled.astype(single)
    return nearest_sum(scaled, np.broadcast_to(np.asarray(bias, np.float64), scaled.shape))


def nearest_sum(a: NDArray[np.float64], b: NDArray[np.float64]) -> Singles:
    """a + b rounded to f32 once: where f64 rounds, to odd first."""
    total = a + b
    back = total - a
    rest = (a - (total - back)) + (b - back)
    bits = total.view(np.int64)
    inexact = (rest != 0) & (bits & 1 == 0)
    toward = _where((rest > 0) == (total > 0), 1, -1)
    return _where(inexact, bits + toward, bits).view(np.float64).astype(single)


# -- ops --------------------------------------------------------------------------------


def _weight(op: Operation, operands: Sequence[Array]) -> tuple[NDArray[np.int64], Singles] | None:
    """Steps and scales of the weight; None of another weight than LiteRT has."""
    element = quant_element(op.operands[1].type)
    if element is None or element.qparams.storage.spelling not in ("i8", "i4"):
        return None
    scales, zeros = field(element.qparams, operands[1].shape)
    if np.any(zeros) or operands[0].dtype != single:
        return None
    return operands[1].astype(np.int64), scales.astype(single)


def _inputs(op: Operation) -> str:
    named = op.attributes.get(KERNEL_INPUTS)
    return named.data if isinstance(named, StringAttr) else "symmetric"


def _matmul(scale: Scale, quantize: Quantize | None = None, *, packs: bool = False) -> Row:
    """By the attribute of the op if `quantize` is not given."""

    def row(
        op: Operation, operands: Sequence[Array], evaluation: Evaluation
    ) -> Sequence[Array] | None:
        weight = _weight(op, operands)
        if weight is None or operands[1].ndim != 2:
            return None
        x = operands[0].reshape(-1, operands[0].shape[-1])
        bias = operands[2].reshape(1, -1) if len(operands) > 2 else None
        columns, kind = weight[1].reshape(1, -1), _inputs(op)
        if packs and kind == "packed":
            y = of_nibbles(packed(x), weight[0], columns, bias)
        else:
            made = (quantize or (asymmetric if kind == "asymmetric" else symmetric))(x)
            y = scale(product(made.steps, weight[0]), made.scales[:, None], columns, bias)
        return [y.reshape(*operands[0].shape[:-1], -1)]

    return row


class Convolution:
    """How an engine computes convolutions."""

    def __init__(self, one: Scale, channels: Scale, groups: Scale, depthwise: Scale) -> None:
        """Scalings of a weight of one scale, of one per channel, in groups, and depthwise."""
        self.scales = (one, channels, groups, depthwise)

    def inputs(self, op: Operation, x: Singles, per_channel: bool) -> Inputs:
        """Codes shaped like the images, and a scale for each, shaped like them."""
        made = (asymmetric if per_channel else symmetric)(in_file(x))
        return Inputs(from_file(made.steps, x.shape), made.scales.reshape(-1, *(1,) * (x.ndim - 1)))

    def __call__(
        self, op: Operation, operands: Sequence[Array], evaluation: Evaluation
    ) -> Sequence[Array] | None:
        """The floats; None of another weight than LiteRT has."""
        weight = _weight(op, operands)
        if weight is None:
            return None
        v, steps = properties(op), weight[0]
        groups, depthwise = v["groups"], is_depthwise(op, operands[0])
        per_channel = weight[1].size > 1 or groups > 1 or depthwise
        made = self.inputs(op, operands[0], per_channel)
        rank = steps.ndim - 2
        view = windows(made.steps, steps.shape[2:], v["strides"], v["pads"], v["dilations"], 0)
        count, out = view.shape[0], view.shape[2 + rank :]
        depth = view.shape[1] // groups * int(np.prod(steps.shape[2:]))
        columns = view.reshape(count, groups, depth, int(np.prod(out)))
        rows = steps.reshape(groups, len(steps) // groups, depth)
        sums = product(rows, columns).reshape(count, len(steps), *out)
        channels = (1, -1, *(1 for _ in out))
        bias = operands[2].reshape(channels) if len(operands) > 2 else None
        scale = self.scales[3 if depthwise else 2 if groups > 1 else int(per_channel)]
        return [scale(sums, made.scales, weight[1].reshape(channels), bias)]


class XnnConvolution(Convolution):
    """XNNPACK's: a convolution of single pixels is a matrix product, quantized by pixels."""

    def inputs(self, op: Operation, x: Singles, per_channel: bool) -> Inputs:
        """Codes and scales as `Convolution` has them."""
        v, (out, depth, *kernel) = properties(op), shape_of(op.operands[1])
        plain = {*v["strides"], v["groups"], *kernel} == {1} and not any(v["pads"])
        if not plain or out == depth == 1:
            made = of_xnnpack(in_file(x))
            scales = made.scales.reshape(-1, *(1,) * (x.ndim - 1))
            return Inputs(from_file(made.steps, x.shape), scales)
        pixels = np.moveaxis(x, 1, -1)
        made = of_xnnpack(pixels.reshape(-1, x.shape[1]))
        steps = np.moveaxis(made.steps.reshape(pixels.shape), -1, 1)
        return Inputs(steps, made.scales.reshape(len(x), 1, *x.shape[2:]))


def is_depthwise(op: Operation, x: Array) -> bool:
    """Whether the kernel is that of DEPTHWISE_CONV_2D."""
    named = op.attributes.get(KERNEL_OP)
    if isinstance(named, StringAttr):
        return named.data == "DEPTHWISE_CONV_2D"
    return 1 < properties(op)["groups"] == x.shape[1]


def in_file(x: Array) -> Array:
    """Images as rows, channels last: the order in which vectors read them."""
    return np.moveaxis(x, 1, -1).reshape(len(x), -1)


def from_file(rows: Array, shape: Sequence[int]) -> Array:
    """The inverse of `in_file`."""
    return np.moveaxis(rows.reshape(shape[0], *shape[2:], shape[1]), -1, 1)


def _table(matmul: Row, convolution: Row) -> dict[str, Row]:
    return {
        nn.DynamicMatMulOp.name: matmul,
        **{kind.name: convolution for kind in nn.DYNAMIC_CONVOLUTIONS},
    }


ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": _table(_matmul(_before), Convolution(_before, _after, _after, _before)),
    "litert-opt": _table(
        _matmul(_before, packs=True), Convolution(_before, _before, _after, _depthwise)
    ),
    "litert-xnn": _table(
        _matmul(_fused, of_xnnpack), XnnConvolution(_fused, _fused, _fused, _fused)
    ),
}
