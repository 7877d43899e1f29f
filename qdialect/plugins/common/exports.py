"""Pipelines from an optimized integer network to what other compilers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from qdialect.plugin import named, plugins
from qdialect.targets.base import Target

if TYPE_CHECKING:
    from qdialect.plugins.common.lowering.conversion import TargetDialect

EXACT = (
    "lower-float-regions{numerics=relaxed},canonicalize,fold-constants,form-tables{numerics=bounded},"
    "form-softmax-tables{numerics=bounded},split-rescale{numerics=bounded},"
    "convert-rescale{form=fixed numerics=bounded},cse,dce"
)
"""From an optimized network to one of which as much as possible is exact on 32-bit integers, but
for `quant.rescale`, which rounds, and casts at the interface."""

ROUNDING_ONCE = (
    "split-rescale{ops=sums numerics=bounded},"
    "convert-rescale{form=real rounding=half_even numerics=bounded},cse,dce"
)
"""From an optimized network to one of which every op on codes but sums rounds once, by a real scale
and half to even."""

AS_IT_IS = "reencode-storage{activations=i8 weights=i8},canonicalize,cse,dce"
"""From an optimized network to one of signed codes; its ops round once."""

DIVIDING = "divide-by-scale{numerics=bounded},"
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
    lowering: str
    """`module:function`, that gives the dialect as a module is lowered to it."""
    arguments: tuple[Any, ...] = ()
    """What that function takes."""
    optimized_for: str = "tosa"
    """The target that `optimize` runs for before the export."""
    keeps_types: bool = False
    """Whether functions keep quantized types and casts; else `codes` puts codes there."""

    def dialect(self) -> TargetDialect[Any]:
        """The dialect as a module is lowered to it."""
        return named(self.lowering)(*self.arguments)

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


@cache
def exports() -> Mapping[str, Export]:
    """The exports of all plug-ins by name."""
    tables = (named(plugin.exports) for plugin in plugins() if plugin.exports)
    return {export.name: export for table in tables for export in table}


def imports() -> Mapping[str, str]:
    """How functions in a dialect become ours, by the name of the dialect."""
    return {name: passes for plugin in plugins() for name, passes in plugin.imports.items()}
