"""What LiteRT computes for convolutions, fully connected and matrix products on 8-bit codes.

All sum (q_x - z_x) * (q_w - z_w) and the integers of the bias in int32 (whatever scale the bias
says) and multiply by M = s_x * s_w / s_y, in double from the scales in float32:

| op | ref | opt | xnn |
|---|---|---|---|
| convolution, per output channel | gemmlowp | ruy; see below | rint(float32(a) * M32) |
| fully connected | half away of a * M, in double | ruy | as above |
| matrix product | gemmlowp | gemmlowp | as above |

M32 is s_x * s_w / s_y in float32, evaluated from the left.  In opt the SIMD code of depthwise and
transposed convolutions leaves what remains of 8 output channels to scalar code, which is gemmlowp;
of unsigned codes, all that is depthwise, and what a transposed one leaves of 16 elements.  A
CONV_2D in groups is the reference kernel also in opt, and readers mark it so; a depthwise
convolution of one channel says that it is one (`nn.kernel_op`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from qdialect.interpreter.contraction import conv_matrices, transposed_matrices
from qdialect.interpreter.quantize import properties
from qdialect.interpreter.values import Array, Evaluation
from qdialect.ir import ops as nn
from qdialect.plugins.tflite.interpreter.fixed_point import (
    Integers,
    gemmlowp,
    half_away,
    in_floats,
    quantize_multiplier,
    ruy,
    wrapped,
)
from qdialect.plugins.tflite.interpreter.tensors import Quantized, all_quantized, whole_vectors

if TYPE_CHECKING:
    from qdialect.plugins.tflite.interpreter import Row

KERNEL_OP = "nn.kernel_op"
"""Discardable attribute (a string): which op of the file names the kernel, where the `nn` op may
stand for several: "DEPTHWISE_CONV_2D"."""

_BYTES = ("i8", "u8")
_SINGLE, _DOUBLE = 1 << 24, 1 << 53

Requantize = Callable[[Integers, Quantized, NDArray[np.float32], Quantized], Integers]
"""Steps of the result from sums, the qparams of the input, the scales of the weight shaped like
the result, and the qparams of the result."""


def product(a: Integers, b: Integers) -> Integers:
    """The matrix product of small integers, exactly."""
    bound = int(np.abs(a).max(initial=0)) * int(np.abs(b).max(initial=0)) * max(a.shape[-1], 1)
    if bound >= _DOUBLE:
        return a @ b
    dtype = np.float32 if bound < _SINGLE else np.float64
    return (a.astype(dtype) @ b.astype(dtype)).astype(np.int64)


def _fixed(
    multiply: Callable[[Integers, Integers, Integers], Integers],
    in_single: Callable[[Quantized, NDArray[np.float32]], bool] = lambda x, weight: False,
) -> Requantize:
    """Multiplier and shift of M; where `in_single`, s_x * s_w is rounded to float32."""

    def run(sums: Integers, x: Quantized, weight: NDArray[np.float32], y: Quantized) -> Integers:
        one, other = x.wide_scale.reshape(()), y.wide_scale.reshape(())
        scales = one * weight.astype(np.float64)
        if in_single(x, weight):
            scales = (x.scale.reshape(()) * weight).astype(np.float64)
        return multiply(sums, *quantize_multiplier(scales / other))

    return run


def _unsigned(x: Quantized, weight: NDArray[np.float32]) -> bool:
    return x.code_type == "u8"


def _per_tensor(x: Quantized, weight: NDArray[np.float32]) -> bool:
    return weight.size == 1


def _doubles(sums: Integers, x: Quantized, weight: NDArray[np.float32], y: Quantized) -> Integers:
    ratio = x.wide_scale.reshape(()) * weight.astype(np.float64) / y.wide_scale.reshape(())
    return half_away(sums.astype(np.float64) * ratio)


def _floats(sums: Integers, x: Quantized, weight: NDArray[np.float32], y: Quantized) -> Integers:
    return in_floats(sums, x.scale.reshape(()) * weight / y.scale.reshape(()))


def _typed(op: Operation, operands: Sequence[Array], rank: int) -> list[Quantized] | None:
    """The qparams of all, where activations are bytes and weights bytes or less."""
    found = all_quantized(op, operands, rank)
    if found is None or found[0].code_type not in _BYTES or found[-1].code_type not in _BYTES:
        return None
    narrow = found[1].qparams.storage.width <= 8
    plain = found[0].scale.size == found[-1].scale.size == 1
    return found if narrow and plain else None


def _with_bias(sums: Integers, operands: Sequence[Array], shape: tuple[int, ...]) -> Integers:
    if len(operands) > 2:
        sums = sums + operands[2].astype(np.int64).reshape(shape)
    return wrapped(sums)


class _Convolution:
    """Convolutions, also transposed ones, requantized in one way."""

    def __init__(self, requantize: Requantize, rest: Requantize | None = None) -> None:
        self.requantize = requantize
        self.rest = rest

    def __call__(
        self, op: Operation, operands: Sequence[Array], evaluation: Evaluation
    ) -> list[Array] | None:
        """The codes; None unless all is quantized, and activations are bytes."""
        a, b = operands[:2]
        known = _typed(op, operands, a.ndim)
        if known is None:
            return None
        x, w, y = known[0], known[1], known[-1]
        transposed = op.name.startswith("nn.conv_transpose")
        matrices = transposed_matrices if transposed else conv_matrices
        rows, columns, out = matrices(op, x.offsets(a), w.offsets(b))
        groups, per_group = rows.shape[:2]
        shape = (a.shape[0], groups * per_group, *out)
        channels = (1, -1, *(1 for _ in out))
        sums = _with_bias(product(rows, columns).reshape(shape), operands, channels)
        scales = w.scale
        if transposed:
            along_channels = scales.reshape(scales.shape[:2])
            scales = np.broadcast_to(along_channels, (groups, per_group))
        scales = scales.reshape(channels)
        steps = self.requantize(sums, x, scales, y)
        if self.rest is not None and (transposed or _is_depthwise(op, a)):
            scalar = _left_to_scalars(shape, x.code_type, transposed)
            if scalar.any():
                steps = np.where(scalar, self.rest(sums, x, scales, y), steps)
        return [y.codes(steps)]


def _left_to_scalars(shape: tuple[int, ...], code_type: str, transposed: bool) -> NDArray[np.bool_]:
    """Which elements [N, C, ...] no SIMD code of convolutions computes."""
    channels = shape[1]
    if code_type == "u8" and transposed:
        in_file = (shape[0], *shape[2:], channels)
        return ~np.moveaxis(whole_vectors(in_file, prod(in_file), 16), -1, 1)
    whole = 0 if code_type == "u8" else channels // 8 * 8
    return (np.arange(channels) >= whole).reshape(-1, *(1 for _ in shape[2:]))


def _is_depthwise(op: Operation, x: Array) -> bool:
    named = op.attributes.get(KERNEL_OP)
    if isinstance(named, StringAttr):
        return named.data == "DEPTHWISE_CONV_2D"
    return 1 < properties(op)["groups"] == x.shape[1]


class _FullyConnected:
    """Fully connected, requantized in one way."""

    def __init__(self, requantize: Requantize) -> None:
        self.requantize = requantize

    def __call__(
        self, op: Operation, operands: Sequence[Array], evaluation: Evaluation
    ) -> list[Array] | None:
        """The codes; None unless all is quantized, and activations are bytes."""
        known = _typed(op, operands, 2)
        if known is None:
            return None
        x, w, y = known[0], known[1], known[-1]
        sums = product(x.offsets(operands[0]), w.offsets(operands[1]).T)
        sums = _with_bias(sums, operands, (1, -1))
        return [y.codes(self.requantize(sums, x, w.scale.reshape(1, -1), y))]


class _MatMul:
    """Matrix products, requantized in one way."""

    def __init__(self, requantize: Requantize) -> None:
        self.requantize = requantize

    def __call__(
        self, op: Operation, operands: Sequence[Array], evaluation: Evaluation
    ) -> list[Array] | None:
        """The codes; None unless all is quantized, and activations are bytes."""
        a, b = operands
        if a.ndim < 2 or b.ndim < 2:
            return None
        known = _typed(op, operands, max(a.ndim, b.ndim))
        if known is None:
            return None
        x, w, y = known
        sums = wrapped(product(x.offsets(a), w.offsets(b)))
        columns = w.scale.reshape(-1) if w.scale.size > 1 else w.scale.reshape(())
        return [y.codes(self.requantize(sums, x, columns, y))]


def _table(convolution: Row, dense: Row, matmul: Row) -> dict[str, Row]:
    return {
        **{kind.name: convolution for kind in (*nn.CONVOLUTIONS, *nn.TRANSPOSED)},
        nn.FullyConnectedOp.name: dense,
        nn.MatMulOp.name: matmul,
    }


_MATMUL = _MatMul(_fixed(gemmlowp, _per_tensor))

ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": _table(
        _Convolution(_fixed(gemmlowp, _unsigned)), _FullyConnected(_doubles), _MATMUL
    ),
    "litert-opt": _table(
        _Convolution(_fixed(ruy, _unsigned), _fixed(gemmlowp, _unsigned)),
        _FullyConnected(_fixed(ruy, _per_tensor)),
        _MATMUL,
    ),
    "litert-xnn": _table(_Convolution(_floats), _FullyConnected(_floats), _MatMul(_floats)),
}
"""The rows of this file."""
