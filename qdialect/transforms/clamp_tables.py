"""Clamps and rescales that commute though the clamp's levels have no code.

    clamp_b(rescale_{a->b}(q)) = rescale_{a->b}(clamp_a(q))

holds whenever a's and b's codes name the levels. Where they do not, each side rounds the
level to a code of its own; on at most 16 bits all codes that occur are compared.
"""

from __future__ import annotations

from math import inf

import numpy as np
from xdsl.ir import Operation

from qdialect.behaviors import Behavior
from qdialect.numerics import requantize as exact
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams


def clamp_commutes(
    behavior: Behavior, op: Operation, seen: QParams, a: QParams, b: QParams, rounding: Rounding
) -> bool:
    """Whether the clamp that `op` is gives the same before and after a rescale a -> b of
    the codes `seen`, of a's parameters."""
    if behavior.clamp is None or rounding is Rounding.GEMMLOWP:
        return False
    if not exact.tabulated(seen) or exact.cells(a, b) is None:
        return False
    low, high = behavior.clamp(op)
    for given, inside, result in exact.triples(seen, a, b):
        codes = exact.codes_of(given)
        before = _clamped(exact.requantize(codes, inside, result, rounding), low, high, result)
        clamped = _clamped(codes, low, high, inside)
        if not np.array_equal(before, exact.requantize(clamped, inside, result, rounding)):
            return False
    return True


def _clamped(codes: exact.Codes, low: float, high: float, a: exact.Affine) -> exact.Codes:
    """As the op does it: at the codes nearest to the levels, ties to even."""
    if low != -inf:
        codes = np.maximum(codes, exact.quantize_real(low, a, Rounding.HALF_EVEN))
    if high != inf:
        codes = np.minimum(codes, exact.quantize_real(high, a, Rounding.HALF_EVEN))
    return codes
