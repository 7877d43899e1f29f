"""Between the two forms of `quant.rescale`: real ratio, and (multiplier, shift).

    real    q' = clamp(R((q - z) * s / s') + z')
    fixed   q' = clamp(R((q - z) * m * 2**-k) + z')

A pair is the nearest one whose multiplier is an integer of `bits` with its sign (those of the
target, or 32), so the ratio is off by at most 2**(1 - bits) of itself.  What that changes is
decided on all codes (see `algebra.fixed_point`): exact, or ties, or bounded(k), and the remark
says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.fixed_point import (
    FixedPoint,
    Form,
    ratio_of,
    to_fixed_point,
    weakest_replacement,
)
from qdialect.algebra.requantize import QuantGrid, paired_parameters
from qdialect.algebra.rounding import Rounding
from qdialect.errors import UsageError
from qdialect.ir.context import QContext
from qdialect.ir.quant import RescaleOp, arithmetic_of
from qdialect.passes.rule_pass import RulePass
from qdialect.rewrite import Refusal, Rewriter, Rule

_FEWEST, _MOST = 2, 32


@dataclass(frozen=True)
class Plan:
    """A rescale, and its old and new form for every cell of its parameter field."""

    op: RescaleOp
    grids: list[tuple[QuantGrid, QuantGrid]]
    old: list[Form]
    new: list[Form]

    def contract(self) -> Contract:
        """The weakest of the contracts of all cells."""
        distinct = dict.fromkeys(
            (pair, old, new) for pair, old, new in zip(self.grids, self.old, self.new, strict=True)
        )
        if not distinct:
            return EXACT
        grids, old, new = zip(*distinct, strict=True)
        return weakest_replacement(grids, old, new)


def grids_of(op: RescaleOp) -> list[tuple[QuantGrid, QuantGrid]] | None:
    """The grids of operand and result that meet in each cell of their parameter fields, row-major;
    None if these are laid out differently.

    The bounds of the input are those of its storage type: a code may lie outside
    narrower ones.
    """
    grids = paired_parameters(op.input_qparams, op.result_qparams)
    low, high = op.input_qparams.storage.full_range
    return grids and [(a._replace(low=low, high=high), b) for a, b in grids]


def forms_of(op: RescaleOp, count: int) -> list[Form]:
    """How `op` computes in each of its `count` cells."""
    pairs = op.fixed_point
    if pairs is None:
        return [Form(op.rounding, floats=_floats(op))] * count
    forms = [Form(op.rounding, FixedPoint(*pair)) for pair in pairs]
    return forms * count if len(forms) == 1 else forms


def _floats(op: RescaleOp) -> str | None:
    return arithmetic_of(op).floats(op.input_qparams.expressed)


class FixRescale(Rule[RescaleOp]):
    """real form -> fixed-point form with `bits`-bit multipliers."""

    name = "fix-rescale"
    root = RescaleOp.name

    def __init__(self, session: QContext, bits: int, rounding: Rounding | None) -> None:
        super().__init__(session)
        self.bits = bits
        self.rounding = rounding

    def match(self, op: Operation) -> RescaleOp | None:
        assert isinstance(op, RescaleOp)
        return op if op.fixed_point is None else None

    def check(self, match: RescaleOp) -> Contract | Refusal:
        plan = self._plan(match)
        return plan if isinstance(plan, Refusal) else plan.contract()

    def _plan(self, op: RescaleOp) -> Plan | Refusal:
        grids = grids_of(op)
        if grids is None:
            return Refusal("grid", "the two encodings lie on different grids")
        if op.rounding.two_stage:
            return Refusal("rounding", f"{op.rounding.value} does not round real numbers")
        # Integers are multiplied and shifted: nothing has a reciprocal.
        rounding = (self.rounding or op.rounding).in_reals
        try:
            new = [Form(rounding, to_fixed_point(ratio_of(a, b), self.bits)) for a, b in grids]
        except ValueError as error:
            return Refusal("range", str(error))
        return Plan(op, grids, forms_of(op, len(grids)), new)

    def rewrite(self, match: RescaleOp, rewriter: Rewriter) -> None:
        plan = self._plan(match)
        assert isinstance(plan, Plan)
        pairs = [form.pair for form in plan.new if form.pair is not None]
        if len(set(pairs)) == 1:
            pairs = pairs[:1]
        multipliers, shifts = zip(*pairs, strict=True)
        new = RescaleOp(match.input, match.result.type, plan.new[0].rounding, multipliers, shifts)
        rewriter.insert(new, match, keep=match)
        rewriter.replace(match, new.results)


_TWO_STAGE = frozenset(one.value for one in Rounding if one.two_stage)


def nearest_of_reals(rounding: Rounding) -> Rounding:
    """The rounding of real numbers that is most like one of multiplier and shift."""
    if rounding is Rounding.RUY:
        return Rounding.HALF_UP
    return Rounding.HALF_AWAY if rounding is Rounding.GEMMLOWP else rounding


class UnfixRescale(Rule[RescaleOp]):
    """fixed-point form -> real form: the ratio is that of the scales in the types.

    gemmlowp and ruy, which are not roundings of real numbers, become half_away and
    half_up unless the user names a rounding.
    """

    name = "unfix-rescale"
    root = RescaleOp.name

    def __init__(self, session: QContext, rounding: Rounding | None) -> None:
        super().__init__(session)
        self.rounding = rounding

    def match(self, op: Operation) -> RescaleOp | None:
        assert isinstance(op, RescaleOp)
        return op if op.fixed_point is not None else None

    def _rounding(self, op: RescaleOp) -> Rounding:
        if self.rounding is not None:
            return self.rounding
        return nearest_of_reals(op.rounding)

    def check(self, match: RescaleOp) -> Contract | Refusal:
        grids = grids_of(match)
        if grids is None:
            return Refusal("grid", "the two encodings lie on different grids")
        new = [Form(self._rounding(match), floats=_floats(match))] * len(grids)
        return Plan(match, grids, forms_of(match, len(grids)), new).contract()

    def rewrite(self, match: RescaleOp, rewriter: Rewriter) -> None:
        new = RescaleOp(match.input, match.result.type, self._rounding(match))
        rewriter.insert(new, match, keep=match)
        rewriter.replace(match, new.results)


@dataclass(frozen=True)
class ConvertRescale(RulePass):
    """Change the form of rescales; see the module.

    `form` is `fixed` or `real`, `bits` those of the integer type that holds the multiplier
    (0: `Target.multiplier_bits`, or 32), `rounding` what the result rounds with (`keep`: as
    before).
    """

    name = "convert-rescale"

    form: Literal["fixed", "real"] = "fixed"
    bits: int = 0
    rounding: str = "keep"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        if self.bits and not _FEWEST <= self.bits <= _MOST:
            raise _bad(f"bits must be {_FEWEST} to {_MOST}, not {self.bits}")
        if self.form == "real" and self.rounding in _TWO_STAGE:
            raise _bad(f"{self.rounding} rounds shifts and not real numbers")
        if self.form == "fixed" and self.rounding == Rounding.RECIPROCAL.value:
            raise _bad("a multiplier and shift have no reciprocal")
        super().apply(ctx, op)

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        rounding = None
        if self.rounding != "keep":
            try:
                rounding = Rounding(self.rounding)
            except ValueError:
                known = ", ".join(mode.value for mode in Rounding)
                raise _bad(f"unknown rounding '{self.rounding}' (keep, {known})") from None
        if self.form == "real":
            return (UnfixRescale(session, rounding),)
        bits = self.bits or min(session.target.multiplier_bits or _MOST, _MOST)
        return (FixRescale(session, bits, rounding),)


def _bad(message: str) -> UsageError:
    return UsageError(f"convert-rescale: {message}", code="bad-option")
