"""The error bound of each result of a module: how far it may be from what was first computed.

One sweep over the module carries the changes that rewrites left on values (`error_bounds`) through
their users by the declared gains; one search up from each result finds the rewrites that caused its
bound, and the ops for which no bound is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.gain import moved
from qdialect.analysis.index import every_op, ops_named
from qdialect.context import QContext
from qdialect.numerics.contract import Numerics
from qdialect.rewrite.remarks import OutputBound, Remark, key_text


@dataclass
class _Sweep:
    """Error bounds of values in real units, by rewrites from remark number `since` on, and the ops
    whose operands have a bound and whose results have none."""

    session: QContext
    since: int
    moves: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])
    unbounded: set[Operation] = field(default_factory=set[Operation])

    def remarks_of(self, value: SSAValue) -> list[int]:
        """Numbers of the rewrites that left a change on `value` itself."""
        changes = self.session.error_bounds.changes.get(value, ())
        return [change.remark for change in changes if change.remark >= self.since]

    def arguments(self) -> None:
        """Changes on block arguments, which a pass may have put in place of computed values."""
        for value, changes in self.session.error_bounds.changes.items():
            total = sum(c.real for c in changes if c.remark >= self.since)
            if total and isinstance(value.owner, Block):
                self.moves[value] = total

    def visit(self, op: Operation) -> None:
        """Add the bounds of the results of `op`."""
        known = [self.moves.get(v, 0.0) for v in op.operands]
        by = moved(self.session, op, lambda v: self.moves.get(v, 0.0)) if any(known) else 0.0
        if by == inf and max(known) < inf:
            self.unbounded.add(op)
        for result in op.results:
            changes = self.session.error_bounds.changes.get(result, ())
            total = by + sum(c.real for c in changes if c.remark >= self.since)
            if total:
                self.moves[result] = total


def summarize(session: QContext, module: Operation, since: int = 0) -> list[OutputBound]:
    """One bound per result of every function, for rewrites from remark number `since` on."""
    if not session.error_bounds.changes:
        sweep = None
    else:
        sweep = _Sweep(session, since)
        sweep.arguments()
        for op in every_op(module):
            sweep.visit(op)
    bounds: list[OutputBound] = []
    for op in ops_named(session, module, [FuncOp.name])[0]:
        if isinstance(op, FuncOp) and not op.is_declaration:
            last = op.body.blocks[-1].last_op
            for index, value in enumerate(last.operands if isinstance(last, ReturnOp) else ()):
                bounds.append(_bound(sweep, session, op.sym_name.data, index, value))
    return bounds


def _bound(
    sweep: _Sweep | None, session: QContext, function: str, index: int, value: SSAValue
) -> OutputBound:
    real = 0.0 if sweep is None else sweep.moves.get(value, 0.0)
    params = qparams_of(value)
    scale = min(params.scale_list()) if params is not None else None
    numbers, blocked = _above(sweep, value) if sweep is not None and real else ([], [])
    remarks = session.remarks.remarks
    causes = [remarks[number] for number in numbers]
    level = max((_level(remark) for remark in causes), default=Numerics.EXACT)
    if real and level is Numerics.EXACT:
        level = Numerics.BOUNDED
    steps = real / scale if scale else (inf if real else 0.0)
    return OutputBound(function, index, str(level), steps, real, causes, blocked)


def _level(remark: Remark) -> Numerics:
    return Numerics.parse(remark.contract.partition("(")[0])


def _above(sweep: _Sweep, value: SSAValue) -> tuple[list[int], list[str]]:
    """Numbers of the rewrites that may have moved `value`, and the ops that let no bound
    through."""
    numbers, blocked = set[int](), dict[str, None]()
    pending, visited = [value], {value}
    while pending:
        current = pending.pop()
        numbers.update(sweep.remarks_of(current))
        owner = current.owner
        if not isinstance(owner, Operation):
            continue
        if owner in sweep.unbounded:
            key = key_text(owner)
            blocked[f"'{owner.name}'" + (f" ({key})" if key else "")] = None
        for operand in owner.operands:
            if operand not in visited and operand in sweep.moves:
                visited.add(operand)
                pending.append(operand)
    return sorted(numbers), sorted(blocked)
