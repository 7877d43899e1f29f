"""Named pipelines: the passes that commands run, as pipeline text.

A target adds passes at named points (`Target.extensions`):

    integers    everything the model spells out in integers is in integers
    end         all rescales are where they stay; before the final clean-up
"""

from __future__ import annotations

from qdialect.targets.base import Target, get_target


def optimize_pipeline(target: Target | str, numerics: str) -> str:
    """The pipeline of `qopt optimize`.

    First everything that the model spells out in integers becomes integers, twice,
    since what the first round leaves dead may have stood in the way; then affine
    functions go into scales; then, twice for the same reason, rescales sink to where
    requantizing ops absorb them, as far as `numerics` allows.
    """
    chosen = get_target(target) if isinstance(target, str) else target
    level = f"{{numerics={numerics}}}"
    clean = ("canonicalize", "cse", "dce")
    settle = (f"sink-rescale{level}", f"combine-rescale{level}", f"fold-rescale{level}", *clean)
    steps = (
        *clean,
        f"integerize{level}",
        *clean,
        f"integerize{level}",
        f"fold-rescale{level}",
        *chosen.extensions.get("integers", ()),
        f"fold-affine{level}",
        f"fold-rescale{level}",
        *settle,
        *settle,
        *chosen.extensions.get("end", ()),
        *clean,
    )
    return ",".join(steps)
