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

from qdialect.numerics.contract import Numerics
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
        *("form-tables", "lower-prelu", "form-depthwise", "softmax-last", "form-floats"),
        *("channels-last", "widen-channels", "lower-transposed", "merge-shuffles"),
        "part-biases",
    }
)
"""Passes that rewrite by the prices of the target, where the runtime may be slower than the prices
say. The others do what the integers of a model need."""


def optimize_pipeline(target: Target | str, numerics: str, dividing: str | None = None) -> str:
    """The pipeline of `qopt optimize`.

    First, where the target quantizes by division, so do quantizes that multiply by a reciprocal,
    as far as the level `dividing` allows (None: `numerics`), and products of blocks are marked so.
    Then ops between a dequantize and a quantize become ops on codes, twice, since what is folded
    after the first round may be what some lacked; then affine functions are folded into scales;
    then, twice as well, rescales are placed where they cost least, in requantizing ops as far
    as `numerics` allows. Integer ops stay integer ops, unless the target asks for as few
    conversions as possible (`Target.boundary`). Before, where the target states of which qparams
    its tensors and kernels are, values get such; where it adds up products in few bits, weights
    are fitted to that before rescales are placed, and again where that moved a zero point.
    Elementwise chains that are left become lookups where that pays. For a target whose interface
    is codes, functions take and return codes then. Last, rescales are placed again.
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
    fitted = (f"fit-sums{level}", *clean) if chosen.restricts_sums else ()

    def added(point: str) -> list[str]:
        levels = {"LEVEL": numerics, "KERNELS": dividing or numerics}
        texts = chosen.extensions.get(point, ())
        return [re.sub("LEVEL|KERNELS", lambda m: levels[m[0]], text) for text in texts]

    steps = (
        *pinned,
        *clean,
        *divided,
        *added("start"),
        *regridded,
        f"integerize{level}",
        *clean,
        f"fold-rescale{placed}",
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
