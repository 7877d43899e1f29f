"""Quantization parameters as a value: storage, expressed type, parameter field.

Pure: knows nothing of IR.  `!quant.uniform` is a `QParams` wrapped as a type.

A quantized tensor is integers `q` plus a field of (scale, zero point) pairs;
its real value at index i is `(q[i] - zero_point(i)) * scale(i)`.  The field is
stored compressed: one pair (per tensor), one pair per index of an axis (per
axis), or one pair per cell of a block grid (sub-channel).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from math import inf, prod
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from qdialect.algebra.float_text import FORMATS, round_to_format

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_F64, _I64 = Struct("d"), Struct("q")

FLOAT_STORAGE = {"f8E4M3FN": (8, 448), "f8E5M2": (8, 57344), "f4E2M1FN": (4, 6)}
"""Width in bits and largest value of the float types that may be stored."""


class Quantile(NamedTuple):
    """A look-up table of storage codes: code number k, from the lower bound, means table[k].

    `value_type` is the MLIR type of the entries (`f16`, `i8`); `table` holds them
    as packed doubles (see `pack_f64`).
    """

    value_type: str
    table: bytes

    def values(self) -> list[float]:
        """The real numbers of the table, in the order of their codes."""
        values = array("d")
        values.frombytes(self.table)
        return values.tolist()


@dataclass(frozen=True)
class Storage:
    """The stored number: spelling, width in bits and inclusive bounds.

    `keyword` is how the type is written: `i` and `si` are two's complement, `u`
    and `ui` unsigned, or the name of a float type.  Bounds default to the full
    range.  With a `quantile`, stored codes index its table.
    """

    keyword: str
    width: int
    min: int
    max: int
    quantile: Quantile | None = None

    @staticmethod
    def of(
        text: str,
        min: int | None = None,
        max: int | None = None,
        quantile: Quantile | None = None,
    ) -> Storage:
        """`Storage.of("u8")`, `Storage.of("i8", -127, 127)`, `Storage.of("f8E4M3FN")`."""
        if text in FLOAT_STORAGE:
            keyword, (width, high) = text, FLOAT_STORAGE[text]
            low = -high
        else:
            keyword = text.rstrip("0123456789")
            if keyword not in ("i", "u", "si", "ui") or keyword == text:
                raise ValueError(f"not a storage type: {text!r}")
            width = int(text[len(keyword) :])
            low, high = full_range(keyword in ("i", "si"), width)
        return Storage(
            keyword, width, low if min is None else min, high if max is None else max, quantile
        )

    @property
    def signed(self) -> bool:
        """Whether stored integers have a sign."""
        return self.keyword not in ("u", "ui")

    @property
    def is_float(self) -> bool:
        """Whether codes are small floats."""
        return self.keyword in FLOAT_STORAGE

    @property
    def spelling(self) -> str:
        """The storage type without bounds and table: `u8`, `f8E4M3FN`."""
        return self.keyword if self.is_float else f"{self.keyword}{self.width}"

    @property
    def full_range(self) -> tuple[int, int]:
        """The bounds of the storage type itself, whatever `min` and `max` are."""
        if self.is_float:
            return (-FLOAT_STORAGE[self.keyword][1], FLOAT_STORAGE[self.keyword][1])
        return full_range(self.signed, self.width)

    @property
    def is_full_range(self) -> bool:
        """Whether the bounds are those of the storage type."""
        return (self.min, self.max) == self.full_range

    def __str__(self) -> str:
        """Spelling and bounds; a quantile table is not shown."""
        bounds = "" if self.is_full_range else f"<{self.min}:{self.max}>"
        return f"{self.spelling}{bounds}"


@lru_cache(maxsize=256)
def _with_signedness(storage: Storage, signed: bool) -> Storage:
    shift = full_range(signed, storage.width)[0] - storage.full_range[0]
    keyword = "i" if signed else "u"
    return Storage(keyword, storage.width, storage.min + shift, storage.max + shift)


def full_range(signed: bool, width: int) -> tuple[int, int]:
    """Inclusive range of a `width`-bit integer."""
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)


class Layout(Enum):
    """How the parameter field is compressed."""

    TENSOR = "tensor"
    AXIS = "axis"
    BLOCK = "block"


def pack_f64(values: Iterable[float]) -> bytes:
    """Scales as native-endian doubles."""
    return array("d", values).tobytes()


def pack_i64(values: Iterable[int]) -> bytes:
    """Zero points as native-endian 64-bit integers."""
    return array("q", values).tobytes()


@dataclass(frozen=True)
class QParams:
    """Storage, expressed type and a compressed parameter field.

    `blocks` lists (axis, block size): empty for per tensor, `((axis, 1),)` for
    per axis, any axes for a block grid (an axis not listed is one block).
    `grid` is the shape of the parameter tensor: `()`, `(channels,)`, or one
    extent per tensor dimension for a block grid.  `scales` and `zero_points` are
    packed (see `pack_f64`, `pack_i64`), so that equality, hashing and printing
    of 4 096 channels cost what bytes cost.  Scales are compared bit for bit.
    """

    storage: Storage
    expressed: str
    layout: Layout
    blocks: tuple[tuple[int, int], ...]
    grid: tuple[int, ...]
    scales: bytes
    zero_points: bytes

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.storage, self.expressed, self.blocks, self.scales, self.zero_points))

    def __getstate__(self) -> dict[str, object]:
        # Hashes of strings differ between processes; the other is only remembered.
        derived = ("_hash", "is_expressible")
        return {name: value for name, value in vars(self).items() if name not in derived}

    # -- construction -----------------------------------------------------

    @staticmethod
    def per_tensor(
        storage: Storage | str, scale: float, zero_point: int = 0, expressed: str = "f32"
    ) -> QParams:
        """One scale (real units per step) and zero point (steps) for the tensor."""
        return QParams(
            _storage(storage),
            expressed,
            Layout.TENSOR,
            (),
            (),
            pack_f64((scale,)),
            pack_i64((zero_point,)),
        )

    @staticmethod
    def per_axis(
        storage: Storage | str,
        axis: int,
        scales: Sequence[float],
        zero_points: Sequence[int] | None = None,
        expressed: str = "f32",
    ) -> QParams:
        """One scale and zero point per index of dimension `axis` (>= 0)."""
        zeros = [0] * len(scales) if zero_points is None else zero_points
        if len(zeros) != len(scales):
            raise ValueError(f"{len(scales)} scales but {len(zeros)} zero points")
        return QParams(
            _storage(storage),
            expressed,
            Layout.AXIS,
            ((axis, 1),),
            (len(scales),),
            pack_f64(scales),
            pack_i64(zeros),
        )

    @staticmethod
    def blockwise(
        storage: Storage | str,
        blocks: Sequence[tuple[int, int]],
        grid: Sequence[int],
        scales: Sequence[float],
        zero_points: Sequence[int] | None = None,
        expressed: str = "f32",
    ) -> QParams:
        """One scale and zero point per cell of a block grid (sub-channel).

        `blocks` lists (axis, elements per block), `grid` the number of blocks
        along every tensor dimension; `scales` (rounded to the expressed type, as
        MLIR holds them) and `zero_points` are in row-major order of the grid.
        """
        zeros = [0] * len(scales) if zero_points is None else zero_points
        if not len(zeros) == len(scales) == prod(grid):
            raise ValueError(
                f"{len(scales)} scales and {len(zeros)} zero points for a grid of {prod(grid)}"
            )
        return QParams(
            _storage(storage),
            expressed,
            Layout.BLOCK,
            tuple(blocks),
            tuple(grid),
            _rounded(scales, expressed),
            pack_i64(zeros),
        )

    # -- reading ----------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of (scale, zero point) pairs stored."""
        return len(self.scales) // 8

    @property
    def is_per_tensor(self) -> bool:
        """Whether one scale and zero point hold for all elements."""
        return self.layout is Layout.TENSOR

    @cached_property
    def is_expressible(self) -> bool:
        """Whether a type can hold every scale. It lies in the range of the expressed type, and in
        blocks it is a value of that type: computed or copied scales may be neither."""
        fmt, scales = FORMATS[self.expressed], self.scale_list()
        if self.layout is Layout.BLOCK and self.rounded() != self:
            return False
        # One after the other: a scale that is no number is in no range.
        least, most = fmt.smallest, fmt.largest
        return all(least <= scale <= most for scale in scales)

    def rounded(self) -> QParams:
        """These with scales of the expressed type, as blocks hold them."""
        return replace(self, scales=_rounded(self.scale_list(), self.expressed))

    @property
    def axis(self) -> int | None:
        """The quantized dimension of a per-axis encoding, else None."""
        return self.blocks[0][0] if self.layout is Layout.AXIS else None

    @property
    def scale(self) -> float:
        """The scale of a per-tensor encoding (real units per step)."""
        if not self.is_per_tensor:
            raise ValueError("scale of an encoding that is not per tensor")
        return _F64.unpack(self.scales)[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a per-tensor encoding (steps)."""
        if not self.is_per_tensor:
            raise ValueError("zero point of an encoding that is not per tensor")
        return _I64.unpack(self.zero_points)[0]

    def scale_list(self) -> list[float]:
        """All scales in row-major order of the grid."""
        values = array("d")
        values.frombytes(self.scales)
        return values.tolist()

    def zero_point_list(self) -> list[int]:
        """All zero points in row-major order of the grid."""
        values = array("q")
        values.frombytes(self.zero_points)
        return values.tolist()

    def scale_array(self) -> NDArray[np.float64]:
        """Scales as a read-only array of shape `grid`; no copy."""
        import numpy as np

        return np.frombuffer(self.scales, np.float64).reshape(self.grid)

    def zero_point_array(self) -> NDArray[np.int64]:
        """Zero points as a read-only array of shape `grid`; no copy."""
        import numpy as np

        return np.frombuffer(self.zero_points, np.int64).reshape(self.grid)

    def difference(self, other: QParams) -> str:
        """What differs first, for the end of a message that shows this and then `other` as types,
        whose texts may be long or the same: ` (scale [3]: 0.1 != 0.25)`.
        Empty where the layouts differ."""
        for word in ("storage", "expressed"):
            mine, theirs = str(getattr(self, word)), str(getattr(other, word))
            if mine != theirs:
                return f" ({word}: {mine} != {theirs})"
        if (self.blocks, self.grid) != (other.blocks, other.grid):
            return ""
        for word, listed in (
            ("scale", QParams.scale_list),
            ("zero point", QParams.zero_point_list),
        ):
            pairs = [*zip(listed(self), listed(other), strict=True)]
            apart = [k for k, (a, b) in enumerate(pairs) if a != b]
            if apart:
                from numpy import unravel_index

                place = [*map(int, unravel_index(apart[0], self.grid))]
                where = f"{word} {place}" if place else word
                more = f", {len(apart)} of {len(pairs)} differ" if len(apart) > 1 else ""
                return f" ({where}: {' != '.join(map(str, pairs[apart[0]]))}{more})"
        return ""

    # -- deriving ---------------------------------------------------------

    def with_storage(self, storage: Storage | str) -> QParams:
        """The same field on another storage."""
        return replace(self, storage=_storage(storage))

    def with_signedness(self, signed: bool) -> QParams:
        """The same real numbers on integers of the same width, signed or not: codes, bounds
        and zero points move by half the range."""
        storage = self.storage
        if storage.signed == signed:
            return self
        moved = _with_signedness(storage, signed)
        shift = moved.min - storage.min
        zero_points = pack_i64([z + shift for z in self.zero_point_list()])
        return replace(self, storage=moved, zero_points=zero_points)

    def with_axis(self, axis: int) -> QParams:
        """The same per-axis vector on another dimension number."""
        if self.layout is not Layout.AXIS:
            raise ValueError("with_axis of an encoding that is not per axis")
        return replace(self, blocks=((axis, 1),))

    def transposed(self, perm: Sequence[int] = (1, 0)) -> QParams:
        """The same field, in the same encoding, on a tensor whose dimension k was `perm[k]`."""
        if self.layout is Layout.TENSOR:
            return self
        if self.layout is Layout.AXIS:
            return self.with_axis(perm.index(self.blocks[0][0]))
        return QParams.blockwise(
            self.storage,
            sorted((perm.index(axis), block) for axis, block in self.blocks),
            [self.grid[p] for p in perm],
            self.scale_array().transpose(perm).reshape(-1).tolist(),
            self.zero_point_array().transpose(perm).reshape(-1).tolist(),
            self.expressed,
        )


def _rounded(scales: Sequence[float], expressed: str) -> bytes:
    singles = array("f", scales) if expressed == "f32" else array("f", [inf])
    if inf in singles:
        return pack_f64(round_to_format(scale, expressed) for scale in scales)
    return pack_f64(singles)


def _storage(storage: Storage | str) -> Storage:
    return Storage.of(storage) if isinstance(storage, str) else storage
