"""Two models, or one model in two engines, value by value, by stable key."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdialect.errors import InputError, QError

if TYPE_CHECKING:
    from qdialect.api import Model
    from qdialect.cli.execution import Inputs
    from qdialect.cli.keyed_values import KeyedValue


@dataclass(frozen=True)
class Layer:
    """How far a value of the second model is from the one of the same key in the first.

    `sqnr_db` over all samples; `max_steps` in steps of the second's codes, and `clipped` the
    share of them at an end of their range (the most over samples), None for floats.
    """

    key: str
    type: str
    sqnr_db: float
    max_abs: float
    max_steps: float | None
    clipped: float | None = None


def compare_layers(
    samples: Iterable[tuple[Sequence[KeyedValue], Sequence[KeyedValue]]],
) -> list[Layer]:
    """The layers both have, in the second's order; InputError (`not-comparable`) if none."""
    import numpy as np

    powers: dict[tuple[str, str], tuple[float, float]] = {}
    worst: dict[tuple[str, str], tuple[float, float | None, float | None]] = {}
    for first, second in samples:
        for name, one, other in pairs_of(first, second):
            place = name, other.type
            apart = np.abs(one.reals - other.reals)
            signal, noise = powers.get(place, (0.0, 0.0))
            powers[place] = (
                signal + float(np.square(one.reals).sum()),
                noise + float(np.square(apart).sum()),
            )
            before, _, cut = worst.get(place, (0.0, None, None))
            most = max(float(apart.max(initial=0.0)), before)
            share = other.clipped if cut is None else max(cut, other.clipped or 0.0)
            worst[place] = most, None if other.step is None else most / other.step, share
    if not powers:
        raise InputError("the models have no value of one key and shape", code="not-comparable")
    return [
        Layer(name, kind, _decibels(*powers[name, kind]), *worst[name, kind])
        for name, kind in powers
    ]


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def pairs_of(
    first: Sequence[KeyedValue], second: Sequence[KeyedValue]
) -> list[tuple[str, KeyedValue, KeyedValue]]:
    """Values of one key and shape. Of several that an op became the last is the op's; a
    value with several keys is what the last of them, in the first model's order, names."""
    places = {(key, v.index): n for n, v in enumerate(first) for key in v.keys}
    found: dict[int, tuple[str, KeyedValue, KeyedValue]] = {}
    for value in second:
        known = [places[key, value.index] for key in value.keys if (key, value.index) in places]
        if not known:
            continue
        one = first[max(known)]
        if one.reals.shape == value.reals.shape:
            # Put behind what came between: in the order of what is compared.
            found.pop(max(known), None)
            found[max(known)] = one.name, one, value
    return list(found.values())


def first_apart(
    first: Sequence[KeyedValue], second: Sequence[KeyedValue]
) -> tuple[str, float] | None:
    """The first value, in the second's order, of which both have codes in one scale and that
    is not the same, and by how many steps."""
    import numpy as np

    for name, one, other in pairs_of(first, second):
        if one.step is None or one.step != other.step:
            continue
        steps = float(np.abs(one.reals - other.reals).max(initial=0.0)) / one.step
        if steps > 0.5:
            return name, steps
    return None


def report_first_apart(model: Model, engine: str, other: str, inputs: Inputs) -> None:
    """Say where a model in two engines parts first; nothing where that cannot be found."""
    from qdialect.cli.keyed_values import keyed_values

    try:
        found = first_apart(keyed_values(model, engine, inputs), keyed_values(model, other, inputs))
    except QError as error:
        print(f"note: values inside could not be compared: {error.message}", file=sys.stderr)
        return
    if found is None:
        print("note: no value inside, by key and in one scale, differs", file=sys.stderr)
    else:
        key, steps = found
        print(f"note: they part at '{key}', by up to {steps:g} steps", file=sys.stderr)
