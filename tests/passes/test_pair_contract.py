"""The class claimed for dropping a middle encoding, against all codes with and without
the middle's clamp."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.requantize import QuantGrid, round_fraction
from qdialect.algebra.rounding import Rounding
from qdialect.passes.rescale.fold_rescale import pair_contract

REAL = Arithmetic.REAL
EVEN = Rounding.HALF_EVEN
NARROW = Storage.of("i8", -20, 20)
GRID = [
    QParams.per_tensor(storage, scale, zero)
    for storage, (scale, zero) in product(
        ("i4", "u4", NARROW), ((0.5, 3), (1.0, 0), (0.75, 7), (4.0, 2))
    )
]


def affine(q: QParams) -> QuantGrid:
    return QuantGrid(q.scale, q.zero_point, q.storage.min, q.storage.max)


def step(q: int, a: QuantGrid, b: QuantGrid, *, clamp: bool = True) -> int:
    value = round_fraction((q - a.zero) * Fraction(a.scale) / Fraction(b.scale), EVEN) + b.zero
    return min(max(value, b.low), b.high) if clamp else value


def test_a_middle_that_clips_is_called_saturation() -> None:
    seen = dict.fromkeys(Numerics, 0)
    for a, b, c in product(GRID, GRID, GRID):
        contract = pair_contract(a, b, c, EVEN, EVEN, defined=REAL)
        assert isinstance(contract, Contract)
        seen[contract.level] += 1
        source, middle, out = affine(a), affine(b), affine(c)
        codes = range(source.low, source.high + 1)
        via = [step(step(q, source, middle), middle, out) for q in codes]
        free = [step(step(q, source, middle, clamp=False), middle, out) for q in codes]
        direct = [step(q, source, out) for q in codes]
        far = max(abs(x - y) for x, y in zip(via, direct, strict=True))
        if contract.level is Numerics.EXACT:
            assert far == 0
        elif via != free:
            assert contract.level is Numerics.SATURATION
            assert "clips to" in contract.note
        if contract.level is Numerics.BOUNDED:
            assert far <= contract.steps
    assert min(seen[n] for n in (Numerics.EXACT, Numerics.BOUNDED, Numerics.SATURATION)) > 50


def test_the_note_names_the_range() -> None:
    a, b = QParams.per_tensor("i8", 1.0), QParams.per_tensor("i8", 0.25, 28)
    contract = pair_contract(a, b, a, EVEN, EVEN, defined=REAL)
    assert contract == Contract(Numerics.SATURATION, 1.125, "the middle clips to [-39, 24.75]")


def test_quantizing_a_real_number() -> None:
    b, c = QParams.per_tensor("i8", 0.5, 3), QParams.per_tensor("u8", 0.5, 131)
    assert pair_contract(None, b, c, Rounding.HALF_AWAY, EVEN, defined=REAL).level is Numerics.EXACT
    wider = QParams.per_tensor("i16", 0.5)
    assert pair_contract(None, b, wider, EVEN, EVEN, defined=REAL).level is Numerics.SATURATION
    fine = QParams.per_tensor(Storage.of("i8", -8, 8), 0.25)
    bounded = pair_contract(None, b, fine, EVEN, EVEN, defined=REAL)
    assert (bounded.level, bounded.steps) == (Numerics.BOUNDED, 2.0)
