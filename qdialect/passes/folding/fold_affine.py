"""Fold affine functions of one value into its scale.

A chain of links y = clamp(m x + c), constants m and c one number or one per index of a
dimension (mul, div, add, sub by constants, neg, hard-sigmoid, batch norm with constant
statistics), rescales, clamps and reads (codes taken on other qparams) among them, is one function
M x + C:

    M = m_2 m_1,  C = m_2 c_1 + c_2                   per index

On codes of at most 8 bits both sides are tables. With x' the same codes read on the
scale |M| s_x (for M of one sign everywhere):

    the codes themselves                       ->  x read on y's qparams   no arithmetic
    M > 0, C a whole number of steps of x'     ->  rescale(x'), zero point z_x - C / |M| s_x
    M > 0                                      ->  add(x', C)
    M < 0, C = 0                               ->  neg(x')
    M < 0                                      ->  sub(C, x')

A negative slope is never only a scale: -q is no code of the type for its lowest (-128),
and which way a tie rounds turns around (half up).  neg and sub are defined in the reals,
so the table says what holds; they only take the place of several links, or of one that
costs the target more.

Reading codes on other qparams is a pair of `quant.scast`, which costs nothing.
|M| s_x and C are rounded to the expressed type, so that files can hold them.  Clamps of
the chain are left to the storage of y:

    all results stay the same                                  exact
    the same, but so close to a tie that float arithmetic,     ties
    before or after, may end on its other side
    else, k the largest difference on any code                 bounded(k)
    some of them where a middle was clipped                    saturation

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import Any

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.arithmetic import Arithmetic
from qdialect.numerics.contract import Contract, Numerics
from qdialect.numerics.float_text import round_to_format
from qdialect.numerics.linear import Line, linear_tables, near
from qdialect.numerics.rounding import Rounding
from qdialect.ops import shape_of
from qdialect.ops.shapes import DYNAMIC
from qdialect.passes.folding.affine_chains import (
    Channels,
    Link,
    Undefined,
    axes_of,
    chain_to,
    last_rounding,
    roots_of_chains,
)
from qdialect.passes.folding.affine_contract import codes_contract, read_contract
from qdialect.passes.folding.affine_floats import chain_codes, floats_contract
from qdialect.passes.folding.affine_plans import Form, Plan, made_of, plan_in_floats
from qdialect.passes.folding.affine_tables import Channel, tables_of
from qdialect.passes.rule_pass import RulePass
from qdialect.qparams import QParams
from qdialect.quant import RescaleOp, UniformType, arithmetic_of, quant_element
from qdialect.rewrite import Refusal, Rewriter, Rule


@dataclass(eq=False)
class _Chain:
    """`links`, last first, and what they could become."""

    links: Sequence[Link]
    plan: Plan | Refusal = field(init=False, repr=False)
    _floats: list[exact.Codes | None] = field(default_factory=list[Any], repr=False)

    @property
    def op(self) -> Operation:
        return self.links[0].op

    @property
    def x(self) -> SSAValue:
        return self.links[-1].x

    def in_floats(self, session: QContext) -> exact.Codes | None:
        """What it makes of every code that is seen, in floats, one row per channel or one."""
        if not self._floats:
            seen = narrowed_qparams(self.x, session)
            assert seen is not None
            self._floats.append(chain_codes(self.links, seen, session))
        return self._floats[0]

    @property
    def rounding(self) -> Rounding:
        """That of the last link that rounds."""
        return last_rounding(self.links)


class AffineOfCodes(Rule[_Chain]):
    """clamp(M x + C) on codes becomes a change of scale; see the module."""

    name = "affine-of-codes"

    def __init__(self, session: QContext, level: Numerics) -> None:
        super().__init__(session)
        #: no need to know by how much a chain misses it
        self._level = level

    def roots(self) -> Iterable[str]:
        return roots_of_chains(self.session)

    def match(self, op: Operation) -> _Chain | None:
        links = chain_to(op, self.session)
        chains: list[_Chain] = []
        for count in range(len(links), 0, -1):
            if _is_worth(links[:count]):
                chains.append(self._chain(links[:count]))
                if _is_exact(chains[-1].plan):
                    return chains[-1]
        # The strongest contract, then the longest; a refusal of the shortest says most.
        possible = [c for c in chains if isinstance(c.plan, Plan)]
        if possible:
            return min(possible, key=lambda c: (_plan(c).contract.level, -len(c.links)))
        return chains[-1] if chains else None

    def check(self, match: _Chain) -> Contract | Refusal:
        return match.plan if isinstance(match.plan, Refusal) else match.plan.contract

    def _chain(self, links: Sequence[Link]) -> _Chain:
        chain = _Chain(links)
        plan = self._decide(chain)
        refusal = self._refuse(chain, plan) if isinstance(plan, Plan) else None
        chain.plan = refusal or plan
        return chain

    def _decide(self, chain: _Chain) -> Plan | Refusal:
        axes = set(axes_of(chain.links))
        if len(axes) > 1:
            return Refusal("grid", "parameters differ along several dimensions")
        axis = next(iter(axes), None)
        if axis is not None and shape_of(chain.x)[axis] == DYNAMIC:
            return Refusal("shape", f"the extent of dimension {axis} is not known")
        channels = Channels(chain.links, self.session)
        try:
            return self._decide_channels(chain, channels, axis)
        except Undefined:
            return Refusal("slope", "it is not defined for all constants")

    def _decide_channels(
        self, chain: _Chain, channels: Channels, axis: int | None
    ) -> Plan | Refusal:
        flat = Refusal("slope", "a slope is 0: the result does not depend on the operand")
        if channels[0].whole.slope == 0:
            return flat
        source, result = qparams_of(chain.x), quant_element(chain.op.results[0].type)
        assert source is not None and result is not None
        if source.storage == result.qparams.storage:
            contract = read_contract(channels, source.expressed)
            if arithmetic_of(chain.op) is Arithmetic.EXPRESSED:
                same = exact.codes_of(channels[0].seen)[None, :]
                contract = floats_contract(contract, chain.in_floats(self.session), same)
            if contract is not None:
                return Plan(Form.READ, result, (), contract)
        several = axis is not None and len(channels) > 1
        proposed = self._proposed(chain, channels[:1], axis, len(channels) if several else 1)
        refusal = self._no_gain(chain, proposed)
        if refusal is not None:
            return refusal
        if several:
            refusal = self._foresee(chain, channels, proposed)
            if refusal is not None:
                return refusal
        signs = {(c.whole.slope > 0) - (c.whole.slope < 0) for c in channels}
        if 0 in signs:
            return flat
        if len(signs) > 1:
            return Refusal("slope", "slopes of both signs: no scale is negative")
        if several:
            proposed = self._proposed(chain, channels, axis)
        plans = self._candidates(chain, channels, proposed)
        return min(plans, key=_strength) if plans else _NO_TABLE

    def _no_gain(self, chain: _Chain, proposed: Sequence[Plan]) -> Refusal | None:
        """Why none of the plans is worth a look at what it changes, if none is."""
        if any(p.form is not Form.RESCALE and not _is_such(chain, p) for p in proposed):
            return None  # it takes a constant to tell what those cost
        refusals = [self._refuse(chain, plan) for plan in proposed]
        return refusals[0] if refusals and None not in refusals else None

    def _foresee(
        self, chain: _Chain, channels: Channels, proposed: Sequence[Plan]
    ) -> Refusal | None:
        """Most chains that are refused would be if all channels were like the first: look
        at that one first."""
        plans = self._candidates(chain, channels[:1], proposed)
        if not plans:
            return _NO_TABLE
        best = min(plans, key=_strength).contract
        if best.level > self._level:
            return Refusal("numerics", f"would be {best}, but only {self._level} is allowed")
        allowed = [plan for plan in plans if plan.contract.level <= self._level]
        refusals = [self._refuse(chain, plan) for plan in allowed]
        return None if None in refusals else refusals[0]

    def _candidates(
        self, chain: _Chain, channels: Sequence[Channel], proposed: Sequence[Plan]
    ) -> list[Plan]:
        """Those that are possible for `channels`, with what each changes."""
        rising, plans = channels[0].whole.slope > 0, list[Plan]()
        wanted, sign = tables_of(channels), Fraction(1 if rising else -1)
        result = qparams_of(chain.op.results[0])
        assert result is not None
        for plan in proposed:
            scales, points = plan.middle.scale_list(), plan.middle.zero_point_list()
            rows = zip(channels, scales, points, plan.offsets, strict=False)
            lines = [
                Line(c.seen._replace(scale=s, zero=z), sign, t, c.result) for c, s, z, t in rows
            ]
            got = linear_tables(exact.codes_of(channels[0].seen), lines, chain.rounding)
            contract = codes_contract(channels, wanted, got, plan.middle.expressed)
            if contract is not None and arithmetic_of(chain.op) is Arithmetic.EXPRESSED:
                wanted_floats = chain.in_floats(self.session)
                plan, contract = plan_in_floats(
                    plan, contract, channels, wanted_floats, result, chain.rounding
                )
            if contract is not None:
                plans.append(replace(plan, contract=contract))
        return plans

    def _proposed(
        self, chain: _Chain, channels: Sequence[Channel], axis: int | None, repeats: int = 1
    ) -> list[Plan]:
        """Plans for `channels`, all of one sign, in order of preference; `repeats` of those
        there are. What they change is not looked at."""
        rising = channels[0].whole.slope > 0
        source = qparams_of(chain.x)
        assert source is not None
        scales, zeros, offsets, moved = list[float](), list[int](), list[Fraction](), list[int]()
        low, high = source.storage.full_range
        for channel in channels:
            a = channel.seen
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
        whole = (Fraction(0),) * len(channels)
        candidates = [(Form.RESCALE, moved, whole), (Form.ADD, zeros, tuple(offsets))]
        if not rising:
            # nn.neg has no parameters along a dimension.
            negates = axis is None and not any(offsets)
            candidates = [(Form.NEG if negates else Form.SUB, zeros, tuple(offsets))]
        plans, exactly = list[Plan](), Contract(Numerics.EXACT)
        for form, points, added in candidates:
            if form is Form.ADD and not any(added):
                continue
            if any(not low <= zero <= high for zero in points):
                continue
            if axis is None:
                middle = QParams.per_tensor(source.storage, scales[0], points[0], source.expressed)
            else:
                middle = QParams.per_axis(
                    source.storage, axis, scales * repeats, points * repeats, source.expressed
                )
            plans.append(Plan(form, UniformType(middle), added * repeats, exactly))
        return plans

    def _refuse(self, chain: _Chain, plan: Plan) -> Refusal | None:
        """Why the plan is no gain, or not for this target."""
        if _is_such(chain, plan):
            return Refusal("already", "it is such an op already")
        made = made_of(plan, chain.op, chain.x, chain.rounding, self.session)
        if not made:
            return None
        ops = [link.op for link in chain.links if not link.is_read]
        target, new = self.session.target, made[-1]
        reason = target.refuses(new, [v.type for v in new.operands], [r.type for r in new.results])
        price, falling = target.op_price(new), plan.form in (Form.NEG, Form.SUB)
        for op in reversed(made):
            op.erase()
        if reason:
            return Refusal("target", f"{target.name}: {reason}")
        if not price and not falling:
            return None
        saved = sum(map(target.op_price, ops))
        if price > saved:
            return Refusal("price", f"{target.name}: costs {price:g}, what it replaces {saved:g}")
        if falling and len(ops) == 1 and price >= saved:
            return Refusal("slope", "a scale is positive; negating costs as much")
        return None

    def rewrite(self, match: _Chain, rewriter: Rewriter) -> None:
        plan = _plan(match)
        made = made_of(plan, match.op, match.x, match.rounding, self.session)
        for op in made[:-1]:
            rewriter.insert(op, match.op)
        if made:
            rewriter.insert(made[-1], match.op, keep=match.op)
        rewriter.replace(match.op, made[-1].results if made else [match.x])


def _is_such(chain: _Chain, plan: Plan) -> bool:
    """Whether the chain is the one op that the plan makes."""
    ops = [link.op for link in chain.links if not link.is_read]
    return len(ops) == 1 and ops[0].name == plan.form.value


def _is_worth(links: Sequence[Link]) -> bool:
    """Whether one op computes, or a read keeps two rescales apart."""
    if links[0].is_read:
        return False
    if any(link.computes for link in links):
        return True
    rescales = sum(isinstance(link.op, RescaleOp) for link in links)
    return rescales > 1 and any(link.is_read for link in links)


_NO_TABLE = Refusal("table", "a clamp acts that no storage bound stands for, or no scale fits")


def _is_exact(plan: Plan | Refusal) -> bool:
    return isinstance(plan, Plan) and plan.contract.level is Numerics.EXACT


def _strength(plan: Plan) -> tuple[Numerics, float]:
    return plan.contract.level, plan.contract.steps


def _plan(chain: _Chain) -> Plan:
    assert isinstance(chain.plan, Plan)
    return chain.plan


@dataclass(frozen=True)
class FoldAffine(RulePass):
    """Fold affine functions of one value into its scale; see the module."""

    name = "fold-affine"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (AffineOfCodes(session, Numerics.parse(self.numerics)),)
