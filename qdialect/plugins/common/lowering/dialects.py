"""The dialects that a module can be lowered to, by the name of the export."""

from __future__ import annotations

from typing import Any

from qdialect.algebra.contract import Numerics
from qdialect.plugins.common.lowering.conversion import TargetDialect


def dialect_named(to: str) -> TargetDialect[Any]:
    """`tosa`, `stablehlo`, `tflite`, `tflite-bounded` (with kernels that may be a step off), or
    linalg by its forms of casts: `linalg`, `quant`, `iree`."""
    if to == "tosa":
        from qdialect.plugins.tosa.lowering import convert as tosa

        return tosa.dialect()
    if to == "stablehlo":
        from qdialect.plugins.stablehlo.lowering import convert as stablehlo

        return stablehlo.dialect()
    if to in ("tflite", "tflite-bounded"):
        from qdialect.plugins.tflite.lowering import convert as tflite

        bounded = to.endswith("bounded")
        return tflite.dialect(Numerics.BOUNDED if bounded else Numerics.TIES)
    from qdialect.plugins.linalg.lowering import convert as linalg

    return linalg.dialect(linalg.CASTS_OF[to])
