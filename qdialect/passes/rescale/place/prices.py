"""What the rescales between two states of a value cost."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isinf, log2
from typing import NamedTuple

from xdsl.ir import SSAValue

from qdialect.analysis.cost import elements
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.arithmetic import Arithmetic
from qdialect.numerics.contract import EXACT, Contract, Numerics
from qdialect.numerics.rounding import Rounding
from qdialect.passes.pair_contract import pair_contract
from qdialect.passes.rescale.place.steps import Step, StepKeys, is_inside
from qdialect.placement import INFINITE, Table
from qdialect.qparams import QParams

#: a cost is elements x price in 1/64, then contract classes weaker than exact, then moves
COST, CLASS, MOVE = 1 << 48, 1 << 24, 1
_UNIT = 64


def elements_cost(cost: int) -> float:
    """A cost in elements times price; infinite if it cannot be had."""
    return float("inf") if cost >= INFINITE // 2 else (cost // COST) / _UNIT


#: a step: its number (from state k to k + 1) and, above state 0, the way there
Rung = tuple[int, tuple[int, ...]]


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


#: what getting to a state costs, and how
Chain = tuple[int, list[Link]]


class _End(NamedTuple):
    """What getting to a state costs at least, in how many rescales, and where the last one
    of them starts."""

    cost: int
    links: int
    start: int


class Window:
    """The states of a value as one of its uses sees them, from the lowest up, and what
    rescales between them cost: the same for all values that see the same."""

    def __init__(
        self,
        prices: Prices,
        elements: int,
        lowest: int,
        params: Sequence[QParams],
        seen: Sequence[QParams],
        roundings: Sequence[Rounding],
    ) -> None:
        self._prices = prices
        self._elements = elements
        self._lowest = lowest
        #: by state, from the lowest: its qparams, and with the bounds that codes keep there
        self._params = params
        self._seen = seen
        #: by step, from the lowest: how the rescale there rounds
        self._roundings = roundings
        self._links: dict[tuple[int, int], int] = {}
        self._chains: dict[int, list[_End]] = {}
        self._tables: dict[tuple[int, int, int, int], Table] = {}

    @cached_property
    def _folds(self) -> dict[tuple[int, int], Contract]:
        """What one rescale in place of several changes, where the level allows it."""
        found: dict[tuple[int, int], Contract] = {}
        params, seen, roundings = self._params, self._seen, self._roundings
        for start in range(len(params) - 2):
            worst, source = EXACT, seen[start]
            for end in range(start + 2, len(params)):
                contract = self._prices.pair(
                    source,
                    params[end - 1],
                    params[end],
                    roundings[end - 2],
                    roundings[end - 1],
                )
                if contract is None:
                    break  # nor is any that goes on from there
                level = max(worst.level, contract.level)
                worst = Contract(level, worst.steps + contract.steps, contract.note)
                found[start + self._lowest, end + self._lowest] = worst
        return found

    def link(self, i: int, j: int) -> int:
        """The cost of one rescale from state i to state j."""
        known = self._links.get((i, j))
        if known is None:
            a, b = self._params[i - self._lowest], self._params[j - self._lowest]
            free = a == b and is_inside(a, self._seen[i - self._lowest])
            known = 0 if free else self._prices.rescale(a, b, self._elements)
            self._links[i, j] = known
        return known

    def fold(self, i: int, j: int) -> Contract | None:
        """What one rescale from i to j changes; None if the level does not allow it."""
        return EXACT if j - i == 1 else self._folds.get((i, j))

    def chain(self, i: int, j: int) -> Chain:
        """The cheapest rescales from state i to state j >= i, with what folding changes."""
        ends = self._ends(i, j)
        links: list[Link] = []
        at = j
        while at > i:
            start = ends[at - i].start
            contract = self.fold(start, at)
            assert contract is not None
            links.append(Link(start, at, contract))
            at = start
        return ends[j - i].cost, links[::-1]

    def _ends(self, i: int, j: int) -> list[_End]:
        """The cheapest ways from state i to itself, i + 1 ... and to j at least; of equally
        cheap ones that of the fewest rescales."""
        best = self._chains.setdefault(i, [_End(0, 0, i)])
        folds = self._folds
        for end in range(i + len(best), j + 1):
            before = best[-1]
            least = _End(before.cost + self.link(end - 1, end), before.links + 1, end - 1)
            if folds:
                for start in range(end - 2, i - 1, -1):
                    contract = folds.get((start, end))
                    if contract is None:
                        continue
                    before = best[start - i]
                    cost = before.cost + self.link(start, end) + CLASS * int(contract.level)
                    # Of those that tie, the one that folds first.
                    least = min(_End(cost, before.links + 1, start), least)
            best.append(least)
        return best

    def adds_up(self, lowest: int, highest: int) -> bool:
        """Whether no chain from `lowest` or above to `highest` is cheaper than its steps."""
        if not self._folds:
            return True
        for i in range(lowest, highest - 1):
            cost = 0
            for j in range(i + 1, highest + 1):
                cost += self.link(j - 1, j)
                if self._ends(i, j)[j - i].cost < cost:
                    return False
        return True

    def table(self, maker: Use, use: Use) -> Table:
        """What the states of the only use of a value cost with those of what makes it."""
        key = (maker.lowest, maker.highest, use.lowest, use.highest)
        known = self._tables.get(key)
        if known is None:
            known = self._tables[key] = [
                self._row(i, use.lowest, use.highest)
                for i in range(maker.lowest, maker.highest + 1)
            ]
        return known

    def _row(self, i: int, lowest: int, highest: int) -> list[int]:
        """The costs from state i to the states from `lowest` to `highest`."""
        row = [INFINITE * (i - j) for j in range(lowest, min(i - 1, highest) + 1)]
        if i <= highest:
            row += [
                end.cost for end in self._ends(i, highest)[max(lowest - i, 0) : highest - i + 1]
            ]
        return row


@dataclass(frozen=True)
class Ladder:
    """The states of a value: its qparams now, and the steps above it."""

    value: SSAValue
    now: QParams
    #: `now` with the bounds that codes are known to keep
    seen_now: QParams
    above: Sequence[Step]

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

    def is_inside(self, state: int) -> bool:
        """Whether the codes in that state are known to keep their bounds."""
        if state < 0:
            return self.above[-state - 1].inside
        return state > 0 or is_inside(self.now, self.seen_now)

    def rung(self, k: int, steps: Sequence[Step]) -> Rung:
        return k, tuple([step.key for step in steps[: max(k + 1, 0)]])


def bits_lost(a: QParams, b: QParams) -> float:
    """What a value on `b` says less than on `a`, in bits: coarser steps, and what of the
    range is missing (all of it would be all bits)."""
    lost = 0.0
    for source, target in exact.unique_pairs(a, b) or ():
        (low, high), (start, end) = exact.real_range(source), exact.real_range(target)
        kept = max(min(high, end) - max(low, start), Fraction(0))
        missing = 1 - float(kept / (high - low)) if high > low else 0.0
        coarser = max(log2(target.scale / source.scale), 0.0)
        lost = max(lost, coarser + missing * a.storage.width)
    return lost


class Prices:
    """Prices of chains of rescales under a level of numerics, remembered."""

    def __init__(self, session: QContext, level: Numerics, defined: Arithmetic) -> None:
        self._target = session.target
        self._defined = defined
        self._level = level
        self._prices: dict[tuple[QParams, QParams], float] = {}
        self._windows: dict[Hashable, Window] = {}
        #: the steps of the windows, which states number
        self.steps = StepKeys()

    def window(self, ladder: Ladder, steps: Sequence[Step]) -> Window:
        """The states of a value along `steps`."""
        above = ladder.above
        key = (
            ladder.elements,
            ladder.now,
            ladder.seen_now.storage,
            tuple([step.key for step in above]),
            tuple([step.key for step in steps]),
        )
        found = self._windows.get(key)
        if found is None:
            below = [step.qparams for step in steps]
            found = self._windows[key] = Window(
                self,
                ladder.elements,
                -len(above),
                [*(s.qparams for s in reversed(above)), ladder.now, *below],
                [*(s.seen for s in reversed(above)), ladder.seen_now, *below],
                [*(s.rounding for s in reversed(above)), *(s.rounding for s in steps)],
            )
        return found

    def accuracy(self, ladder: Ladder, k: int, steps: Sequence[Step], weight: float) -> int:
        """The cost of a use in state k > 0 that nobody asked for: bits lost, per element."""
        lost = bits_lost(ladder.now, steps[k - 1].qparams) * ladder.elements
        return round(lost * weight * _UNIT) * COST + CLASS * int(Numerics.RELAXED)

    def rescale(self, a: QParams, b: QParams, elements: int) -> int:
        """The cost of a rescale of so many elements."""
        if (a, b) not in self._prices:
            self._prices[a, b] = self._target.rescale_price(a, b)
        price = self._prices[a, b]
        return INFINITE if isinf(price) else round(price * elements * _UNIT) * COST

    def pair(
        self, a: QParams, b: QParams, c: QParams, first: Rounding, second: Rounding
    ) -> Contract | None:
        """What a -> c changes in place of a -> b -> c; None if the level does not allow it."""
        found = pair_contract(a, b, c, first, second, defined=self._defined)
        return found if isinstance(found, Contract) and found.level <= self._level else None
