"""How far each result of a module may be from what the module first computed.

The changes that rewrites left on values (`error_bounds`), carried down through the ops below
them by the declared gains: one sweep over the module, and one up from each result.
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
    """Distances of values, and ops that have no bound for theirs."""

    session: QContext
    since: int
    moves: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])
    open_: set[Operation] = field(default_factory=set[Operation])

    def own(self, value: SSAValue) -> list[int]:
        changes = self.session.error_bounds.own.get(value, ())
        return [change.remark for change in changes if change.remark >= self.since]

    def arguments(self) -> None:
        """Arguments that stand for values which were something else."""
        for value, changes in self.session.error_bounds.own.items():
            total = sum(c.real for c in changes if c.remark >= self.since)
            if total and isinstance(value.owner, Block):
                self.moves[value] = total

    def visit(self, op: Operation) -> None:
        known = [self.moves.get(v, 0.0) for v in op.operands]
        by = moved(self.session, op, lambda v: self.moves.get(v, 0.0)) if any(known) else 0.0
        if by == inf and max(known) < inf:
            self.open_.add(op)
        for result in op.results:
            changes = self.session.error_bounds.own.get(result, ())
            total = by + sum(c.real for c in changes if c.remark >= self.since)
            if total:
                self.moves[result] = total


def summarize(session: QContext, module: Operation, since: int = 0) -> list[OutputBound]:
    """One bound per result of every function, for rewrites from remark number `since` on."""
    if not session.error_bounds.own:
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
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        numbers.update(sweep.own(current))
        owner = current.owner
        if not isinstance(owner, Operation):
            continue
        if owner in sweep.open_:
            key = key_text(owner)
            blocked[f"'{owner.name}'" + (f" ({key})" if key else "")] = None
        for operand in owner.operands:
            if operand not in seen and operand in sweep.moves:
                seen.add(operand)
                pending.append(operand)
    return sorted(numbers), sorted(blocked)
