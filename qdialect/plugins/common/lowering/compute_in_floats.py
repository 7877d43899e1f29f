"""Compute in floats what has no exact integer form in a dialect, between casts.

The conversion to a dialect (`convert-nn-to-tosa`, ...) is tried first, and every op on codes that
it refuses is written as it means, with one rounding at the end:

    op(x)  =  quantize(op(dequantize(x)))

Floats of 32 bits round before the codes do, so a code next to a tie may be the other one: `ties`;
sums that i32 holds exactly are `relaxed`, since floats hold 24 bits. Run it after the passes
that find integer forms (`form-tables`, `split-rescale`, ...), so that only what is left is float.

For example, for StableHLO,

    %0 = nn.sigmoid %x {nn.key = "gate"} : (!x) -> !y

becomes

    %1 = quant.dcast %x : !x to !f
    %2 = nn.sigmoid %1 {nn.key = "gate"} : (!f) -> !f
    %0 = quant.qcast %2 : !f to !y
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.algebra.contract import Contract, Numerics, level_named
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.ir.context import QContext, session
from qdialect.ir.ops import ConstantOp
from qdialect.ir.quant import DCastOp, QCastOp
from qdialect.passes.casts.in_floats import between_casts, has_floats
from qdialect.passes.rule_pass import RulePass
from qdialect.plugins.common.exports import exports
from qdialect.plugins.common.lowering.conversion import refusals
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.rewrite import Driver, Refusal, Rewriter, Rule
from qdialect.targets import generic

_MOST_ROUNDS = 8


class UnloweredToFloats(Rule[Operation]):
    """op(x) = quantize(op(dequantize(x))), of the ops in `refused`."""

    name = "unlowered-to-floats"

    def __init__(self, session: QContext, refused: Mapping[Operation, Unlowerable]) -> None:
        super().__init__(session)
        self._refused = refused

    def roots(self) -> Iterable[str]:
        return {op.name for op in self._refused}

    def match(self, op: Operation) -> Operation | None:
        return op if op in self._refused else None

    def check(self, match: Operation) -> Contract | Refusal:
        if not has_floats(match):
            return Refusal("form", f"'{match.name}' is defined on codes only")
        params = [q for value in (*match.operands, *match.results) if (q := qparams_of(value))]
        if not all(is_integer(q) for q in params):
            return Refusal("storage", "codes that are no integers")
        reason = f"no exact integer form: {self._refused[match].reason}"
        wide = any(q.storage.width > 16 for q in params)
        return Contract(Numerics.RELAXED if wide else Numerics.TIES, note=reason)

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        between_casts(match, rewriter)


@dataclass(frozen=True)
class ComputeInFloats(RulePass):
    """What has no exact integer form as floats between casts; see the module."""

    name = "compute-in-floats"
    of = ()

    to: Literal["tosa", "linalg", "quant", "iree", "stablehlo", "tflite", "tflite-bounded"] = "tosa"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place, until nothing more can be written in floats."""
        qctx, level = session(ctx), level_named(self.numerics)
        dialect = exports()[self.to].dialect()
        target = qctx.target
        # The target of an export has the integers of the dialect alone.
        qctx.target = generic.TARGET
        try:
            before = -1
            for _ in range(_MOST_ROUNDS):
                refused = {r.op: r.error for r in refusals(qctx, op, dialect) if _is_on_codes(r.op)}
                if not refused or len(refused) == before:
                    return
                before = len(refused)
                rule = UnloweredToFloats(qctx, refused)
                Driver(qctx, (rule,), pass_name=self.name, numerics=level).run(op)
        finally:
            qctx.target = target


def _is_on_codes(op: Operation) -> bool:
    if isinstance(op, ConstantOp | QCastOp | DCastOp):
        return False
    return any(qparams_of(value) is not None for value in (*op.operands, *op.results))
