"""Read constants as exact real numbers, and write real numbers as constants of exact codes.

`scalar_of` reads a constant that is one number everywhere, `vector_of` one whose numbers differ
along one dimension; `exact_scalar` and `exact_vector` write codes 1, 0 and -1 on the scale
|number|.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from xdsl.ir import SSAValue

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.qparams import Layout, QParams, Storage
from qdialect.algebra.quantize import PIECE
from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp, make_constant, shape_of
from qdialect.ir.ops.constants import element_name
from qdialect.ir.quant import UniformType, element_type

if TYPE_CHECKING:
    from numpy.typing import NDArray


def scalar_of(value: SSAValue, session: QContext) -> Fraction | None:
    """The one real number a constant holds everywhere, exactly; else None."""
    vector = vector_of(value, session)
    return vector[1][0] if vector is not None and vector[0] is None else None


_T = TypeVar("_T")


class PerChannel(Sequence[_T], Generic[_T]):
    """One element for each channel, or one for all, computed when it is first read: where a rewrite
    is refused, mostly the first channels say so. Any index is valid, modulo the number."""

    def __init__(self, count: int, compute: Callable[[int], _T]) -> None:
        self._count = count
        self._compute = compute
        self._known: dict[int, _T] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[_T]:
        return (self[n] for n in range(self._count))

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | list[_T]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(self._count))]
        n = index % self._count
        if n not in self._known:
            self._known[n] = self._compute(n)
        return self._known[n]


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
    scales = [1.0] if params is None else params.scale_list()
    zeros = [0] if params is None else params.zero_point_list()

    def number(n: int) -> Fraction:
        # Floats, and steps of small codes, are whole multiples of what a double holds.
        steps = Fraction(row[n].item()) - zeros[n % len(zeros)]
        scale = scales[n % len(scales)]
        return steps if scale == 1.0 else steps * Fraction(scale)

    numbers = PerChannel(len(row), number)
    # Numbers on one scale are as different as what holds them.
    if not varying or (axis is not None and all(each == numbers[0] for each in numbers)):
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
    """A quantized constant that is exactly `number` everywhere: the zero point or one step from
    it, on the scale |number|, which must be a number of the expressed type."""
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


def exact_copy(value: SSAValue, session: QContext, *, signed: bool) -> ConstantOp | None:
    """A float scalar constant as an exactly quantized one, or None if it is not one."""
    number = scalar_of(value, session)
    if number is None or qparams_of(value) is not None:
        return None
    expressed = element_name(element_type(value.type))
    return exact_scalar(number, expressed, shape_of(value), session, signed=signed)
