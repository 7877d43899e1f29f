"""Bodies of `If`, `Loop` and `Scan` changed one by one, each as a model of its own.

What a body gives and takes stays as it is. A body that cannot be read or written, or that a change
does not want, stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import UnitAttr

from qdialect.errors import QError
from qdialect.ir.dialects.kept import RELAXED
from qdialect.ir.ops import keys_of
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.rewrite.remarks import Remark
from qdialect.workflows.model import Model

if TYPE_CHECKING:
    from xdsl.ir import Attribute

DEEPEST = 8
"""Bodies in bodies that are looked at."""


@dataclass(frozen=True)
class WithBodies:
    """A model after a change of its bodies, and what was done there."""

    model: Model
    remarks: list[Remark]


Change = Callable[[Model], "WithBodies | None"]
"""A body that is changed, without remarks where it is as it was; None: it stays as it was."""


def changed_bodies(model: Model, change: Change, depth: int = 0) -> WithBodies:
    """The model with `change` of its bodies; the given one if that changes none."""
    from qdialect.plugins.onnx.write.bodies import WITH_BODIES, put

    def has_bodies(op: object) -> bool:
        return isinstance(op, NodeOp) and op.op_type.data in WITH_BODIES

    remarks: list[Remark] = []
    if depth >= DEEPEST or not any(map(has_bodies, model.module.walk())):
        return WithBodies(model, remarks)
    copy = Model(model.module.clone(), model.ctx, model.source)
    for op in list(copy.module.walk()):
        if isinstance(op, NodeOp) and has_bodies(op):
            changed, done = _changed(copy, op, change, depth)
            put(op, changed, model.ctx.blobs)
            if any(remark.contract.startswith("relaxed") for remark in done):
                op.attributes[RELAXED] = UnitAttr()
            remarks += done
    return WithBodies(copy if remarks else model, remarks)


def _changed(
    model: Model, op: NodeOp, change: Change, depth: int
) -> tuple[dict[str, Attribute], list[Remark]]:
    """The attributes of a node that hold other bodies now, and what was done to them."""
    from qdialect.plugins.onnx.read import import_model
    from qdialect.plugins.onnx.read.attributes import ir_attribute
    from qdialect.plugins.onnx.write import write_model
    from qdialect.plugins.onnx.write.bodies import bodies_of

    found: dict[str, Attribute] = {}
    remarks: list[Remark] = []
    for body in bodies_of(op, model.module, model.ctx.blobs):
        opset = next(e.version for e in body.model.opset_import if not e.domain)
        try:
            ctx = model.ctx.clone()
            inner = changed_bodies(Model(import_model(body.model, ctx), ctx), change, depth + 1)
            result = change(inner.model)
            if result is None or not (inner.remarks or result.remarks):
                continue
            written = write_model(result.model.module, result.model.ctx, opset=opset).whole()
        except QError:
            continue
        prefix = "/".join((*keys_of(op)[:1], body.name))
        found[body.name] = ir_attribute(body.attribute(written, prefix), model.ctx.blobs)
        remarks += [*inner.remarks, *result.remarks]
    return found, remarks
