"""A model in one of the dialects of `exports`: integers where it has them.

A model without ops of ours, which is in dialects of MLIR alone, stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp

from qdialect.ir.quant import quant_element
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.plugins.common.exports import exports
from qdialect.targets.installed import get_target
from qdialect.workflows.model import run_passes

if TYPE_CHECKING:
    from qdialect.workflows.model import Model

_OURS = ("nn.", "quant.", "onnx.")


def _is_ours(model: Model) -> bool:
    for op in model.module.walk():
        kinds = op.function_type if isinstance(op, FuncOp) else None
        if op.name.startswith(_OURS) or (
            kinds and any(map(quant_element, (*kinds.inputs, *kinds.outputs)))
        ):
            return True
    return False


def integer_model(model: Model, interface: bool = True, to: str = "tosa") -> Model:
    """`model` with as many integers inside as it has and, if wanted, at its interface, if it has
    ops of ours; for one of `exports`."""
    if not _is_ours(model):
        return model
    target = get_target(exports()[to].optimized_for)
    passes = optimize_pipeline(target, "bounded") + (",fold-interface" if interface else "")
    return run_passes(model, passes, target=target, verify_each=False)


def ready_model(
    model: Model, to: str = "tosa", *, codes: bool = True, strict: bool = False
) -> Model:
    """A network in the form of which every op has a form in one of `exports`: exact on integers,
    else on floats between casts; `codes` at the interface where that is wanted.
    UnsupportedError (`strict`) that lists all floats, and why they have no integers."""
    if not _is_ours(model):
        return model
    export = exports()[to]
    passes = export.passes(codes=codes, strict=strict)
    return run_passes(model, passes, target=export.target, verify_each=False)


def converted_model(model: Model, to: str = "tosa") -> Model:
    """The same in that dialect."""
    if not _is_ours(model):
        return model
    export = exports()[to]
    return run_passes(model, export.convert, target=export.target, verify_each=False)


def lowered_model(
    model: Model, to: str = "tosa", *, codes: bool = True, strict: bool = False
) -> Model:
    """A network in one of the dialects of `exports`; see `ready_model`."""
    return converted_model(ready_model(model, to, codes=codes, strict=strict), to)
