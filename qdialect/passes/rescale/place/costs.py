"""What the rescales between two positions of a rescale chain cost.

A rescale costs its elements times the target's price; contracts weaker than exact cost less
than any rescale, and moved rescales less than any contract.  Several rescales of a chain may
fold into one where the level of numerics allows it, so the cost of getting from one position
to another is that of the cheapest path over rescale edges.

    %1 = quant.rescale %0 : !a to !b
    %2 = quant.rescale %1 : !b to !c        edges 0 -> 1, 1 -> 2, and 0 -> 2 if that may fold
"""

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
from qdialect.passes.rescale.place.chains import ChainRescale, RescaleKey, is_inside
from qdialect.placement import INFINITE, Table
from qdialect.qparams import QParams

#: a cost is elements x price in 1/64, then contract classes weaker than exact, then moves
COST, CLASS, MOVE = 1 << 48, 1 << 24, 1
_UNIT = 64


def elements_cost(cost: int) -> float:
    """A cost in elements times price; infinite if it cannot be had."""
    return float("inf") if cost >= INFINITE // 2 else (cost // COST) / _UNIT


#: a position on a chain: its number and, above position 0, the rescales on the way there
#: (`ChainRescale.key`)
Position = tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class RescaleEdge:
    """One rescale, from a position of a chain to a later one, and what folding changes."""

    start: int
    end: int
    contract: Contract


class _PathEnd(NamedTuple):
    """The least cost of getting to a position, in how many rescales, and where the last one
    of them starts."""

    cost: int
    rescales: int
    start: int


class ChainCosts:
    """Costs between the positions of a value as one of its uses sees them, from the lowest
    up: the same for all values with the same chain and number of elements."""

    def __init__(
        self,
        costs: RescaleCosts,
        elements: int,
        lowest: int,
        params: Sequence[QParams],
        narrowed: Sequence[QParams],
        roundings: Sequence[Rounding],
    ) -> None:
        self._costs = costs
        self._elements = elements
        self._lowest = lowest
        #: by position, from the lowest: its qparams, and with the known range of the codes there
        self._params = params
        self._narrowed = narrowed
        #: by rescale, from the lowest
        self._roundings = roundings
        self._edges: dict[tuple[int, int], int] = {}
        self._paths: dict[int, list[_PathEnd]] = {}
        self._tables: dict[tuple[int, int, int, int], Table] = {}

    @cached_property
    def _folds(self) -> dict[tuple[int, int], Contract]:
        """What one rescale in place of several changes, where the level allows it."""
        found: dict[tuple[int, int], Contract] = {}
        params, roundings = self._params, self._roundings
        for start in range(len(params) - 2):
            worst, source = EXACT, self._narrowed[start]
            for end in range(start + 2, len(params)):
                contract = self._costs.fold(
                    source, params[end - 1], params[end], roundings[end - 2], roundings[end - 1]
                )
                if contract is None:
                    break  # nor is any that goes on from there
                level = max(worst.level, contract.level)
                worst = Contract(level, worst.steps + contract.steps, contract.note)
                found[start + self._lowest, end + self._lowest] = worst
        return found

    def edge(self, i: int, j: int) -> int:
        """The cost of one rescale from position i to position j."""
        known = self._edges.get((i, j))
        if known is None:
            a, b = self._params[i - self._lowest], self._params[j - self._lowest]
            free = a == b and is_inside(a, self._narrowed[i - self._lowest])
            known = 0 if free else self._costs.rescale(a, b, self._elements)
            self._edges[i, j] = known
        return known

    def fold(self, i: int, j: int) -> Contract | None:
        """What one rescale from i to j changes; None if the level does not allow it."""
        return EXACT if j - i == 1 else self._folds.get((i, j))

    def cost(self, i: int, j: int) -> int:
        """The cost of the cheapest rescales from position i to position j >= i."""
        return self._path_ends(i, j)[j - i].cost

    def path(self, i: int, j: int) -> list[RescaleEdge]:
        """The cheapest rescales from position i to position j >= i."""
        ends = self._path_ends(i, j)
        edges: list[RescaleEdge] = []
        at = j
        while at > i:
            start = ends[at - i].start
            contract = self.fold(start, at)
            assert contract is not None
            edges.append(RescaleEdge(start, at, contract))
            at = start
        return edges[::-1]

    def _path_ends(self, i: int, j: int) -> list[_PathEnd]:
        """The cheapest ways from position i to itself, i + 1 ... and to j at least; of equally
        cheap ones that of the fewest rescales."""
        best = self._paths.setdefault(i, [_PathEnd(0, 0, i)])
        folds = self._folds
        for end in range(i + len(best), j + 1):
            before = best[-1]
            least = _PathEnd(before.cost + self.edge(end - 1, end), before.rescales + 1, end - 1)
            if folds:
                for start in range(end - 2, i - 1, -1):
                    contract = folds.get((start, end))
                    if contract is None:
                        continue
                    before = best[start - i]
                    cost = before.cost + self.edge(start, end) + CLASS * int(contract.level)
                    # Of those that tie, the one that folds first.
                    least = min(_PathEnd(cost, before.rescales + 1, start), least)
            best.append(least)
        return best

    def adds_up(self, lowest: int, highest: int) -> bool:
        """Whether no path from `lowest` or above to `highest` is cheaper than its steps."""
        if not self._folds:
            return True
        for i in range(lowest, highest - 1):
            cost = 0
            for j in range(i + 1, highest + 1):
                cost += self.edge(j - 1, j)
                if self.cost(i, j) < cost:
                    return False
        return True

    def table(self, start: range, end: range) -> Table:
        """The costs from each position of `start` to each of `end`."""
        key = (start.start, start.stop, end.start, end.stop)
        known = self._tables.get(key)
        if known is None:
            known = self._tables[key] = [self._row(i, end) for i in start]
        return known

    def _row(self, i: int, ends: range) -> list[int]:
        """The costs from position i to the positions `ends`; infinite to those below i."""
        lowest, highest = ends.start, ends.stop - 1
        row = [INFINITE * (i - j) for j in range(lowest, min(i - 1, highest) + 1)]
        if i <= highest:
            found = self._path_ends(i, highest)[max(lowest - i, 0) : highest - i + 1]
            row += [end.cost for end in found]
        return row


