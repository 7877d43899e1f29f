"""Which values may hold masks. A mask is so far below the scores that softmax turns it into 0.

    scores = q @ k^T      softmax(scores + mask)      mask = (1 - padding) * -10000

All readers of such a value end in a softmax, or in the mask of an attention, with sums, scalings,
choices and movements between: here the scores, the sum, `mask` and what it is made of, not q and k.
Elsewhere numbers are data, however large.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue, Use

from qdialect.ir.behaviors.degrees import translation
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.context import QContext

_MASK = "mask"
"""The role of what an op adds to scores."""

Number = Callable[[SSAValue], "float | None"]
"""The one number that a constant has, or None."""


def masked_scores(function: FuncOp, session: QContext, number: Number) -> set[SSAValue]:
    """The values of a function that may hold masks."""
    found: set[SSAValue] = set()
    block = function.body.block
    values = [result for op in reversed(list(block.ops)) for result in op.results]
    for value in (*values, *block.args):
        uses = list(value.uses)
        if uses and all(_ends_in_softmax(use, session, found, number) for use in uses):
            found.add(value)
    return found


def _ends_in_softmax(use: Use, session: QContext, found: set[SSAValue], number: Number) -> bool:
    op = use.operation
    behavior = session.behaviors.get(op)
    if behavior is None:  # casts, and ops that nobody knows: an Expand of a mask, say
        return bool(op.results) and all(result in found for result in op.results)
    if behavior.shares is not None or behavior.operand_port(use.index).role == _MASK:
        return True
    if not op.results or not all(result in found for result in op.results):
        return False
    if behavior.commutes:
        return use.index in tied_operands(op, behavior)
    if behavior.arithmetic is None or not behavior.elementwise:
        return False
    numbers = {n: k for n, v in enumerate(op.operands) if (k := number(v)) is not None}
    moved = translation(op, behavior, numbers)
    return moved is not None and not moved.conditions
