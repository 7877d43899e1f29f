"""Pipelines from an optimized integer network to what other compilers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qdialect.plugins.linalg import target as linalg
from qdialect.plugins.stablehlo import target as stablehlo
from qdialect.plugins.tflite import target as litert
from qdialect.plugins.tosa import target as tosa
from qdialect.targets.base import Target

_EXACT = (
    "lower-float-regions{numerics=relaxed},canonicalize,fold-constants,form-tables{numerics=bounded},"
    "form-softmax-tables{numerics=bounded},split-rescale{numerics=bounded},"
    "convert-rescale{form=fixed numerics=bounded},cse,dce"
)
"""From an optimized network to one of which as much as possible is exact on 32-bit integers, but
for `quant.rescale`, which rounds, and casts at the interface."""

_ROUNDING_ONCE = (
    "split-rescale{ops=sums numerics=bounded},"
    "convert-rescale{form=real rounding=half_even numerics=bounded},cse,dce"
)
"""From an optimized network to one of which every op on codes but sums rounds once, by a real scale
and half to even."""

_AS_IT_IS = "reencode-storage{activations=i8 weights=i8},canonicalize,cse,dce"
"""From an optimized network to one of signed codes; its ops round once."""

_DIVIDING = "divide-by-scale{numerics=bounded},"
"""For dialects whose casts divide; the others multiply by a reciprocal as the model does."""

_RECURRENT = "lower-composites{ops=nn.lstm+nn.gru+nn.lrn numerics=relaxed}"
"""Recurrent layers step after step."""


@dataclass(frozen=True)
class Export:
    """How a network is exported: `exact` makes every op exact that has a form on integers,
    `convert` writes the dialect, and `target` has the operators of that dialect."""

    name: str
    exact: str
    convert: str
    target: Target
    keeps_types: bool = False
    """Whether functions keep quantized types and casts; else `codes` puts codes there."""

    def passes(self, *, codes: bool, strict: bool = False) -> str:
        """The passes after which the dialect can express every op: with codes at the interface if
        wanted, and without floats if `strict`."""
        exact = self.exact
        if codes and not self.keeps_types:
            exact = exact.replace(",", ",fold-interface,", 1)
        if strict:
            return f"{exact},require-integers{{to={self.name}}}"
        floats = f"compute-in-floats{{to={self.name} numerics=relaxed}}"
        return f"{exact},{_RECURRENT},{floats},{_RECURRENT},cse,dce"


EXPORTS: Mapping[str, Export] = {
    export.name: export
    for export in (
        Export("tosa", _EXACT, "convert-nn-to-tosa,cse,dce", tosa.TARGET),
        Export("linalg", _EXACT, "convert-nn-to-linalg,cse,dce", linalg.TARGET),
        Export(
            "quant",
            _DIVIDING + _EXACT,
            "convert-nn-to-linalg{casts=quant},cse,dce",
            linalg.TARGET,
            keeps_types=True,
        ),
        Export(
            "stablehlo",
            _DIVIDING + _ROUNDING_ONCE,
            "convert-nn-to-stablehlo,cse,dce",
            stablehlo.TARGET,
            keeps_types=True,
        ),
        Export(
            "iree",
            _DIVIDING + _EXACT,
            "convert-nn-to-linalg{casts=iree},cse,dce",
            linalg.TARGET,
            keeps_types=True,
        ),
        Export(
            "tflite",
            _AS_IT_IS,
            "convert-nn-to-tflite,cse,dce",
            litert.TARGET,
            keeps_types=True,
        ),
        Export(
            "tflite-bounded",
            _AS_IT_IS,
            "convert-nn-to-tflite{numerics=bounded},cse,dce",
            litert.TARGET,
            keeps_types=True,
        ),
    )
}
"""The exports by name."""

OPTIMIZED_FOR = {
    **dict.fromkeys(EXPORTS, tosa.TARGET),
    "stablehlo": stablehlo.TARGET,
    "tflite": litert.TARGET,
    "tflite-bounded": litert.TARGET,
}
"""The target that `optimize` runs for before the export, by the same names."""
