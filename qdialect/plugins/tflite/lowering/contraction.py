"""Sums of products of codes or of floats: what convolutions, layers and matrix products share.

XNNPACK's integer kernels sum codes less their zero points exactly, multiply the sum with
M = s_x * s_w / s_y, both as floats of 32 bits, and round the product to the nearest, halves to
even: what ONNX Runtime's kernels do. Weights have zero point 0, a bias the scale s_x * s_w.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.dynamic import DynamicOp
from qdialect.plugins.common.lowering.emitter import storage_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import (
    LaidOut,
    Order,
)
from qdialect.plugins.common.lowering.preconditions import is_on_codes
from qdialect.plugins.tflite.lowering.codes import (
    activation,
    finished,
    half_even,
    is_builtin,
    result_qparams,
    signed,
)
from qdialect.plugins.tflite.lowering.emitter import Emitter

_LARGEST_MULTIPLIER = 256.0
_SMALLEST_MULTIPLIER = 2.0**-32


class Product:
    """The operands of a sum of products, and what its result is: floats, or i8 codes."""

    def __init__(
        self, e: Emitter, op: Operation, operands: Sequence[LaidOut], axis: int | None
    ) -> None:
        self.e = e
        self.given = qparams_of(op.results[0])
        self.shape = shape_of(op.results[0])
        self.result: QParams | None = None
        self.x, self.weight = operands[0], operands[1]
        self.bias = operands[2] if len(operands) > 2 else None
        if isinstance(op, DynamicOp):
            # Floats in and out: the kernel quantizes its input as it runs.
            self.weight = symmetric(e, self.weight, axis)
            if self.weight.array is None:
                raise Unlowerable("weight", "its weight is no constant")
            return
        if not is_on_codes(op):
            for x in operands:
                if storage_of(x) != f32:
                    raise Unlowerable("type", f"it is of {storage_of(x)}", "f32")
            return
        half_even(op)
        wide = is_builtin(op)
        self.result = result_qparams(self.given, wide=wide)
        self.x, params = activation(e, self.x, "input", wide=wide)
        self.weight = symmetric(e, self.weight, axis, zero=wide)
        if operands[1].array is None and op.name != "nn.matmul" and not is_builtin(op):
            # XNNPACK leaves these to kernels that round twice.
            raise Unlowerable("weight", "its weight is no constant", "nn.matmul")
        assert self.weight.params is not None
        scales = sum_scales(params, self.weight.params)
        check_multipliers(scales, self.result)
        self._scales, self._is_wide = scales, params.storage.width > 8

    @property
    def is_dynamic(self) -> bool:
        """Whether the kernel quantizes its input as it runs."""
        return self.result is None and self.weight.params is not None

    @property
    def element(self) -> Any:
        """The element type of the result of the kernel."""
        return f32 if self.result is None else self.e.element(self.result)

    def bias_value(self, channels: int) -> SSAValue:
        """The bias, or zeros."""
        if self.result is None:
            if self.bias is None:
                return self.e.scalar(0.0, f32, (channels,))
            return self.e.value_of(self.bias)
        codes = np.zeros(channels, np.int32)
        if self.bias is not None:
            codes = bias_codes(self.bias, self._scales)
        params = sums_qparams(self._scales)
        if self._is_wide:
            # Sums of codes of 16 bits are of 64, and so is what is added.
            codes, params = codes.astype(np.int64), params.with_storage("i64")
        return self.e.const(codes, self.e.element(params))

    def finished(self, value: SSAValue, order: Order) -> LaidOut:
        """The result of the op, of what its kernel gave."""
        if self.given is None:
            return self.e.result(value, order, None, self.shape)
        return finished(self.e, value, order, self.given, self.shape)


def symmetric(e: Emitter, x: LaidOut, axis: int | None, *, zero: bool = False) -> LaidOut:
    """Weights as i8 codes with zero point 0, of one scale or of one along `axis`. Constants whose
    codes less their zero point fit are re-encoded."""
    if x.params is None:
        raise Unlowerable("float", "its weight is float", "quantize it (qopt quantize)")
    x = signed(e, x)
    params = x.params
    assert params is not None
    if params.storage.spelling != "i8" or params.layout.value == "block":
        raise Unlowerable("storage", f"its weight is stored as {params}", "8-bit storage")
    if params.axis is not None and params.axis != axis:
        if len(set(params.scale_list())) > 1 or len(set(params.zero_point_list())) > 1:
            raise Unlowerable("axis", "its weight has parameters along another dimension")
        params = QParams.per_tensor(
            params.storage, params.scale_list()[0], params.zero_point_list()[0], params.expressed
        )
        x = LaidOut(x.shape, x.order, params, x.value, x.array)
    zeros = params.zero_point_list()
    if not any(zeros):
        return x
    if x.array is None and zero:
        return x
    if x.array is None:
        raise Unlowerable("zero-points", "its weight is no constant and has a zero point")
    steps = x.array.astype(np.int64)
    if params.axis is None:
        steps = steps - zeros[0]
    else:
        column = [1] * x.rank
        column[params.axis] = -1
        steps = steps - np.reshape(zeros, column)
    if steps.size and not -128 <= steps.min() <= steps.max() <= 127:
        raise Unlowerable(
            "zero-points",
            "its weight has a zero point, and no signed codes without one",
            "symmetric weights",
        )
    if params.axis is None:
        params = QParams.per_tensor("i8", params.scale_list()[0], 0, params.expressed)
    else:
        params = QParams.per_axis(
            "i8", params.axis, params.scale_list(), [0] * len(zeros), params.expressed
        )
    return LaidOut(x.shape, x.order, params, None, steps.astype(np.int8))


def sum_scales(x: QParams, weight: QParams) -> list[float]:
    """The scales of sums of products, as floats of 32 bits."""
    scale = np.float32(x.scale_list()[0])
    return [float(scale * np.float32(s)) for s in weight.scale_list()]


def sums_qparams(scales: Sequence[float]) -> QParams:
    """Those of a bias."""
    if len(scales) == 1:
        return QParams.per_tensor("i32", scales[0], 0)
    return QParams.per_axis("i32", 0, list(scales), [0] * len(scales))


def check_multipliers(scales: Sequence[float], result: QParams) -> None:
    """Refuse factors from sums to codes that the kernels do not take."""
    for scale in scales:
        multiplier = scale / result.scale_list()[0]
        if not _SMALLEST_MULTIPLIER <= multiplier < _LARGEST_MULTIPLIER:
            raise Unlowerable("scale", f"no kernel multiplies its sums with {multiplier:g}")


def bias_codes(bias: LaidOut, scales: Sequence[float]) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A constant bias on the scale of the sums; Unlowerable if it is on another."""
    params = bias.params
    if bias.array is None or params is None or params.storage.spelling != "i32":
        raise Unlowerable("bias", "its bias is no constant i32 on the scale of the sums")
    if any(params.zero_point_list()):
        raise Unlowerable("bias", "its bias has a zero point")
    count = bias.shape[0]
    own = np.broadcast_to(params.scale_list(), (count,))
    expected = np.broadcast_to(scales, (count,))
    codes = bias.array.astype(np.int64)
    # Products of float scales are rounded; a bias of zeros has any scale.
    if not (np.isclose(own, expected, rtol=1e-6, atol=0) | (codes == 0)).all():
        raise Unlowerable("bias", "its bias is on another scale than its sums")
    return codes.astype(np.int32)
