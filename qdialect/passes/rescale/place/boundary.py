"""What it costs that an op that conversions may pass is on floats, or on codes.

preserve                no op leaves integers; beyond that, what the target takes for the op
minimize-conversions    what the target takes for the op, so ops may leave integers
maximize-integer        no op leaves integers, and a float op that could be on codes costs more
                        than any conversion
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf
from typing import Literal

from xdsl.ir import Attribute, Block, Operation

from qdialect.analysis.cost import elements
from qdialect.ir.context import QContext
from qdialect.passes.rescale.place.chains import CommutingOp, OpState, all_codes
from qdialect.passes.rescale.place.conversions import Encoding, Floats, with_encoding
from qdialect.passes.rescale.place.costs import FLOAT_OP, RANGE, REFUSED, price_cost
from qdialect.placement import INFINITE

Policy = Literal["preserve", "maximize-integer", "minimize-conversions"]
MINIMIZE: Policy = "minimize-conversions"
PRESERVE: Policy = "preserve"
MAXIMIZE: Policy = "maximize-integer"


@dataclass(eq=False)
class Boundary:
    """A policy for the ops of a module."""

    _session: QContext
    _policy: Policy

    @property
    def changes_public(self) -> bool:
        """Whether the interface of a public function that is called may change."""
        return self._policy == MAXIMIZE

    def port_cost(self, now: Encoding, then: Encoding) -> int:
        """What it costs that a function takes or gives `then` where it takes or gives `now`."""
        if self._policy == MINIMIZE or not isinstance(then, Floats):
            return 0
        if isinstance(now, Floats):
            return FLOAT_OP if self._policy == MAXIMIZE else 0
        return INFINITE

    def costs(self, node: CommutingOp, runs: int) -> dict[int, int]:
        """By state of an op that runs so often, what its encodings cost there; nothing where that
        makes no difference."""
        on_codes = {number: _is_codes(state) for number, state in node.states.items()}
        if len(set(on_codes.values())) == 1:
            # On floats whatever is chosen, or on codes.
            return {}
        if on_codes[0] and self._policy != MINIMIZE:
            return {number: 0 if codes else INFINITE for number, codes in on_codes.items()}
        if self._policy == MAXIMIZE:
            return {number: 0 if codes else FLOAT_OP for number, codes in on_codes.items()}
        return self._by_price(node, runs)

    def _by_price(self, node: CommutingOp, runs: int) -> dict[int, int]:
        """What the op takes more than where it takes least; what moves elements takes the same.

        Where that is equal, what compares stands on codes: the codes behind it have a known range,
        which lets others move.
        """
        if node.behavior.movement is not None:
            return {}
        target, found = self._session.target, dict[bool, float]()
        for state in node.states.values():
            if state.legal and _is_codes(state) not in found:
                found[_is_codes(state)] = target.op_price(_like(node, state))
        least, size = min(found.values()), elements(node.op.results[0]) * runs
        if isinf(least):
            return {}
        costs = {
            codes: price_cost(price - least, size) + (0 if codes else RANGE)
            for codes, price in found.items()
            if not isinf(price)
        }
        now = _is_codes(node.states[0])
        return {
            number: costs.get(_is_codes(state), REFUSED if _is_codes(state) is now else INFINITE)
            for number, state in node.states.items()
        }


def _is_codes(state: OpState) -> bool:
    return all_codes([*state.operands, *state.results]) is not None


def _like(node: CommutingOp, state: OpState) -> Operation:
    """An op like that of `node` in `state`; nothing reads or makes its values."""
    op = node.op
    kinds: list[Attribute] = [v.type for v in op.operands]
    for index, encoding in zip(node.tied, state.operands, strict=True):
        kinds[index] = with_encoding(op.operands[index], encoding)
    return type(op).create(
        operands=Block(arg_types=kinds).args,
        result_types=[with_encoding(v, e) for v, e in zip(op.results, state.results, strict=True)],
        properties=op.properties,
        attributes=op.attributes,
    )
