"""Whether a rescale may pass an op, from above or from below, and what that changes.

    f_b(rescale_{a->b}(x), ...)   <->   rescale_{a->b}(f_a(x, ...))

A movement copies integers, so an elementwise rescale commutes with it; an order-preserving op
commutes if the constants it compares with have a code on both sides. Where they have none, each
side rounds the constant to a code of its own, and on at most 16 bits all codes that occur are
compared (`clamp_commutes`). A constant operand of a maximum or minimum is replaced,

    max(rescale_{a->b}(x), c) = rescale_{a->b}(max(x, c'))    on all codes x

per element of the constant, decided on tables (`counterpart`).

An op with tied ports that computes (an average on one scale, a local response normalization)
does not commute; f_a is f in the reals, quantized to a. With g the sum of the gains of the
operands, both sides are f(x) up to roundings: on the left by half a step of b in each operand,
which f makes at most g s_b / 2, and half a step of b; on the right by half a step of a and of b.
So if nothing is clipped they differ by at most (`passage`)

    g / 2 + s_a / (2 s_b) + 1        steps of b: bounded

Nothing is clipped if b covers a, and f of a, or of b, stays inside it (`Behavior.interval`).
With equal scales and no clip nothing rounds that did not before: exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.algebra import arithmetic
from qdialect.algebra import requantize as exact
from qdialect.algebra.arithmetic import Arithmetic, quantized, requantized, table
from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.qparams import QParams
from qdialect.algebra.ranges import Interval
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer, qparams_of, rounding_of
from qdialect.analysis.gain import gain_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.ir.behaviors import Behavior
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_array, constant_of
from qdialect.ir.quant import arithmetic_of
from qdialect.passes.pair_contract import NO_TWO_STAGE, replaced_kernel
from qdialect.passes.rule_pass import keeps_order
from qdialect.rewrite import Refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray


def same_order(
    behavior: Behavior,
    op: Operation,
    above: Sequence[QParams],
    below: Sequence[QParams],
    narrowed: QParams,
    rounding: Rounding,
    *,
    inside: bool,
) -> bool:
    """Whether `op` compares with the same constants before and after the rescales
    above -> below of its operands; `inside`: their codes are within the bounds of `above`.
    `narrowed` is the first of `above` with the known range of the codes."""
    if keeps_order(behavior, op, above, inside=inside) and keeps_order(
        behavior, op, below, inside=True
    ):
        return True
    return clamp_commutes(behavior, op, narrowed, above[0], below[0], rounding, arithmetic_of(op))


def clamp_commutes(
    behavior: Behavior,
    op: Operation,
    narrowed: QParams,
    a: QParams,
    b: QParams,
    rounding: Rounding,
    defined: Arithmetic,
) -> bool:
    """Whether the clamp that `op` is gives the same before and after a rescale a -> b of
    the codes within the bounds of `narrowed`, of a's parameters."""
    floats = defined.floats(a.expressed)
    if behavior.clamp is None or rounding.two_stage:
        return False
    if not exact.tabulated(narrowed) or exact.unique_pairs(a, b) is None:
        return False
    low, high = behavior.clamp(op)
    for known, inside, result in exact.parameter_triples(narrowed, a, b):
        codes = exact.codes_of(known)
        moved = requantized(codes, inside, result, rounding, floats)
        clamped = _clamped(codes, low, high, inside, floats)
        if not np.array_equal(
            _clamped(moved, low, high, result, floats),
            requantized(clamped, inside, result, rounding, floats),
        ):
            return False
    return True


def _clamped(
    codes: exact.Codes, low: float, high: float, a: exact.QuantGrid, floats: str | None
) -> exact.Codes:
    """As the op does it: at the codes nearest to the levels, ties to even."""
    if low != -inf:
        codes = np.maximum(codes, quantized(low, a, Rounding.HALF_EVEN, floats))
    if high != inf:
        codes = np.minimum(codes, quantized(high, a, Rounding.HALF_EVEN, floats))
    return codes


@dataclass(frozen=True)
class Counterpart:
    """A constant operand, number `index`, with codes on qparams."""

    index: int
    codes: NDArray[Any]
    params: QParams


def constant_operand(session: QContext, op: Operation, index: int) -> Counterpart:
    """Constant operand `index` of `op` as it is."""
    value = op.operands[index]
    constant, params = constant_of(value), qparams_of(value)
    assert constant is not None and params is not None
    return Counterpart(index, constant_array(constant, session.blobs), params)


def counterpart(
    op: Operation,
    behavior: Behavior,
    constant: Counterpart,
    params: QParams,
    rounding: Rounding,
    *,
    defined: Arithmetic,
    inside: bool,
) -> Counterpart | Refusal:
    """What the operand `constant` of `op` becomes on `params` once the rescales on
    all of its other tied operands stand below it; `inside`: their codes keep the bounds."""
    before = constant.params
    if rounding.two_stage:
        return NO_TWO_STAGE
    if not all(exact.tabulated(q) and is_integer(q) for q in (before, params)):
        return Refusal("table", "too many codes to decide on a constant")
    possible = params
    if not inside:
        low, high = params.storage.full_range
        possible = params.with_storage(replace(params.storage, min=low, max=high))
    shape = shape_of(op.operands[constant.index])
    found = _per_element(
        op, behavior, constant.codes, shape, (params, possible, before), rounding, defined
    )
    if found is None:
        return Refusal("levels", "no code stands for a constant it compares with")
    from qdialect.algebra.quantize import storage_dtype

    return Counterpart(constant.index, found.astype(storage_dtype(params)), params)


