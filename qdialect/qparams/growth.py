"""What a legal move costs in parameters (law 2.2, "Cost is separate from legality")."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from qdialect.qparams.legality import Illegal
from qdialect.qparams.parameter_field import ParameterField

DEFAULT_CAP = 4
_ELEMENTS_PER_PAIR = 16


def growth(before: Sequence[ParameterField], after: ParameterField) -> Fraction:
    """|parameters after| / |parameters of all operands|."""
    return Fraction(after.count, sum(field.count for field in before))


def within_growth(
    before: Sequence[ParameterField],
    after: ParameterField,
    *,
    constant: bool,
    cap: int = DEFAULT_CAP,
) -> ParameterField | Illegal:
    """`after`, or a refusal when it holds too many parameters.

    Growth of at most 1 is always accepted.  More is accepted only for a constant
    (`constant`), up to max(cap * |before|, elements / 16) pairs.
    """
    source = sum(field.count for field in before)
    if after.count <= source:
        return after
    if not constant:
        return Illegal("growth", f"{source} parameters become {after.count} at run time")
    limit = max(cap * source, (after.elements or 0) // _ELEMENTS_PER_PAIR)
    if after.count <= limit:
        return after
    return Illegal("growth", f"{source} parameters become {after.count}, the cap is {limit}")
