"""Products in bodies of `If`, `Loop` and `Scan` that quantize their input as they run.

No profile has ranges of what is in a body, and this state needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.interpreter import Interpreter
from qdialect.plugins.onnx.bodies import WithBodies, changed_bodies
from qdialect.quantizer.dynamic import DYNAMIC, dynamic_refusal, write_dynamic
from qdialect.quantizer.preparation import prepare
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.selection import keep_float_ops
from qdialect.quantizer.values import Values
from qdialect.rewrite.remarks import Remark, key_text, location_text
from qdialect.workflows.model import Model, run_passes

if TYPE_CHECKING:
    from qdialect.quantizer.recipe import Recipe

_NAMES = ("apply-profile", "apply-profile")


def dynamic_bodies(model: Model, recipe: Recipe) -> WithBodies:
    """The model with all products in bodies that can quantize their input as they run, but those
    that the recipe keeps float."""

    def change(body: Model) -> WithBodies:
        prepare(body.module, body.ctx, frozenset())
        function = Interpreter(body.ctx, body.module).function()
        values = Values(function, body.ctx, Profile(""), recipe)
        named = keep_float_ops(function, body.ctx, recipe.keep_float)
        kept = {op for ops in named.values() for op in ops}
        remarks: list[Remark] = []
        for op in list(values.block.ops):
            behavior = body.ctx.behaviors.get(op)
            if op in kept or behavior is None:
                continue
            if dynamic_refusal(values, op, behavior) is None:
                place = location_text(op.location), op.name, key_text(op)
                reason = "it quantizes its input as it runs, in a body"
                remarks.append(Remark("note", *_NAMES, *place, code=DYNAMIC, reason=reason))
                write_dynamic(values, op, behavior)
        return WithBodies(run_passes(body, "canonicalize,cse,dce"), remarks)

    return changed_bodies(model, change)
