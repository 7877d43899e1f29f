"""Named pipelines: the passes that commands run, as pipeline text.

A target adds passes at named points (`Target.extensions`):

    start       before anything that asks the target what it runs
    integers    everything the model spells out in integers is in integers
    end         all rescales are where they stay; before the final clean-up

`LEVEL` in the text of such a pass is the numerics level of the run.
"""

from __future__ import annotations

from qdialect.targets.base import Interface, Target
from qdialect.targets.installed import get_target

PREPARATION = (
    "raise-dynamic,lower-dynamic{to=floats numerics=relaxed},"
    "canonicalize,fold-constants{numerics=ties},canonicalize,cse,dce"
)
"""What a model goes through before it is quantized; what it quantizes as it runs becomes
float products of the weights that it has."""

FUSION = (
    "raise-composites{numerics=ties},lower-attention{numerics=ties},canonicalize,"
    "fold-into-weights{numerics=ties},canonicalize,fold-constants{numerics=ties},cse,dce"
)
"""Then: every op that becomes one with another is one rounding less. The products of an
attention are quantized one by one."""


BY_PRICE = frozenset(
    {
        *("form-tables", "lower-prelu", "form-depthwise", "softmax-last", "form-floats"),
        *("channels-last", "widen-channels", "lower-transposed", "merge-shuffles"),
    }
)
"""Passes whose rewrites a runtime may be slower with than the prices of its target say: without
them, what is left is what the integers of a model need."""


def optimize_pipeline(target: Target | str, numerics: str) -> str:
    """The pipeline of `qopt optimize`.

    First everything that the model spells out in integers becomes integers, twice,
    since what the first round leaves dead may have stood in the way; then affine
    functions go into scales; then, twice for the same reason, rescales go where they cost
    least, into requantizing ops as far as `numerics` allows.  What is left of elementwise
    chains becomes lookups where that pays.  For a target whose interface is codes,
    functions take and give those in the end.
    """
    chosen = get_target(target) if isinstance(target, str) else target
    level = f"{{numerics={numerics}}}"
    clean = ("canonicalize", "cse", "dce")
    settle = (f"place-rescales{level}", f"fold-rescale{level}", *clean)
    tables = (f"form-tables{level}", *clean)
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
        *settle,
        *tables,
        *added("end"),
        *interface,
        *clean,
    )
    return ",".join(steps)
