"""What the target of a session refuses of the ops of a module.

The law of passes: no pass makes an op that the target refuses, but in place of one that it refuses
too. For a target whose tensors have one scale each, `sink-rescale` leaves

    %0 = quant.rescale %x : !per_axis to !per_tensor
    %1 = nn.relu %0 : (!per_tensor) -> !per_tensor

as it is: a `nn.relu` of `!per_axis` is refused. The rewriter asks here for every op that a rule
inserts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, Operation

from qdialect.ir.ops import ConstantOp
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp, quant_element

if TYPE_CHECKING:
    from qdialect.ir.context import QContext

_CONVERSIONS = (RescaleOp, QCastOp, DCastOp)
_OURS = frozenset((*(kind.name for kind in _CONVERSIONS), SCastOp.name))


def refused_types(
    session: QContext, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> str | None:
    """Why the target does not run an op like `op` on these types, or None: it refuses that, or it
    is a conversion at an infinite price."""
    target = session.target
    reason = target.refuses(op, operands, results)
    if reason or not isinstance(op, _CONVERSIONS):
        return reason
    source, result = quant_element(operands[0]), quant_element(results[0])
    if source is not None and result is not None:
        price = target.rescale_price(source.qparams, result.qparams)
        return "no such rescale" if price == inf else None
    codes = source or result
    if codes is not None and target.cast_price(op.name, codes.qparams) == inf:
        return "no such cast"
    return None


def refused_by_target(session: QContext, op: Operation) -> str | None:
    """Why the target does not run `op` as it stands, or None. What computes nothing at run time
    (constants, functions) and ops of other dialects that nobody declared are never refused."""
    if not op.operands or not op.results or not is_computed(session, op):
        return None
    return refused_types(session, op, op.operand_types, op.result_types)


def is_computed(session: QContext, op: Operation) -> bool:
    """Whether the target has a say in `op`: a cast, a rescale, or an op that is declared."""
    return op.name in _OURS or session.behaviors.get(op) is not None


def is_folded(op: Operation) -> bool:
    """Whether `op` is made of constants only: that is arithmetic at compile time."""
    return all(isinstance(value.owner, ConstantOp) for value in op.operands)


class TargetRefusalError(Exception):
    """A rule has inserted an op that the target refuses; nothing is replaced yet."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def refused_successor(session: QContext, op: Operation, source: Operation | None) -> str | None:
    """Why the target does not run `op`, which is new, or None; None too in place of a `source`
    that it does not run either: for the same reason, or an op of that name, or in floats, which
    another pass may take to codes, and casts between these and the codes that were there. What is
    made of constants only is no op of the target."""
    if is_folded(op):
        return None
    reason = refused_by_target(session, op)
    if reason is None or source is None:
        return reason
    before = refused_by_target(session, source)
    if before is None:
        return reason
    values = (*op.operands, *op.results)
    is_cast = isinstance(op, QCastOp | DCastOp)
    in_floats = is_cast or not any(quant_element(value.type) for value in values)
    return None if in_floats or before == reason or source.name == op.name else reason
