"""`quant.rescale` through TOSA and linalg, every code of every configuration, on every engine."""

from __future__ import annotations

from itertools import product

import pytest
from engine_support import READS, agree

from qdialect.algebra.qparams import Storage

ROUNDINGS = ["half_up", "half_even", "half_away", "gemmlowp", "ruy"]
#: (multiplier, shift): halves and quarters (ties on every other code), a factor of one, one
#: above, small and large shifts, multipliers with many and few trailing zeros
PAIRS = [
    (1 << 30, 31),
    (1 << 30, 32),
    (3 << 29, 32),
    (1 << 30, 30),
    (1518500250, 32),
    (5, 4),
    (2000000001, 40),
    (1 << 29, 33),
    (1431655765, 30),
]
ENDS = [
    ("i8", 3, "i8", -7),
    ("i8", -128, "i8<-100:90>", 5),
    ("u8", 131, "i8", 0),
    ("i8", 0, "u8", 128),
    ("i8", 7, "i16", 0),
    ("i8", 0, "i32", 0),
    ("i16", 0, "i8", 4),
    ("i16", 0, "u8<3:250>", 77),
    ("i16", 0, "i16", 0),
    ("u8", 5, "i16", 0),
]


def module(storage: str, zero: int, width: int) -> str:
    """Rescales of all codes of one storage by every pair, in every rounding, to every end."""
    lines: list[str] = []
    results: list[str] = []
    bounds = Storage.of(storage)
    count = min(bounds.max - bounds.min + 1, 4096)
    source = f"tensor<{count}x!quant.uniform<{storage}:f32, 0.5:{zero}>>"
    for from_storage, from_zero, to, to_zero in ENDS:
        if (from_storage, from_zero) != (storage, zero):
            continue
        for (m, k), rounding in product(PAIRS, ROUNDINGS):
            kind = f"tensor<{count}x!quant.uniform<{to}:f32, 0.25:{to_zero}>>"
            name = f"%{len(lines)}"
            lines.append(
                f"  {name} = quant.rescale %x rounding {rounding} multiplier [{m}] shift [{k}] "
                f": {source} to {kind}"
            )
            results.append(kind)
    kinds = ", ".join(results)
    names = ", ".join(f"%{n}" for n in range(len(lines)))
    body = "\n".join(lines)
    return (
        f"func.func @main(%x: {source}) -> ({kinds}) {{\n{body}\n"
        f"  func.return {names} : {kinds}\n}}\n"
    )


SOURCES = list(dict.fromkeys((storage, zero) for storage, zero, _, _ in ENDS))


@pytest.mark.parametrize(
    # StableHLO has one rounding and no unsigned codes: see test_stablehlo.py.
    ("to", "engine"),
    [(to, e) for to in READS if to != "stablehlo" for e in READS[to]],
)
@pytest.mark.parametrize(("storage", "zero"), SOURCES)
def test_every_rounding(storage: str, zero: int, to: str, engine: str) -> None:
    configurations = sum(e[:2] == (storage, zero) for e in ENDS) * len(PAIRS) * len(ROUNDINGS)
    assert agree(module(storage, zero, 8), engine, to=to) >= configurations * 256
