"""The register of program families, and the qparams they range over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from rewrite_support import Program, per_axis, quant

Generator = Callable[[], Iterator[Program]]


@dataclass(frozen=True)
class Family:
    """Programs on which `rules` of `pipeline` act, or should refuse to.

    `floats`: how the interpreter evaluates float ops on both sides; "real" judges
    rewrites that are exact in the reals. `invalid`: what the verifier says of those
    combinations that are no programs; any other invalid program is a failure.
    """

    rules: tuple[str, ...]
    pipeline: str
    generate: Generator
    floats: str = "ieee"
    invalid: str = ""


FAMILIES: list[Family] = []


def family(
    *rules: str, pipeline: str, floats: str = "ieee", invalid: str = ""
) -> Callable[[Generator], Generator]:
    """Register a generator of programs in which each of these rules must fire."""

    def register(generate: Generator) -> Generator:
        FAMILIES.append(Family(rules, pipeline, generate, floats, invalid))
        return generate

    return register


def single(value: float) -> float:
    """The nearest float32."""
    return float(np.float32(value))


TENTH = single(0.1)

#: powers of two, a scale no float holds, equal scales, ties (0.5 -> 1), zero points at
#: the ends, narrowed bounds, unsigned, four and sixteen bits
GRID = [
    quant("i8", 0.5, 3),
    quant("i8", 1.0, 0),
    quant("u8", 0.5, 131),
    quant("u8", 1.0, 255),
    quant("i8", TENTH, -128),
    quant("i8<-127:127>", 0.5, 0),
    quant("u8<0:100>", 0.5, 10),
    quant("i8<-128:100>", 0.25, -128),
    quant("i4", 1.5, -8),
    quant("u8", 2.0, 0),
]
WIDE = [quant("i16", TENTH / 64, 100), quant("u16", 0.5, 0)]

#: on dimension 0 of a tensor of two rows
ROWS = [
    per_axis("i8", 0, [(0.5, 3), (TENTH, -128)]),
    per_axis("i8", 0, [(0.25, 3), (0.5, 0)]),
    per_axis("u8", 0, [(0.5, 131), (TENTH, 0)]),
]


def pairs(grid: list[str]) -> Iterator[tuple[str, str]]:
    return ((a, b) for a in grid for b in grid)


ROUNDINGS = ["half_even", "half_away", "half_up"]


def rounding(name: str) -> str:
    return "" if name == "half_even" else f"rounding {name} "


def cast_rounding(name: str) -> str:
    return "" if name == "half_even" else f'{{quant.rounding = "{name}"}} '
