"""What is done to a float module before it is quantized.

`PREPARATION` makes constants of what is computed of constants: a weight behind a transpose, a
reshape or a cast is a weight. `FUSION` makes one op of those that round once: a product and its
bias, a batch norm behind a convolution. Both leave what they have left as it is, so a module is
quantized alike whether somebody ran some of these passes before, in any order, or none.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext
from qdialect.passes.pipelines import FUSION, PREPARATION
from qdialect.pipeline.plugins import Plugins
from qdialect.pipeline.text import parse_pipeline
from qdialect.quantizer.selection import keep_float_ops


def prepare(module: ModuleOp, ctx: QContext, keep_float: frozenset[str]) -> None:
    """Prepare a module in place; nothing is fused that would hide an op to keep float."""
    run_pipeline(module, ctx, PREPARATION)
    if keep_float:
        fused = module.clone()
        run_pipeline(fused, ctx.clone(), FUSION)
        before, after = (
            keep_float_ops(Interpreter(ctx, each).function(), ctx, keep_float)
            for each in (module, fused)
        )
        if any(ops and not after[name] for name, ops in before.items()):
            return
    run_pipeline(module, ctx, FUSION)


def run_pipeline(module: ModuleOp, ctx: QContext, pipeline: str) -> None:
    """Run the passes of a pipeline on a module, in place."""
    for _, instance in Plugins().registry().build(parse_pipeline(pipeline)):
        instance.apply(ctx, module)
        ctx.changes += 1
        ctx.analyses.clear()
