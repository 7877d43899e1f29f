"""Ops of TOSA that move elements, constants, reductions, and shapes as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from qdialect.errors import InputError
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir.dialects.attributes import flag_of, integer_of, integers_of
from qdialect.plugins.tosa.interpreter.values import (
    elements,
    ignores_nan,
    is_float,
    longs,
    reals,
    result,
)


def _constant(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    values = elements(op, "values", evaluation)
    return [values.astype(evaluation.dtype(op.results[0].type), copy=False)]


def _extents(array: Array) -> list[int]:
    return [int(n) for n in array.reshape(-1)]


def _concat(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.concatenate(operands, integer_of(op, "axis"))]


def _pad(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Before and after each dimension; with 0 where no `pad_const` is given."""
    widths = np.array(_extents(operands[1])).reshape(-1, 2)
    fill: Any = operands[2].reshape(-1)[0] if len(operands) > 2 else 0
    x = operands[0]
    return [np.pad(x, widths, constant_values=fill) if x.ndim else x]


def _reshape(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [operands[0].reshape(_extents(operands[1]))]


def _reverse(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.flip(operands[0], integer_of(op, "axis"))]


def _slice(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    start, size = _extents(operands[1]), _extents(operands[2])
    box = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
    return [operands[0][box]]


def _tile(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.tile(operands[0], _extents(operands[1]))]


def _transpose(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [operands[0].transpose(integers_of(op, "perms"))]


def _gather(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """values [N, K, C], indices [N, W]."""
    values, indices = operands
    return [np.take_along_axis(values, longs(indices)[..., None], axis=1)]


def _row_gather(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """As many rows of [N, K, C] as the third operand says, from each index [N, W] on."""
    values, indices, count = operands
    rows = longs(indices)[..., None] + np.arange(int(count.reshape(-1)[0]))
    return [np.take_along_axis(values, rows.reshape(len(values), -1, 1), axis=1)]


def _scatter(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    values, indices, source = operands
    found = values.copy()
    np.put_along_axis(found, longs(indices)[..., None], source, axis=1)
    return [found]


def _argmax(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The first place of the largest; of the first NaN, unless NaN is ignored."""
    axis, kind = integer_of(op, "axis"), op.operands[0].type
    x = reals(operands[0], kind)
    if ignores_nan(op):
        x = np.where(np.isnan(x), -np.inf, x)
    return result(op, np.argmax(x, axis=axis), evaluation)


def _reduction(
    function: Callable[..., Array], ignoring: Callable[..., Array] | None = None
) -> Kernel:
    """Along one dimension, which stays with extent 1."""

    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        kind, (x,) = op.operands[0].type, operands
        if is_float(kind):
            x = reals(x, kind)
        elif x.dtype != np.bool_:
            x = longs(x)
        chosen = ignoring if ignoring is not None and ignores_nan(op) else function
        return result(op, chosen(x, axis=integer_of(op, "axis"), keepdims=True), evaluation)

    return kernel


def _turned(real: Array, imaginary: Array, inverse: bool) -> NDArray[np.complex128]:
    """The discrete Fourier transform in two dimensions; the inverse is not divided."""
    values = real.astype(np.float64) + 1j * imaginary.astype(np.float64)
    if inverse:
        return np.fft.ifft2(values, axes=(1, 2)) * (real.shape[1] * real.shape[2])
    return np.fft.fft2(values, axes=(1, 2))


def _fft2d(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    values = _turned(operands[0], operands[1], flag_of(op, "inverse"))
    return [*result(op, values.real, evaluation), *result(op, values.imag, evaluation, 1)]


def _rfft2d(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The first half of the last dimension."""
    values: NDArray[np.complex128] = np.fft.rfft2(operands[0].astype(np.float64), axes=(1, 2))
    return [*result(op, values.real, evaluation), *result(op, values.imag, evaluation, 1)]


# -- shapes -------------------------------------------------------------------------


def _of_shapes(function: Callable[[int, int], int]) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        pairs = zip(_extents(operands[0]), _extents(operands[1]), strict=True)
        return [np.array([function(a, b) for a, b in pairs], np.int64)]

    return kernel


def _of_shape(function: Callable[[int], int]) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        return [np.array([function(n) for n in _extents(operands[0])], np.int64)]

    return kernel


def _concat_shape(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.concatenate([longs(x) for x in operands])]


def _slice_shape(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    start, size = (int(x.reshape(-1)[0]) for x in operands[1:3])
    return [longs(operands[0])[start : start + size]]


def _assert_equal(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Nothing, of shapes that are equal (or broadcast, where allowed); else InputError."""
    a, b = (_extents(x) for x in operands)
    allowed = flag_of(op, "allow_broadcast")
    if len(a) != len(b) or any(
        m != n and not (allowed and 1 in (m, n)) for m, n in zip(a, b, strict=True)
    ):
        raise InputError(f"the shapes {a} and {b} differ", code="bad-shape")
    return []


def _dim(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.array([operands[0].shape[integer_of(op, "axis")]], np.int64)]


KERNELS: Mapping[str, Kernel] = {
    "tosa.const": _constant,
    "tosa.concat": _concat,
    "tosa.pad": _pad,
    "tosa.reshape": _reshape,
    "tosa.reverse": _reverse,
    "tosa.slice": _slice,
    "tosa.tile": _tile,
    "tosa.transpose": _transpose,
    "tosa.gather": _gather,
    "tosa.row_gather": _row_gather,
    "tosa.scatter": _scatter,
    "tosa.argmax": _argmax,
    "tosa.reduce_all": _reduction(np.all),
    "tosa.reduce_any": _reduction(np.any),
    "tosa.reduce_sum": _reduction(np.sum),
    "tosa.reduce_product": _reduction(np.prod),
    "tosa.reduce_max": _reduction(np.max, np.fmax.reduce),
    "tosa.reduce_min": _reduction(np.min, np.fmin.reduce),
    "tosa.fft2d": _fft2d,
    "tosa.rfft2d": _rfft2d,
    "tosa.const_shape": _constant,
    "tosa.concat_shape": _concat_shape,
    "tosa.slice_shape": _slice_shape,
    "tosa.assert_equal_shape": _assert_equal,
    "tosa.dim": _dim,
    "tosa.add_shape": _of_shapes(lambda a, b: a + b),
    "tosa.sub_shape": _of_shapes(lambda a, b: a - b),
    "tosa.mul_shape": _of_shapes(lambda a, b: a * b),
    "tosa.div_floor_shape": _of_shapes(lambda a, b: a // b),
    "tosa.div_ceil_shape": _of_shapes(lambda a, b: -(-a // b)),
    "tosa.mod_shape": _of_shapes(lambda a, b: a % b),
    "tosa.max_shape": _of_shapes(max),
    "tosa.min_shape": _of_shapes(min),
    "tosa.exp2_shape": _of_shape(lambda n: 1 << n),
    "tosa.log2_floor_shape": _of_shape(lambda n: n.bit_length() - 1),
    "tosa.log2_ceil_shape": _of_shape(lambda n: (n - 1).bit_length()),
}
