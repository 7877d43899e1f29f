"""Pipelines from other dialects of MLIR to `nn` and `quant`.

Raising TOSA is exact, and so is what follows: rescales become real ones, and are absorbed by the
ops in front of them, where no code can tell. Raising StableHLO may change which way a tie rounds
where a zero point is odd; what follows is exact.
"""

from __future__ import annotations

_ABSORBED = (
    "canonicalize,convert-rescale{form=real},fold-rescale,combine-rescale,"
    "canonicalize,fold-constants,cse,dce"
)

IMPORTS = {
    "tosa": f"raise-tosa,dce,{_ABSORBED}",
    "stablehlo": (
        "raise-stablehlo{numerics=ties},dce,canonicalize,integerize,raise-composites,"
        "fold-rescale,combine-rescale,canonicalize,fold-constants,cse,dce"
    ),
    "tflite": "raise-tflite,dce,canonicalize,cse,dce",
}
"""How functions in a dialect become ours, by the name of the dialect."""
