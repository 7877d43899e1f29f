"""What of the profile of another model fits a model: what has the same key and shape.

A value fits an entry if it has as many elements a sample as the entry has seen, up to the batch
size: a model of batch 4 has four times as many as the profile saw of each sample, and an extent
that is not known may be anything. What does not fit is not used, and has a reason:

| code | meaning |
|---|---|
| `stale-entry` | the profile has it, the model has not |
| `other-shape` | the value has another number of elements |
| `no-entry` | the model has it, the profile has not |
| `other-op` | it is used, but its op is of another kind, or has other weights or attributes |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qdialect.interpreter import argument_names
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.context import QContext
from qdialect.quantizer.profile.instrument import instrument
from qdialect.quantizer.profile.model_identity import ModelIdentity, difference
from qdialect.quantizer.profile.record import Profile

_SHOWN = 3


@dataclass(frozen=True)
class Unmatched:
    """A key that does not match, or not wholly; see the table of the module."""

    key: str
    code: str
    reason: str


@dataclass(frozen=True)
class Matching:
    """The entries that fit, as a profile, and what does not match, by key."""

    profile: Profile
    unmatched: Sequence[Unmatched]

    def summary(self) -> list[str]:
        """Lines for people."""
        lines = [f"{len(self.profile.entries)} entries of the profile match the model"]
        for code in dict.fromkeys(each.code for each in self.unmatched):
            found = [each for each in self.unmatched if each.code == code]
            shown = "; ".join(f"'{each.key}': {each.reason}" for each in found[:_SHOWN])
            more = ", ..." if len(found) > _SHOWN else ""
            lines.append(f"  {len(found)} [{code}]: {shown}{more}")
        return lines


def match_profile(
    profile: Profile, module: ModuleOp, ctx: QContext, model: ModelIdentity
) -> Matching:
    """The part of `profile` that fits `module`, whose identity is `model`."""
    plan = instrument(module, ctx)
    arguments = dict(zip(argument_names(plan.function), plan.function.body.block.args, strict=True))
    values: dict[str, SSAValue] = {
        key: arguments[name] for name, keys in plan.arguments.items() for key in keys
    }
    inputs = tuple(values)
    values.update((key, each.value) for each in plan.observed for key in each.keys)
    batches = {Fraction(1), *_ratios(profile, {key: values[key] for key in inputs})}
    unmatched: list[Unmatched] = []
    entries = dict(profile.entries)
    for key in sorted({*profile.entries, *values}):
        if key not in values:
            why = Unmatched(key, "stale-entry", "the model has no such value")
        elif key not in entries:
            unmatched.append(Unmatched(key, "no-entry", "the profile has no such entry"))
            continue
        elif reason := _misfit(profile, key, values[key], batches):
            why = Unmatched(key, "other-shape", reason)
        else:
            known, text = profile.ops.get(key), model.ops.get(key)
            if known and text and (reason := difference(key, known, text)):
                unmatched.append(Unmatched(key, "other-op", reason))
            continue
        del entries[key]
        unmatched.append(why)
    derived = {
        key: rule for key, rule in profile.derived.items() if entries.keys() >= {key, *rule.of}
    }
    return Matching(replace(profile, entries=entries, derived=derived), unmatched)


def _ratios(profile: Profile, inputs: Mapping[str, SSAValue]) -> list[Fraction]:
    """How many samples of the profile the inputs hold."""
    found: list[Fraction] = []
    for key, value in inputs.items():
        seen, size = _elements(profile, key), _size(value)
        if seen and size:
            found.append(Fraction(size) / seen)
    return found


def _elements(profile: Profile, key: str) -> Fraction:
    """How many elements a sample an entry has seen; 0 for no entry."""
    entry = profile.entries.get(key)
    if entry is None or not profile.sample_count:
        return Fraction(0)
    return Fraction(int(entry.tensor.count[0]), profile.sample_count)


def _size(value: SSAValue) -> int | None:
    shape = shape_of(value)
    return None if DYNAMIC in shape else prod(shape)


def _misfit(profile: Profile, key: str, value: SSAValue, batches: set[Fraction]) -> str:
    """Why a value is not what an entry is of, or nothing."""
    seen = _elements(profile, key)
    size = _size(value)
    known = prod(extent for extent in shape_of(value) if extent != DYNAMIC)
    if size is None:
        fits = not known or (seen / known).denominator == 1
    else:
        fits = not seen or Fraction(size) / seen in batches
    if fits:
        return ""
    shape = "x".join("?" if extent == DYNAMIC else str(extent) for extent in shape_of(value))
    return f"it is {shape or 'a scalar'}, and the profile saw {float(seen):g} elements a sample"
