"""Which rescales requantizing ports may absorb: below a result, or above an operand.

Absorbing several at once may go one by one, or some may first fold into one: of these ways
the one with the strongest contract is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.ir import Operation

from qdialect.algebra import requantize as exact
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.gain import gain_of
from qdialect.ir.behaviors import Behavior, PortKind
from qdialect.ir.context import QContext
from qdialect.passes.pair_contract import renumbers
from qdialect.passes.rescale.absorption import Down, Up, down_contract, up_contract
from qdialect.passes.rescale.place.chains import ChainConversion
from qdialect.passes.rescale.place.conversions import Encoding, Floats
from qdialect.passes.rescale.place.costs import CLASS, MOVE, Chain, Costs
from qdialect.placement import INFINITE
from qdialect.rewrite import Refusal


class Absorption(NamedTuple):
    """What a port absorbs: the positions on the way, from 0, and what that changes."""

    path: tuple[int, ...]
    contract: Contract


_NOTHING = Absorption((0,), EXACT)

#: by number of rescales absorbed, from 0; None where that is not allowed
Absorptions = list[Absorption | None]


def absorption_costs(absorptions: Absorptions) -> list[int]:
    """The cost of each: a move, and the class if it is weaker than exact."""
    return [
        INFINITE if a is None else MOVE * count + CLASS * int(a.contract.level)
        for count, a in enumerate(absorptions)
    ]


@dataclass(eq=False)
class Ports:
    """Decides what ports may absorb, by declarations, the target and the level of numerics."""

    _session: QContext
    _level: Numerics
    _costs: Costs

    def up(self, op: Operation, chain: Chain, below: Sequence[ChainConversion]) -> Absorptions:
        """For the one result of `op`, whose users all apply the rescales `below`."""

        def absorb(start: int, end: int) -> Contract | None:
            return self._up(op, chain.encoding(start, below), below[end - 1])

        def known(start: int, end: int, before: Contract, folded: Contract) -> list[Contract]:
            # What was absorbed before is in steps of the result as it was then.
            scales = _scales(chain.encoding(start, below)), _scales(chain.encoding(end, below))
            return [_scaled(before, max(scales[0]) / min(scales[1])), folded]

        return self._best(len(below), absorb, self._costs.chain(chain, below).fold, known)

    def down(self, op: Operation, index: int, chain: Chain) -> Absorptions:
        """For operand `index` of `op`, whose value has `chain`."""
        if self._requantizing(op, index) is None:
            return [_NOTHING]
        costs = self._costs.chain(chain, ())

        def absorb(start: int, end: int) -> Contract | None:
            return self._down(op, index, chain.above[end - 1], chain.encoding(-start, ()))

        def fold(start: int, end: int) -> Contract | None:
            return costs.fold(-end, -start)

        def known(start: int, end: int, before: Contract, folded: Contract) -> list[Contract]:
            # What a fold changes is in steps of the operand.
            return [before, self._through(op, index, chain.encoding(-start, ()), folded)]

        return self._best(len(chain.above), absorb, fold, known)

    def regridded(
        self, op: Operation, index: int, now: QParams, below: Sequence[ChainConversion]
    ) -> int:
        """How many of the rescales `below`, which other uses apply, operand `index` may have
        applied as well."""
        behavior = self._session.behaviors.get(op)
        assert behavior is not None
        for count, r in enumerate(below):
            if isinstance(r.encoding, Floats) or isinstance(r.narrowed, Floats):
                return count
            match = Down(op, behavior, index, r.encoding, r.narrowed, now, r.rounding)
            if isinstance(down_contract(self._session, match), Refusal):
                return count
        return len(below)

    def _best(
        self,
        count: int,
        absorb: Callable[[int, int], Contract | None],
        fold: Callable[[int, int], Contract | None],
        known: Callable[[int, int, Contract, Contract], list[Contract]],
    ) -> Absorptions:
        """The strongest way to absorb each number of rescales. `known` gives the contracts of what
        was absorbed before and of a fold in steps of the result."""
        best: Absorptions = [_NOTHING]
        for end in range(1, count + 1):
            options: list[Absorption] = []
            for start in range(end):
                before = best[start]
                if before is None:
                    continue
                folded = fold(start, end)
                absorbed = absorb(start, end) if folded is not None else None
                if folded is None or absorbed is None:
                    continue
                parts = [*known(start, end, before.contract, folded), absorbed]
                weakest = max(parts, key=lambda contract: contract.level)
                if weakest.level > self._level:
                    continue
                steps = sum(contract.steps for contract in parts)
                contract = Contract(weakest.level, steps, weakest.note)
                options.append(Absorption((*before.path, end), contract))
            best.append(min(options, key=_weakness) if options else None)
        while best[-1] is None:
            best.pop()
        return best

    def _through(self, op: Operation, index: int, middle: Encoding, contract: Contract) -> Contract:
        """In steps of the result of `op`, a change of operand `index` in steps of `middle`."""
        behavior, out = self._session.behaviors.get(op), qparams_of(op.results[0])
        if contract.level is Numerics.EXACT:
            return contract
        assert behavior is not None and not isinstance(middle, Floats)
        gain = gain_of(self._session, op, behavior, index, [middle])
        if gain is None or out is None:
            return Contract(Numerics.RELAXED, note=contract.note)
        return _scaled(contract, gain * max(middle.scale_list()) / min(out.scale_list()))

    def _requantizing(self, op: Operation, index: int) -> Behavior | None:
        """The declaration of `op`, if it takes any qparams on operand `index`."""
        behavior = self._session.behaviors.get(op)
        if behavior is None or behavior.operand_port(index).kind is not PortKind.REQUANT:
            return None
        return behavior

    def _up(self, op: Operation, source: Encoding, conversion: ChainConversion) -> Contract | None:
        """What it changes that the result of `op`, on `source`, is made on the encoding below the
        conversion at once."""
        target, rounding = conversion.encoding, conversion.rounding
        if isinstance(source, Floats) or isinstance(target, Floats):
            return None
        if self._level < Numerics.BOUNDED and not renumbers(source, target):
            return None  # most are: what dropping a rounding changes need not be computed
        behavior = self._session.behaviors.get(op)
        if behavior is None or behavior.results[0].kind is not PortKind.REQUANT:
            return None
        found = up_contract(self._session, Up(op, behavior, source, target, rounding))
        return found if isinstance(found, Contract) else None

    def _down(
        self, op: Operation, index: int, conversion: ChainConversion, middle: Encoding
    ) -> Contract | None:
        """What it changes that operand `index`, on `middle`, is read above the conversion."""
        source, narrowed = conversion.encoding, conversion.narrowed
        behavior = self._requantizing(op, index)
        if behavior is None or isinstance(middle, Floats):
            return None
        if isinstance(source, Floats) or isinstance(narrowed, Floats):
            return None
        if self._level < Numerics.BOUNDED:
            pairs = exact.unique_pairs(narrowed, middle)
            if pairs is None or not all(exact.is_lossless(a, b) for a, b in pairs):
                return None
        match = Down(op, behavior, index, source, narrowed, middle, conversion.rounding)
        found = down_contract(self._session, match)
        return found if isinstance(found, Contract) else None


def _scaled(contract: Contract, factor: float) -> Contract:
    """A change of a value that is `factor` steps of a result for each of its own, rounded."""
    if contract.level is Numerics.EXACT:
        return contract
    steps = max(contract.steps, 1.0 if contract.level is Numerics.TIES else 0.0)
    level = max(contract.level, Numerics.BOUNDED)
    return Contract(level, steps * factor + 1, contract.note)


def _scales(encoding: Encoding) -> list[float]:
    return [1.0] if isinstance(encoding, Floats) else encoding.scale_list()


def _weakness(absorption: Absorption) -> tuple[int, float, int]:
    contract = absorption.contract
    return contract.level, contract.steps, len(absorption.path)
