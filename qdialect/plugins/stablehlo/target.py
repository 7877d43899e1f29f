"""StableHLO with quantized types: the operators of the target `tosa`, rounding to even.

An op on quantized types rounds once, to even; so a network that does is left as it is.
"""

from __future__ import annotations

from dataclasses import replace

from qdialect.algebra.rounding import Rounding
from qdialect.plugins.tosa.target import TARGET as TOSA

TARGET = replace(
    TOSA,
    name="stablehlo",
    summary="StableHLO with quantized types of i8, i16 and i32",
    storages=frozenset({"i8", "i16", "i32"}),
    roundings=(Rounding.HALF_EVEN,),
    divides=True,
)
