"""The float model as it is quantized: constants folded, ops fused, or written as their pieces.

Ops that cannot be quantized whole are written as their pieces where the recipe says so: a layer
norm or an LSTM has no kernel on codes, or turns a step of its operand into many of its result;
its pieces, with ranges of their own in the profile, have kernels on most targets. The selection
that quantizes says which ops these are, so it runs again until no op that it leaves has pieces:
a softmax is a division, and that is a product with a reciprocal.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from qdialect.numerics.contract import Numerics
from qdialect.passes.lowering.lower_composites import LowerComposite
from qdialect.passes.lowering.lower_division import LowerDivision
from qdialect.profile.record import Profile
from qdialect.quantization.grids import assign
from qdialect.quantization.preparation import prepare
from qdialect.quantization.recipe import Recipe
from qdialect.quantization.selection import Selection, select
from qdialect.quantization.values import Values
from qdialect.reference import Interpreter
from qdialect.rewrite import Driver, Refusal
from qdialect.rewrite.remarks import key_text
from qdialect.targets.base import Target
from qdialect.workflows.model import Model, run_passes

UNFIT = frozenset({"amplifies", "target", "grid"})
"""Why an op is not quantized, whatever stands beside it."""

CLEAN = (
    "canonicalize{numerics=ties},fold-constants{numerics=ties},canonicalize{numerics=ties},cse,dce"
)


def prepared_model(
    model: Model, target: Target, profile: Profile, recipe: Recipe
) -> tuple[Model, Mapping[str, str]]:
    """A copy of a float model as it is quantized for a target, and by key why composites that are
    not quantized were not written as their pieces."""
    prepared = Model(model.module.clone(), model.ctx.clone())
    prepared.ctx.target = target
    prepare(prepared.module, prepared.ctx, recipe.keep_float)
    if recipe.lower or target.in_pieces:
        return lower_unfit(prepared, profile, recipe)
    return prepared, {}


def lower_unfit(model: Model, profile: Profile, recipe: Recipe) -> tuple[Model, Mapping[str, str]]:
    """A model with the pieces of what is not quantized whole, all of it if the recipe lowers and
    what the target takes in pieces anyway, and by key why others that are not have none."""
    module, ctx = model.module.clone(), model.ctx.clone()
    while True:
        function = Interpreter(ctx, module).function()
        selection = select(Values(function, ctx, profile, recipe))
        assign(selection)
        unfit = {op for op, why in selection.left.items() if why.code in UNFIT}
        composites, divisions = _Composites(ctx, tuple(ctx.components)), _Divisions(ctx)
        divisions.unfit = unfit if recipe.lower else set[Operation]()
        composites.unfit = {op for op in unfit if recipe.lower or op.name in ctx.target.in_pieces}
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
