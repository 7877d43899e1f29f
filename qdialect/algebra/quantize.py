"""Quantizing and rescaling whole constants.

`quantize_floats` is ONNX QuantizeLinear: the division, or with the rounding
`reciprocal` the product, is done in the expressed type (IEEE; in f32 for f16), the
rest in integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from qdialect.algebra.arithmetic import Arithmetic, requantized
from qdialect.algebra.float_path import quotients
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.qparams import Layout, QParams
from qdialect.algebra.requantize import QuantGrid, round_floats
from qdialect.algebra.rounding import Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: expressed type -> the type it is divided in (f16 in f32, as ONNX Runtime and PyTorch do)
_WORKING = {"f16": "float32", "f32": "float32", "f64": "float64"}


PIECE = 1 << 20
"""Elements that are computed together, as numbers wider than those they are stored in."""


def chunks(shape: Sequence[int], most: int = PIECE) -> Iterator[tuple[Any, ...]]:
    """Indices of pieces (arrays, also of what has no dimension) of at most `most` elements or
    one slice, cut along the longest dimension; of all of it if that is little."""
    size = 1
    for extent in shape:
        size *= extent
    if size <= most:
        yield (slice(None),) * len(shape) or (...,)
        return
    along = max(range(len(shape)), key=lambda d: shape[d])
    count = max(most * shape[along] // size, 1)
    for start in range(0, shape[along], count):
        piece = slice(start, start + count)
        yield tuple(piece if d == along else slice(None) for d in range(len(shape)))


def storage_dtype(q: QParams) -> np.dtype[Any]:
    """The numpy type that holds codes of `q` (narrow storage takes a byte)."""
    width = next(w for w in (8, 16, 32, 64) if q.storage.width <= w)
    return np.dtype(f"{'i' if q.storage.signed else 'u'}{width // 8}")


def spread(values: Array, q: QParams, shape: tuple[int, ...]) -> Array:
    """Per-cell `values` (shape `q.grid`) so that they broadcast against `shape`."""
    if q.layout is Layout.TENSOR:
        return values.reshape(())
    if q.layout is Layout.AXIS:
        axis = q.blocks[0][0]
        return values.reshape([-1 if d == axis else 1 for d in range(len(shape))])
    for axis, block in q.blocks:
        if values.shape[axis] != 1:
            values = np.take(values, np.arange(shape[axis]) // block, axis)
    return values


def can_quantize_floats(q: QParams) -> bool:
    """Whether `quantize_floats` knows the expressed type."""
    return q.expressed in _WORKING and q.storage.width <= 32


def quantize_floats(x: Array, q: QParams, rounding: Rounding) -> Array:
    """Codes of float `x`: clamp(round(x / scale) + zero point), or of the product with the
    reciprocal; NaN gives the lowest code, infinities saturate."""
    kind = _WORKING[q.expressed]
    scale = spread(q.scale_array(), q, x.shape)
    if rounding is not Rounding.RECIPROCAL:  # that is of the double
        scale = scale.astype(kind)
    scale = np.broadcast_to(scale, x.shape)
    zero = np.broadcast_to(spread(q.zero_point_array(), q, x.shape), x.shape)
    far = 2.0**62
    result = np.empty(x.shape, storage_dtype(q))
    for where in chunks(x.shape):
        ratio = quotients(x[where].astype(kind), scale[where], rounding)
        rounded = round_floats(np.nan_to_num(ratio, nan=-far, posinf=far, neginf=-far), rounding)
        result[where] = np.clip(rounded + zero[where], q.storage.min, q.storage.max)
    return result


def rescale_codes(
    codes: Array, a: QParams, b: QParams, rounding: Rounding, defined: Arithmetic
) -> Array:
    """Codes of `a` as codes of `b`; per tensor, or both on the same grid."""
    result = np.empty(codes.shape, storage_dtype(b))
    low, high, floats = a.storage, b.storage, defined.floats(a.expressed)
    shape = codes.shape
    scale_a, zero_a = (spread(v, a, shape) for v in (a.scale_array(), a.zero_point_array()))
    scale_b, zero_b = (spread(v, b, shape) for v in (b.scale_array(), b.zero_point_array()))
    fields = np.broadcast_arrays(scale_a, zero_a, scale_b, zero_b)
    field_shape = fields[0].shape
    whole = np.broadcast_to(codes, shape)
    for index in np.ndindex(field_shape):
        sa, za, sb, zb = (field[index] for field in fields)
        where = tuple(i if n > 1 else slice(None) for i, n in zip(index, field_shape, strict=True))
        one = QuantGrid(float(sa), int(za), low.min, low.max)
        other = QuantGrid(float(sb), int(zb), high.min, high.max)
        source, target = whole[(*where, ...)], result[(*where, ...)]
        for piece in chunks(source.shape):
            target[piece] = requantized(source[piece], one, other, rounding, floats)
    return result
