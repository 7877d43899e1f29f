"""Whether an op does more than compute its results, by its traits.

The answer for a class whose traits say that it never does is cached: xDSL's `get_effects` calls
every trait of each op, which takes eight times as long.
"""

from __future__ import annotations

from functools import cache

from xdsl.ir import Operation
from xdsl.traits import MemoryEffect, NoMemoryEffect, get_effects


def is_effect_free(op: Operation) -> bool:
    """Whether it certainly computes its results and does nothing else."""
    if _is_function(type(op)):
        return True
    effects = get_effects(op)
    return effects is not None and not effects


def has_effects(op: Operation) -> bool:
    """Whether it certainly does something else."""
    return not _is_function(type(op)) and bool(get_effects(op))


@cache
def _is_function(kind: type[Operation]) -> bool:
    """Whether its traits say so whatever the op is."""
    said = kind.get_traits_of_type(MemoryEffect)
    plain = NoMemoryEffect.get_effects.__func__
    return bool(said) and all(type(trait).get_effects.__func__ is plain for trait in said)
