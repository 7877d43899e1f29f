"""What `--effort` tried, for people and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


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

    def as_json(self) -> dict[str, Any]:
        """As plain data; `gain` in dB."""
        return {
            "step": self.name,
            "gain_db": self.gain,
            "kept": self.kept,
            "seconds": round(self.seconds, 3),
            "done": self.done or None,
            "why": self.why or None,
        }


def step_rows(steps: Sequence[Step]) -> list[tuple[str, ...]]:
    """A table of steps with a heading: name, gain in dB, whether it was kept, how long it took,
    and what it changed or why it was not tried."""
    rows: list[tuple[str, ...]] = [("tried", "gain", "kept", "took", "")]
    for step in steps:
        gain = "" if step.gain is None else f"{step.gain:+.1f} dB"
        kept = "yes" if step.kept else "no"
        rows.append((step.name, gain, kept, f"{step.seconds:.0f} s", step.done or step.why))
    return rows
