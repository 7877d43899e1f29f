"""Pipelines from an optimized integer network to what other compilers read."""

from __future__ import annotations

from qdialect.targets import linalg, stablehlo, tosa

_WITH_CASTS = (
    "lower-float-regions{numerics=relaxed},canonicalize,fold-constants,form-tables{numerics=bounded},"
    "form-softmax-tables{numerics=bounded},split-rescale{numerics=bounded},"
    "convert-rescale{form=fixed numerics=bounded},cse,dce"
)
"""From an optimized network to one of which as much as possible is exact on 32-bit integers, but
for `quant.rescale`, which rounds, and casts at the interface."""

_WITH_CODES = _WITH_CASTS.replace(",", ",fold-interface,", 1)
"""The same, with codes in place of floats at the interface."""

_ROUNDING_ONCE = (
    "split-rescale{ops=sums numerics=bounded},"
    "convert-rescale{form=real rounding=half_even numerics=bounded},cse,dce"
)
"""From an optimized network to one of which every op on codes but sums rounds once, by a real scale
and half to even."""

_IN_FLOATS = (
    ",lower-composites{ops=nn.lstm+nn.gru+nn.lrn numerics=relaxed},"
    "compute-in-floats{to=NAME numerics=relaxed},"
    "lower-composites{ops=nn.lstm+nn.gru+nn.lrn numerics=relaxed},cse,dce"
)
"""What is left without integers in floats; recurrent layers step after step."""


def _in_floats(name: str, passes: str) -> str:
    return passes + _IN_FLOATS.replace("NAME", name)


EXPORTS = {
    "tosa": (_in_floats("tosa", _WITH_CODES), "convert-nn-to-tosa,cse,dce", tosa.TARGET),
    "linalg": (_in_floats("linalg", _WITH_CODES), "convert-nn-to-linalg,cse,dce", linalg.TARGET),
    "quant": (
        _in_floats("quant", _WITH_CASTS),
        "convert-nn-to-linalg{casts=quant},cse,dce",
        linalg.TARGET,
    ),
    "stablehlo": (
        _in_floats("stablehlo", _ROUNDING_ONCE),
        "convert-nn-to-stablehlo,cse,dce",
        stablehlo.TARGET,
    ),
    "iree": (
        _in_floats("iree", _WITH_CASTS),
        "convert-nn-to-linalg{casts=iree},cse,dce",
        linalg.TARGET,
    ),
}
"""How a network is exported, by name: the passes after which the dialect can express every op, the
passes that write the dialect, and the target whose operators it has."""

OPTIMIZED_FOR = {**dict.fromkeys(EXPORTS, tosa.TARGET), "stablehlo": stablehlo.TARGET}
"""The target that `optimize` runs for before the export, by the same names."""
