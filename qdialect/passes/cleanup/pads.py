"""Fold a pad into the window that reads it.

    conv(pad(x, 0), pads p)          ->  conv(x, pads p + pad)
    avg_pool(pad(x, 0), pads p)      ->  avg_pool(x, pads p + pad) that counts its padding
    max_pool(pad(x, v), pads p)      ->  max_pool(x, pads p + pad)       v no more than any x

Outside the input a convolution reads real 0, which is the zero point's code, and so does an average
that counts padding. One that does not count its own padding counts the zeros of a pad, and no one
window says both. A maximum never takes its padding, so what was padded must not win either: -inf,
or a number that no element of x is less than. All exact.

For example

    %0 = nn.pad %x low [0, 0, 1, 1] high [0, 0, 1, 1] : (!x) -> !wide
    %1 = nn.conv2d %0, %w : (!wide, !w) -> !y

becomes

    %1 = nn.conv2d %x, %w pads [1, 1, 1, 1] : (!x, !w) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import copysign, inf

from xdsl.ir import Operation

from qdialect.algebra.contract import EXACT, Contract
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import ranges
from qdialect.ir.ops import CONVOLUTIONS, PadOp, shape_of
from qdialect.ir.ops.base import NNOp, boolean, ints
from qdialect.ir.ops.pooling import AVERAGE_POOLS, MAX_POOLS, AveragePoolOp
from qdialect.passes.rule_pass import erase_new, refuse_new
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped


@dataclass(frozen=True)
class _Padded:
    """`window` reads what `pad` gives."""

    window: NNOp
    pad: PadOp

    @property
    def pads(self) -> tuple[int, ...]:
        """Those of both: all begins, then all ends."""
        values = self.pad.values
        around = (*values["low"][2:], *values["high"][2:])
        return tuple(a + b for a, b in zip(self.window.values["pads"], around, strict=True))


class PadIntoWindow(Rule[_Padded]):
    """window(pad(x)) = window(x) with larger pads; see the module."""

    name = "pad-into-window"

    def roots(self) -> Iterable[str]:
        return [kind.name for kind in (*CONVOLUTIONS, *AVERAGE_POOLS, *MAX_POOLS)]

    def match(self, op: Operation) -> _Padded | None:
        pad = op.operands[0].owner
        if not isinstance(op, NNOp) or not isinstance(pad, PadOp):
            return None
        values = pad.values
        outside = any((*values["low"][:2], *values["high"][:2]))
        return None if outside or values["mode"] != "constant" else _Padded(op, pad)

    def check(self, match: _Padded) -> Contract | Refusal:
        window = match.window
        if isinstance(window, MAX_POOLS):
            refusal = self._refuse_maximum(match)
        else:
            refusal = self._refuse_sum(match)
        if refusal is None and "kernel" in window.properties:
            kernel = window.values["kernel"]
            if any(p >= k for p, k in zip(match.pads, (*kernel, *kernel), strict=True)):
                refusal = Refusal("window", "a window would hold nothing but padding")
        if refusal is not None:
            return refusal
        new = self._build(match)
        shapes = type(new).infer([shape_of(v) for v in new.operands], new.values)
        if shapes != [shape_of(result) for result in window.results]:
            refusal = Refusal("shape", "there would be other windows than over the padded input")
        behavior = self.session.behaviors.get(new)
        if (
            behavior is not None
            and behavior.compared_constants
            and behavior.compared_constants(new)
        ):
            refusal = Refusal("window", "a window may hold nothing but padding")
        refusal = refusal or refuse_new(self.session, [new])
        erase_new([new])
        return refusal or EXACT

    def _refuse_sum(self, match: _Padded) -> Refusal | None:
        window, value = match.window, match.pad.values["value"]
        if value or copysign(1, value) < 0:
            return Refusal("pad-value", f"'{window.name}' pads with 0, not with {value:g}")
        values = window.values
        is_average = isinstance(window, AveragePoolOp)
        if is_average and any(values["pads"]) and not values["count_include_pad"]:
            return Refusal("count", "it counts the zeros of the pad, but not its own")
        return None

    def _refuse_maximum(self, match: _Padded) -> Refusal | None:
        value, elements = match.pad.values["value"], ranges(self.session).real(match.pad.input)
        low = -inf if elements is None else elements.low
        owner = match.pad.input.owner
        if isinstance(owner, Operation) and qparams_of(match.pad.input) is None:
            behavior = self.session.behaviors.get(owner)
            if behavior is not None and behavior.clamp is not None:
                low = max(low, behavior.clamp(owner)[0])  # of floats that nothing else bounds
        if value <= low:
            return None
        return Refusal(
            "pad-value", f"an element may be less than {value:g}, which it is padded with"
        )

    def _build(self, match: _Padded) -> NNOp:
        window = match.window
        new = retyped(window, [match.pad.input, *window.operands[1:]], window.result_types)
        assert isinstance(new, NNOp)
        new.properties["pads"] = ints(*match.pads)
        if isinstance(window, AveragePoolOp):
            new.properties["count_include_pad"] = boolean(True)
        return new

    def rewrite(self, match: _Padded, rewriter: Rewriter) -> None:
        rewriter.replace_by(match.window, [self._build(match)])
