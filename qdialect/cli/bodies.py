"""Passes on the bodies of `If`, `Loop` and `Scan`: each is a model of its own for as long.

Rewrites in bodies are exact, whatever the level of the rest: how far an output is off through
many iterations is not known. A body that cannot be read by itself, or is not changed, stays as
it is; one in a body is done with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdialect.api import Model, run_passes
from qdialect.dialects.onnx import NodeOp
from qdialect.errors import QError
from qdialect.ops import keys_of
from qdialect.rewrite.remarks import Remark

if TYPE_CHECKING:
    from xdsl.ir import Attribute

    from qdialect.targets.base import Target

DEEPEST = 8
"""Bodies inside of so many others stay as they are."""


@dataclass(frozen=True)
class WithBodies:
    """A model after passes on its bodies, and what they did there."""

    model: Model
    remarks: list[Remark]


def with_bodies(model: Model, pipeline: str, target: Target, depth: int = 0) -> WithBodies:
    """The model with `pipeline` run on its bodies; the given one if that changes none."""
    from qdialect.formats.onnx.write.bodies import WITH_BODIES, put

    def has_bodies(op: object) -> bool:
        return isinstance(op, NodeOp) and op.op_type.data in WITH_BODIES

    remarks: list[Remark] = []
    if depth >= DEEPEST or not any(map(has_bodies, model.module.walk())):
        return WithBodies(model, remarks)
    pipeline = re.sub(r"\bnumerics=\w+", "numerics=exact", pipeline)
    made = Model(model.module.clone(), model.ctx, model.source)
    for op in list(made.module.walk()):
        if isinstance(op, NodeOp) and has_bodies(op):
            changed, fired = _changed(made, op, pipeline, target, depth)
            put(op, changed, model.ctx.blobs)
            remarks += fired
    return WithBodies(made if remarks else model, remarks)


def _changed(
    model: Model, op: NodeOp, pipeline: str, target: Target, depth: int
) -> tuple[dict[str, Attribute], list[Remark]]:
    """The attributes of a node that hold other bodies now, and what was done to them."""
    from qdialect.formats.onnx.read import import_model
    from qdialect.formats.onnx.read.attributes import ir_attribute
    from qdialect.formats.onnx.write import write_model
    from qdialect.formats.onnx.write.bodies import bodies_of

    found: dict[str, Attribute] = {}
    remarks: list[Remark] = []
    for body in bodies_of(op, model.module, model.ctx.blobs):
        opset = next(e.version for e in body.model.opset_import if not e.domain)
        try:
            ctx = model.ctx.clone()
            read = Model(import_model(body.model, ctx), ctx)
            inner = with_bodies(read, pipeline, target, depth + 1)
            result = run_passes(inner.model, pipeline, target=target)
            done = [*inner.remarks, *result.ctx.remarks.remarks]
            fired = [remark for remark in done if remark.kind == "fired"]
            if not fired or any(remark.contract != "exact" for remark in fired):
                continue
            written = write_model(result.module, result.ctx, opset=opset).whole()
        except QError:
            continue
        prefix = "/".join((*keys_of(op)[:1], body.name))
        found[body.name] = ir_attribute(body.attribute(written, prefix), model.ctx.blobs)
        remarks += done
    return found, remarks
