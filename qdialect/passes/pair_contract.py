"""Contracts of requantizations: of two in a row as one, and of another rounding.

`pair_contract` says what replacing a -> b -> c by a -> c may change. Rules that fold rescales, move
them past ops and place them depend on it:

    %0 = quant.rescale %x : !a to !b
    %1 = quant.rescale %0 : !b to !c        ->        %1 = quant.rescale %x : !a to !c

`target_rounding` says what changes where a target rounds in another way than the model says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from xdsl.ir import Operation

from qdialect.algebra import arithmetic
from qdialect.algebra import requantize as exact
from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.qparams import QParams
from qdialect.algebra.ranges import Interval, unclamped
from qdialect.algebra.rounding import Rounding
from qdialect.ir.ops.base import is_kernel, kernels_of
from qdialect.ir.quant import arithmetic_of
from qdialect.rewrite import Refusal
from qdialect.rewrite.kernel_marks import distance, weakened
from qdialect.targets.base import Target

Reach = Callable[[], Sequence[Interval] | None]
"""The intervals that reals lie in, computed only where they matter."""

#: pairs of parameters up to which a contract is cached
_FEW = 64

NO_TWO_STAGE = Refusal("rounding", "gemmlowp and ruy round multiplier and shift, no real numbers")


def pair_contract(
    a: QParams | None,
    b: QParams,
    c: QParams,
    first: Rounding,
    second: Rounding,
    reach: Reach | None = None,
    *,
    defined: Arithmetic,
) -> Contract | Refusal:
    """What replacing a -> b -> c by a -> c may change; `a` None means any real number,
    or one in `reach()` (one interval for all, or one per cell of b).

    The bounds of `a` are the smallest and the largest code that occurs.

    Dropping the middle drops an error of half a middle step, so results differ by
    at most s_b / (2 s_c) + 1 steps, if the middle clips nothing that c would not.
    The new a -> c rounds like the second; of a real number, if b and c have equal
    scales (`renumbers`), like the first.  What is exact in the reals is `ties` where ops are
    `defined` in floats, unless all codes agree there.
    """
    floats = defined.floats(b.expressed)
    if reach is None and b.count * c.count <= _FEW:
        return _cached(a, b, c, first, second, floats)
    return _decided(a, b, c, first, second, reach, floats)


@lru_cache(maxsize=1 << 14)
def _cached(
    a: QParams | None,
    b: QParams,
    c: QParams,
    first: Rounding,
    second: Rounding,
    floats: str | None,
) -> Contract | Refusal:
    return _decided(a, b, c, first, second, None, floats)


def _decided(
    a: QParams | None,
    b: QParams,
    c: QParams,
    first: Rounding,
    second: Rounding,
    reach: Reach | None,
    floats: str | None,
) -> Contract | Refusal:
    found = _in_reals(a, b, c, first, second, reach)
    if floats is None or isinstance(found, Refusal):
        return found
    triples = _parameter_triples(a, b, c) or ()
    if a is None:
        if found.level > Numerics.EXACT:
            return found
        same = all(arithmetic.is_real(mid, out, second, floats) for _, mid, out in triples)
        return found if same else _IN_REALS
    if a.storage.max - a.storage.min >= 1 << exact.TABLE_WIDTH:
        return _IN_REALS if found.level is Numerics.EXACT else found
    apart = max(_apart(_set(src), mid, out, first, second, floats) for src, mid, out in triples)
    if not apart:
        return Contract(Numerics.EXACT, note="equal on all codes")
    if found.level is Numerics.EXACT:
        return _IN_REALS if apart == 1 else Contract(Numerics.BOUNDED, apart, "in floats")
    return Contract(found.level, max(found.steps, apart), found.note)


def _apart(
    a: exact.QuantGrid,
    b: exact.QuantGrid,
    c: exact.QuantGrid,
    first: Rounding,
    second: Rounding,
    floats: str,
) -> int:
    """The largest difference of a -> b -> c and a -> c on a code of `a`."""
    middle = arithmetic.table(a, b, first, floats)
    chain = arithmetic.requantized(middle, b, c, second, floats)
    return int(np.abs(chain - arithmetic.table(a, c, second, floats)).max())


_IN_REALS = Contract(Numerics.TIES, 1, "equal in the reals, not in floats")


def _in_reals(
    a: QParams | None,
    b: QParams,
    c: QParams,
    first: Rounding,
    second: Rounding,
    reach: Reach | None,
) -> Contract | Refusal:
    if any(one.two_stage for one in (first, second)):
        return NO_TWO_STAGE
    triples = _parameter_triples(a, b, c)
    if triples is None:
        return Refusal("grid", "the encodings lie on different grids")
    if a is None:
        if renumbers(b, c):
            if all(exact.covers(mid, out) for _, mid, out in triples):
                return Contract(Numerics.EXACT, note="equal scales")
            if _stays_inside(reach, b, first):
                return Contract(Numerics.EXACT, note="equal scales, and nothing is clipped")
    elif all(
        exact.is_lossless(_set(src), mid)
        or (exact.divides(mid, _set(src)) and exact.covers(mid, out))
        for src, mid, out in triples
    ):
        return Contract(Numerics.EXACT, note="the middle loses nothing")
    elif a.storage.max - a.storage.min < 1 << exact.TABLE_WIDTH and all(
        exact.composes(_set(src), mid, out, first, second) for src, mid, out in triples
    ):
        return Contract(Numerics.EXACT, note="equal on all codes")
    steps = max(mid.scale / (2 * out.scale) for _, mid, out in triples) + 1
    clips = [
        mid
        for src, mid, out in triples
        if not exact.covers(mid, out) and (src is None or not exact.covers(mid, src))
    ]
    if clips and not _stays_inside(reach, b, first):
        low, high = exact.real_range(clips[0])
        note = f"the middle clips to [{float(low):g}, {float(high):g}]"
        return Contract(Numerics.SATURATION, steps, note)
    return Contract(Numerics.BOUNDED, steps, "drops the middle's rounding")


def _stays_inside(reach: Reach | None, b: QParams, rounding: Rounding) -> bool:
    """Whether no real number in `reach()` is clipped by b."""
    found = None if reach is None else reach()
    if found is None:
        return False
    cells = [mid for mid, _ in exact.paired_parameters(b, b) or ()]
    pairs = [(x, mid) for x in found for mid in cells]
    if len(found) == len(cells):
        pairs = list(zip(found, cells, strict=True))
    return all(unclamped(x, mid, rounding).inside(Interval(mid.low, mid.high)) for x, mid in pairs)


def in_reals(op: Operation, note: str = "in real arithmetic") -> Contract:
    """Of what is equal in the reals and rounds in another order: `ties` where `op` is defined in
    floats."""
    if arithmetic_of(op) is Arithmetic.EXPRESSED:
        return Contract(Numerics.TIES, 1, f"{note}; floats round in another order")
    return Contract(Numerics.EXACT, note=note)


def replaced_kernel(op: Operation, found: Contract) -> Contract:
    """`found`, of another op in place of `op`: `ties` at best if a kernel defines that, and as far
    off as that kernel is from the real value where it is known bit by bit."""
    if kernels_of(op) is not None:
        return found if found.by_kernels else weakened(found, distance(op))
    if found.level > Numerics.EXACT or not is_kernel(op):
        return found
    return Contract(Numerics.TIES, 1, "an integer kernel rounds in a way of its own")


def target_rounding(
    target: Target,
    rounding: Rounding,
    source: Callable[[], QParams | None],
    b: QParams,
    defined: Arithmetic,
) -> tuple[Rounding, Contract | Refusal]:
    """How a new requantization a -> b rounds on `target` where the model says `rounding`, and
    what that changes; a is `source()`, where None means any real number.

    Two ways to round to nearest differ in ties only.
    """
    chosen = target.rounding(rounding)
    if any(one.two_stage for one in (rounding, chosen)):
        return chosen, NO_TWO_STAGE
    if chosen is rounding:
        return chosen, EXACT
    a = source()
    pairs = None if a is None or not exact.tabulated(a) else exact.unique_pairs(a, b)
    floats = defined.floats(b.expressed)
    if pairs and all(
        np.array_equal(
            arithmetic.table(x, y, rounding, floats), arithmetic.table(x, y, chosen, floats)
        )
        for x, y in pairs
    ):
        return chosen, Contract(Numerics.EXACT, note="no code is a tie")
    return chosen, Contract(Numerics.TIES, note=f"{target.name} rounds {chosen.value}")


def renumbers(b: QParams, c: QParams) -> bool:
    """Whether b -> c has equal scales everywhere: then it never rounds."""
    return all(exact.is_pure_shift(mid, out) for mid, out in exact.unique_pairs(b, c) or ())


def _set(affine: exact.QuantGrid | None) -> exact.QuantGrid:
    assert affine is not None
    return affine


def _parameter_triples(
    a: QParams | None, b: QParams, c: QParams
) -> list[tuple[exact.QuantGrid | None, exact.QuantGrid, exact.QuantGrid]] | None:
    if a is not None and a.is_per_tensor and b.is_per_tensor and c.is_per_tensor:
        return list(exact.parameter_triples(a, b, c))
    if exact.unique_pairs(b, c) is None or (a is not None and exact.unique_pairs(a, b) is None):
        return None
    if a is not None and exact.unique_pairs(a, c) is None:
        return None
    if a is None:
        return [(None, mid, out) for mid, out in exact.unique_pairs(b, c) or ()]
    return list(exact.parameter_triples(a, b, c))
