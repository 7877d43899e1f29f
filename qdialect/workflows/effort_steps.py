"""What `--effort` tried, for people and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qdialect.quantizer.float_rewrites.float_bounds import FloatBound


@dataclass(frozen=True)
class Step:
    """What was tried: by how many dB the result is nearer to the float model (None: it was not
    measured, and `why` says why), and whether it was kept."""

    name: str
    gain: float | None
    kept: bool
    seconds: float
    #: what it changed
    done: str = ""
    why: str = ""
    #: of a rewrite that was kept: how far the float model is at most from what it was, in the
    #: output of which most may be lost, or why there is no bound
    in_float32: FloatBound | str = ""

    def as_json(self) -> dict[str, Any]:
        """As plain data; `gain` in dB, a bound over the largest number of the output."""
        bound = self.in_float32
        return {
            "step": self.name,
            "gain_db": self.gain,
            "kept": self.kept,
            "seconds": round(self.seconds, 3),
            "done": self.done or None,
            "why": self.why or None,
            "in_float32": (bound or None) if isinstance(bound, str) else bound.as_json(),
        }

    @property
    def difference(self) -> str:
        """The bound for people, over the largest number of the output."""
        bound = self.in_float32
        if isinstance(bound, str):
            return "no bound" if bound else ""
        most, likely = (bound.relative(each) for each in (bound.first_order, bound.likely))
        if not isfinite(most):
            return "no bound"
        return f"< {most:.0e}, likely < {likely:.0e}"


def step_rows(steps: Sequence[Step]) -> list[tuple[str, ...]]:
    """A table of steps with a heading: name, gain in dB, whether it was kept, how long it took,
    what it changed or why it was not tried, and if any was bounded, how far floats may be off."""
    rows: list[tuple[str, ...]] = [("tried", "gain", "kept", "took", "", "floats differ by")]
    for step in steps:
        gain = "" if step.gain is None else f"{step.gain:+.1f} dB"
        kept = "yes" if step.kept else "no"
        what = step.done or step.why
        rows.append((step.name, gain, kept, f"{step.seconds:.0f} s", what, step.difference))
    return rows if any(step.difference for step in steps) else [row[:-1] for row in rows]
