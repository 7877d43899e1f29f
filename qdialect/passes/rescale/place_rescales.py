"""Put every rescale, quantize and dequantize where it costs least, all of them at once.

These conversions may stand anywhere along the movement and order-preserving ops around them, and
requantizing ops may absorb rescales; where one goes decides what another costs. `sink-rescale`,
`combine-rescale` and `move-casts` decide one by one. This pass states the whole choice as one
problem (`place.problem`) and solves it (`qdialect.placement`): least elements converted times the
target's price and how often that runs (`place.calls`), nothing that the target refuses, contracts
no weaker than `numerics`. Of equally cheap placements the one with the fewest conversions is taken,
then the strongest contracts, then the fewest changes, so a module that is placed best stays as it
is, and the result does not depend on the order of ops. A conversion that has moved, or become one
with another, may let others pass that could not before, so the pass states the problem again until
nothing gets cheaper.

`boundary` says which ops may change between integers and floats (`place.boundary`): an op on
integers stays on integers (`preserve`, the default); any op may change where fewer elements are
converted then (`minimize-conversions`); every op that can be on integers is (`maximize-integer`).

A dequantize and the quantize below it become one rescale, or nothing; under `relaxed` so do a
quantize and the dequantize right below it.

Under `relaxed` a requantizing operand may also be given what the other users of its value
rescale that to, so that one type serves all of them (both sides of an add, the inputs of a
concat). Every bit of precision this loses costs as much per element as `accuracy` rescales.

The remark `placement` gives the cost before and after, a lower bound on what any
placement costs, and how many components are proved least. Of a conversion that the target refuses,
which only one that stood there can be, the remark `refused-op` says why.

For example

    %0 = quant.rescale %x : !large_a to !large_b
    %1 = nn.slice %0 starts [0, 0] stops [1, 4] steps [1, 1] : (!large_b) -> !small_b
    %2 = nn.tile %1 repeats [8, 8] : (!small_b) -> !large_b

becomes

    %0 = nn.slice %x starts [0, 0] stops [1, 4] steps [1, 1] : (!large_a) -> !small_a
    %1 = quant.rescale %0 : !small_a to !small_b
    %2 = nn.tile %1 repeats [8, 8] : (!small_b) -> !large_b
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from qdialect.algebra.contract import EXACT, Numerics, level_named
from qdialect.analysis.index import every_op
from qdialect.analysis.ranges import CodeRanges, ranges_anew
from qdialect.errors import UsageError
from qdialect.ir.context import QContext, session
from qdialect.ir.quant import RescaleOp, arithmetic_of
from qdialect.passes.casts.cast_rules import DequantizeOfQuantize, QuantizeOfConstant
from qdialect.passes.cleanup.cse import Cse
from qdialect.passes.rescale.fold_rescale import IdentityRescale, RescaleOfConstant
from qdialect.passes.rescale.place.boundary import MAXIMIZE, PRESERVE, Boundary, Policy
from qdialect.passes.rescale.place.commit import Commit
from qdialect.passes.rescale.place.conversions import conversion_of
from qdialect.passes.rescale.place.costs import Costs, elements_cost
from qdialect.passes.rescale.place.problem import PlacementProblem
from qdialect.placement import Parts, Solution, solve
from qdialect.rewrite import Driver, Rule
from qdialect.rewrite.remarks import fired_remark
from qdialect.rewrite.rewriter import erase_op


class Placement(NamedTuple):
    """A placement: what the module cost before, and how good each component is now.

    The costs are those of `place.costs`; `estimated` counts the values whose costs are
    only known from above, which leaves the bound of the solution unproved.
    """

    before: int
    parts: Parts
    estimated: int


@dataclass(frozen=True)
class PlaceRescales(ModulePass):
    """Put every conversion where it costs least; see the module."""

    name = "place-rescales"
    counts_changes: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    keeps_analyses: ClassVar[bool] = True

    numerics: str = "exact"
    boundary: Policy = PRESERVE
    solver: bool = True
    accuracy: float = 1.0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        self.place(session(ctx), op)

    def place(self, session: QContext, op: ModuleOp) -> Placement:
        """Put the conversions of `op` where they cost least, and say what that is worth."""
        level = level_named(self.numerics)
        if not 0 <= self.accuracy < inf:
            raise UsageError("accuracy is a price: 0 or more, and finite", code="bad-option")
        ranges_anew(session)
        session.changes += _drop_dead(session, op)
        folds: list[Rule[Any]] = [IdentityRescale(session), RescaleOfConstant(session)]
        folds.append(QuantizeOfConstant(session))
        if level is Numerics.RELAXED and self.boundary == MAXIMIZE:
            # Between casts, integers are what this policy is to keep.
            folds.append(DequantizeOfQuantize(session))
        costs = Costs(session, level, arithmetic_of(op))
        cost_by_round: list[int] = []
        while True:
            Driver(session, folds, pass_name=self.name, numerics=level).run(op)
            Cse().apply(session, op)  # what is alike is priced as one
            ops = list(every_op(op))
            policy = Boundary(session, self.boundary)
            placing = PlacementProblem(session, level, self.accuracy, costs, policy, ops)
            cost_by_round.append(placing.problem.cost(placing.start) + placing.repeated)
            solution = solve(placing.problem, placing.start, use_solver=self.solver)
            gains = len(cost_by_round) == 1 or cost_by_round[-1] < cost_by_round[-2]
            unchanged = list(solution.states) == placing.start
            if not gains or (unchanged and not placing.repeated):
                break
            self._commit(session, placing, solution)
            del placing, solution  # the next problem is as large
            session.changes += 1
            session.analyses.pop(CodeRanges, None)
        before = cost_by_round[0]
        placement = Placement(before, solution.parts, len(placing.estimated))
        if not session.keeps_analyses:
            session.analyses.clear()
        if before or placement.parts:
            self._report(session, op, placement)
        for other in every_op(op):
            reason = costs.refused(other) if conversion_of(other) else None
            if reason:
                self._note(session, other, "refused-op", f"{session.target.name}: {reason}")
        return placement

    def _commit(self, session: QContext, placing: PlacementProblem, solution: Solution) -> None:
        commit = Commit(session, placing, solution.states)
        commit.run()
        for conversion in commit.moved:
            rule = "place-rescale" if isinstance(conversion, RescaleOp) else "place-cast"
            session.remarks.add(fired_remark(self.name, rule, conversion, EXACT))
        for absorbed in commit.absorbed:
            op, rule, contract, _ = absorbed
            session.remarks.add(fired_remark(self.name, rule, op, contract))
            if contract.level is not Numerics.EXACT:
                commit.record(absorbed, len(session.remarks.remarks) - 1)

    def _report(self, session: QContext, op: ModuleOp, placement: Placement) -> None:
        parts = placement.parts
        cost, least = elements_cost(parts.cost), elements_cost(parts.bound)
        methods = ", ".join(f"{count} by {name}" for name, count in parts.methods)
        bound = f"lower bound {least:g}, gap {max(cost - least, 0.0) / (cost or 1.0):.1%}"
        if placement.estimated:
            bound = f"no lower bound ({placement.estimated} values only estimated)"
        self._note(
            session,
            op,
            "placement",
            f"cost {elements_cost(placement.before):g} -> {cost:g} elements x price, "
            f"{bound}; {parts.exact} of {len(parts)} components exact ({methods})",
        )

    def _note(self, session: QContext, op: Operation, code: str, reason: str) -> None:
        session.remarks.at(op, "note", self.name, code, reason, rule="placement")


def _drop_dead(session: QContext, module: Operation) -> int:
    """What nobody uses need not stand anywhere; how many there were."""
    dropped = 0
    for op in reversed(list(every_op(module))):
        if conversion_of(op) and op.results[0].first_use is None:
            erase_op(op, session)
            dropped += 1
    return dropped
