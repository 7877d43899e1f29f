"""Exact requantization of integer codes, and what can be decided from it.

A rescale maps code q of parameters a to clamp_b(round((s_a/s_b)(q - z_a)) + z_b)
in exact real arithmetic (docs/design/001-architecture.md).  Scales are doubles,
so s_a/s_b is an exact rational; for storage of at most 16 bits a rescale is a
table, and every question about it is answered by looking at all its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite, isqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int64]
    Choose = Callable[[Codes, Codes], Codes]
    """The larger, or the smaller, of two codes."""

#: storage width up to which decisions are made by enumerating codes
TABLE_WIDTH = 16


_MANY = 4096

#: pairs of parameters up to which they are remembered
_FEW = 8


class QuantGrid(NamedTuple):
    """One (scale, zero point) pair with inclusive storage bounds."""

    scale: float
    zero: int
    low: int
    high: int


def paired_parameters(a: QParams, b: QParams) -> list[tuple[QuantGrid, QuantGrid]] | None:
    """The parameters that meet in each cell when `a` is rescaled to `b`, row-major.

    None if the two fields are laid out on different grids (then nothing is
    decided here).
    """
    if a.is_per_tensor and b.is_per_tensor:
        return [(affine(a), affine(b))]
    if not a.is_per_tensor and not b.is_per_tensor and (a.blocks, a.grid) != (b.blocks, b.grid):
        return None
    left, right = _affines(a), _affines(b)
    count = max(len(left), len(right))
    return list(zip(_stretch(left, count), _stretch(right, count), strict=True))


def unique_pairs(a: QParams, b: QParams) -> list[tuple[QuantGrid, QuantGrid]] | None:
    """The distinct ones of `paired_parameters`."""
    pairs = paired_parameters(a, b)
    return pairs if pairs is None or len(pairs) == 1 else list(dict.fromkeys(pairs))


def parameter_triples(
    a: QParams, b: QParams, c: QParams
) -> list[tuple[QuantGrid, QuantGrid, QuantGrid]]:
    """The distinct parameters that meet in a -> b -> c (all on one grid, see `unique_pairs`)."""
    if a.is_per_tensor and b.is_per_tensor and c.is_per_tensor:
        return [(affine(a), affine(b), affine(c))]
    lists = [_affines(q) for q in (a, b, c)]
    count = max(map(len, lists))
    return list(dict.fromkeys(zip(*(_stretch(each, count) for each in lists), strict=True)))


def _affines(q: QParams) -> list[QuantGrid]:
    return list(_some(q)) if q.count <= _FEW else _all(q)


@lru_cache(maxsize=1 << 14)
def _some(q: QParams) -> tuple[QuantGrid, ...]:
    return tuple(_all(q))


def _all(q: QParams) -> list[QuantGrid]:
    low, high = q.storage.min, q.storage.max
    pairs = zip(q.scale_list(), q.zero_point_list(), strict=True)
    return [QuantGrid(s, z, low, high) for s, z in pairs]


def _stretch(values: list[QuantGrid], count: int) -> list[QuantGrid]:
    return values * count if len(values) == 1 else values


def codes_of(a: QuantGrid) -> Codes:
    """All codes within the storage bounds; read-only."""
    return _codes(a.low, a.high)


@lru_cache(maxsize=64)
def _codes(low: int, high: int) -> Codes:
    codes = np.arange(low, high + 1, dtype=np.int64)
    codes.flags.writeable = False
    return codes


def round_ratio(n: Codes, ratio: Fraction, rounding: Rounding) -> Codes:
    """round(n * ratio), exactly, elementwise; `n` in steps, |n| < 2**31.

    Evaluated in float64; an element closer to a rounding boundary than the
    evaluation's error is recomputed in integers.  Results beyond +-2**62 are
    clamped there (every caller clamps to storage bounds anyway).
    """
    return _rounded(n, ratio.numerator, ratio.denominator, rounding)


def _rounded(n: Codes, over: int, under: int, rounding: Rounding) -> Codes:
    """`round_ratio` of over / under, not necessarily in lowest terms."""
    if rounding.two_stage:
        raise ValueError(f"{rounding.value} rounding is defined for (multiplier, shift) only")
    limit = 2.0**62
    try:
        factor = over / under
    except OverflowError:
        factor = float("inf")
    if factor < 2.0**30:
        value = n * factor  # which stays below the limit
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.clip(np.where(n == 0, 0.0, n * factor), -limit, limit)
    nearest = np.floor(value + 0.5)
    # |value - exact| <= 2**-51 |value|: one rounding of the ratio, one of the product.
    near = np.abs(np.abs(value - nearest) - 0.5) <= np.abs(value) * 2.0**-50 + 2.0**-1000
    result = np.asarray(nearest, np.int64)
    if not near.any():
        return result
    near = np.asarray(near & (n != 0) & (np.abs(value) < limit))
    for index in map(int, np.flatnonzero(near)):
        result.flat[index] = round_quotient(int(n.flat[index]) * over, under, rounding)
    return result


def _ratio(a: QuantGrid, b: QuantGrid) -> tuple[int, int]:
    """s_a / s_b as a fraction, not in lowest terms: a double is a whole number over a power
    of two."""
    over, under = a.scale.as_integer_ratio()
    b_over, b_under = b.scale.as_integer_ratio()
    return over * b_under, under * b_over


def _clipped(codes: Codes, b: QuantGrid) -> Codes:
    return np.minimum(np.maximum(codes, b.low), b.high)


def same_codes(
    furthest: int, steps: tuple[Fraction, Fraction], out: QuantGrid, rounding: Rounding
) -> bool:
    """Whether n of one step and n of the other are the same code, for |n| <= `furthest`."""
    n = np.arange(-furthest, furthest + 1, dtype=np.int64)
    one, other = (
        np.clip(round_ratio(n, step / Fraction(out.scale), rounding) + out.zero, out.low, out.high)
        for step in steps
    )
    return bool(np.array_equal(one, other))


def round_fraction(value: Fraction, rounding: Rounding) -> int:
    """`value` rounded to an integer; ties as `rounding` says."""
    return round_quotient(value.numerator, value.denominator, rounding)


def round_quotient(n: int, d: int, rounding: Rounding) -> int:
    """n / d for d > 0, rounded to an integer; ties as `rounding` says."""
    below, rest = divmod(n, d)
    twice = 2 * rest
    if twice != d:
        return below + (twice > d)
    if rounding.in_reals is Rounding.HALF_EVEN:
        return below + (below & 1)
    if rounding is Rounding.HALF_AWAY:
        return below + (n > 0)
    return below + 1


def round_floats(x: NDArray[np.float64], rounding: Rounding) -> NDArray[np.float64]:
    """Doubles rounded to integers; ValueError for gemmlowp and ruy, which round shifts."""
    if rounding.in_reals is Rounding.HALF_EVEN:
        return np.rint(x)
    if rounding.two_stage:
        raise ValueError(f"floats do not round {rounding.value}")
    below = np.floor(x)
    rest = x - below  # exact, unlike x + 0.5
    up = rest >= 0.5 if rounding is Rounding.HALF_UP else (rest > 0.5) | ((rest == 0.5) & (x > 0))
    return below + up


@lru_cache(maxsize=256)  # 128 MB of 16-bit tables at worst
def table(a: QuantGrid, b: QuantGrid, rounding: Rounding) -> Codes:
    """The rescale a -> b as an array indexed by q - a.low; read-only."""
    result = _clipped(_rounded(codes_of(a) - a.zero, *_ratio(a, b), rounding) + b.zero, b)
    result.flags.writeable = False
    return result


def requantize(codes: NDArray[Any], a: QuantGrid, b: QuantGrid, rounding: Rounding) -> Codes:
    """Codes of `a` as codes of `b`."""
    ratio = _ratio(a, b)
    shifted = codes.astype(np.int64, copy=False) - a.zero
    if shifted.size > _MANY:
        # Ties are decided one by one: let every distinct code be one.
        distinct, inverse = np.unique(shifted, return_inverse=True)
        rounded = _rounded(distinct, *ratio, rounding)[inverse.reshape(shifted.shape)]
    else:
        rounded = _rounded(shifted, *ratio, rounding)
    return _clipped(rounded + b.zero, b)


def tabulated(q: QParams) -> bool:
    """Whether decisions about `q` can be made by enumerating its codes."""
    return q.storage.width <= TABLE_WIDTH


def is_pure_shift(a: QuantGrid, b: QuantGrid) -> bool:
    """Whether a -> b only renumbers codes: equal scales, so rounding never acts."""
    return a.scale == b.scale


def is_lossless(a: QuantGrid, b: QuantGrid) -> bool:
    """Whether every code of `a` names the same real number after a -> b.

    Needs s_a/s_b to be an integer, and no saturation.
    """
    # Two neighbouring codes cannot both land on integers, unless s_a/s_b is one.
    if a.low < a.high and not divides(b, a):
        return False
    over, under = _ratio(a, b)
    ends = [divmod((code - a.zero) * over, under) for code in (a.low, a.high)]
    return all(not rest and b.low <= end + b.zero <= b.high for end, rest in ends)


def keeps_distinct(a: QuantGrid, b: QuantGrid, rounding: Rounding) -> bool:
    """Whether a -> b maps different codes of `a` to different codes: it is monotone, so it
    then keeps every comparison of two of them."""
    if a.high - a.low < 1 << TABLE_WIDTH:
        return bool((np.diff(table(a, b, rounding)) > 0).all())
    ratio = Fraction(a.scale) / Fraction(b.scale)
    ends = [round_fraction((q - a.zero) * ratio, rounding) + b.zero for q in (a.low, a.high)]
    # Two products that far apart never round to one integer.
    return ratio >= 1 and b.low <= ends[0] and ends[1] <= b.high


def divides(b: QuantGrid, a: QuantGrid) -> bool:
    """Whether a step of `a` is a whole number of steps of `b`: a -> b then never rounds."""
    quotient = a.scale / b.scale
    if quotient < inf and not quotient.is_integer():
        return False  # as the quotient of two doubles is rounded, a whole number is exact
    over, under = _ratio(a, b)
    return over % under == 0


def composes(a: QuantGrid, b: QuantGrid, c: QuantGrid, first: Rounding, second: Rounding) -> bool:
    """Whether a -> b -> c equals a -> c (rounding `second`) on every code of `a`."""
    found = _composes_in_floats(a, b, c)
    if found is None:
        middle = table(a, b, first)
        found = np.array_equal(requantize(middle, b, c, second), table(a, c, second))
    return found


#: up to which size, and how far from a tie, a float is sure to round as what it stands for
_SMALL, _NEAR = 2.0**24, 2.0**-20


def _composes_in_floats(a: QuantGrid, b: QuantGrid, c: QuantGrid) -> bool | None:
    """`composes` where no code comes close to a tie, so that floats decide; else None."""
    once, again, whole = a.scale / b.scale, b.scale / c.scale, a.scale / c.scale
    furthest = max(a.high - a.zero, a.zero - a.low) * max(once, whole)
    if max(furthest, max(b.high - b.zero, b.zero - b.low) * again) >= _SMALL:
        return None
    n = codes_of(a) - float(a.zero)
    x = np.empty((3, n.size))
    np.multiply(n, once, out=x[0])
    np.multiply(n, whole, out=x[2])
    middle = np.floor(x[0] + 0.5)
    reached = np.minimum(np.maximum(middle, b.low - b.zero), b.high - b.zero)
    np.multiply(reached, again, out=x[1])
    x += 0.5
    rounded = np.floor(x)
    low, high = c.low - c.zero, c.high - c.zero
    one, other = np.minimum(np.maximum(rounded[1:], low), high)
    differs = one != other
    index = int(differs.argmax())
    if differs[index]:
        x, rounded = x[:, index], rounded[:, index]
    rest = x - rounded
    if rest.min() <= _NEAR or rest.max() >= 1 - _NEAR:
        return None
    return not bool(differs[index])


_MISSING = 256


def counterparts(
    constants: Codes, a: QuantGrid, wider: QuantGrid, values: Codes, choose: Choose
) -> Codes | None:
    """Per code c in `constants` (of b, distinct) a code c' of a such that

        choose(rescale(x), c) = rescale(choose(x, c'))    for every code x of `wider`

    (a, perhaps with wider bounds), `values` being the table of the rescale; None if one has
    none. A code that c is rescaled from
    will do, since a rescale is monotone; else c can only be one that is never, or always
    chosen, and the ends of a are tried on all codes.
    """
    x = codes_of(wider)
    start = a.low - wider.low
    inside = values[start : start + a.high - a.low + 1]
    position = np.searchsorted(inside, constants)
    hit = inside[np.minimum(position, inside.size - 1)] == constants
    result = a.low + np.minimum(position, inside.size - 1)
    missing = np.flatnonzero(~hit)
    if missing.size > _MISSING:
        return None
    for index in map(int, missing):
        code = constants[index : index + 1]
        for end in (a.low, a.high):
            chosen = choose(x, np.array([end])) - wider.low
            if np.array_equal(choose(values, code), values[chosen]):
                result[index] = end
                break
        else:
            return None
    return result


def rescaled(code: int, a: QuantGrid, b: QuantGrid, rounding: Rounding) -> int:
    """One code of `a` as a code of `b`, before it saturates: the rescale in integers."""
    over, under = _ratio(a, b)
    return round_quotient((code - a.zero) * over, under, rounding) + b.zero


def real_range(a: QuantGrid) -> tuple[Fraction, Fraction]:
    """Smallest and largest real number a code of `a` can name."""
    scale = Fraction(a.scale)
    return (a.low - a.zero) * scale, (a.high - a.zero) * scale


def clips_at_zero(
    codes: QParams, low: float | Fraction = -inf, high: float | Fraction = inf
) -> bool:
    """Whether codes end at real 0 on a side where what they stand for, in [low, high], goes on:
    their saturation is a ReLU, which computes something, and no loss of what is rare."""
    ends = [real_range(a) for a in quant_grids(codes)]
    return any((least == 0 and low < 0) or (most == 0 and high > 0) for least, most in ends)


def codes_clip_at_zero(source: QParams, codes: QParams) -> bool:
    """`clips_at_zero` of a rescale."""
    ends = [real_range(a) for a in quant_grids(source)]
    return clips_at_zero(codes, min(low for low, _ in ends), max(high for _, high in ends))


def clamps_nothing(a: QuantGrid, low: float, high: float) -> bool:
    """Whether all that codes of `a` name lies between `low` and `high`."""
    smallest, largest = a.low - a.zero, a.high - a.zero
    if low == 0 and high == inf:
        return smallest * a.scale >= 0
    scale = Fraction(a.scale)
    return low <= smallest * scale and largest * scale <= high


def covers(outer: QuantGrid, inner: QuantGrid) -> bool:
    """Whether everything that `inner` can name lies in the range of `outer`."""
    one, other = _ratio(outer, inner)
    return (outer.low - outer.zero) * one <= (inner.low - inner.zero) * other and (
        inner.high - inner.zero
    ) * other <= (outer.high - outer.zero) * one


def represents(a: QuantGrid, value: float) -> bool:
    """Whether some code of `a` names `value` exactly."""
    if value == 0:
        return a.low <= a.zero <= a.high
    low, high = real_range(a)
    return low <= value <= high and on_grid(a, value)


def on_grid(a: QuantGrid, value: float) -> bool:
    """Whether `value` is a whole number of steps, so that quantizing it never rounds."""
    return isfinite(value) and (Fraction(value) / Fraction(a.scale)).denominator == 1


def quant_grids(q: QParams) -> Sequence[QuantGrid]:
    """The distinct (scale, zero point) pairs of `q` with its bounds."""
    return _some(q) if q.is_per_tensor else list(dict.fromkeys(_affines(q)))


def affine(q: QParams) -> QuantGrid:
    """The one of `q`, which is per tensor."""
    (found,) = _some(q)
    return found


def square_root(value: Fraction, bits: int) -> Fraction:
    """The root of a positive number: itself if rational, else cut off after `bits` bits."""
    n, d = value.numerator, value.denominator
    if isqrt(n) ** 2 == n and isqrt(d) ** 2 == d:
        return Fraction(isqrt(n), isqrt(d))
    shift = max(0, bits + (d.bit_length() - n.bit_length()) // 2 + 1)
    return Fraction(isqrt((n << 2 * shift) // d), 1 << shift)


def quantize_real(value: float, b: QuantGrid, rounding: Rounding) -> int:
    """The code of one real number; infinities saturate."""
    if value == 0:
        return min(max(b.zero, b.low), b.high)
    if value in (float("inf"), float("-inf")):
        return b.high if value > 0 else b.low
    code = round_fraction(Fraction(value) / Fraction(b.scale), rounding) + b.zero
    return min(max(code, b.low), b.high)
