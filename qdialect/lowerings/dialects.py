"""The dialects that a module can be lowered to, by the name of the export."""

from __future__ import annotations

from typing import Any

from qdialect.lowerings.conversion import TargetDialect
from qdialect.numerics.contract import Numerics


def dialect_named(to: str) -> TargetDialect[Any]:
    """`tosa`, `stablehlo`, `tflite`, `tflite-bounded` (with kernels that may be a step off), or
    linalg by its forms of casts: `linalg`, `quant`, `iree`."""
    if to == "tosa":
        from qdialect.lowerings.tosa import convert as tosa

        return tosa.dialect()
    if to == "stablehlo":
        from qdialect.lowerings.stablehlo import convert as stablehlo

        return stablehlo.dialect()
    if to in ("tflite", "tflite-bounded"):
        from qdialect.lowerings.tflite import convert as tflite

        bounded = to.endswith("bounded")
        return tflite.dialect(Numerics.BOUNDED if bounded else Numerics.TIES)
    from qdialect.lowerings.linalg import convert as linalg

    return linalg.dialect(linalg.CASTS_OF[to])
