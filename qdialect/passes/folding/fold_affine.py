"""Fold affine functions of one value into its scale.

A chain of ops y = clamp(m x + c), where constants m and c are one number or one per index of a
dimension (mul, div, add, sub by constants, neg, hard-sigmoid, batch norm with constant
statistics), with rescales, clamps and reinterpretations (the same codes on other qparams) among
them, is one function M x + C:

    M = m_2 m_1,  C = m_2 c_1 + c_2                   per index

On codes of at most 8 bits both sides are tables. With x' the same codes read on the
scale |M| s_x (for M of one sign everywhere):

    the codes themselves                       ->  x reinterpreted on y's qparams
    M > 0, C a whole number of steps of x'     ->  rescale(x'), zero point z_x - C / |M| s_x
    M > 0                                      ->  add(x', C)
    M < 0, C = 0                               ->  neg(x')
    M < 0                                      ->  sub(C, x')

A negative slope is never only a scale: -q is no code of the type for its lowest (-128),
and which way a tie rounds turns around (half up).  neg and sub only take the place of several
ops, or of one that costs the target more.

A reinterpretation is a pair of `quant.scast`, which costs nothing. |M| s_x and C are rounded to
the expressed type, so that files can hold them.  The storage of y takes over the clamps of the
chain:

    all results stay the same                                  exact
    the same, but so close to a tie that float arithmetic,     ties
    before or after, may end on its other side
    else, k the largest difference on any code                 bounded(k)
    some of them where a value in the middle was clipped       saturation

In a module whose quantized ops are defined in floats, the tables are those of float32, op by op,
and scales a few units beside |M| s_x are tried too: one of them may fall on the right side of
every tie.

For example

    %two = nn.constant dense<2.0> : !one : !one
    %three = nn.constant dense<3.0> : !one : !one
    %0 = nn.mul %x, %two : (!x, !one) -> !twice
    %1 = nn.add %0, %three : (!twice, !one) -> !y

becomes

    %2 = quant.scast %x : !x to !codes
    %3 = quant.scast %2 : !codes to !read
    %1 = quant.rescale %3 : !read to !y
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from qdialect.algebra import requantize as exact
from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.float_path import codes_by
from qdialect.algebra.float_spans import FLOATS, FloatSpan, InexactError
from qdialect.algebra.float_text import round_to_format
from qdialect.algebra.linear import Line, linear_tables, near
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import constant_values, qparams_of, rounding_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.ir.context import QContext
from qdialect.ir.ops import AddOp, NegOp, SubOp, shape_of
from qdialect.ir.ops.base import is_kernel
from qdialect.ir.ops.keys import QPARAMS
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import (
    RescaleOp,
    SCastOp,
    UniformType,
    arithmetic_of,
    element_type,
    quant_element,
    storage_type,
    with_element,
)
from qdialect.passes.constant_scalars import PerChannel, exact_scalar, exact_vector
from qdialect.passes.folding.affine_chains import (
    Chain,
    ChainOp,
    ChainRule,
    Channel,
    Undefined,
    axes_of,
    chain_to,
    channels_of,
    codes_contract,
    reinterpretation_contract,
    tables_of,
)
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_both_bytes
from qdialect.rewrite import Refusal, Rewriter, Rule


class Replacement(Enum):
    """The op that takes the place of a chain, after its operand is reinterpreted."""

    REINTERPRET = "quant.scast"
    RESCALE = RescaleOp.name
    ADD = AddOp.name
    NEG = NegOp.name
    SUB = SubOp.name


@dataclass(frozen=True)
class ChainPlan:
    """Reinterpret x as `element`, then apply `op` with `offsets` (real units), one for all or one
    for each index."""

    op: Replacement
    element: UniformType
    offsets: tuple[Fraction, ...]
    contract: Contract


@dataclass(eq=False)
class _Chain(Chain):
    """A chain, and what it could become."""

    session: QContext = field(repr=False)
    plan: ChainPlan | Refusal = field(init=False, repr=False)

    @cached_property
    def float_codes(self) -> exact.Codes | None:
        """What the ops make in float32 of every code that occurs, one row per channel or one;
        None where floats do not say."""
        return _float_codes(self.ops, self.session)

    def is_just(self, plan: ChainPlan) -> bool:
        """Whether the chain is the one op that the plan would write."""
        names = [link.op.name for link in self.ops if not link.reinterprets]
        return names == [plan.op.value]


class AffineOfCodes(ChainRule[_Chain]):
    """clamp(M x + C) on codes becomes a change of scale; see the module."""

    name = "affine-of-codes"

    def match(self, op: Operation) -> _Chain | None:
        ops = chain_to(op, self.session)
        chains: list[_Chain] = []
        for count in range(len(ops), 0, -1):
            if _is_worth(ops[:count]):
                chains.append(self._chain(ops[:count]))
                if _is_exact(chains[-1].plan):
                    return chains[-1]
        # The strongest contract, then the longest; a refusal of the shortest says most.
        possible = [c for c in chains if isinstance(c.plan, ChainPlan)]
        if possible:
            return min(possible, key=lambda c: (_plan(c).contract.level, -len(c.ops)))
        return chains[-1] if chains else None

    def check(self, match: _Chain) -> Contract | Refusal:
        return match.plan if isinstance(match.plan, Refusal) else match.plan.contract

    def _chain(self, ops: Sequence[ChainOp]) -> _Chain:
        chain = _Chain(ops, self.session)
        plan = self._decide(chain)
        refusal = self._refuse(chain, plan) if isinstance(plan, ChainPlan) else None
        chain.plan = refusal or plan
        return chain

    def _decide(self, chain: _Chain) -> ChainPlan | Refusal:
        axes = set(axes_of(chain.ops))
        if len(axes) > 1:
            return Refusal("grid", "parameters differ along several dimensions")
        axis = next(iter(axes), None)
        if axis is not None and shape_of(chain.x)[axis] == DYNAMIC:
            return Refusal("shape", f"the extent of dimension {axis} is not known")
        try:
            return self._decide_channels(chain, channels_of(chain.ops, self.session), axis)
        except Undefined:
            return Refusal("slope", "it is not defined for all constants")

    def _decide_channels(
        self, chain: _Chain, channels: PerChannel[Channel], axis: int | None
    ) -> ChainPlan | Refusal:
        flat = Refusal("slope", "a slope is 0: the result does not depend on the operand")
        if channels[0].whole.slope == 0:
            return flat
        source, result = qparams_of(chain.x), quant_element(chain.root.results[0].type)
        assert source is not None and result is not None
        if source.storage == result.qparams.storage:
            contract = reinterpretation_contract(channels, source.expressed)
            if arithmetic_of(chain.root) is Arithmetic.EXPRESSED:
                same = exact.codes_of(channels[0].source)[None, :]
                contract = contract and _float_contract(contract, chain.float_codes, same)
            if contract is not None:
                return ChainPlan(Replacement.REINTERPRET, result, (), contract)
        several = axis is not None and len(channels) > 1
        proposed = self._proposed(chain, channels[:1], axis, len(channels) if several else 1)
        refusal = self._refuse_all(chain, proposed)
        if refusal is not None:
            return refusal
        if several:
            refusal = self._refuse_first(chain, channels, proposed)
            if refusal is not None:
                return refusal
        signs = {(c.whole.slope > 0) - (c.whole.slope < 0) for c in channels}
        if 0 in signs:
            return flat
        if len(signs) > 1:
            return Refusal("slope", "slopes of both signs: no scale is negative")
        if several:
            proposed = self._proposed(chain, channels, axis)
        plans = self._possible(chain, channels, proposed)
        return min(plans, key=_strength) if plans else _NO_TABLE

    def _refuse_all(self, chain: _Chain, proposed: Sequence[ChainPlan]) -> Refusal | None:
        """Why none of the plans gains anything, whatever it changes."""
        if any(p.op is not Replacement.RESCALE and not chain.is_just(p) for p in proposed):
            return None  # what those cost depends on a constant
        refusals = [self._refuse(chain, plan) for plan in proposed]
        return refusals[0] if refusals and None not in refusals else None

    def _refuse_first(
        self, chain: _Chain, channels: PerChannel[Channel], proposed: Sequence[ChainPlan]
    ) -> Refusal | None:
        """Why the plans would be refused if all channels were like the first: nearly all chains
        that are refused are so for it, too, and its table is one of thousands."""
        plans = self._possible(chain, channels[:1], proposed)
        if not plans:
            return _NO_TABLE
        best = min(plans, key=_strength).contract
        if best.level > self._level:
            return Refusal("numerics", f"would be {best}, but only {self._level} is allowed")
        allowed = [plan for plan in plans if plan.contract.level <= self._level]
        refusals = [self._refuse(chain, plan) for plan in allowed]
        return None if None in refusals else refusals[0]

    def _possible(
        self, chain: _Chain, channels: Sequence[Channel], proposed: Sequence[ChainPlan]
    ) -> list[ChainPlan]:
        """The plans that lose no clamp of `channels`, with the contract of each."""
        rising, plans = channels[0].whole.slope > 0, list[ChainPlan]()
        expected, sign = tables_of(channels), Fraction(1 if rising else -1)
        result = qparams_of(chain.root.results[0])
        assert result is not None
        for plan in proposed:
            middle = plan.element.qparams
            scales, points = middle.scale_list(), middle.zero_point_list()
            rows = zip(channels, scales, points, plan.offsets, strict=False)
            lines = [
                Line(c.source._replace(scale=s, zero=z), sign, t, c.result) for c, s, z, t in rows
            ]
            codes = linear_tables(exact.codes_of(channels[0].source), lines, chain.rounding)
            contract = codes_contract(channels, expected, codes, middle.expressed)
            if contract is None:
                continue
            plan = replace(plan, contract=contract)
            if arithmetic_of(chain.root) is Arithmetic.EXPRESSED:
                plan = _in_floats(plan, channels, chain.float_codes, result, chain.rounding)
            plans.append(plan)
        return plans

    def _proposed(
        self, chain: _Chain, channels: Sequence[Channel], axis: int | None, repeats: int = 1
    ) -> list[ChainPlan]:
        """Plans for `channels`, all of one sign, the preferred first, with parameters repeated so
        often; what they change is not known yet."""
        rising = channels[0].whole.slope > 0
        source = qparams_of(chain.x)
        assert source is not None
        scales, zeros, offsets, moved = list[float](), list[int](), list[Fraction](), list[int]()
        low, high = source.storage.full_range
        for channel in channels:
            a = channel.source
            scale = round_to_format(
                near(abs(channel.whole.slope) * Fraction(a.scale)), source.expressed
            )
            if not 0 < scale < inf:
                return []
            offset = round_to_format(near(channel.whole.offset), source.expressed)
            if abs(offset) == inf:
                return []
            shift = exact.round_fraction(Fraction(offset) / Fraction(scale), Rounding.HALF_EVEN)
            scales.append(scale)
            zeros.append(a.zero)
            offsets.append(Fraction(offset))
            moved.append(a.zero - shift)
        none = (Fraction(0),) * len(channels)
        candidates = [
            (Replacement.RESCALE, moved, none),
            (Replacement.ADD, zeros, tuple(offsets)),
        ]
        if not rising:
            # nn.neg has no parameters along a dimension.
            negates = axis is None and not any(offsets)
            op = Replacement.NEG if negates else Replacement.SUB
            candidates = [(op, zeros, tuple(offsets))]
        plans, exactly = list[ChainPlan](), Contract(Numerics.EXACT)
        for op, points, added in candidates:
            if op is Replacement.ADD and not any(added):
                continue
            if any(not low <= zero <= high for zero in points):
                continue
            middle = _qparams(source, axis, scales * repeats, points * repeats)
            plans.append(ChainPlan(op, UniformType(middle), added * repeats, exactly))
        return plans

    def _refuse(self, chain: _Chain, plan: ChainPlan) -> Refusal | None:
        """Why the plan gains nothing, or is not for this target."""
        if chain.is_just(plan):
            return Refusal("already", "it is such an op already")
        new = self._build(chain, plan)
        if not new:
            return None
        replaced = [link.op for link in chain.ops if not link.reinterprets]
        target, last = self.session.target, new[-1]
        reason = target.refuses(last, list(last.operand_types), list(last.result_types))
        price, negates = target.op_price(last), plan.op in (Replacement.NEG, Replacement.SUB)
        mixed = refuse_both_bytes(self.session, (*last.operand_types, *last.result_types))
        erase_new(new)
        if reason:
            return Refusal("target", f"{target.name}: {reason}")
        if mixed and not isinstance(last, RescaleOp):
            return mixed
        if not price and not negates:
            return None
        saved = sum(map(target.op_price, replaced))
        if price > saved:
            return Refusal("price", f"{target.name}: costs {price:g}, what it replaces {saved:g}")
        if negates and len(replaced) == 1 and price >= saved:
            return Refusal("slope", "a scale is positive; negating costs as much")
        return None

    def rewrite(self, match: _Chain, rewriter: Rewriter) -> None:
        new = self._build(match, _plan(match))
        if new:
            rewriter.replace_by(match.root, new)
        else:
            rewriter.replace(match.root, [match.x])

    def _build(self, chain: _Chain, plan: ChainPlan) -> list[Operation]:
        """The ops of a plan, in no block yet; the last one gives the result, x if there is none."""
        op, x, source = chain.root, chain.x, qparams_of(chain.x)
        assert source is not None
        new: list[Operation] = []
        if source != plan.element.qparams:
            bits = SCastOp(x, with_element(x.type, storage_type(source)))
            new = [bits, SCastOp(bits.result, with_element(x.type, plan.element))]
        if plan.op is Replacement.REINTERPRET:
            return new
        x = new[-1].results[0] if new else x
        result = op.results[0].type
        if plan.op is Replacement.RESCALE:
            return [*new, RescaleOp(x, result, chain.rounding)]
        operands: list[SSAValue] = [x]
        if plan.op is not Replacement.NEG:
            # In the storage of x, so that a later re-encoding finds no difference.
            middle = plan.element.qparams
            signed, expressed = middle.storage.signed, middle.expressed
            if middle.axis is None:
                constant = exact_scalar(plan.offsets[0], expressed, (), self.session, signed=signed)
            else:
                rank = len(shape_of(chain.x)) - middle.axis
                constant = exact_vector(plan.offsets, rank, expressed, self.session, signed=signed)
            new.append(constant)
            add = plan.op is Replacement.ADD
            operands = [x, constant.result] if add else [constant.result, x]
        kinds = {Replacement.ADD: AddOp, Replacement.SUB: SubOp, Replacement.NEG: NegOp}
        last = kinds[plan.op].create(
            operands=operands,
            result_types=[result],
            properties={"rounding": StringAttr(chain.rounding.value)},
            # Component qparams are those of other pieces.
            attributes={n: a for n, a in op.attributes.items() if n != QPARAMS},
        )
        return [*new, last]


def _is_worth(ops: Sequence[ChainOp]) -> bool:
    """Whether one op computes, or a reinterpretation keeps two rescales apart."""
    if ops[0].reinterprets:
        return False
    if any(link.computes for link in ops):
        return True
    rescales = sum(isinstance(link.op, RescaleOp) for link in ops)
    return rescales > 1 and any(link.reinterprets for link in ops)


_NO_TABLE = Refusal("table", "a clamp acts that no storage bound stands for, or no scale fits")


def _is_exact(plan: ChainPlan | Refusal) -> bool:
    return isinstance(plan, ChainPlan) and plan.contract.level is Numerics.EXACT


def _strength(plan: ChainPlan) -> tuple[Numerics, float]:
    return plan.contract.level, plan.contract.steps


def _plan(chain: _Chain) -> ChainPlan:
    assert isinstance(chain.plan, ChainPlan)
    return chain.plan


def _qparams(
    like: QParams, axis: int | None, scales: Sequence[float], zeros: Sequence[int]
) -> QParams:
    """qparams stored and expressed as `like`, per tensor (`axis` None) or along `axis`."""
    if axis is None:
        return QParams.per_tensor(like.storage, scales[0], zeros[0], like.expressed)
    return QParams.per_axis(like.storage, axis, scales, zeros, like.expressed)


# -- in float32, op by op ---------------------------------------------------------------

_TRIED_FLOATS = 4
"""Floats on each side of a scale that `_fitted` tries."""


class _Rows(NamedTuple):
    """Parameters as columns: a row for each channel, or one row for all."""

    scales: NDArray[np.float64]
    zeros: NDArray[np.int64]
    bounds: tuple[int, int]

    @staticmethod
    def of(params: QParams, count: int | None = None) -> _Rows:
        """Those of the first `count` channels, or of all."""
        scales = np.array(params.scale_list()[:count], np.float64).reshape(-1, 1)
        zeros = np.array(params.zero_point_list()[:count], np.int64).reshape(-1, 1)
        return _Rows(scales, zeros, (params.storage.min, params.storage.max))

    def dequantized(self, codes: exact.Codes) -> NDArray[np.float32]:
        with np.errstate(all="ignore"):
            steps = (codes.astype(np.int64) - self.zeros).astype(np.float32)
            return steps * self.scales.astype(np.float32)

    def quantized(self, floats: NDArray[np.float32], rounding: Rounding) -> exact.Codes:
        return codes_by(floats, self.scales, self.zeros, self.bounds, rounding)


def _float_codes(chain: Sequence[ChainOp], session: QContext) -> exact.Codes | None:
    """What the ops of a chain (last first) make in float32 of each code that occurs: one row per
    channel, or one; None where floats do not say.

    Every op dequantizes, computes with float constants and quantizes. Each step is rounded once,
    so that every runtime computes this table.
    """
    known = narrowed_qparams(chain[-1].x, session)
    assert known is not None
    codes = exact.codes_of(exact.quant_grids(known)[0])[None, :]
    params = qparams_of(chain[-1].x)
    if any(is_kernel(link.op) for link in chain):
        return None
    for link in reversed(chain):
        result = qparams_of(link.op.results[0])
        if params is None or result is None or {params.expressed, result.expressed} != {FLOATS}:
            return None
        if not link.reinterprets:
            try:
                floats = _computed(link, _Rows.of(params).dequantized(codes), session)
            except (InexactError, ValueError):
                return None
            if floats is None or np.isnan(floats).any():
                return None
            codes = _Rows.of(result).quantized(floats, rounding_of(link.op))
        params = result
    return codes


def _computed(link: ChainOp, x: Any, session: QContext) -> Any:
    """The floats that the op of a chain gives for floats x."""
    op = link.op
    if isinstance(op, RescaleOp):
        return x
    behavior = session.behaviors.get(op)
    assert behavior is not None
    with np.errstate(all="ignore"):
        if behavior.clamp is not None:
            low, high = behavior.clamp(op)
            return FloatSpan.exactly(x).clip(low, high).likely
        function = behavior.in_floats or behavior.arithmetic
        # Where it sums, each runtime rounds in an order of its own.
        if function is None or behavior.work is not None or not behavior.elementwise:
            return None
        operands = [x if v is link.x else _constant_rows(v, session) for v in op.operands]
        if any(each is None for each in operands):
            return None
        return function(op, [FloatSpan.exactly(each) for each in operands]).likely


def _constant_rows(value: SSAValue, session: QContext) -> Any:
    """A constant as floats: one, or a column of one for each channel; None if it is neither."""
    array, params = constant_values(value, session), qparams_of(value)
    if array is None:
        return None
    if params is None:
        if str(element_type(value.type)) != FLOATS:
            return None
        floats = array
    else:
        if params.expressed != FLOATS or params.storage.is_float or params.storage.quantile:
            return None
        axis = params.axis
        if axis is not None:
            array = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
        elif not params.is_per_tensor:
            return None
        floats = _Rows.of(params).dequantized(array)
        if axis is not None:
            return floats[:, :1] if (floats == floats[:, :1]).all() else None
    varying = [d for d, n in enumerate(shape_of(value)) if n > 1]
    if (floats == floats.reshape(-1)[0]).all():
        return floats.reshape(-1)[:1]
    return floats.reshape(-1, 1) if len(varying) == 1 else None


def _in_floats(
    plan: ChainPlan,
    channels: Sequence[Channel],
    expected: exact.Codes | None,
    result: QParams,
    rounding: Rounding,
) -> ChainPlan:
    """A plan on scales that fit float32, with its contract there; `expected` is what the chain
    gives in floats, one row per channel or one. `channels` are all there are, or the first."""
    codes = exact.codes_of(channels[0].source)[None, :]
    if expected is None:
        return replace(plan, contract=_float_contract(plan.contract, None, codes))
    middle, count = plan.element.qparams, len(channels)
    rows = np.broadcast_to(expected[:count], (count, expected.shape[1]))
    source, target = _Rows.of(middle, count), _Rows.of(result, count)
    offsets = np.array([float(c) for c in plan.offsets[:count]], np.float32)[:, None]
    rising = plan.op in (Replacement.RESCALE, Replacement.ADD)

    def compute(scales: NDArray[np.float32]) -> exact.Codes:
        x = source._replace(scales=scales[:, None].astype(np.float64)).dequantized(codes)
        with np.errstate(all="ignore"):
            return target.quantized(x + offsets if rising else offsets - x, rounding)

    scales, actual = _fitted(source.scales.astype(np.float32).reshape(-1), rows, compute)
    if middle.count == len(scales):
        fitted = _qparams(middle, middle.axis, scales.tolist(), middle.zero_point_list())
        plan = replace(plan, element=UniformType(fitted))
    return replace(plan, contract=_float_contract(plan.contract, rows, actual))


def _fitted(
    scales: NDArray[np.float32],
    expected: exact.Codes,
    compute: Callable[[NDArray[np.float32]], exact.Codes],
) -> tuple[NDArray[np.float32], exact.Codes]:
    """Scales beside these, one per row, for which `compute` gives as many rows of `expected` as it
    can, and what it gives: a float a few units away may fall on the right side of every tie."""
    best = scales.copy()
    codes = compute(best)
    open_ = (codes != expected).any(axis=1)
    ends = [best.copy(), best.copy()]
    for _ in range(_TRIED_FLOATS):
        for end, towards in zip(ends, (np.float32(np.inf), np.float32(0)), strict=True):
            if not open_.any():
                return best, codes
            end[:] = np.nextafter(end, towards)
            if not (end > 0).all() or np.isinf(end).any():
                continue
            tried = np.where(open_, end, best)
            found = compute(tried)
            hit = open_ & (found == expected).all(axis=1)
            best, codes = np.where(hit, tried, best), np.where(hit[:, None], found, codes)
            open_ &= ~hit
    return best, codes


def _float_contract(
    contract: Contract, expected: exact.Codes | None, actual: exact.Codes
) -> Contract:
    """What `contract`, which holds in the reals, is in floats; `expected` None: not known."""
    if expected is None:
        if contract.level > Numerics.TIES:
            return contract
        return Contract(Numerics.TIES, 1, "equal in the reals, not known in floats")
    apart = int(np.abs(expected - actual).max(initial=0))
    if not apart:
        return Contract(Numerics.EXACT, note="equal on all codes")
    if contract.level <= Numerics.TIES:
        level = Numerics.TIES if apart == 1 else Numerics.BOUNDED
        return Contract(level, apart, "equal in the reals, not in floats")
    return Contract(contract.level, max(contract.steps, apart), contract.note)


@dataclass(frozen=True)
class FoldAffine(RulePass):
    """Fold affine functions of one value into its scale; see the module."""

    name = "fold-affine"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (AffineOfCodes(session, Numerics.parse(self.numerics)),)
