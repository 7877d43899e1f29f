"""What requantizing ports may absorb: rescales below a result, rescales above an operand.

Absorbing several at once may go step by step, or some may first fold into one: the path
with the strongest contract is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from qdialect.analysis.ranges import ranges
from qdialect.behaviors import Behavior, PortKind
from qdialect.context import QContext
from qdialect.numerics import arithmetic
from qdialect.numerics import requantize as exact
from qdialect.numerics.contract import EXACT, Contract, Numerics
from qdialect.passes.pair_contract import pair_contract, renumbers
from qdialect.passes.rescale.absorption import Down, Up, down_contract, up_contract
from qdialect.passes.rescale.place.prices import CLASS, MOVE, Ladder, Prices
from qdialect.passes.rescale.place.steps import Step
from qdialect.qparams import QParams
from qdialect.quant import DCastOp, QCastOp, arithmetic_of, cast_rounding
from qdialect.rewrite import Refusal


class Absorption(NamedTuple):
    """A state that a port may take: the states on the way there, and what that changes."""

    path: tuple[int, ...]
    contract: Contract


_NOTHING = Absorption((0,), EXACT)

#: by number of rescales absorbed, from 0; None where that is not allowed
Absorptions = list[Absorption | None]


def absorption_costs(absorptions: Absorptions, infinite: int) -> list[int]:
    """What each costs: a move, and the class if it is weaker than exact."""
    return [
        infinite if a is None else MOVE * count + CLASS * int(a.contract.level)
        for count, a in enumerate(absorptions)
    ]


class Ports:
    """Asks declarations and target what ports may absorb under a level of numerics."""

    def __init__(self, session: QContext, level: Numerics, prices: Prices) -> None:
        self._session = session
        self._level = level
        self._prices = prices

    def up(self, op: Operation, ladder: Ladder, steps: Sequence[Step]) -> Absorptions:
        """For the one result of `op`, which all users rescale by `steps`."""

        def absorb(start: int, end: int) -> Contract | None:
            source = ladder.qparams(start, steps)
            return self._up(op, source, steps[end - 1])

        return self._best(len(steps), absorb, self._prices.window(ladder, steps).fold)

    def down(self, op: Operation, index: int, ladder: Ladder) -> Absorptions:
        """For operand `index` of `op`, whose value is `ladder`'s."""
        if not isinstance(op, DCastOp) and self._requantizing(op, index) is None:
            return [_NOTHING]

        def absorb(start: int, end: int) -> Contract | None:
            return self._down(op, index, ladder.above[end - 1], ladder.qparams(-start, ()))

        def fold(start: int, end: int) -> Contract | None:
            return window.fold(-end, -start)

        window = self._prices.window(ladder, ())
        return self._best(len(ladder.above), absorb, fold)

    def regridded(self, op: Operation, index: int, now: QParams, steps: Sequence[Step]) -> int:
        """How many of `steps`, which others take, operand `index` may be given as well."""
        behavior = self._session.behaviors.get(op)
        assert behavior is not None
        for count, step in enumerate(steps):
            match = Down(op, behavior, index, step.qparams, step.seen, now, step.rounding)
            if isinstance(down_contract(self._session, match), Refusal):
                return count
        return len(steps)

    def _best(
        self,
        count: int,
        absorb: Callable[[int, int], Contract | None],
        fold: Callable[[int, int], Contract | None],
    ) -> Absorptions:
        """The strongest way to absorb each number of rescales."""
        best: Absorptions = [_NOTHING]
        for end in range(1, count + 1):
            options: list[Absorption] = []
            for start in range(end):
                before = best[start]
                if before is None:
                    continue
                folded = fold(start, end)
                absorbed = absorb(start, end) if folded is not None else None
                if folded is None or absorbed is None or absorbed.level > self._level:
                    continue
                parts = (before.contract, folded, absorbed)
                weakest = max(parts, key=lambda contract: contract.level)
                steps = sum(contract.steps for contract in parts)
                contract = Contract(weakest.level, steps, weakest.note)
                options.append(Absorption((*before.path, end), contract))
            strength = min(options, key=_strength) if options else None
            best.append(strength)
        while best[-1] is None:
            best.pop()
        return best

    def _requantizing(self, op: Operation, index: int) -> Behavior | None:
        """The declaration of `op`, if it takes any qparams on operand `index`."""
        behavior = self._session.behaviors.get(op)
        if behavior is None or behavior.operand_port(index).kind is not PortKind.REQUANT:
            return None
        return behavior

    def _up(self, op: Operation, source: QParams, step: Step) -> Contract | None:
        """What it changes that a result written as `source` takes the step at once."""
        target, rounding = step.qparams, step.rounding
        if self._level < Numerics.BOUNDED and not renumbers(source, target):
            return None  # most are: what dropping a rounding changes need not be found out
        if isinstance(op, QCastOp):
            found = pair_contract(
                None,
                source,
                target,
                cast_rounding(op),
                rounding,
                lambda: ranges(self._session).before_rounding(op.result),
                defined=arithmetic_of(op),
            )
            return found if isinstance(found, Contract) else None
        behavior = self._session.behaviors.get(op)
        if behavior is None or behavior.results[0].kind is not PortKind.REQUANT:
            return None
        found = up_contract(self._session, Up(op, behavior, source, target, rounding))
        return found if isinstance(found, Contract) else None

    def _down(self, op: Operation, index: int, step: Step, middle: QParams) -> Contract | None:
        """What it changes that an operand read as `middle` is read before the step."""
        if isinstance(op, DCastOp):
            cells = exact.cells(step.seen, middle)
            if cells is None or middle.expressed != step.qparams.expressed:
                return None
            floats = arithmetic_of(op).floats(middle.expressed)
            if all(a.scale == b.scale and arithmetic.is_lossless(a, b, floats) for a, b in cells):
                return EXACT
            return Contract(Numerics.RELAXED, note="drops a rounding and a clip")
        behavior = self._requantizing(op, index)
        if behavior is None:
            return None
        if self._level < Numerics.BOUNDED:
            cells = exact.cells(step.seen, middle)
            if cells is None or not all(exact.is_lossless(a, b) for a, b in cells):
                return None
        match = Down(op, behavior, index, step.qparams, step.seen, middle, step.rounding)
        found = down_contract(self._session, match)
        return found if isinstance(found, Contract) else None


def takes_others(session: QContext, op: Operation) -> bool:
    """Whether an operand of `op` may be given in other qparams than it has."""
    if isinstance(op, DCastOp):
        return True
    behavior = session.behaviors.get(op)
    return behavior is not None and any(port.kind is PortKind.REQUANT for port in behavior.operands)


def _strength(absorption: Absorption) -> tuple[int, float, int]:
    contract = absorption.contract
    return contract.level, contract.steps, len(absorption.path)
