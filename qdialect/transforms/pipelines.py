"""Named pipelines: the passes that commands run, as pipeline text."""

from __future__ import annotations


def optimize_pipeline(target: str, numerics: str, boundary: str = "preserve") -> str:
    """The pipeline of `qopt optimize`, one step per line of reasoning:

    integers wherever the model already spells them out; then rescales down to
    where they meet requantizing ops, absorbed there if the level allows.
    """
    level = f"{{numerics={numerics}}}"
    return ",".join(
        (
            "cse",
            f"integerize{level}",
            "canonicalize",
            f"fold-rescale{level}",
            f"sink-rescale{level}",
            f"combine-rescale{level}",
            f"fold-rescale{level}",
            "canonicalize",
            "cse",
            "dce",
        )
    )
