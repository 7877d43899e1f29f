"""Functions of one number that name LiteRT's kernels, as tables of their codes.

A table says exactly what such a kernel computes, for any runtime. It is what the interpreter gives
for all codes, so this is done where a model leaves LiteRT, before its passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.errors import QError

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from qdialect.ir.context import QContext
    from qdialect.workflows.model import Model

_WIDEST = 8
FUNCTIONS = frozenset(
    {
        *("nn.abs", "nn.elu", "nn.exp", "nn.gelu", "nn.hard_swish", "nn.leaky_relu", "nn.log"),
        *("nn.neg", "nn.pow", "nn.relu", "nn.sigmoid", "nn.sqrt", "nn.tanh"),
    }
)
"""Ops of one operand that compute each code by itself."""


def with_tables(model: Model) -> Model:
    """The model with tables in place of marked functions of 8-bit codes, and of their rescales by
    a multiplier and a shift; the given one where there are none."""
    from qdialect.ir.ops.base import kernels_of
    from qdialect.ir.quant import RescaleOp
    from qdialect.workflows.model import Model as _Model

    def found(op: Operation) -> bool:
        if isinstance(op, RescaleOp):
            return op.fixed_point is not None
        return kernels_of(op) is not None and op.name in FUNCTIONS

    if not any(map(found, model.module.walk())):
        return model
    module, ctx = model.module.clone(), model.ctx.clone()
    for op in [op for op in module.walk() if found(op)]:
        _replace(op, ctx)
    return _Model(module, ctx, model.source, model.corrections)


def _replace(op: Operation, ctx: QContext) -> None:
    import numpy as np
    from xdsl.ir import Block
    from xdsl.rewriter import InsertPoint, Rewriter

    from qdialect.analysis.codes import qparams_of
    from qdialect.interpreter import evaluate_op
    from qdialect.ir.ops import TableOp
    from qdialect.ir.ops.base import KERNEL, ranked
    from qdialect.ir.ops.constants import make_constant
    from qdialect.ir.quant import element_type

    source, result = qparams_of(op.operands[0]), qparams_of(op.results[0])
    if source is None or result is None or len(op.operands) != 1:
        return
    storage = source.storage
    if storage.width > _WIDEST or not (source.is_per_tensor and result.is_per_tensor):
        return
    low, high = storage.full_range
    kind = np.int8 if storage.signed else np.uint8
    codes = np.clip(np.arange(low, high + 1), storage.min, storage.max).astype(kind)
    shape = (high - low + 1,)
    operand = Block(arg_types=[ranked(element_type(op.operands[0].type), shape)]).args[0]
    flat = type(op).create(
        operands=[operand],
        result_types=[ranked(element_type(op.results[0].type), shape)],
        properties=op.properties,
        attributes={n: a for n, a in op.attributes.items() if n == KERNEL},
    )
    try:
        (entries,) = evaluate_op(flat, [codes], ctx)
    except QError:
        return  # nobody has said what it computes
    finally:
        flat.erase()
    element = element_type(op.results[0].type)
    constant = make_constant(entries, element, ctx.blobs)
    table = TableOp(op.operands[0], constant, result_types=[op.results[0].type])
    table.attributes.update({n: a for n, a in op.attributes.items() if n != KERNEL})
    constant.location = table.location = op.location
    Rewriter.insert_op((constant, table), InsertPoint.before(op))
    op.results[0].replace_all_uses_with(table.result)
    op.detach()
    op.erase()
