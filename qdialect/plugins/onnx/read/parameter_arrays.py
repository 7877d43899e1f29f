"""Scales and zero points that come as arrays which broadcast to the tensor they are of.

Where others write one number for a channel as `[1, C, 1, 1]`, a type has an axis.
"""

from __future__ import annotations

from math import isfinite, prod
from typing import TYPE_CHECKING, Any

from qdialect.algebra.qparams.parameters import QParams, Storage
from qdialect.ir.quant import UniformType

if TYPE_CHECKING:
    from numpy.typing import NDArray


def element_of(
    shape: tuple[int, ...],
    storage: Storage,
    scale: NDArray[Any],
    zero: NDArray[Any] | None = None,
) -> UniformType | None:
    """The type of codes of a tensor of `shape` with these f32 scales and zero points; None if
    no type says the same."""
    import numpy as np

    if scale.dtype != np.float32 or not all(isfinite(s) and s > 0 for s in scale.flat):
        return None
    fields = [scale] if zero is None else [scale, zero]
    axes = [broadcast_axis(shape, array.shape) for array in fields]
    if None in axes or len(set(axes) - {-1}) > 1:
        return None
    axis = max(a for a in axes if a is not None)
    count = 1 if axis < 0 else shape[axis]
    scales = np.broadcast_to(scale.reshape(-1), (count,))
    zeros = np.zeros(count) if zero is None else zero.reshape(-1)
    zeros = np.broadcast_to(zeros, (count,))
    if not all(z == int(z) and storage.min <= z <= storage.max for z in _finite(zeros)):
        return None
    numbers = [float(s) for s in scales], [int(z) for z in zeros]
    if axis < 0:
        return UniformType(QParams.per_tensor(storage, numbers[0][0], numbers[1][0], "f32"))
    return UniformType(QParams.per_axis(storage, axis, *numbers, "f32"))


def _finite(numbers: NDArray[Any]) -> list[float]:
    """The numbers; one that is none becomes a half, which is no zero point."""
    return [number if isfinite(number) else 0.5 for number in numbers.astype(float).tolist()]


def broadcast_axis(shape: tuple[int, ...], field: tuple[int, ...]) -> int | None:
    """The dimension of `shape` that an array broadcast to it varies on; -1 for none, and
    None if there are several or the shape would change."""
    if len(field) > len(shape):
        return None
    if prod(field) == 1:
        return -1
    aligned = (1,) * (len(shape) - len(field)) + field
    wide = [d for d, extent in enumerate(aligned) if extent != 1]
    return wide[0] if len(wide) == 1 and shape[wide[0]] == aligned[wide[0]] else None
