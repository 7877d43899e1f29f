"""Pipelines from an optimized integer network to what other compilers read."""

from __future__ import annotations

from qdialect.targets import linalg, stablehlo, tosa

_EXACT_WITH_CASTS = (
    "lower-float-regions{numerics=relaxed},canonicalize,fold-constants,form-tables{numerics=bounded},"
    "form-softmax-tables{numerics=bounded},split-rescale{numerics=bounded},"
    "convert-rescale{form=fixed numerics=bounded},cse,dce"
)
"""From an optimized integer network to one of which every op is exact on 32-bit integers,
but for `quant.rescale`, which rounds, and casts at the interface."""

_EXACT = _EXACT_WITH_CASTS.replace(",", ",fold-interface,", 1)
"""The same, with codes in place of floats at the interface."""

_ROUNDING_ONCE = (
    "split-rescale{ops=sums numerics=bounded},"
    "convert-rescale{form=real rounding=half_even numerics=bounded},cse,dce"
)
"""From an optimized integer network to one of which every op but sums rounds once, by a real scale
and half to even."""

EXPORTS = {
    "tosa": (_EXACT, "convert-nn-to-tosa,cse,dce", tosa.TARGET),
    "linalg": (_EXACT, "convert-nn-to-linalg,cse,dce", linalg.TARGET),
    "quant": (_EXACT_WITH_CASTS, "convert-nn-to-linalg{casts=quant},cse,dce", linalg.TARGET),
    "stablehlo": (_ROUNDING_ONCE, "convert-nn-to-stablehlo,cse,dce", stablehlo.TARGET),
    "iree": (_EXACT_WITH_CASTS, "convert-nn-to-linalg{casts=iree},cse,dce", linalg.TARGET),
}
"""How a network is exported, by name: the passes after which the dialect can express every op, the
passes that write the dialect, and the target whose operators it has."""

OPTIMIZED_FOR = {**dict.fromkeys(EXPORTS, tosa.TARGET), "stablehlo": stablehlo.TARGET}
"""The target that `optimize` runs for before the export, by the same names."""
