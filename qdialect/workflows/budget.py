"""What a user asks of a quantized model, and whether a model meets it.

metric>=0.99*float     metric>=0.7      of the metric that was given
sqnr>=30                                dB, of the output that differs most
latency<=0.7*float     latency<=2ms     as ONNX Runtime takes here, in processor time
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from qdialect.errors import InputError, UsageError

What = Literal["metric", "sqnr", "latency"]

_TEXT = re.compile(r"(\w+)\s*([<>]=?|=+)\s*(.+)")
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*)")
_UNITS = {"ms": 1.0, "us": 1e-3, "s": 1e3}
_EXAMPLES = {
    "metric": "metric>=0.99*float or metric>=0.7",
    "sqnr": "sqnr>=30",
    "latency": "latency<=0.7*float or latency<=2ms",
}


@dataclass(frozen=True)
class Outcome:
    """What was measured of a model: SQNR in dB, milliseconds, their ratio to the float model's, and
    the metric, if there is one."""

    sqnr: float
    milliseconds: float = math.nan
    ratio: float = math.nan
    metric: float | None = None

    def __str__(self) -> str:
        shown = [] if self.metric is None else [f"metric {self.metric:.4g}"]
        shown.append(f"SQNR {self.sqnr:.1f} dB" if self.sqnr < math.inf else "no noise")
        if not math.isnan(self.ratio):
            shown.append(f"{self.milliseconds:.3g} ms ({self.ratio:.2f} of float)")
        return ", ".join(shown)


@dataclass(frozen=True)
class Budget:
    """One thing that is asked: `limit` of what, in dB or milliseconds or as the metric counts; with
    `of_float`, as a share of what the float model has."""

    what: What
    limit: float
    of_float: bool
    text: str

    def short(self, outcome: Outcome, of_float: Outcome) -> float:
        """How far a model is from meeting it, in the unit of what is asked: 0 or less where it
        does; InputError (`bad-budget`) for a share of a metric that is not above 0."""
        if self.what == "sqnr":
            return self.limit - outcome.sqnr if outcome.sqnr < math.inf else -math.inf
        if self.what == "latency":
            return (outcome.ratio if self.of_float else outcome.milliseconds) - self.limit
        assert outcome.metric is not None and of_float.metric is not None
        if self.of_float and of_float.metric <= 0:
            raise InputError(
                f"--budget {self.text}: the metric of the float model is {of_float.metric:g}, of "
                "which there is no share: give a number",
                code="bad-budget",
            )
        return self.limit * (of_float.metric if self.of_float else 1.0) - outcome.metric

    def meets(self, outcome: Outcome, of_float: Outcome) -> bool:
        """Whether a model meets it."""
        return self.short(outcome, of_float) <= 0


def parse_budget(text: str) -> Budget:
    """A budget as it is written; UsageError (`bad-budget`) that says what is wrong with it."""
    found = _TEXT.fullmatch(text.strip())
    if found is None or found[1] not in _EXAMPLES:
        known = ", ".join(_EXAMPLES.values())
        raise _bad(text, f"is none of these: {known}")
    what, sign, rest = found.groups()
    expected_sign = "<=" if what == "latency" else ">="
    if sign != expected_sign:
        raise _bad(text, f"{what} is asked for with {expected_sign}, as in {_EXAMPLES[what]}")
    number = _NUMBER.fullmatch(rest.strip())
    if number is None:
        raise _bad(text, f"'{rest.strip()}' begins with no number")
    limit, unit = float(number[1]), number[2].replace(" ", "")
    if not math.isfinite(limit) or (what == "latency" and limit <= 0):
        raise _bad(text, f"{number[1]} is out of range")
    if unit == "*float" and what != "sqnr":
        if limit <= 0:
            raise _bad(text, f"{number[1]} is no share of the float model")
        return Budget("latency" if what == "latency" else "metric", limit, True, text)
    if what == "latency" and unit in _UNITS:
        return Budget("latency", limit * _UNITS[unit], False, text)
    if what == "metric" and not unit:
        return Budget("metric", limit, False, text)
    if what == "sqnr" and unit in ("", "dB"):
        return Budget("sqnr", limit, False, text)
    problem = f"'{unit}' is no unit" if unit else "a unit is missing"
    raise _bad(text, f"{problem}: {_EXAMPLES[what]}")


def _bad(text: str, problem: str) -> UsageError:
    return UsageError(f"--budget '{text}': {problem}", code="bad-budget")
