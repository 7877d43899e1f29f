"""Which integers hold the sums of products that a contraction makes; pure numbers.

For weights w_k (offsets from their zero point) and activations x_k in [down, up] with
down <= 0 <= up, every sum of some of the products, in any order, is in

    [N up + P down, P up + N down]      P, N: the sums of the positive and negative weights

and both ends are sums of products of such activations. A bias b widens this by min(b, 0) and
max(b, 0). So in integers that hold this range nothing ever wraps or saturates.

A kernel may add products of bytes in pairs first, in integers that saturate (`vpmaddubsw` of
x86: unsigned codes times signed ones, zero points are subtracted elsewhere). Which products
meet is the kernel's choice; the sum of any two is in

    [h (the two lowest weights), h (the two highest)]       positive (negative) ones only

where the activations, counted from the lowest code of their storage, are in [0, h].
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.qparams import QParams, Storage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[Any]


_SUMS = re.compile(r"i(\d+)( saturating)?(?: pairs=i(\d+))?")


@dataclass(frozen=True)
class SumType:
    """In what a kernel adds up products: integers of `bits`, which wrap or saturate; where it
    adds them in pairs first, those saturate at `pair_bits` (x86 before VNNI: 16)."""

    bits: int = 32
    saturating: bool = False
    pair_bits: int | None = None

    @staticmethod
    def parse(text: str) -> SumType:
        """`i32`, `i24 saturating`, `i32 pairs=i16`; ValueError."""
        found = _SUMS.fullmatch(text)
        if found is None or not 8 <= int(found[1]) <= 64:
            raise ValueError(f"not a type of sums: '{text}' (i32, i24 saturating, i32 pairs=i16)")
        pairs = None if found[3] is None else int(found[3])
        return SumType(int(found[1]), found[2] is not None, pairs)

    @property
    def largest(self) -> int:
        """The largest sum."""
        return (1 << (self.bits - 1)) - 1

    def weaker(self, other: SumType) -> SumType:
        """What holds no more than either."""
        pairs = [bits for bits in (self.pair_bits, other.pair_bits) if bits is not None]
        return SumType(
            min(self.bits, other.bits),
            self.saturating or other.saturating,
            min(pairs, default=None),
        )

    def __str__(self) -> str:
        pairs = "" if self.pair_bits is None else f" pairs=i{self.pair_bits}"
        return f"i{self.bits}{' saturating' if self.saturating else ''}{pairs}"


SUMS = SumType()
"""What nobody declares otherwise."""
PAIRS = SumType(pair_bits=16)
"""What x86 before VNNI adds products of u8 and i8 up in."""


@dataclass(frozen=True)
class Span:
    """What activations can be: their offsets from the zero point, 0 included, and the highest
    of their codes, counted from the lowest that their storage has."""

    down: int
    up: int
    highest: int

    @staticmethod
    def of(params: QParams, codes: tuple[int, int] | None = None) -> Span:
        """That of codes with one scale (known to be from .. to ..)."""
        storage, zero = params.storage, params.zero_point
        low, high = codes or (storage.min, storage.max)
        # What is read beyond the edges is 0.
        low, high = min(low, zero), max(high, zero)
        return Span(low - zero, high - zero, high - storage.full_range[0])


def to_signed(storage: Storage) -> int:
    """What is added to codes of a storage for the signed codes that a kernel multiplies."""
    return -storage.full_range[0] - (1 << (storage.width - 1))


def signed_sums(offsets: Numbers, depth: int | None = None) -> tuple[Numbers, Numbers]:
    """The sums of the positive and of the negative elements of each row of weights; of no more
    than `depth` of them (None: all), the most extreme ones."""
    up = down = offsets
    if depth is not None and depth < offsets.shape[1]:
        ordered = np.sort(offsets, axis=1)
        up, down = ordered[:, -depth:], ordered[:, :depth]
    positive = np.maximum(up, 0).sum(axis=1, dtype=np.int64)
    return positive, np.minimum(down, 0).sum(axis=1, dtype=np.int64)


def partial_sums(positive: Numbers, negative: Numbers, span: Span) -> tuple[Numbers, Numbers]:
    """The lowest and the highest sum of some products, for weights of these `signed_sums`."""
    return (
        negative * span.up + positive * span.down,
        positive * span.up + negative * span.down,
    )


def pair_sums(codes: Numbers, span: Span) -> tuple[Numbers, Numbers]:
    """The lowest and the highest sum of two products of a row of signed codes, zero points
    included."""
    return _two_highest(-codes.astype(np.int64)) * -span.highest, _two_highest(codes) * span.highest


def _two_highest(codes: Numbers) -> Numbers:
    count = codes.shape[1]
    if count > 2:
        codes = np.partition(codes, count - 2, axis=1)[:, -2:]
    return np.maximum(codes, 0).sum(axis=1, dtype=np.int64)


def excess(low: Numbers, high: Numbers, bits: int) -> NDArray[np.float64]:
    """By which factor each range is wider than integers of `bits`; at most 1 where they hold
    it."""
    most = 2.0 ** (bits - 1)
    return np.maximum(high / (most - 1), low / -most).astype(np.float64)


def runtime_excess(x: Span, w: Span, signed: tuple[int, int], depth: int, kind: SumType) -> float:
    """By which factor sums of `depth` products of two runtime operands are too large; the signed
    codes of the second are from .. to .. those of `signed`."""
    low = depth * min(x.up * w.down, x.down * w.up)
    high = depth * max(x.up * w.up, x.down * w.down)
    beyond = float(excess(np.array([low]), np.array([high]), kind.bits)[0])
    if kind.pair_bits is None or depth < 1:
        return beyond
    pairs = pair_sums(np.array([[*signed, *signed]]), x)
    return max(beyond, float(excess(*pairs, kind.pair_bits)[0]))
