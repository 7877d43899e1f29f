"""Named pipelines: the passes that commands run, as pipeline text.

A target adds passes at named points (`Target.extensions`):

    start       before anything that asks the target what it runs
    integers    everything the model spells out in integers is in integers
    end         all rescales are where they stay; before the final clean-up

`LEVEL` in the text of such a pass is the numerics level of the run.
"""

from __future__ import annotations

from qdialect.targets import linalg, stablehlo, tosa
from qdialect.targets.base import Interface, Target
from qdialect.targets.installed import get_target

PREPARATION = (
    "raise-dynamic,lower-dynamic{to=floats numerics=relaxed},"
    "canonicalize,fold-constants,canonicalize,cse,dce"
)
"""What a model goes through before it is quantized; what it quantizes as it runs becomes
float products of the weights that it has."""

FUSION = (
    "raise-composites{numerics=ties},lower-attention{numerics=ties},canonicalize,"
    "fold-into-weights{numerics=ties},canonicalize,fold-constants,cse,dce"
)
"""Then: every op that becomes one with another is one rounding less. The products of an
attention are quantized one by one."""


_EXACT_WITH_CASTS = (
    "fix-islands{numerics=relaxed},canonicalize,fold-constants,form-tables{numerics=bounded},"
    "form-softmax-tables{numerics=bounded},split-rescale{numerics=bounded},"
    "convert-rescale{form=fixed numerics=bounded},cse,dce"
)
"""From an optimized integer network to one of which every op is exact on 32-bit integers,
but for `quant.rescale`, which rounds, and casts at the interface."""

_EXACT = _EXACT_WITH_CASTS.replace(",", ",fold-interface,", 1)
"""The same; what an island computes as floats leaves as codes, too."""

_ROUNDING_ONCE = (
    "split-rescale{ops=sums numerics=bounded},"
    "convert-rescale{form=real rounding=half_even numerics=bounded},cse,dce"
)
"""To one of which every op but sums rounds once, by a real scale and to even."""

EXPORTS = {
    "tosa": (_EXACT, "convert-nn-to-tosa,cse,dce", tosa.TARGET),
    "linalg": (_EXACT, "convert-nn-to-linalg,cse,dce", linalg.TARGET),
    "quant": (_EXACT_WITH_CASTS, "convert-nn-to-linalg{casts=quant},cse,dce", linalg.TARGET),
    "stablehlo": (_ROUNDING_ONCE, "convert-nn-to-stablehlo,cse,dce", stablehlo.TARGET),
    "iree": (_EXACT_WITH_CASTS, "convert-nn-to-linalg{casts=iree},cse,dce", linalg.TARGET),
}
"""From an optimized integer network to what other compilers read, by name: the passes to one
that can be said in it, those that say it, and the target whose operators it has."""

OPTIMIZED_FOR = {**dict.fromkeys(EXPORTS, tosa.TARGET), "stablehlo": stablehlo.TARGET}
"""The target that a network is made an integer one for, before that."""


def optimize_pipeline(target: Target | str, numerics: str) -> str:
    """The pipeline of `qopt optimize`.

    First everything that the model spells out in integers becomes integers, twice,
    since what the first round leaves dead may have stood in the way; then affine
    functions go into scales; then, twice for the same reason, rescales go where they cost
    least, into requantizing ops as far as `numerics` allows.  What is left of elementwise
    chains becomes lookups where that pays; not at `exact`, at which a model that a runtime
    evaluates in floats keeps its bits there too.  For a target whose interface is codes,
    functions take and give those in the end.
    """
    chosen = get_target(target) if isinstance(target, str) else target
    level = f"{{numerics={numerics}}}"
    clean = ("canonicalize", "cse", "dce")
    settle = (f"place-rescales{level}", f"fold-rescale{level}", *clean)
    tables = () if numerics == "exact" and chosen.floats else (f"form-tables{level}", *clean)
    interface = ("fold-interface",) if chosen.interface is Interface.INTEGER else ()

    def added(point: str) -> list[str]:
        return [text.replace("LEVEL", numerics) for text in chosen.extensions.get(point, ())]

    steps = (
        *clean,
        *added("start"),
        f"integerize{level}",
        *clean,
        f"integerize{level}",
        f"fold-rescale{level}",
        *added("integers"),
        f"fold-affine{level}",
        f"fold-rescale{level}",
        *settle,
        *settle,
        *tables,
        *(settle if tables else ()),
        *tables,
        *added("end"),
        *interface,
        *clean,
    )
    return ",".join(steps)
