"""What the conversions between two positions of a chain cost.

A conversion costs its elements times the target's price, and what the target takes to start an
op; of equally dear ones fewer ops win, then stronger contracts, then fewer moves.  Several
conversions of a chain may become one, or none, where the level of numerics allows it, so the cost
of getting from one position to another is that of the cheapest path over edges.

    %1 = quant.dcast %0 : !a to !f
    %2 = quant.qcast %1 : !f to !c          edges 0 -> 1, 1 -> 2, and 0 -> 2, a rescale

Two in a row become

    rescale, rescale          a rescale, as `pair_contract` says
    quantize, rescale         a quantize, as `pair_contract` says of any real number
    dequantize, quantize      a rescale: exact; nothing if all codes come back as they were
    rescale, dequantize       a dequantize: exact if the rescale renumbers, else relaxed
    quantize, dequantize      nothing: relaxed
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import log2
from typing import NamedTuple

from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.algebra import arithmetic
from qdialect.algebra import requantize as exact
from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.algebra.ranges import Interval
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import survives_float
from qdialect.analysis.cost import elements
from qdialect.analysis.ranges import ranges
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_of
from qdialect.ir.quant import DCastOp, QCastOp
from qdialect.passes.pair_contract import pair_contract, renumbers, target_rounding
from qdialect.passes.rescale.place.chains import ChainConversion, ConversionKey, is_inside
from qdialect.passes.rescale.place.conversions import Encoding, Floats, convert, encoded
from qdialect.placement import INFINITE, Table
from qdialect.rewrite import Refusal
from qdialect.rewrite.refused import refused_by_target, refused_types

#: the real numbers that a quantize rounds: one interval for all, or one per cell of its qparams
Reach = tuple[Interval, ...]

#: a cost is conversions that the target refuses (it refused those that stood there), then float ops
#: that should be on codes (see `place.boundary`), then elements x price in 1/64, then conversions,
#: then contract classes weaker than exact, then ops that lose a range, then moves
REFUSED, FLOAT_OP, COST, COUNT = 1 << 230, 1 << 200, 1 << 92, 1 << 72
CLASS, RANGE, MOVE = 1 << 44, 1 << 20, 1
_UNIT = 64


def elements_cost(cost: int) -> float:
    """A cost in elements times price, apart from what the target refuses."""
    return (cost % FLOAT_OP // COST) / _UNIT


def price_cost(price: float, elements: int) -> int:
    """The cost of a finite price per element."""
    return round(price * elements * _UNIT) * COST


#: a position on a chain: its number and, above position 0, the rescales on the way there
#: (`ChainConversion.key`)
Position = tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class Edge:
    """One conversion, or none, from a position of a chain to a later one: how it rounds, and what
    folding changes."""

    start: int
    end: int
    rounding: Rounding
    contract: Contract
    #: whether the value is there as it is at `start`
    is_identity: bool


class _PathEnd(NamedTuple):
    """The least cost of getting to a position, in how many edges, and where the last one of
    them starts."""

    cost: int
    edges: int
    start: int


class _Fold(NamedTuple):
    """One conversion in place of several: how it rounds and what that changes."""

    rounding: Rounding
    contract: Contract


@dataclass(eq=False)
class ChainCosts:
    """Costs between the positions of a value as one of its uses sees them, from the lowest
    up: the same for all values with the same chain and number of elements.

    A conversion that the target refuses costs REFUSED where it comes from one that it refuses too,
    and is no choice anywhere else.
    """

    _costs: Costs
    _elements: int
    _runs: int
    _lowest: int
    #: by position, from the lowest: its encoding, and with the known range of the codes there
    _encodings: Sequence[Encoding]
    _narrowed: Sequence[Encoding]
    #: by conversion, from the lowest; and what floats it quantizes
    _roundings: Sequence[Rounding]
    _reach: Sequence[Reach | None]
    #: the type of a value of this chain
    _kind: Attribute
    #: by conversion, from the lowest: why the target refuses it where it stands now
    _refused: Sequence[str | None]
    #: the last position that is computed, as the value is a constant
    _computed: int
    _edges: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    _paths: dict[int, list[_PathEnd]] = field(default_factory=dict[int, "list[_PathEnd]"])
    _tables: dict[tuple[int, ...], Table] = field(default_factory=dict[tuple[int, ...], Table])

    @cached_property
    def _folds(self) -> dict[tuple[int, int], _Fold]:
        """What one conversion in place of several changes, where the level allows it."""
        found: dict[tuple[int, int], _Fold] = {}
        encodings, roundings = self._encodings, self._roundings
        for start in range(len(encodings) - 2):
            worst, rounding, source = EXACT, roundings[start], self._narrowed[start]
            for end in range(start + 2, len(encodings)):
                middle, target = encodings[end - 1], encodings[end]
                pair = _Pair(source, middle, target, rounding, roundings[end - 1])
                fold = self._costs.fold(encodings[start], pair, self._reach[start])
                if fold is None:
                    break  # nor is any that goes on from there
                rounding, contract = fold
                level = max(worst.level, contract.level)
                worst = Contract(level, worst.steps + contract.steps, contract.note)
                if self._price(start, end, rounding) < INFINITE:
                    found[start + self._lowest, end + self._lowest] = _Fold(rounding, worst)
        return found

    def _price(self, i: int, j: int, rounding: Rounding) -> int:
        """The cost of one conversion between two encodings, by number."""
        a, b = self._encodings[i], self._encodings[j]
        if 0 < j + self._lowest <= self._computed or (a == b and is_inside(a, self._narrowed[i])):
            return 0
        reason = self._costs.refusal(a, b, rounding, self._kind)
        if reason is None:
            return self._costs.conversion(a, b, self._elements, self._runs)
        return REFUSED + COUNT if reason in self._refused[i:j] else INFINITE

    def is_identity(self, i: int, j: int) -> bool:
        """Whether a value at position i is as it would be at position j."""
        a, b = self._encodings[i - self._lowest], self._encodings[j - self._lowest]
        return a == b and is_inside(a, self._narrowed[i - self._lowest])

    def edge(self, i: int, j: int) -> int:
        """The cost of one conversion from position i to position j."""
        known = self._edges.get((i, j))
        if known is None:
            fold = self._fold(i, j)
            start, end = i - self._lowest, j - self._lowest
            known = INFINITE if fold is None else self._price(start, end, fold.rounding)
            self._edges[i, j] = known
        return known

    def stands_for(self, i: int, j: int, rounding: Rounding) -> int:
        """The end of the conversion, of those between positions i and j, that one in their place
        comes from: the last one, or one that the target refuses for the same reason."""
        start, end = i - self._lowest, j - self._lowest
        if any(self._refused[start:end]):
            a, b = self._encodings[start], self._encodings[end]
            reason = self._costs.refusal(a, b, rounding, self._kind)
            same = [n for n in range(start, end) if reason and self._refused[n] == reason]
            return same[-1] + 1 + self._lowest if same else j
        return j

    def fold(self, i: int, j: int) -> Contract | None:
        """What one conversion from i to j changes; None if the level does not allow it."""
        fold = self._fold(i, j)
        return None if fold is None else fold.contract

    def rounding(self, i: int, j: int) -> Rounding:
        """How one conversion from i to j rounds, which the level allows."""
        fold = self._fold(i, j)
        assert fold is not None
        return fold.rounding

    def _fold(self, i: int, j: int) -> _Fold | None:
        if j - i == 1:
            return _Fold(self._roundings[i - self._lowest], EXACT)
        return self._folds.get((i, j))

    def cost(self, i: int, j: int) -> int:
        """The cost of the cheapest conversions from position i to position j >= i."""
        return self._path_ends(i, j)[j - i].cost

    def path(self, i: int, j: int) -> list[Edge]:
        """The cheapest conversions from position i to position j >= i."""
        ends = self._path_ends(i, j)
        edges: list[Edge] = []
        at = j
        while at > i:
            start = ends[at - i].start
            fold = self._fold(start, at)
            assert fold is not None
            edges.append(Edge(start, at, *fold, self.is_identity(start, at)))
            at = start
        return edges[::-1]

    def _path_ends(self, i: int, j: int) -> list[_PathEnd]:
        """The cheapest ways from position i to itself, i + 1 ... and to j at least; of equally
        cheap ones that of the fewest edges."""
        best = self._paths.setdefault(i, [_PathEnd(0, 0, i)])
        folds = self._folds
        for end in range(i + len(best), j + 1):
            before = best[-1]
            least = _PathEnd(before.cost + self.edge(end - 1, end), before.edges + 1, end - 1)
            if folds:
                for start in range(end - 2, i - 1, -1):
                    fold = folds.get((start, end))
                    if fold is None:
                        continue
                    before = best[start - i]
                    cost = before.cost + self.edge(start, end) + CLASS * int(fold.contract.level)
                    # Of those that tie, the one that folds first.
                    least = min(_PathEnd(cost, before.edges + 1, start), least)
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
class Chain:
    """The positions of a value up to 0, where its encoding is `now`; each use knows those above."""

    value: SSAValue
    now: Encoding
    #: `now` with the bounds of the known range of the codes
    narrowed: Encoding
    above: Sequence[ChainConversion]
    #: how often the value is made
    runs: int

    @cached_property
    def elements(self) -> int:
        """Elements of the value; absurdly many are all the same."""
        return min(elements(self.value), 1 << 60)

    def encoding(self, position: int, below: Sequence[ChainConversion]) -> Encoding:
        """The encoding of the value at `position`; `below` are the conversions that a use knows."""
        return self.now if position == 0 else self.conversion(position, below).encoding

    def computed(self, below: Sequence[ChainConversion]) -> int:
        """How many of the conversions `below` are computed, as the value is a constant: codes are
        not made floats, which take four times as much."""
        before = self.now
        for count, conversion in enumerate(below if constant_of(self.value) else ()):
            after = conversion.encoding
            if isinstance(after, Floats):
                return count
            if isinstance(before, Floats):
                from qdialect.algebra.quantize import can_quantize_floats

                if not can_quantize_floats(after):
                    return count
            elif exact.unique_pairs(before, after) is None:
                return count
            before = after
        return len(below) if constant_of(self.value) else 0

    def conversion(self, position: int, below: Sequence[ChainConversion]) -> ChainConversion:
        """The conversion on whose far side the value is at `position`, which is not 0."""
        return self.above[-position - 1] if position < 0 else below[position - 1]

    def conversion_to(self, position: int, below: Sequence[ChainConversion]) -> ChainConversion:
        """The conversion from the position before to `position`."""
        return self.above[-position] if position <= 0 else below[position - 1]


def position_of(number: int, below: Sequence[ChainConversion]) -> Position:
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


class _Pair(NamedTuple):
    """Two conversions in a row, source -> middle -> target; `source` has the bounds of the known
    range of its codes."""

    source: Encoding
    middle: Encoding
    target: Encoding
    first: Rounding
    second: Rounding


class Costs:
    """Costs under a level of numerics, for a target; those of a chain are computed once."""

    def __init__(self, session: QContext, level: Numerics, defined: Arithmetic) -> None:
        self._session = session
        self._target = session.target
        self._start_price = session.target.start_price()
        self._defined = defined
        self._level = level
        self._prices: dict[tuple[Encoding, Encoding], float] = {}
        self._refusals: dict[Hashable, str | None] = {}
        #: by conversion that stands in the module, why the target refuses it
        self._known_refused: dict[Operation, str | None] = {}
        self._chains: dict[Hashable, ChainCosts] = {}
        #: the number of each conversion (`ChainConversion.key`), which identifies chains
        self.keys: dict[ConversionKey, int] = {}

    def chain(self, chain: Chain, below: Sequence[ChainConversion]) -> ChainCosts:
        """The costs between the positions of a value; a use knows the conversions `below`."""
        above = chain.above
        narrowed = chain.narrowed
        steps = (*reversed(above), *below)
        later = [conversion.encoding for conversion in below]
        encodings = [*(c.encoding for c in reversed(above)), chain.now, *later]
        reach = self._reach(steps, encodings)
        refused = tuple([self.refused(step.origin) for step in steps])
        computed = chain.computed(below)
        key = (
            chain.elements,
            chain.runs,
            chain.now,
            narrowed if isinstance(narrowed, Floats) else narrowed.storage,
            tuple([conversion.key for conversion in above]),
            tuple([conversion.key for conversion in below]),
            reach,
            refused,
            computed,
            chain.value.type if self._target.decides_by_op else None,
        )
        found = self._chains.get(key)
        if found is None:
            found = self._chains[key] = ChainCosts(
                self,
                chain.elements,
                chain.runs,
                -len(above),
                encodings,
                [*(c.narrowed for c in reversed(above)), narrowed, *later],
                [c.rounding for c in steps],
                reach or [None] * len(steps),
                chain.value.type,
                refused,
                computed,
            )
        return found

    def refused(self, op: Operation) -> str | None:
        """Why the target refuses a conversion of the module, or None."""
        if op not in self._known_refused:
            self._known_refused[op] = refused_by_target(self._session, op)
        return self._known_refused[op]

    def refusal(self, a: Encoding, b: Encoding, rounding: Rounding, kind: Attribute) -> str | None:
        """Why the target refuses a conversion from a to b of a value like one of type `kind`."""
        by_op = self._target.decides_by_op
        key = (a, b, rounding, kind) if by_op else (a, b)
        if key not in self._refusals:
            types = [encoded(kind, encoding) for encoding in (a, b)]
            probe = convert(Block(arg_types=types[:1]).args[0], a, types[1], rounding)
            self._refusals[key] = refused_types(self._session, probe, types[:1], types[1:])
        return self._refusals[key]

    def _reach(
        self, steps: Sequence[ChainConversion], encodings: Sequence[Encoding]
    ) -> tuple[Reach | None, ...]:
        """By conversion, the floats that it quantizes, where a rescale follows; or nothing."""
        if not any(isinstance(encoding, Floats) for encoding in encodings[:-2]):
            return ()
        found: list[Reach | None] = []
        for n, step in enumerate(steps):
            op = step.origin
            rescaled = isinstance(op, QCastOp) and n + 1 < len(steps)
            known = None
            if rescaled and not isinstance(encodings[n + 2], Floats):
                known = ranges(self._session).before_rounding(op.result)
            found.append(None if known is None else tuple(known))
        return tuple(found)

    def accuracy(
        self, chain: Chain, k: int, below: Sequence[ChainConversion], weight: float
    ) -> int:
        """The cost of a use at position k > 0 that it did not ask for: bits lost, per element."""
        now, there = chain.now, below[k - 1].encoding
        assert not isinstance(now, Floats) and not isinstance(there, Floats)
        lost = bits_lost(now, there) * chain.elements * chain.runs
        return round(lost * weight * _UNIT) * COST + CLASS * int(Numerics.RELAXED)

    def conversion(self, a: Encoding, b: Encoding, elements: int, runs: int) -> int:
        """The cost of a conversion of so many elements that runs so often."""
        if (a, b) not in self._prices:
            self._prices[a, b] = self._price(a, b)
        start = price_cost(self._start_price, runs)
        return price_cost(self._prices[a, b], elements * runs) + start + COUNT

    def _price(self, a: Encoding, b: Encoding) -> float:
        if isinstance(a, Floats):
            return 0.0 if isinstance(b, Floats) else self._target.cast_price(QCastOp.name, b)
        if isinstance(b, Floats):
            return self._target.cast_price(DCastOp.name, a)
        return self._target.rescale_price(a, b)

    def fold(self, start: Encoding, pair: _Pair, reach: Reach | None) -> _Fold | None:
        """One conversion in place of two in a row, the first of which starts at `start` and
        quantizes floats in `reach`; None if the level does not allow it."""
        rounding = pair.second
        if isinstance(pair.target, Floats):
            contract = self._to_floats(pair)
        elif isinstance(pair.middle, Floats):
            if isinstance(start, Floats):
                return _Fold(pair.second, EXACT)  # nothing is left of what was before
            rounding, contract = self._requantized(start, pair.source, pair.target, pair.second)
        elif isinstance(pair.source, Floats):
            # A quantize rounds as it did: where the rescale renumbers, nothing else is exact.
            rounding = pair.first
            contract = self._quantized(pair.middle, pair.target, pair, reach)
        else:
            a, b, c = pair.source, pair.middle, pair.target
            contract = pair_contract(a, b, c, pair.first, pair.second, defined=self._defined)
        if not isinstance(contract, Contract) or contract.level > self._level:
            return None
        return _Fold(rounding, contract)

    def _quantized(
        self, middle: QParams, target: QParams, pair: _Pair, reach: Reach | None
    ) -> Contract | Refusal | None:
        """floats -> middle -> target, as one quantize."""
        if self._level < Numerics.BOUNDED and not renumbers(middle, target):
            return None  # most are: what dropping a rounding changes need not be computed
        found = None if reach is None else lambda: reach
        return pair_contract(
            None, middle, target, pair.first, pair.second, found, defined=self._defined
        )

    def _requantized(
        self, a: QParams, source: Encoding, b: QParams, rounding: Rounding
    ) -> tuple[Rounding, Contract | Refusal | None]:
        """a -> floats -> b, as one rescale, or as nothing where every code comes back."""
        assert not isinstance(source, Floats)
        if a == b:
            # A clip is left of it where codes may be outside of their bounds.
            return rounding, EXACT if survives_float(a, rounding) else None
        if exact.unique_pairs(a, b) is None:
            return rounding, None
        return target_rounding(self._target, rounding, lambda: source, b, self._defined)

    def _to_floats(self, pair: _Pair) -> Contract | None:
        """source -> middle -> floats, as one dequantize, or as nothing."""
        source, middle = pair.source, pair.middle
        if isinstance(middle, Floats):
            return EXACT
        if isinstance(source, Floats):
            kept = source != pair.target or exact.clips_at_zero(middle)
            return None if kept else _DROPPED
        pairs = exact.unique_pairs(source, middle)
        if pairs is None or middle.expressed != source.expressed:
            return None
        floats = self._defined.floats(middle.expressed)
        if all(a.scale == b.scale and arithmetic.is_lossless(a, b, floats) for a, b in pairs):
            return Contract(Numerics.EXACT, note="the rescale renumbers codes")
        return None if exact.codes_clip_at_zero(source, middle) else _DROPPED


_DROPPED = Contract(Numerics.RELAXED, note="drops a rounding and a clip")
