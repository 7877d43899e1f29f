"""Choosing how ranges are chosen: the model tells, on data.

How much of a tail may be clipped is a matter of what the layers behind do with it, which no
statistic of one tensor knows: of two trained networks one is 4 dB nearer to its float model
with ranges of least squared error, the other 10 dB with the whole ranges.  So some ways are
tried on a part of the calibration data.  What counts is the mean over samples of the SQNR in
dB, since a sum of squares over all samples is that of the few worst ones, and says little of
other data.  Of ways within `MARGIN` of the best the plainest is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from qdialect.context import QContext
from qdialect.profile.record import Profile
from qdialect.quantization.apply_profile import apply_profile
from qdialect.quantization.recipe import Recipe

MARGIN = 1.0
_MOST = 120.0

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]
    Run = Callable[[Arrays], Mapping[str, NDArray[Any]]]
    OpenRun = Callable[[ModuleOp], Run]


@dataclass(frozen=True)
class Trial:
    """A recipe that was tried, and what it gave: mean dB over samples."""

    recipe: Recipe
    sqnr: float


def candidates(recipe: Recipe) -> list[Recipe]:
    """The ways to try, the plainest first; everything else is as asked for."""
    whole = replace(recipe, calibration="minmax", weight_ranges="minmax")
    return [
        whole,
        replace(whole, weight_ranges="mse"),
        replace(whole, calibration="percentile", percentile=99.999),
        replace(whole, calibration="percentile", percentile=99.99),
        replace(whole, calibration="mse"),
        replace(whole, calibration="mse", weight_ranges="mse"),
    ]


def best_recipe(
    module: ModuleOp,
    ctx: QContext,
    profile: Profile,
    recipe: Recipe,
    samples: Sequence[Arrays],
    open_run: OpenRun,
    watch: Callable[[Iterable[int]], Iterable[int]] = lambda numbers: numbers,
) -> list[Trial]:
    """The candidates: the one to take, then the others by what they gave."""
    run = open_run(module)
    wanted = [run(sample) for sample in samples]
    choices, found = candidates(recipe), list[Trial]()
    for number in watch(range(len(choices))):
        clone, session = module.clone(), ctx.clone()
        apply_profile(clone, session, profile, choices[number])
        quantized = open_run(clone)
        each = [sqnr([a], [quantized(s)]) for a, s in zip(wanted, samples, strict=True)]
        mean = sum(min(value, _MOST) for value in each) / len(each)
        found.append(Trial(choices[number], mean))
    best = max(trial.sqnr for trial in found)
    taken = next(trial for trial in found if trial.sqnr >= best - MARGIN)
    rest = sorted((trial for trial in found if trial is not taken), key=lambda t: -t.sqnr)
    return [taken, *rest]


def sqnr(wanted: Sequence[Arrays], got: Sequence[Arrays]) -> float:
    """Signal to quantization noise over all float outputs of all samples, in dB."""
    signal = noise = 0.0
    for a, b in zip(wanted, got, strict=True):
        for name, array in a.items():
            if array.dtype.kind == "f":
                real = array.astype("f8")
                signal += float((real**2).sum())
                noise += float(((real - b[name]) ** 2).sum())
    return 10 * math.log10(signal / noise) if signal and noise else math.inf
