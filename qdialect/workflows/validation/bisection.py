"""Find the single rewrite of a pass that makes a program wrong, by bisection.

The driver stops after k rewrites where `QContext.rewrites_left` says so. The pass runs on clones,
with k between the largest number of rewrites that is right and the smallest that is wrong: log2(n)
runs for n rewrites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.ir.context import QContext
from qdialect.rewrite.remarks import Remark


@dataclass(frozen=True)
class Culprit:
    """Rewrite number `number` of `total` (from 1), and the program just before and after."""

    number: int
    total: int
    rewrite: Remark
    before: ModuleOp
    after: ModuleOp
    ctx: QContext


def run_some(
    ctx: QContext, before: ModuleOp, instance: ModulePass, rewrites: int | None
) -> tuple[QContext, ModuleOp]:
    """A clone of `before` after the first so many rewrites of a pass, and its session."""
    session, module = ctx.clone(), before.clone()
    session.rewrites_left = rewrites
    instance.apply(session, module)
    return session, module


def first_wrong_rewrite(
    ctx: QContext,
    before: ModuleOp,
    instance: ModulePass,
    is_wrong: Callable[[QContext, ModuleOp], bool],
) -> Culprit | None:
    """The first rewrite after which `is_wrong` holds; None if the pass is wrong without any, right
    with all of them, or no sequence of rewrites of the driver."""
    session, whole = run_some(ctx, before, instance, None)
    right, wrong = 0, (total := sum(session.remarks.fired().values()))
    if not total or is_wrong(*run_some(ctx, before, instance, 0)) or not is_wrong(session, whole):
        return None
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_wrong(*run_some(ctx, before, instance, middle)):
            wrong = middle
        else:
            right = middle
    session, after = run_some(ctx, before, instance, wrong)
    fired = [remark for remark in session.remarks.remarks if remark.kind == "fired"]
    _, last_right = run_some(ctx, before, instance, right)
    return Culprit(wrong, total, fired[wrong - 1], last_right, after, session)
