"""What a rescale that passes an op with tied ports may change, if it does not commute.

    f_b(rescale_{a->b}(x), ...)   <->   rescale_{a->b}(f_a(x, ...))

f_a is f in the reals, quantized to a. With g the sum of the gains of the operands, both
sides are f(x) up to roundings: on the left by half a step of b in each operand, which f
makes at most g s_b / 2, and half a step of b; on the right by half a step of a and of b.
So if nothing is clipped they differ by at most

    g / 2 + s_a / (2 s_b) + 1        steps of b: bounded

Nothing is if b covers a and f of a, or b, stays inside it (`Behavior.interval`).
With equal scales and no clip nothing rounds that did not before: exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of, rounding_of
from qdialect.analysis.gain import gain_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.behaviors import Behavior
from qdialect.behaviors.flow import tied_operands
from qdialect.context import QContext
from qdialect.numerics import arithmetic
from qdialect.numerics import requantize as exact
from qdialect.numerics.contract import Contract, Numerics
from qdialect.numerics.ranges import Interval
from qdialect.numerics.rounding import Rounding
from qdialect.passes.pair_contract import NO_GEMMLOWP, replaced_kernel
from qdialect.qparams import QParams
from qdialect.quant import arithmetic_of
from qdialect.rewrite import Refusal


def is_passable(behavior: Behavior) -> bool:
    """Whether the ports are tied and the op computes, with a known gain."""
    return behavior.is_tied and not behavior.commutes and behavior.gain is not None


Rescaled = tuple[QParams, QParams, QParams]
"""Of an operand: its qparams, the same with the bounds that its codes are known to keep, and
what it is, or will be, rescaled to."""


def rescaled_to(value: SSAValue, target: QParams, session: QContext) -> Rescaled:
    """`value` rescaled to `target`."""
    params, seen = qparams_of(value), narrowed_qparams(value, session)
    assert params is not None and seen is not None
    return params, seen, target


def passage(
    session: QContext,
    op: Operation,
    behavior: Behavior,
    rescales: Sequence[Rescaled],
    rounding: Rounding,
) -> Contract | Refusal:
    """The contract, given the tied operands."""
    if Rounding.GEMMLOWP in (rounding, rounding_of(op)):
        return NO_GEMMLOWP
    gain = 0.0
    found: list[tuple[exact.QuantGrid, exact.QuantGrid, exact.QuantGrid]] = []
    for index, (a, seen, b) in zip(tied_operands(op, behavior), rescales, strict=True):
        if exact.unique_pairs(a, b) is None:
            return Refusal("grid", "the two encodings lie on different grids")
        found += exact.parameter_triples(a, seen, b)
        one = gain_of(session, op, behavior, index, (seen, b))
        if one is None:
            return Refusal("unbounded", "no bound on what a change of an operand does")
        gain += one
    keeps = all(
        exact.covers(b, seen) and _stays(op, behavior, seen, a) and _stays(op, behavior, b, b)
        for a, seen, b in found
    )
    equal = all(a.scale == b.scale for a, _, b in found)
    same_ends = all(exact.covers(a, b) and exact.covers(b, seen) for a, seen, b in found)
    floats = arithmetic_of(op).floats(rescales[0][0].expressed)
    real = all(arithmetic.is_real(seen, b, rounding, floats) for _, seen, b in found)
    if real and equal and (keeps or same_ends):
        return replaced_kernel(op, Contract(Numerics.EXACT, note="equal scales"))
    largest, least = max(b.scale for _, _, b in found), min(b.scale for _, _, b in found)
    steps = gain * largest / (2 * least) + max(a.scale / (2 * b.scale) for a, _, b in found) + 1
    if keeps:
        return Contract(Numerics.BOUNDED, steps, "rounds at another place")
    return Contract(Numerics.SATURATION, steps, "clips at another place")


def _stays(
    op: Operation, behavior: Behavior, given: exact.QuantGrid, inside: exact.QuantGrid
) -> bool:
    """Whether f of operands that `given` can name is in the range of `inside`."""
    if behavior.interval is None:
        return False
    operands = [Interval(*exact.real_range(given)) for _ in op.operands]
    try:
        result = Interval.exactly(behavior.interval(op, operands))
    except ValueError:
        return False
    return result.inside(Interval(*exact.real_range(inside)))
