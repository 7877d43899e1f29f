"""Choose where quantize and dequantize stand among movement ops, one by one.

    boundary=preserve               integers wherever the interface does not say float:
                                    a movement op right at a float argument or result
                                    keeps the integer-ness of the interface it touches
    boundary=maximize-integer       quantize up, dequantize down, as far as they go
    boundary=minimize-conversions   each cast where it costs least: `place-rescales`, which
                                    decides on all casts and rescales at once

Every move is exact (`cast_movement`). The interface itself is `fold-interface`'s business.

For example

    %0 = quant.dcast %x : !q to !f
    %1 = nn.transpose %0 perm [1, 0] : (!f) -> !f_out

becomes

    %0 = nn.transpose %x perm [1, 0] : (!q) -> !q_out
    %1 = quant.dcast %0 : !q_out to !f_out

if an op other than a movement takes the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.analysis.float_interface import FloatInterface
from qdialect.ir.context import QContext
from qdialect.passes.casts.cast_movement import HoistQuantize, Policy, SinkDequantize
from qdialect.passes.rescale.place.boundary import MINIMIZE, PRESERVE
from qdialect.passes.rescale.place.boundary import Policy as Boundary
from qdialect.passes.rescale.place_rescales import PlaceRescales
from qdialect.passes.rule_pass import RulePass
from qdialect.rewrite import Refusal, Rule


class Preserve(Policy):
    """More integers, but no op next to a float interface changes."""

    def __init__(self, session: QContext) -> None:
        self._session = session
        self._interface: FloatInterface | None = None

    def prepare(self, module: Operation) -> None:
        """Find what only movement ops connect to a float argument or result."""
        if self._interface is None:
            self._interface = FloatInterface(self._session, module.walk())

    def hoist_quantize(self, op: Operation) -> Refusal | None:
        """Refused for an op that moves a float argument."""
        assert self._interface is not None
        moves = self._interface.moves_argument(op)
        return Refusal("interface", "the op moves a float argument") if moves else None

    def sink_dequantize(self, op: Operation) -> Refusal | None:
        """Refused for an op that makes a float result."""
        assert self._interface is not None
        makes = self._interface.makes_result(op)
        return Refusal("interface", "the op makes a float result") if makes else None


@dataclass(frozen=True)
class MoveCasts(RulePass):
    """Choose where quantize and dequantize stand among movement ops; see the module."""

    name = "move-casts"

    boundary: Boundary = PRESERVE

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        if self.boundary == MINIMIZE:
            PlaceRescales(numerics=self.numerics, boundary=MINIMIZE).apply(ctx, op)
        else:
            super().apply(ctx, op)

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        policy = Preserve(session) if self.boundary == PRESERVE else Policy()
        return (HoistQuantize(session, policy), SinkDequantize(session, policy))
