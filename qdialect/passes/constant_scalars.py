"""Scalars: constants that hold one real number everywhere, and their exact codes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from xdsl.ir import SSAValue

from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.context import QContext
from qdialect.numerics.lazy_numpy import np
from qdialect.numerics.quantize import PIECE
from qdialect.ops import ConstantOp, make_constant, shape_of
from qdialect.ops.constants import element_name
from qdialect.qparams import Layout, QParams, Storage
from qdialect.quant import UniformType, element_type

if TYPE_CHECKING:
    from numpy.typing import NDArray


def scalar_of(value: SSAValue, session: QContext) -> Fraction | None:
    """The one real number a constant holds everywhere, exactly; else None."""
    vector = vector_of(value, session)
    return vector[1][0] if vector is not None and vector[0] is None else None


class Numbers(Sequence[Fraction]):
    """Codes on per-index parameters, or plain floats, as exact numbers made when asked for."""

    def __init__(self, row: NDArray[Any], params: QParams | None) -> None:
        self._row = row
        self._scales = [1.0] if params is None else params.scale_list()
        self._zeros = [0] if params is None else params.zero_point_list()

    def __len__(self) -> int:
        return len(self._row)

    @overload
    def __getitem__(self, index: int) -> Fraction: ...
    @overload
    def __getitem__(self, index: slice) -> list[Fraction]: ...
    def __getitem__(self, index: int | slice) -> Fraction | list[Fraction]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        n = range(len(self))[index]
        scale = self._scales[n % len(self._scales)]
        # Floats, and steps of small codes, are whole multiples of what a double holds.
        steps = Fraction(self._row[n].item()) - self._zeros[n % len(self._zeros)]
        return steps if scale == 1.0 else steps * Fraction(scale)

    def is_one(self) -> bool:
        """Whether all numbers are the same."""
        first = self[0]
        return all(self[n] == first for n in range(1, len(self)))


def vector_of(value: SSAValue, session: QContext) -> tuple[int | None, Sequence[Fraction]] | None:
    """The real numbers of a constant that differ along one dimension, exactly: that
    dimension and one number for each index, or None and the one number; else None."""
    array = constant_values(value, session)
    if array is None or array.size == 0 or array.dtype.kind not in "fiu":
        return None
    params = qparams_of(value)
    if params is None and array.dtype.kind != "f":
        return None
    if params is not None and (
        params.storage.is_float
        or params.storage.quantile is not None
        or params.layout not in (Layout.TENSOR, Layout.AXIS)
    ):
        return None
    axis = None if params is None or params.is_per_tensor else params.axis
    varying = list[int]()
    for dim, extent in enumerate(array.shape):
        if dim == axis or (extent > 1 and _varies(array, dim)):
            varying.append(dim)
        if len(varying) > 1:
            return None
    if not varying:
        row = array.reshape(-1)[:1]
    else:
        row = np.moveaxis(array, varying[0], 0).reshape(array.shape[varying[0]], -1)[:, 0]
    # All others are equal to one of these, which no NaN is.
    if params is None and not np.isfinite(row).all():
        return None
    numbers = Numbers(row, params)
    # Numbers on one scale are as different as what holds them.
    if not varying or (axis is not None and numbers.is_one()):
        return None, numbers[:1]
    return varying[0], numbers


def _varies(array: NDArray[Any], dim: int) -> bool:
    """Whether not all slices along a dimension are the same; mostly the first two tell."""
    slices = np.moveaxis(array, dim, 0) if dim else array
    first, most = slices[:1], max(PIECE // max(slices[0].size, 1), 1)
    start, count = 1, 1
    while start < len(slices):
        if (slices[start : start + count] != first).any():
            return True
        start, count = start + count, min(2 * count, most)
    return array.dtype.kind == "f" and bool(np.isnan(first).any())


def exact_scalar(
    number: Fraction,
    expressed: str,
    shape: tuple[int, ...],
    session: QContext,
    *,
    signed: bool = True,
) -> ConstantOp:
    """A quantized constant that is exactly `number` everywhere: zero point or a step
    beside it on the scale |number|, which must be a number of the expressed type."""
    storage, zero = ("i8", 0) if signed else ("u8", 128)
    params = QParams.per_tensor(Storage.of(storage), abs(float(number)) or 1.0, zero, expressed)
    code = zero + (number > 0) - (number < 0)
    array = np.full(shape, code, np.int8 if signed else np.uint8)
    return make_constant(array, UniformType(params), session.blobs)


def exact_vector(
    numbers: Sequence[Fraction], rank: int, expressed: str, session: QContext, *, signed: bool
) -> ConstantOp:
    """The same with a number for each index of dimension 0, of `rank` dimensions."""
    storage, zero = ("i8", 0) if signed else ("u8", 128)
    scales = [abs(float(number)) or 1.0 for number in numbers]
    zeros = [zero] * len(scales)
    params = QParams.per_axis(Storage.of(storage), 0, scales, zeros, expressed)
    codes = [zero + (number > 0) - (number < 0) for number in numbers]
    array = np.array(codes, np.int8 if signed else np.uint8)
    array = array.reshape(-1, *(1,) * (rank - 1))
    return make_constant(array, UniformType(params), session.blobs)


def exact_copy(value: SSAValue, session: QContext) -> ConstantOp | None:
    """A float scalar constant as an exactly quantized one, or None if it is not one."""
    number = scalar_of(value, session)
    if number is None or qparams_of(value) is not None:
        return None
    expressed = element_name(element_type(value.type))
    return exact_scalar(number, expressed, shape_of(value), session)
