"""Convolutions, products and sums of codes of 16 bits, weights of 8 bits or fewer among them.

Zero points are 0. M is s_x * s_w / s_y, S is 2 * max(s_a, s_b), g is gemmlowp:

| op | sums | ref | opt |
|---|---|---|---|
| convolution, bias of 64 bits or none | int64 | short(a, M) | the same |
| convolution, bias of 32 bits | int32 | g(a, M) | ruy(a, M) |
| fully connected, bias of 64 bits | int64 | half away of a * M, in double | the same |
| fully connected, another bias or none | int64, int32 | the same | ruy(a, M) |
| matrix product | int64 | short(a, M) | the same |
| mul | | g(a b, s_a s_b / s_y) | the same |
| add, sub | | g(g(2^15 a, s_a / S) +- g(2^15 b, s_b / S), S / (2^15 s_y)) | the same, but |

In opt SIMD code of add rounds each inner product once, and leaves what remains of 16 elements to
scalar code; that of transposed convolutions leaves what remains of 8 output channels.

short: the fraction of M is rounded to 15 bits, and the product once, half up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from qdialect.interpreter.contraction import conv_matrices, transposed_matrices
from qdialect.interpreter.quantize import properties
from qdialect.interpreter.values import Array, Evaluation
from qdialect.ir import ops as nn
from qdialect.ir.ops.base import KERNEL_SUMS
from qdialect.plugins.tflite.interpreter import Row
from qdialect.plugins.tflite.interpreter.contraction import product
from qdialect.plugins.tflite.interpreter.fixed_point import (
    Integers,
    gemmlowp,
    half_away,
    quantize_multiplier,
    ruy,
    wrapped,
)
from qdialect.plugins.tflite.interpreter.per_tensor import Codes, codes_row
from qdialect.plugins.tflite.interpreter.tensors import Quantized, in_vectors, quantized

Scale = Callable[[Integers, Any], Integers]
"""Sums times real numbers that broadcast to them."""


def short(sums: Integers, ratio: Any) -> Integers:
    """A product with a fraction of 15 bits, rounded once, half up."""
    q, e = quantize_multiplier(ratio)
    fraction = np.where(q < 0x7FFF0000, (q + (1 << 15)) >> 16, 0x7FFF)
    return wrapped((sums * fraction + (np.int64(1) << (14 - e))) >> (15 - e))


def _fixed(multiply: Callable[..., Integers]) -> Scale:
    def scaled(sums: Integers, ratio: Any) -> Integers:
        return multiply(wrapped(sums), *quantize_multiplier(ratio))

    return scaled


def _doubles(sums: Integers, ratio: Any) -> Integers:
    return half_away(sums.astype(np.float64) * ratio)


def _narrow_sums(op: Operation) -> bool:
    """Whether a bias of 32 bits makes sums have 32: an op says so (`nn.kernel_sums`)."""
    named = op.attributes.get(KERNEL_SUMS)
    return isinstance(named, StringAttr) and named.data == "i32"


def _typed(op: Operation, operands: Sequence[Array], rank: int) -> list[Quantized] | None:
    """The qparams of input, weight and result, where activations have 16 bits."""
    values = [(op.operands[0], operands[0].ndim), (op.operands[1], operands[1].ndim)]
    found = [quantized(value, n) for value, n in (*values, (op.results[0], rank))]
    known = [one for one in found if one is not None]
    if len(known) != len(found) or not known[0].code_type == known[-1].code_type == "i16":
        return None
    return known if known[0].scale.size == known[-1].scale.size == 1 else None


def _ratios(known: Sequence[Quantized], weight: Any) -> Any:
    """M, for scales of the weight that are shaped like the result."""
    x, y = known[0].wide_scale.reshape(()), known[-1].wide_scale.reshape(())
    return x * weight.astype(np.float64) / y


def _summed(sums: Integers, operands: Sequence[Array], shape: tuple[int, ...]) -> Integers:
    if len(operands) > 2:
        sums = sums + operands[2].astype(np.int64).reshape(shape)
    return sums


def in_scalars(channels: int, lanes: int = 8) -> NDArray[np.bool_]:
    """Which channels SIMD code leaves to scalar code."""
    return np.arange(channels) >= channels // lanes * lanes


def _convolution(narrow: Scale) -> Row:
    def row(
        op: Operation, operands: Sequence[Array], evaluation: Evaluation
    ) -> Sequence[Array] | None:
        a, b = operands[:2]
        known = _typed(op, operands, a.ndim)
        if known is None:
            return None
        transposed = op.name.startswith("nn.conv_transpose")
        matrices = transposed_matrices if transposed else conv_matrices
        rows, columns, out = matrices(op, a.astype(np.int64), b.astype(np.int64))
        groups, per_group = rows.shape[:2]
        channels = (1, -1, *(1 for _ in out))
        sums = product(rows, columns).reshape(a.shape[0], groups * per_group, *out)
        sums = _summed(sums, operands, channels)
        scales = known[1].scale
        if transposed:
            scales = np.broadcast_to(scales.reshape(scales.shape[:2]), (groups, per_group))
        ratios = _ratios(known, scales.reshape(channels))
        if not _narrow_sums(op):
            return [known[-1].codes(short(sums, ratios))]
        exact, steps = _fixed(gemmlowp), narrow(sums, ratios)
        if properties(op)["groups"] > 1:
            steps = exact(sums, ratios)
        elif transposed:
            by_scalars = in_scalars(sums.shape[1]).reshape(channels)
            steps = np.where(by_scalars, exact(sums, ratios), steps)
        return [known[-1].codes(steps)]

    return row


def _fully_connected(narrow: Scale) -> Row:
    def row(
        op: Operation, operands: Sequence[Array], evaluation: Evaluation
    ) -> Sequence[Array] | None:
        known = _typed(op, operands, 2)
        if known is None:
            return None
        sums = product(operands[0].astype(np.int64), operands[1].astype(np.int64).T)
        ratios = _ratios(known, known[1].scale.reshape(1, -1))
        if len(operands) < 3:
            return [known[-1].codes(narrow(sums, ratios))]
        scale = narrow if _narrow_sums(op) else _doubles
        return [known[-1].codes(scale(_summed(sums, operands, (1, -1)), ratios))]

    return row


def _matmul(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> Sequence[Array] | None:
    known = _typed(op, operands, max(operand.ndim for operand in operands))
    if known is None or known[1].scale.size != 1:
        return None
    sums = product(operands[0].astype(np.int64), operands[1].astype(np.int64))
    one, other, to = (part.scale.reshape(()) for part in known)
    return [known[-1].codes(short(sums, float(one * other) / float(to)))]


# -- elementwise --------------------------------------------------------------------------

_LEFT = 15


def _product(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    a, b, to = found
    steps = a.steps(operands[0]) * b.steps(operands[1])
    return gemmlowp(steps, *quantize_multiplier(float(a.scale * b.scale / to.scale)))


Inner = Callable[[Integers, Integers, Integers], Integers]


def _total(inner: Inner, sign: int, operands: Sequence[Array], found: Sequence[Codes]) -> Integers:
    """The sum of both operands on a common scale, on that of the result."""
    a, b, to = found
    common = 2 * float(max(a.scale, b.scale))
    left, right = (
        inner(one.steps(codes), *quantize_multiplier(float(one.scale) / common))
        for one, codes in zip((a, b), operands, strict=True)
    )
    unit = common / float(np.float32(1 << _LEFT) * to.scale)
    return gemmlowp(left + sign * right, *quantize_multiplier(unit))


def _scalar(steps: Integers, q: Integers, e: Integers) -> Integers:
    return gemmlowp(steps << _LEFT, q, e)


def _vector(steps: Integers, q: Integers, e: Integers) -> Integers:
    """SIMD has both shifts at once, and so rounds once."""
    places = _LEFT + int(e)
    shifted = steps << places if places >= 0 else steps >> -places
    return (shifted * q + (1 << 30)) >> 31


def _sum(sign: int) -> Any:
    def compute(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
        return _total(_scalar, sign, operands, found)

    return compute


def _optimized_add(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    """SIMD adds whole vectors of operands of the same shape."""
    total = _total(_scalar, 1, operands, found)
    if operands[0].shape != operands[1].shape:
        return total
    vectors = in_vectors(op, total.shape, 16)
    return np.where(vectors, _total(_vector, 1, operands, found), total)


def _table(narrow: Scale, narrow_dense: Scale) -> dict[str, Row]:
    convolution = _convolution(narrow)
    return {
        **{kind.name: convolution for kind in (*nn.CONVOLUTIONS, *nn.TRANSPOSED)},
        nn.FullyConnectedOp.name: _fully_connected(narrow_dense),
        nn.MatMulOp.name: _matmul,
        nn.MulOp.name: codes_row(_product, "i16"),
        nn.AddOp.name: codes_row(_sum(1), "i16"),
        nn.SubOp.name: codes_row(_sum(-1), "i16"),
    }


ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": _table(_fixed(gemmlowp), _doubles),
    "litert-opt": {
        **_table(_fixed(ruy), _fixed(ruy)),
        nn.AddOp.name: codes_row(_optimized_add, "i16"),
    },
}
