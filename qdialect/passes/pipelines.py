"""Named pipelines: the passes that commands run, as pipeline text.

A target adds passes at named points (`Target.extensions`):

    start       before anything that asks the target what it runs
    integers    what the model spells out in integers is in integers
    floats      so is all that the other passes bring there; rescales are placed once more
    end         all rescales are where they stay; before the final clean-up

`LEVEL` in the text of such a pass is the numerics level of the run, `KERNELS` the level of
rewrites that only spare values a rounding by the runtime (`dividing`).
"""

from __future__ import annotations

import re

from qdialect.algebra.contract import Numerics
from qdialect.targets.base import Interface, Target
from qdialect.targets.installed import get_target

PREPARATION = (
    "raise-dynamic,lower-dynamic{to=floats numerics=relaxed},"
    "canonicalize,fold-constants{numerics=ties},canonicalize,cse,dce"
)
"""Passes before a model is quantized; products that quantize their input as they run become float
products of the dequantized weights."""

FUSION = (
    "raise-composites{numerics=ties},lower-attention{numerics=ties},canonicalize,"
    "fold-into-weights{numerics=ties},canonicalize,fold-constants{numerics=ties},cse,dce"
)
"""Passes after `PREPARATION`: each op fused with another saves a rounding. The products of an
attention are quantized one by one."""


BY_PRICE = frozenset(
    {
        *("form-tables", "form-prelu", "form-depthwise", "softmax-last", "form-floats"),
        *("channels-last", "widen-channels", "lower-transposed", "merge-shuffles"),
        "part-biases",
    }
)
"""Passes that rewrite by the prices of the target, where the runtime may be slower than the prices
say. The others do what the integers of a model need."""


def optimize_pipeline(target: Target | str, numerics: str, dividing: str | None = None) -> str:
    """The pipeline of `qopt optimize`.

    1. Raise pieces of composites that the target keeps whole. Where the target restricts qparams,
       or has no floats, choose qparams again (`regrid`).
    2. Turn ops between a dequantize and a quantize into ops on codes. Do so again after the first
       placement, because folding can give an op what it lacked.
    3. Lower composites on codes that a target without floats refuses.
    4. Fit weights to a target that adds in few bits; again at the end, because a zero point may
       have moved.
    5. Fold affine functions into scales. Place rescales where they cost least, and absorb them as
       far as `numerics` allows. Integer ops stay integer ops unless the target asks for as few
       conversions as possible (`Target.boundary`).
    6. Turn elementwise chains into tables where that pays.
    7. Fold casts into the interface of a target of codes, and place once more.

    `dividing` limits how far quantizes that multiply by a reciprocal may become divisions (default:
    `numerics`).
    """
    chosen = get_target(target) if isinstance(target, str) else target
    chosen.check()
    level = f"{{numerics={numerics}}}"
    clean = ("canonicalize", "cse", "dce")
    placed = f"{{boundary={chosen.boundary} numerics={numerics}}}"
    settle = (f"place-rescales{placed}", f"fold-rescale{placed}", *clean)
    tables = (f"form-tables{level}", *clean)
    interface = ("fold-interface",) if chosen.interface is Interface.INTEGER else ()

    pinned = ("pin-unrounded",) if Numerics.parse(numerics) < Numerics.BOUNDED else ()
    divided = (f"divide-by-scale{{numerics={dividing or numerics}}}",) if chosen.divides else ()
    regridded = (f"regrid{level}", *clean) if chosen.restricts or not chosen.floats else ()
    pieces = () if chosen.floats else (f"lower-composites{{refused=true numerics={numerics}}}",)
    fitted = (f"fit-sums{level}", *clean) if chosen.restricts_sums else ()
    raised = (f"raise-composites{level}", *clean) if chosen.keep_whole else ()

    def added(point: str) -> list[str]:
        levels = {"LEVEL": numerics, "KERNELS": dividing or numerics}
        texts = chosen.extensions.get(point, ())
        return [re.sub("LEVEL|KERNELS", lambda m: levels[m[0]], text) for text in texts]

    steps = (
        *pinned,
        *clean,
        *divided,
        *added("start"),
        *raised,
        *regridded,
        f"integerize{level}",
        *clean,
        f"fold-rescale{placed}",
        *pieces,
        *added("integers"),
        *fitted,
        *settle,
        f"integerize{level}",
        f"fold-affine{level}",
        f"fold-rescale{placed}",
        *settle,
        *tables,
        *added("floats"),
        *interface,
        *settle,
        *tables,
        *fitted,
        *added("end"),
        *clean,
    )
    return ",".join(steps)