@dataclass(frozen=True)
class RescaleChain:
    """The positions of a value up to 0, where its qparams are `now`; each use knows those above."""

    value: SSAValue
    now: QParams
    #: `now` with the bounds of the known range of the codes
    narrowed: QParams
    above: Sequence[ChainRescale]

    @cached_property
    def elements(self) -> int:
        """Elements of the value; absurdly many are all the same."""
        return min(elements(self.value), 1 << 60)

    def qparams(self, position: int, below: Sequence[ChainRescale]) -> QParams:
        """The qparams of the value at `position`; `below` are the rescales that a use knows."""
        return self.now if position == 0 else self.rescale(position, below).qparams

    def rescale(self, position: int, below: Sequence[ChainRescale]) -> ChainRescale:
        """The rescale on whose far side the value is at `position`, which is not 0."""
        return self.above[-position - 1] if position < 0 else below[position - 1]

    def rescale_to(self, position: int, below: Sequence[ChainRescale]) -> ChainRescale:
        """The rescale from the position before to `position`."""
        return self.above[-position] if position <= 0 else below[position - 1]

    def is_inside(self, position: int) -> bool:
        """Whether the codes there are known to be within their bounds."""
        if position < 0:
            return self.above[-position - 1].is_inside
        return position > 0 or is_inside(self.now, self.narrowed)


def position_of(number: int, below: Sequence[ChainRescale]) -> Position:
    """Position `number` of a value for a use that knows the rescales `below`."""
    return number, tuple([rescale.key for rescale in below[: max(number, 0)]])


def bits_lost(a: QParams, b: QParams) -> float:
    """What a value on `b` says less than on `a`, in bits: coarser steps, and what of the
    range is missing (all of it would be all bits)."""
    lost = 0.0
    for source, target in exact.unique_pairs(a, b) or ():
        (low, high), (start, end) = exact.real_range(source), exact.real_range(target)
        common = max(min(high, end) - max(low, start), Fraction(0))
        missing = 1 - float(common / (high - low)) if high > low else 0.0
        coarser = max(log2(target.scale / source.scale), 0.0)
        lost = max(lost, coarser + missing * a.storage.width)
    return lost


class RescaleCosts:
    """Costs under a level of numerics, for a target; those of a chain are computed once."""

    def __init__(self, session: QContext, level: Numerics, defined: Arithmetic) -> None:
        self._target = session.target
        self._defined = defined
        self._level = level
        self._prices: dict[tuple[QParams, QParams], float] = {}
        self._chains: dict[Hashable, ChainCosts] = {}
        #: the number of each rescale (`ChainRescale.key`), which identifies chains
        self.keys: dict[RescaleKey, int] = {}

    def chain(self, chain: RescaleChain, below: Sequence[ChainRescale]) -> ChainCosts:
        """The costs between the positions of a value; a use knows the rescales `below`."""
        above = chain.above
        key = (
            chain.elements,
            chain.now,
            chain.narrowed.storage,
            tuple([rescale.key for rescale in above]),
            tuple([rescale.key for rescale in below]),
        )
        found = self._chains.get(key)
        if found is None:
            later = [rescale.qparams for rescale in below]
            found = self._chains[key] = ChainCosts(
                self,
                chain.elements,
                -len(above),
                [*(r.qparams for r in reversed(above)), chain.now, *later],
                [*(r.narrowed for r in reversed(above)), chain.narrowed, *later],
                [*(r.rounding for r in reversed(above)), *(r.rounding for r in below)],
            )
        return found

    def accuracy(
        self, chain: RescaleChain, k: int, below: Sequence[ChainRescale], weight: float
    ) -> int:
        """The cost of a use at position k > 0 that it did not ask for: bits lost, per element."""
        lost = bits_lost(chain.now, below[k - 1].qparams) * chain.elements
        return round(lost * weight * _UNIT) * COST + CLASS * int(Numerics.RELAXED)

    def rescale(self, a: QParams, b: QParams, elements: int) -> int:
        """The cost of a rescale of so many elements."""
        if (a, b) not in self._prices:
            self._prices[a, b] = self._target.rescale_price(a, b)
        price = self._prices[a, b]
        return INFINITE if isinf(price) else round(price * elements * _UNIT) * COST

    def fold(
        self, a: QParams, b: QParams, c: QParams, first: Rounding, second: Rounding
    ) -> Contract | None:
        """What a -> c changes in place of a -> b -> c; None if the level does not allow it."""
        found = pair_contract(a, b, c, first, second, defined=self._defined)
        return found if isinstance(found, Contract) and found.level <= self._level else None
