"""What a check of an optimized model found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from qdialect.errors import QError
from qdialect.reference import Difference

LEAST_DB = 10.0
"""Where no bound judges: the difference has at most a tenth of the power of the output.  Rewrites
that move single steps leave 20 to 50 dB in networks of any depth, as integer kernels do; a wrong
scale, zero point or channel leaves less than 5."""

_USELESS = 1e9
"""A bound that is larger says nothing of a quantized model."""
_SLACK = 1 + 2.0**-20
"""Bounds are sums of floats."""


@dataclass(frozen=True)
class OutputCheck:
    """One output: what its rewrites allow (a distance in steps, or in real units if
    `real`; infinite: no bound), and the largest difference that was seen."""

    name: str
    contract: str
    allowed: float
    real: bool
    found: Difference
    number: bool = True
    """Not an index or a condition."""
    is_float: bool = False
    """Not codes: a distance is in real units, never in steps."""

    @property
    def distance(self) -> float:
        return self.found.max_abs if self.real else self.found.max_steps

    @property
    def may_clip(self) -> bool:
        """Whether values that were clipped, or that now are, may be any distance off."""
        return self.contract in ("saturation", "relaxed")

    @property
    def bounded(self) -> bool:
        """Whether a bound judges, not the power of the difference."""
        return self.allowed < _USELESS

    @property
    def holds(self) -> bool:
        if self.found.is_equal or not (self.bounded or self.number):
            return True
        if self.bounded:
            return self.distance <= self.allowed * _SLACK
        # A step is no defect where an output is hardly more than that.
        single = not self.real and self.distance <= 1
        return single or self.found.sqnr_db >= LEAST_DB

    def __str__(self) -> str:
        floats = self.real or self.is_float
        apart = self.found.max_abs if floats else self.found.max_steps
        unit = f" ({self.found.sqnr_db:.1f} dB)" if floats else " codes" if self.number else ""
        text = f"output '{self.name}' differs by up to {apart:.4g}{unit} "
        text += f"in {self.found.share_differing:.2%} of its elements"
        if self.bounded:
            allowed = (
                f"{self.allowed:.4g}{'' if self.real else ' steps'}" if self.allowed else "none"
            )
            return f"{text}; its rewrites ({self.contract}) allow {allowed}"
        kind = "useful " if isfinite(self.allowed) else ""
        if not self.number or (self.may_clip and not self.holds):
            return f"{text}; its rewrites ({self.contract}) state no {kind}bound, not judged"
        return (
            f"{text}; its rewrites ({self.contract}) state no {kind}bound, so it is judged by the "
            f"power of the difference: {self.found.sqnr_db:.1f} dB, at least {LEAST_DB:g} wanted"
        )


@dataclass(frozen=True)
class Checked:
    """What was compared; `reason` says why not all that was wanted, `wrong` which output is
    outside its contract, `failure` why the result does not run where the original does."""

    wanted: int
    samples: int
    how: str
    outputs: Sequence[OutputCheck] = ()
    seconds: float = 0.0
    reason: str = ""
    notes: Sequence[str] = ()
    wrong: OutputCheck | None = None
    failure: QError | None = None

    def __str__(self) -> str:
        if not self.samples:
            return f"not checked: {self.reason}"
        of = f" of {self.wanted}" if self.samples < self.wanted else ""
        inputs = f"{self.samples}{of} {self.how}"
        same = sum(output.found.is_equal for output in self.outputs)
        lines = [
            f"compared with the original on {inputs}: {same} of {len(self.outputs)} outputs have "
            f"the same bits ({self.seconds:.1f} s{'; ' + self.reason if self.reason else ''})"
        ]
        lines += [str(output) for output in self.outputs if not output.found.is_equal]
        return "\n  ".join([*lines, *self.notes])
