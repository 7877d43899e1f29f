"""The float model as it is quantized: constants folded, ops fused, or written as their pieces.

Ops that cannot be quantized whole are written as their pieces where the recipe says so: a layer
norm or an LSTM has no kernel on codes, or turns a step of its operand into many of its result;
its pieces, with ranges of their own in the profile, have kernels on most targets. The selection
that quantizes says which ops these are, so it runs again until no op that it leaves has pieces:
a softmax is a division, and that is a product with a reciprocal.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.algebra.contract import Contract, Numerics
from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext
from qdialect.passes.lowering.lower_composites import LowerComposite
from qdialect.passes.lowering.lower_division import LowerDivision
from qdialect.quantizer.grids import assign
from qdialect.quantizer.preparation import prepare, run_pipeline
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.selection import Selection, select
from qdialect.quantizer.values import Values
from qdialect.rewrite import Driver, Refusal
from qdialect.rewrite.remarks import key_text

UNFIT = frozenset({"amplifies", "target", "grid"})
"""Why an op is not quantized, whatever stands beside it."""

CLEAN = (
    "canonicalize{numerics=ties},fold-constants{numerics=ties},canonicalize{numerics=ties},cse,dce"
)


def prepare_whole(
    module: ModuleOp, ctx: QContext, profile: Profile, recipe: Recipe
) -> Mapping[str, str]:
    """Prepare a float module for the target of the session, in place; by key, why composites that
    are not quantized were not written as their pieces."""
    ctx.target.check()
    prepare(module, ctx, recipe.keep_float)
    if recipe.lower or ctx.target.in_pieces:
        return _lower_unfit(module, ctx, profile, recipe)
    return {}


def _lower_unfit(
    module: ModuleOp, ctx: QContext, profile: Profile, recipe: Recipe
) -> Mapping[str, str]:
    """Write what is not quantized whole as its pieces, all of it if the recipe lowers and what the
    target takes in pieces anyway; by key, why others that are not have none."""
    while True:
        function = Interpreter(ctx, module).function()
        selection = select(Values(function, ctx, profile, recipe))
        assign(selection)
        unfit = {op for op, why in selection.left.items() if why.code in UNFIT}
        own = ctx.clone()
        composites, divisions = _Composites(own, tuple(own.components)), _Divisions(own)
        divisions.unfit = unfit if recipe.lower else set[Operation]()
        composites.unfit = {op for op in unfit if recipe.lower or op.name in ctx.target.in_pieces}
        driver = Driver(
            own, (composites, divisions), pass_name="lower-unfit", numerics=Numerics.TIES
        )
        if not driver.run(module):
            return _refused(selection, composites)
        run_pipeline(module, own, CLEAN)


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

    def check(self, match: Operation) -> Contract | Refusal:
        found = super().check(match)
        constant = isinstance(found, Refusal) and found.code == "constant"
        return (
            Contract(Numerics.TIES, note="a product where nothing divides") if constant else found
        )