def _per_element(
    op: Operation,
    behavior: Behavior,
    codes: NDArray[Any],
    shape: tuple[int, ...],
    params: tuple[QParams, QParams, QParams],
    rounding: Rounding,
    defined: Arithmetic,
) -> NDArray[np.int64] | None:
    """The codes, decided once per distinct code and pair of parameters on it."""
    from qdialect.algebra.quantize import spread

    choose = behavior.choose
    assert choose is not None
    a, possible, b = params
    fields = [
        np.broadcast_to(spread(values, q, shape), shape)
        for q in (a, b)
        for values in (q.scale_array(), q.zero_point_array())
    ]
    pairs = np.stack([np.asarray(f, np.float64).reshape(-1) for f in fields])
    kinds, which = np.unique(pairs, axis=1, return_inverse=True)
    flat, result = codes.reshape(-1).astype(np.int64), np.empty(codes.size, np.int64)
    for number, (scale, zero, to_scale, to_zero) in enumerate(kinds.T.tolist()):
        here = which.reshape(-1) == number
        distinct, back = np.unique(flat[here], return_inverse=True)
        source = exact.QuantGrid(scale, int(zero), a.storage.min, a.storage.max)
        wide = source._replace(low=possible.storage.min, high=possible.storage.max)
        target = exact.QuantGrid(to_scale, int(to_zero), b.storage.min, b.storage.max)
        values = table(wide, target, rounding, defined.floats(a.expressed))
        found = exact.counterparts(distinct, source, wide, values, lambda x, c: choose(op, (x, c)))
        if found is None:
            return None
        result[here] = found[back.reshape(-1)]
    return result.reshape(codes.shape)


def is_passable(behavior: Behavior) -> bool:
    """Whether the ports are tied and the op computes, with a known gain."""
    return behavior.is_tied and not behavior.commutes and behavior.gain is not None


Rescaled = tuple[QParams, QParams, QParams]
"""Of an operand: its qparams, the same with the bounds of the known range of its codes, and
what it is, or will be, rescaled to."""


def rescaled_to(value: SSAValue, target: QParams, session: QContext) -> Rescaled:
    """`value` rescaled to `target`."""
    params, narrowed = qparams_of(value), narrowed_qparams(value, session)
    assert params is not None and narrowed is not None
    return params, narrowed, target


def passage(
    session: QContext,
    op: Operation,
    behavior: Behavior,
    rescales: Sequence[Rescaled],
    rounding: Rounding,
) -> Contract | Refusal:
    """What it changes that rescales of the tied operands pass `op`."""
    if any(one.two_stage for one in (rounding, rounding_of(op))):
        return NO_TWO_STAGE
    gain = 0.0
    found: list[tuple[exact.QuantGrid, exact.QuantGrid, exact.QuantGrid]] = []
    for index, (a, known, b) in zip(tied_operands(op, behavior), rescales, strict=True):
        if exact.unique_pairs(a, b) is None:
            return Refusal("grid", "the two encodings lie on different grids")
        found += exact.parameter_triples(a, known, b)
        one = gain_of(session, op, behavior, index, (known, b))
        if one is None:
            return Refusal("unbounded", "no bound on what a change of an operand does")
        gain += one
    keeps = all(
        exact.covers(b, known) and _stays(op, behavior, known, a) and _stays(op, behavior, b, b)
        for a, known, b in found
    )
    equal = all(a.scale == b.scale for a, _, b in found)
    same_ends = all(exact.covers(a, b) and exact.covers(b, known) for a, known, b in found)
    floats = arithmetic_of(op).floats(rescales[0][0].expressed)
    real = all(arithmetic.is_real(known, b, rounding, floats) for _, known, b in found)
    if real and equal and (keeps or same_ends):
        return replaced_kernel(op, Contract(Numerics.EXACT, note="equal scales"))
    largest, least = max(b.scale for _, _, b in found), min(b.scale for _, _, b in found)
    steps = gain * largest / (2 * least) + max(a.scale / (2 * b.scale) for a, _, b in found) + 1
    if keeps:
        return Contract(Numerics.BOUNDED, steps, "rounds at another place")
    return Contract(Numerics.SATURATION, steps, "clips at another place")


def _stays(
    op: Operation, behavior: Behavior, operand: exact.QuantGrid, inside: exact.QuantGrid
) -> bool:
    """Whether f of operands that `operand` can name is in the range of `inside`."""
    if behavior.interval is None:
        return False
    operands = [Interval(*exact.real_range(operand)) for _ in op.operands]
    try:
        result = Interval.exactly(behavior.interval(op, operands))
    except ValueError:
        return False
    return result.inside(Interval(*exact.real_range(inside)))
