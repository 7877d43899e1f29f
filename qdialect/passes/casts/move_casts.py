"""Choose where quantize and dequantize stand among movement ops.

    boundary=preserve               integers wherever the interface does not say float:
                                    a movement op right at a float argument or result
                                    keeps the integer-ness of the interface it touches
    boundary=maximize-integer       quantize up, dequantize down, as far as they go
    boundary=minimize-conversions   each cast where the fewest elements cross (`cast_cut`)

Every move is exact (`cast_movement`); a tie moves nothing. The interface itself is
`fold-interface`'s business.

For example

    %0 = quant.dcast %x : !q to !f
    %1 = nn.transpose %0 perm [1, 0] : (!f) -> !f_out

becomes

    %0 = nn.transpose %x perm [1, 0] : (!q) -> !q_out
    %1 = quant.dcast %0 : !q_out to !f_out

if an op other than a movement takes the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.cost import elements
from qdialect.behaviors import Behavior
from qdialect.behaviors.flow import carry_all_down, tied_operands
from qdialect.context import QContext, session
from qdialect.errors import UsageError
from qdialect.numerics.contract import EXACT, Contract
from qdialect.passes.casts.cast_cut import CODES, FLOATS, CastCut
from qdialect.passes.casts.cast_movement import (
    HoistQuantize,
    Policy,
    PolicyRule,
    SinkDequantize,
    refuse_floats,
)
from qdialect.passes.rule_pass import RulePass, quantize_as, refuse_types, users
from qdialect.qparams.legality import Illegal
from qdialect.quant import DCastOp, QCastOp, cast_rounding, element_type, with_element
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

MINIMIZE = "minimize-conversions"

_ROUNDS = 8
"""A dequantize that moved may let a quantize move; each round casts fewer elements."""


class Preserve(Policy):
    """More integers, but no op next to a float interface changes."""

    def __init__(self, session: QContext) -> None:
        self._session = session
        self._from_float: set[SSAValue] | None = None
        self._to_float: set[SSAValue] = set()

    def prepare(self, module: Operation) -> None:
        """Find what only movement ops connect to a float argument or result."""
        if self._from_float is not None:
            return
        self._from_float = set()
        ops = list(module.walk())
        for op in ops:
            if isinstance(op, FuncOp) and not op.is_declaration:
                self._from_float.update(op.body.blocks[0].args)
            elif any(v in self._from_float for v in self._carried(op)):
                self._from_float.update(op.results)
        for op in reversed(ops):
            if isinstance(op, ReturnOp):
                self._to_float.update(op.operands)
            elif any(v in self._to_float for v in op.results):
                self._to_float.update(self._carried(op))

    def _carried(self, op: Operation) -> list[SSAValue]:
        """The operands whose elements a commuting op moves or compares."""
        behavior = self._session.behaviors.get(op)
        if behavior is None or not behavior.commutes:
            return []
        return [op.operands[i] for i in tied_operands(op, behavior)]

    def hoist_quantize(self, op: Operation) -> Refusal | None:
        """Refused for an op that moves a float argument."""
        assert self._from_float is not None
        if any(v in self._from_float for v in self._carried(op)):
            return Refusal("interface", "the op moves a float argument")
        return None

    def sink_dequantize(self, op: Operation) -> Refusal | None:
        """Refused for an op that makes a float result."""
        if any(result in self._to_float for result in op.results):
            return Refusal("interface", "the op makes a float result")
        return None


class Minimize(Policy):
    """A cast passes the ops that leave the fewest elements cast in all (see `cast_cut`)."""

    def __init__(self, session: QContext) -> None:
        self._session = session
        self._cut: CastCut | None = None

    def prepare(self, module: Operation) -> None:
        """Solve where casts are best."""
        if self._cut is None:
            self._cut = CastCut(self._session, module)

    def hoist_quantize(self, op: Operation) -> Refusal | None:
        """Refused unless the op is best on codes."""
        return self._unless(op, self._planned.quantize, CODES, above=True)

    def hoist_dequantize(self, op: Operation) -> Refusal | None:
        """Refused unless the op is best on floats."""
        states = self._planned.dequantize
        return self._unless(op, states, FLOATS, "codes are", op.results, above=True)

    def sink_quantize(self, op: Operation) -> Refusal | None:
        """Refused unless the op is best on floats."""
        states = self._planned.quantize
        return self._unless(op, states, FLOATS, "quantized value is", self._tied(op))

    def sink_dequantize(self, op: Operation) -> Refusal | None:
        """Refused unless the op is best on codes."""
        states = self._planned.dequantize
        return self._unless(op, states, CODES, "dequantized value is", self._tied(op))

    @property
    def _planned(self) -> CastCut:
        assert self._cut is not None
        return self._cut

    def _tied(self, op: Operation) -> list[SSAValue]:
        behavior = self._session.behaviors.get(op)
        assert behavior is not None
        return [op.operands[i] for i in tied_operands(op, behavior)]

    def _unless(
        self,
        op: Operation,
        states: Mapping[Operation, int],
        state: int,
        what: str = "",
        cast_values: Sequence[SSAValue] = (),
        *,
        above: bool = False,
    ) -> Refusal | None:
        """None if `op` should be in `state`, or if the rule itself refuses; else why not.
        `cast_values` are cast now, and would be `above` the op afterwards, or else below."""
        if states.get(op) == state:
            return None
        before, after = (sum(map(elements, values)) for values in (self._tied(op), op.results))
        here, there = (after, before) if above else (before, after)
        if there >= here:
            return Refusal("cost", f"{there} elements would cross instead of {here}")
        if not all(value.has_one_use() for value in cast_values):
            return Refusal("multi-use", f"the {what} also used elsewhere")
        if self._planned.is_fixed(op, states):
            return None
        return Refusal("least", "with all that reads these values, no fewer elements would cross")


@dataclass(frozen=True)
class _Moved:
    """A movement op and the casts around it, on its operands or on its results."""

    op: Operation
    behavior: Behavior
    casts: tuple[QCastOp | DCastOp, ...]


class SinkQuantize(PolicyRule[_Moved]):
    """f(quantize(x)) = quantize(f(x)) for a movement f: law 2.2 read backwards.

    A border that f adds is a number that a code stands for, so quantizing it gives that
    code again.
    """

    name = "sink-quantize"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.movement is not None and b.commutes)

    def match(self, op: Operation) -> _Moved | None:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        owners = [op.operands[i].owner for i in tied_operands(op, behavior)]
        casts = tuple(owner for owner in owners if isinstance(owner, QCastOp))
        if not casts or len(casts) != len(owners) or qparams_of(op.results[0]) is None:
            return None
        return _Moved(op, behavior, casts)

    def check(self, match: _Moved) -> Contract | Refusal:
        refusal = self.policy.sink_quantize(match.op)
        if refusal:
            return refusal
        if len({cast_rounding(cast) for cast in match.casts}) > 1:
            return Refusal("rounding", "the operands are quantized with different roundings")
        params = [q for cast in match.casts if (q := qparams_of(cast.result))]
        results = [qparams_of(result) for result in match.op.results]
        carried = carry_all_down(match.op, match.behavior, params, results)
        if isinstance(carried, Illegal):
            return Refusal(carried.code, carried.reason)
        if carried != results:
            return Refusal("mixed", f"'{match.op.name}' requantizes its operands")
        operands = [v.type for v in self._floats(match)]
        results = self._results(match)
        return refuse_types(self.session, match.behavior, match.op, operands, results) or EXACT

    def _floats(self, match: _Moved) -> list[SSAValue]:
        operands = list(match.op.operands)
        tied = tied_operands(match.op, match.behavior)
        for index, cast in zip(tied, match.casts, strict=True):
            operands[index] = cast.input
        return operands

    def _results(self, match: _Moved) -> list[Any]:
        kind = element_type(match.casts[0].input.type)
        return [with_element(result.type, kind) for result in match.op.results]

    def rewrite(self, match: _Moved, rewriter: Rewriter) -> None:
        moved = retyped(match.op, self._floats(match), self._results(match))
        rewriter.insert(moved, match.op, keep=match.op)
        below: list[SSAValue] = []
        for source, result in zip(moved.results, match.op.results, strict=True):
            first = match.casts[0]
            assert isinstance(first, QCastOp)
            cast = quantize_as(first, source, result.type)
            rewriter.insert(cast, match.op, keep=first)
            below.append(cast.result)
        rewriter.replace(match.op, below)


class HoistDequantize(PolicyRule[_Moved]):
    """dequantize(f(q)) = f(dequantize(q)) for a movement f: law 2.2."""

    name = "hoist-dequantize"

    def roots(self) -> Iterable[str]:
        return (DCastOp.name,)

    def match(self, op: Operation) -> _Moved | None:
        assert isinstance(op, DCastOp)
        owner = op.input.owner
        behavior = self.session.behaviors.get(owner) if isinstance(owner, Operation) else None
        if behavior is None or behavior.movement is None or not isinstance(owner, Operation):
            return None
        return _Moved(owner, behavior, (op,)) if len(owner.results) == 1 else None

    def check(self, match: _Moved) -> Contract | Refusal:
        refusal = self.policy.hoist_dequantize(match.op)
        if refusal:
            return refusal
        if self._lowers(match) is None:
            return Refusal("multi-use", "the codes are also used elsewhere")
        params = qparams_of(match.op.results[0])
        tied = tied_operands(match.op, match.behavior)
        above = [qparams_of(match.op.operands[i]) for i in tied]
        known = [q for q in above if q is not None]
        if params is None or carry_all_down(match.op, match.behavior, known, [params]) != [params]:
            return Refusal("mixed", f"'{match.op.name}' requantizes its operands")
        expressed = element_type(match.casts[0].result.type)
        return refuse_floats(self.session, match.behavior, match.op, expressed) or EXACT

    def rewrite(self, match: _Moved, rewriter: Rewriter) -> None:
        lower = match.casts[0]
        float_kind = element_type(lower.result.type)
        operands = list(match.op.operands)
        for index in tied_operands(match.op, match.behavior):
            cast = DCastOp(operands[index], with_element(operands[index].type, float_kind))
            rewriter.insert(cast, match.op)
            operands[index] = cast.result
        moved = retyped(match.op, operands, [lower.result.type])
        rewriter.insert(moved, match.op, keep=match.op)
        for each in self._lowers(match) or ():
            rewriter.replace(each, moved.results)

    def _lowers(self, match: _Moved) -> list[DCastOp] | None:
        """All users of the result, if they dequantize it to one type."""
        every = users(match.op.results[0])
        lowers = [user for user in every if isinstance(user, DCastOp)]
        kinds = {lower.result.type for lower in lowers}
        return lowers if len(kinds) == 1 and len(lowers) == len(every) else None


@dataclass(frozen=True)
class MoveCasts(RulePass):
    """Choose where quantize and dequantize stand among movement ops; see the module."""

    name = "move-casts"

    boundary: str = "preserve"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        qctx, rounds = session(ctx), _ROUNDS if self.boundary == MINIMIZE else 1
        super().apply(qctx, op)
        while (rounds := rounds - 1) and CastCut(qctx, op).gains:
            super().apply(qctx, op)

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        policy: Policy
        if self.boundary == MINIMIZE:
            policy = Minimize(session)
            return (
                HoistQuantize(session, policy),
                SinkDequantize(session, policy),
                SinkQuantize(session, policy),
                HoistDequantize(session, policy),
            )
        if self.boundary == "preserve":
            policy = Preserve(session)
        elif self.boundary == "maximize-integer":
            policy = Policy()
        else:
            raise UsageError(
                f"move-casts: unknown boundary '{self.boundary}' (preserve, maximize-integer "
                "or minimize-conversions)",
                code="bad-option",
            )
        return (HoistQuantize(session, policy), SinkDequantize(session, policy))
