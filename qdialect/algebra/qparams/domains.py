"""Which qparams a tensor may have, as data: storages, layouts, zero points, scales.

A domain is written as the storages with what they may have behind them:

    i8 zero=0|-128 scale=2^n           i8, zero point 0 or -128, scales that are powers of two
    i8<-127:127>|i4 zero=0 per-axis    weights: symmetric codes, perhaps a scale per index
    u8 zero=0..255 scale=1/256         one scale only
    i8 per-axis(0) scale=m8*2^n        along dimension 0, scales of integers of 8 bits times one
                                       power of two, which all of them share
    *                                  anything

| word | the qparams |
|---|---|
| `per-axis`, `per-axis(D)` | may differ along a dimension (dimension D); else one for all |
| `per-block`, `per-block(N)` | may differ in blocks (of N elements) too |
| `zero=a\\|b`, `zero=a..b` | have these zero points |
| `scale=2^n` | have scales that are powers of two |
| `scale=n*x` | have scales that are multiples of x |
| `scale=mB*2^n` | have scales m 2^e, with integers m below 2^B and one e for the tensor |
| `scale=x\\|y` | have one of these scales (`1/256` and `0.5` are numbers) |
| `as=N` | are those of operand number N |

Pure: knows nothing of IR.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from qdialect.algebra.float_text import round_to_format
from qdialect.algebra.qparams.parameters import Layout, QParams, Storage

_ANY = "*"
_STORAGE = re.compile(r"(\w+?)(?:<(-?\d+):(-?\d+)>)?")
_LAYOUT = re.compile(r"per-(axis|block)(?:\((\d+)\))?")
_MULTIPLE, _SHARED = re.compile(r"n\*(.+)"), re.compile(r"m(\d+)\*2\^n")


@dataclass(frozen=True)
class Scales:
    """A set of scales: the powers of two, the multiples of a unit, or some numbers.

    With `shared_bits`, those of a tensor are m 2^e with integers m of so many bits and one e.
    """

    text: str
    unit: float = 0.0
    values: tuple[float, ...] = ()
    shared_bits: int = 0

    @staticmethod
    def parse(text: str) -> Scales:
        """The set that a text behind `scale=` names; ValueError."""
        if text == "2^n":
            return Scales(text)
        if found := _SHARED.fullmatch(text):
            bits = int(found[1])
            if not 1 <= bits <= 24:
                raise ValueError(f"integers of 1 to 24 bits, not {bits}")
            return Scales(text, shared_bits=bits)
        if found := _MULTIPLE.fullmatch(text):
            return Scales(text, unit=_number(found[1]))
        return Scales(text, values=tuple(sorted(map(_number, text.split("|")))))

    def holds(self, scales: Sequence[float]) -> bool:
        """Whether the scales of a tensor are of this set."""
        if self.values:
            return all(any(_is(scale, value) for value in self.values) for scale in scales)
        if self.unit:
            return all(
                scale > 0 and _is(scale, round(scale / self.unit) * self.unit) for scale in scales
            )
        if self.shared_bits:
            return _span(scales) <= self.shared_bits
        return all(_is_power(scale) for scale in scales)

    def near(self, scale: float) -> tuple[float, ...]:
        """The nearest scale that is no greater and the nearest that is no smaller, ascending;
        one if there is only one."""
        if self.values:
            if self.holds([scale]):
                return (scale,)
            below = [value for value in self.values if value <= scale][-1:]
            above = [value for value in self.values if value >= scale][:1]
            return tuple(dict.fromkeys((*below, *above)))
        if self.unit:
            count = scale / self.unit
            if self.holds([scale]):
                return (scale,)
            found = {max(math.floor(count), 1), max(math.ceil(count), 1)}
            return tuple(number * self.unit for number in sorted(found))
        if self.shared_bits:
            step = math.ldexp(1.0, math.frexp(scale)[1] - self.shared_bits)
            found = {math.floor(scale / step) * step, math.ceil(scale / step) * step}
            return tuple(sorted(found))
        exponent = math.frexp(scale)[1]
        below = math.ldexp(1.0, exponent - 1)
        return (below,) if below == scale else (below, 2 * below)

    def together(self, scales: Sequence[float]) -> list[float]:
        """Scales of the set for a whole tensor, each no smaller than the one given where the
        set has any such."""
        if not self.shared_bits:
            return [self.near(scale)[-1] for scale in scales]
        most = max(scales)
        step = math.ldexp(1.0, math.frexp(most)[1] - self.shared_bits)
        if math.ceil(most / step) >> self.shared_bits:
            step *= 2
        return [max(math.ceil(scale / step), 1) * step for scale in scales]


@dataclass(frozen=True)
class Domain:
    """A set of qparams; see the module. What is empty or None restricts nothing."""

    storages: tuple[Storage, ...] = ()
    layouts: frozenset[Layout] = frozenset({Layout.TENSOR})
    axis: int | None = None
    block: int | None = None
    zeros: tuple[tuple[int, int], ...] = ()
    scales: tuple[Scales, ...] = ()
    same_as: int | None = None

    @staticmethod
    def parse(text: str) -> Domain:
        """The domain that a text names; ValueError."""
        return _parsed(text)

    @property
    def is_storage(self) -> bool:
        """Whether all qparams on its storages are inside, which have no bounds."""
        return self == Domain(self.storages, frozenset(Layout)) and all(
            own.is_full_range for own in self.storages
        )

    @property
    def is_restricted(self) -> bool:
        """Whether it restricts scales or zero points of a storage narrower than those of sums, or
        the bounds of one."""
        if self.storages and all(own.width > 16 for own in self.storages):
            return False
        bounds = any(not own.is_full_range for own in self.storages)
        return bounds or bool(self.zeros or self.scales or self.same_as is not None)

    def takes_type(self, qparams: QParams) -> bool:
        """Whether storage and layout are inside."""
        if self.storages and not any(_inside(qparams.storage, own) for own in self.storages):
            return False
        if qparams.layout not in self.layouts:
            return False
        if qparams.layout is Layout.AXIS:
            return self.axis in (None, qparams.axis)
        sizes = [size for _, size in qparams.blocks if size > 1]
        return qparams.layout is Layout.TENSOR or self.block is None or sizes == [self.block]

    def refuses(self, qparams: QParams) -> str | None:
        """Why qparams are not inside, or None. Whether they are those of another operand is
        for who knows these."""
        if not self.takes_type(qparams):
            return f"{shown(qparams)} is not {self}"
        if self.zeros:
            for zero in dict.fromkeys(qparams.zero_point_list()):
                if not any(low <= zero <= high for low, high in self.zeros):
                    return f"zero point {zero} is not {_zeros_text(self.zeros)}"
        for scales in self.scales:
            found = qparams.scale_list()
            if not scales.holds(found):
                outside = next((s for s in found if not scales.holds([s])), found[0])
                return f"scale {outside:g} is not {scales.text}"
        return None

    def meet(self, other: Domain) -> Domain | None:
        """What is inside both, or None if that is nothing."""
        storages = self.storages or other.storages
        if self.storages and other.storages:
            storages = tuple(
                both
                for a in self.storages
                for b in other.storages
                if (both := _common(a, b)) is not None
            )
        layouts = self.layouts & other.layouts
        zeros = self.zeros or other.zeros
        if self.zeros and other.zeros:
            zeros = tuple(
                (max(a, c), min(b, d))
                for a, b in self.zeros
                for c, d in other.zeros
                if max(a, c) <= min(b, d)
            )
        scales = tuple(dict.fromkeys((*self.scales, *other.scales)))
        empty = (self.storages and not storages) or (self.zeros and not zeros) or not layouts
        empty = empty or not _agree(scales)
        if empty or _differ(self.axis, other.axis) or _differ(self.block, other.block):
            return None
        return Domain(
            storages,
            layouts,
            self.axis if other.axis is None else other.axis,
            self.block if other.block is None else other.block,
            zeros,
            scales,
            self.same_as if other.same_as is None else other.same_as,
        )

    def storage(self, preferred: Storage) -> Storage | None:
        """The storage to quantize to: `preferred`, within the bounds that the domain has for it,
        else as many codes of one as wide, else the first of 16 bits at most; None if there is no
        such: wider integers are for sums."""
        if not self.storages:
            return preferred
        if (bounded := self.bounds(preferred)) is not None:
            return bounded
        integers = [
            own
            for own in self.storages
            if not own.is_float and own.quantile is None and own.width <= 16
        ]
        alike = [_as_many(preferred, own) for own in integers if own.width == preferred.width]
        return next(iter((*alike, *integers)), None)

    def bounds(self, storage: Storage) -> Storage | None:
        """A storage within the bounds that the domain has for it, or None if it has no such."""
        if not self.storages:
            return storage
        return next(
            (_common(o, storage) for o in self.storages if o.spelling == storage.spelling), None
        )

    def zero_points(self, storage: Storage) -> list[int] | None:
        """The zero points that codes of `storage` may have: None if all; of a range, both ends
        and the middle of the storage."""
        if not self.zeros:
            return None
        if any(low <= storage.min and storage.max <= high for low, high in self.zeros):
            return None
        middle = 0 if storage.signed else (storage.min + storage.max + 1) // 2
        found: dict[int, None] = {}
        for low, high in self.zeros:
            for zero in (middle, low, high):
                if max(low, storage.min) <= zero <= min(high, storage.max):
                    found[zero] = None
        return list(found)

    def near(self, scale: float) -> tuple[float, ...]:
        """Scales of the domain beside `scale` that every one of its sets holds, ascending: one
        below and one above where there are; `scale` itself if any scale is inside."""
        if not self.scales:
            return (scale,)
        found = (value for scales in self.scales for value in scales.near(scale))
        return tuple(sorted({v for v in found if all(scales.holds([v]) for scales in self.scales)}))

    def __str__(self) -> str:
        words = ["|".join(map(str, self.storages)) or _ANY]
        if Layout.AXIS in self.layouts and self != ANY_DOMAIN:
            words.append("per-axis" if self.axis is None else f"per-axis({self.axis})")
        if Layout.BLOCK in self.layouts and self != ANY_DOMAIN:
            words.append("per-block" if self.block is None else f"per-block({self.block})")
        words += [f"zero={_zeros_text(self.zeros)}"] if self.zeros else []
        words += [f"scale={scales.text}" for scales in self.scales]
        words += [] if self.same_as is None else [f"as={self.same_as}"]
        return " ".join(words)


ANY_DOMAIN = Domain(layouts=frozenset(Layout))
"""All qparams there are."""


def with_storages(domains: Iterable[Domain], preferred: Storage) -> list[tuple[Domain, Storage]]:
    """Domains, each with the storage to quantize to: those that have `preferred`, else all that
    have any."""
    found = [(domain, own) for domain in domains if (own := domain.storage(preferred)) is not None]
    return [each for each in found if each[1].spelling == preferred.spelling] or found


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Domain:
    first, *words = text.split() or [""]
    try:
        found = ANY_DOMAIN
        if first != _ANY:
            found = Domain(tuple(_storage(part) for part in first.split("|")))
        for word in words:
            found = _with_word(found, word)
    except ValueError as error:
        raise ValueError(f"not a type of a kernel: '{text}': {error}") from None
    return found


def _with_word(found: Domain, word: str) -> Domain:
    name, _, value = word.partition("=")
    if layout := _LAYOUT.fullmatch(word):
        number = None if layout[2] is None else int(layout[2])
        if layout[1] == "axis":
            return replace(found, layouts=found.layouts | {Layout.AXIS}, axis=number)
        return replace(found, layouts=frozenset(Layout), block=number)
    if name == "zero" and value:
        return replace(found, zeros=tuple(map(_bounds, value.split("|"))))
    if name == "scale" and value:
        return replace(found, scales=(*found.scales, Scales.parse(value)))
    if name == "as" and value.isdigit():
        return replace(found, same_as=int(value))
    raise ValueError(f"'{word}' is no word of it (per-axis, per-block, zero=, scale=, as=)")


def _storage(text: str) -> Storage:
    found = _STORAGE.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is no storage")
    if found[2] is None:
        return Storage.of(found[1])
    made = Storage.of(found[1], int(found[2]), int(found[3]))
    if not (made.full_range[0] <= made.min < made.max <= made.full_range[1]):
        raise ValueError(f"'{text}' has no such bounds")
    return made


def _bounds(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    found = int(low), int(high if dots else low)
    if found[0] > found[1]:
        raise ValueError(f"'{text}' is no range")
    return found


def _number(text: str) -> float:
    found = float(Fraction(text))
    if not 0 < found < math.inf:
        raise ValueError(f"a scale is above 0, not '{text}'")
    return found


def _is(scale: float, value: float) -> bool:
    """Whether a scale is a number, or what the types that scales are held in have of it."""
    return scale in (value, round_to_format(value, "f32"))


def _is_power(scale: float) -> bool:
    return math.frexp(scale)[0] == 0.5


def _span(scales: Iterable[float]) -> int:
    """Bits from the highest of the largest scale to the lowest of any, on one exponent."""
    high, low = -math.inf, math.inf
    for scale in scales:
        mantissa, exponent = math.frexp(scale)
        whole = int(math.ldexp(mantissa, 53))
        high = max(high, exponent)
        low = min(low, exponent - 53 + ((whole & -whole).bit_length() - 1))
    return 0 if high == -math.inf else int(high - low)


def _inside(storage: Storage, own: Storage) -> bool:
    return storage.spelling == own.spelling and own.min <= storage.min <= storage.max <= own.max


def _common(a: Storage, b: Storage) -> Storage | None:
    if a.spelling != b.spelling or a.quantile != b.quantile:
        return None
    low, high = max(a.min, b.min), min(a.max, b.max)
    return replace(a, min=low, max=high) if low < high else None


@lru_cache(maxsize=1024)
def _agree(sets: tuple[Scales, ...]) -> bool:
    """Whether sets of scales have one in common, among their numbers, powers of two and multiples
    of their units."""
    if len(sets) < 2:
        return True
    tried = [value for each in sets for value in each.values]
    tried += [each.unit * count for each in sets if each.unit for count in range(1, 257)]
    tried += [math.ldexp(1.0, exponent) for exponent in range(-32, 9)]
    return any(all(each.holds([scale]) for each in sets) for scale in tried)


def _as_many(storage: Storage, own: Storage) -> Storage:
    """No more codes of `own` than a storage as wide has: around 0 where they have a sign, else
    from the least on."""
    steps = storage.max - storage.min
    low = max(own.min, -((steps + 1) // 2)) if own.signed else own.min
    return replace(own, min=low, max=min(own.max, low + steps))


def _differ(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a != b


def _zeros_text(zeros: Sequence[tuple[int, int]]) -> str:
    return "|".join(str(low) if low == high else f"{low}..{high}" for low, high in zeros)


def shown(params: QParams) -> str:
    """Storage and layout, for people: `i8`, `i8 per axis`."""
    layout = "" if params.layout is Layout.TENSOR else f" per {params.layout.value}"
    return f"{params.storage}{layout}"
