"""What the rescales between two states of a value cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import isinf, log2
from typing import NamedTuple

from xdsl.ir import SSAValue

from qdialect.analysis.cost import elements
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.contract import EXACT, Contract, Numerics
from qdialect.numerics.rounding import Rounding
from qdialect.placement import INFINITE
from qdialect.qparams import QParams
from qdialect.transforms.pair_contract import pair_contract
from qdialect.transforms.placing.states import Step

#: a cost is elements x price in 1/64, then contract classes weaker than exact, then moves
COST, CLASS, MOVE = 1 << 48, 1 << 24, 1
_UNIT = 64


def elements_cost(cost: int) -> float:
    """A cost in elements times price; infinite if it cannot be had."""
    return float("inf") if cost >= INFINITE // 2 else (cost // COST) / _UNIT


#: a step: its number (from state k to k + 1) and, above state 0, the way there
Rung = tuple[int, tuple[tuple[QParams, Rounding], ...]]


class Use(NamedTuple):
    """A use of a value: the variable of its state (None if fixed), and where its states lie.

    `lowest`, `highest` and `now` are numbered as the value sees them: a rescale in its
    state 0 uses the value in the value's state 1.  `steps` lead to the states above 0
    (they differ between uses; those below 0 do not).
    """

    variable: int | None
    lowest: int
    highest: int
    now: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Link:
    """One rescale of a chain: from a state to a later one."""

    start: int
    end: int
    contract: Contract


#: by state: what getting there costs, and how
Chains = dict[int, tuple[int, list[Link]]]


@dataclass(frozen=True)
class Ladder:
    """The states of a value: its qparams now, and the steps above it."""

    value: SSAValue
    now: QParams
    #: `now` with the bounds that codes are known to keep
    seen_now: QParams
    above: Sequence[Step]
    #: chains from a state along some steps, which are kept so that their id stays theirs
    known: dict[tuple[int, int], tuple[Sequence[Step], Chains]] = field(
        default_factory=dict[tuple[int, int], "tuple[Sequence[Step], Chains]"], compare=False
    )

    @cached_property
    def elements(self) -> int:
        """Elements of the value; absurdly many are all the same."""
        return min(elements(self.value), 1 << 60)

    def qparams(self, state: int, steps: Sequence[Step]) -> QParams:
        if state == 0:
            return self.now
        return self.above[-state - 1].qparams if state < 0 else steps[state - 1].qparams

    def step(self, k: int, steps: Sequence[Step]) -> Step:
        """The rescale from state k to k + 1."""
        return self.above[-k - 1] if k < 0 else steps[k]

    def seen(self, state: int, steps: Sequence[Step]) -> QParams:
        """The qparams with the bounds that codes in that state are known to keep."""
        if state < 0:
            return self.above[-state - 1].seen
        return self.seen_now if state == 0 else self.qparams(state, steps)

    def is_inside(self, state: int) -> bool:
        """Whether the codes in that state are known to keep their bounds."""
        if state < 0:
            return self.above[-state - 1].inside
        own, seen = self.now.storage, self.seen_now.storage
        return state > 0 or (own.min <= seen.min and seen.max <= own.max)

    def rung(self, k: int, steps: Sequence[Step]) -> Rung:
        return k, tuple((s.qparams, s.rounding) for s in steps[: max(k + 1, 0)])


def bits_lost(a: QParams, b: QParams) -> float:
    """What a value on `b` says less than on `a`, in bits: coarser steps, and what of the
    range is missing (all of it would be all bits)."""
    lost = 0.0
    for source, target in exact.cells(a, b) or ():
        (low, high), (start, end) = exact.real_range(source), exact.real_range(target)
        kept = max(min(high, end) - max(low, start), Fraction(0))
        missing = 1 - float(kept / (high - low)) if high > low else 0.0
        coarser = max(log2(target.scale / source.scale), 0.0)
        lost = max(lost, coarser + missing * a.storage.width)
    return lost


class Prices:
    """Prices of chains of rescales under a level of numerics, remembered."""

    def __init__(self, session: QContext, level: Numerics) -> None:
        self._target = session.target
        self._level = level
        self._prices: dict[tuple[QParams, QParams], float] = {}
        self._pairs: dict[tuple[QParams, QParams, QParams, Rounding, Rounding], Contract | None]
        self._pairs = {}

    def step(self, ladder: Ladder, k: int, steps: Sequence[Step]) -> int:
        """The cost of the rescale from state k to k + 1."""
        return self._link(ladder, k, k + 1, steps)

    def add_up(self, ladder: Ladder, lowest: int, uses: Sequence[Use]) -> bool:
        """Whether no chain from `lowest` or above to any use is cheaper than its steps."""
        for use in uses:
            for i in range(lowest, use.highest - 1):
                cheapest = self._chains(ladder, i, use.highest, use.steps)
                cost = 0
                for j in range(i + 1, use.highest + 1):
                    cost += self.step(ladder, j - 1, use.steps)
                    if cheapest[j][0] < cost:
                        return False
        return True

    def chain(
        self, ladder: Ladder, i: int, j: int, steps: Sequence[Step]
    ) -> tuple[int, list[Link]]:
        """The cheapest rescales from state i to state j > i, with what folding changes."""
        return self._chains(ladder, i, j, steps)[j]

    def _chains(self, ladder: Ladder, i: int, j: int, steps: Sequence[Step]) -> Chains:
        """`chain` from i to every state up to j."""
        _, best = ladder.known.setdefault((i, id(steps)), (steps, {i: (0, [])}))
        for end in range(i + len(best), j + 1):
            options: list[tuple[int, list[Link]]] = []
            for start in range(i, end):
                contract = self.fold(ladder, start, end, steps)
                if contract is None:
                    continue
                cost, links = best[start]
                cost += self._link(ladder, start, end, steps) + CLASS * int(contract.level)
                options.append((cost, [*links, Link(start, end, contract)]))
            best[end] = min(options, key=lambda option: (option[0], len(option[1])))
        return best

    def accuracy(self, ladder: Ladder, k: int, steps: Sequence[Step], weight: float) -> int:
        """The cost of a use in state k > 0 that nobody asked for: bits lost, per element."""
        lost = bits_lost(ladder.now, steps[k - 1].qparams) * ladder.elements
        return round(lost * weight * _UNIT) * COST + CLASS * int(Numerics.RELAXED)

    def _link(self, ladder: Ladder, i: int, j: int, steps: Sequence[Step]) -> int:
        a, b = ladder.qparams(i, steps), ladder.qparams(j, steps)
        if a == b and ladder.is_inside(i):
            return 0
        if (a, b) not in self._prices:
            self._prices[a, b] = self._target.rescale_price(a, b)
        price = self._prices[a, b]
        if isinf(price):
            return INFINITE
        return round(price * ladder.elements * _UNIT) * COST

    def fold(self, ladder: Ladder, i: int, j: int, steps: Sequence[Step]) -> Contract | None:
        """What one rescale from i to j changes; None if the level does not allow it."""
        worst = EXACT
        for middle in range(i + 1, j):
            contract = self._pair(
                ladder.seen(i, steps),
                ladder.qparams(middle, steps),
                ladder.qparams(middle + 1, steps),
                ladder.step(middle - 1, steps).rounding,
                ladder.step(middle, steps).rounding,
            )
            if contract is None:
                return None
            worst = Contract(
                max(worst.level, contract.level), worst.steps + contract.steps, contract.note
            )
        return worst

    def _pair(
        self, a: QParams, b: QParams, c: QParams, first: Rounding, second: Rounding
    ) -> Contract | None:
        key = (a, b, c, first, second)
        if key not in self._pairs:
            found = pair_contract(a, b, c, first, second)
            allowed = isinstance(found, Contract) and found.level <= self._level
            self._pairs[key] = found if isinstance(found, Contract) and allowed else None
        return self._pairs[key]
