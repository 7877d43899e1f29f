"""Writes what cannot be quantized whole as its pieces, which may be.

A layer norm or an LSTM has no kernel on codes, or turns a step of its operand into many of
its result; its pieces, with ranges of their own in the profile, have kernels on most targets.
Which ops these are says the selection that quantizes, so it is asked again until no op that
it leaves has pieces: a softmax is a division, and that is a product with a reciprocal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from qdialect.api import Model, run_passes
from qdialect.numerics.contract import Numerics
from qdialect.passes.lowering.lower_composites import LowerComposite
from qdialect.passes.lowering.lower_division import LowerDivision
from qdialect.profile.record import Profile
from qdialect.quantization.grids import assign
from qdialect.quantization.recipe import Recipe
from qdialect.quantization.selection import Selection, select
from qdialect.quantization.values import Values
from qdialect.reference import Interpreter
from qdialect.rewrite import Driver, Refusal
from qdialect.rewrite.remarks import key_text

if TYPE_CHECKING:
    from collections.abc import Mapping

UNFIT = frozenset({"amplifies", "target", "grid"})
"""Why an op is not quantized, whatever stands beside it."""

CLEAN = "canonicalize,fold-constants{numerics=ties},canonicalize,cse,dce"


def lower_unfit(model: Model, profile: Profile, recipe: Recipe) -> tuple[Model, Mapping[str, str]]:
    """A model with the pieces of what is not quantized whole, and by key why others that
    are not have none."""
    module, ctx = model.module.clone(), model.ctx.clone()
    while True:
        function = Interpreter(ctx, module).function()
        selection = select(Values(function, ctx, profile, recipe))
        assign(selection)
        unfit = {op for op, why in selection.left.items() if why.code in UNFIT}
        composites, divisions = _Composites(ctx, tuple(ctx.components)), _Divisions(ctx)
        composites.unfit = divisions.unfit = unfit
        driver = Driver(
            ctx, (composites, divisions), pass_name="lower-unfit", numerics=Numerics.TIES
        )
        if not driver.run(module):
            return Model(module, ctx), _refused(selection, composites)
        cleaned = run_passes(Model(module, ctx), CLEAN, verify_each=False)
        module, ctx = cleaned.module, cleaned.ctx


def _refused(selection: Selection, rule: _Composites) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for op in selection.left:
        match = rule.match(op) if op.name in rule.roots() else None
        why = None if match is None else rule.check(match)
        if isinstance(why, Refusal):
            found[key_text(op)] = why.reason
    return found


class _Composites(LowerComposite):
    unfit: set[Operation]

    def match(self, op: Operation):
        return super().match(op) if op in self.unfit else None


class _Divisions(LowerDivision):
    unfit: set[Operation]

    def match(self, op: Operation) -> Operation | None:
        return op if op in self.unfit else None
