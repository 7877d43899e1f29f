"""Families of divide-by-scale and of the reciprocals that are exact."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from families import GRID, ROWS, TENTH, WIDE, family, pairs
from families_fold import reals
from families_integerize import f32
from rewrite_support import Array, Program, all_codes, per_axis, quant, tensor

RECIPROCAL = '{quant.rounding = "reciprocal"} '
ODD = [quant("i8", TENTH, -128), quant("u8", 0.3, 131), quant("i4", 1.5, -8), WIDE[0]]
EVEN = [quant("i8", 0.5, 3), quant("u8<0:100>", 2.0, 10), quant("i16", 2.0**-9, -77)]


def _scale(q: str) -> float:
    return 0.25 if "{" in q else float(q.split(",")[1].split(":")[0].rstrip(">"))


def _quantized(q: str, values: Array) -> Program:
    p = Program(f"reciprocal quantize to {q}")
    x, kind = p.argument(f32(values.shape), values), tensor(values.shape, q)
    return p.returns(p.op(f"quant.qcast {x}", f32(values.shape), kind, RECIPROCAL), kind)


@family("reciprocal-to-quotient", pipeline="divide-by-scale{numerics=ties}")
def divided() -> Iterator[Program]:
    for q in ODD:
        yield _quantized(q, reals(_scale(q)))
    for q in [per_axis("i8", 0, [(0.7, 3), (TENTH, -128)]), *ROWS[:1]]:
        yield _quantized(q, np.stack([reals(_scale(q)), reals(TENTH)]))


@family("exact-reciprocal", pipeline="canonicalize")
def exact_casts() -> Iterator[Program]:
    for q in EVEN:
        yield _quantized(q, reals(_scale(q)))
    q = ROWS[1]
    yield _quantized(q, np.stack([reals(0.25), reals(0.5)]))


@family("exact-reciprocal", pipeline="canonicalize")
@family("reciprocal-to-quotient", pipeline="divide-by-scale")
def in_reals() -> Iterator[Program]:
    """Quantized ops of a module in the reals: a reciprocal is what divides."""
    for a, b in [*pairs(GRID[:5]), (WIDE[0], GRID[4])]:
        p = Program(f"reciprocal rescale {a} -> {b}")
        codes = all_codes(a)
        x, kind = p.codes(a, codes), tensor(codes.shape, b)
        source = tensor(codes.shape, a)
        y = p.op(f"quant.rescale {x} rounding reciprocal", source, kind)
        total = p.nn(f"add {y}, {y} rounding reciprocal", [kind, kind], kind)
        yield p.returns(total, kind)
