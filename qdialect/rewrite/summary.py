"""The error bound of each result of a module: how far it may be from what was first computed.

One sweep over the final ops of each function adds up the changes on values (`error_bounds`) by the
declared gains; a call is off by what the function it calls is off. One search up from each result
finds the rewrites that caused its bound, and the ops for which no bound is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import Numerics
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.functions import is_private, module_of
from qdialect.analysis.index import captured_values, every_op, ops_named
from qdialect.ir.context import QContext
from qdialect.rewrite.error_bounds import Change, causes
from qdialect.rewrite.remarks import OutputBound, Remark, key_text
from qdialect.rewrite.replacements import propagated

DEEPEST = 64
"""How deep calls are followed; nothing is known of what is further down."""

PER_FUNCTION = 16
"""For how many different bounds of its arguments a function is followed, on average."""


@dataclass
class _Sweep:
    """Error bounds of values in real units, by rewrites from remark number `since` on, and the ops
    whose operands have a bound and whose results have none."""

    session: QContext
    functions: dict[tuple[Operation | None, str], FuncOp]
    since: int
    moves: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])
    unbounded: set[Operation] = field(default_factory=set[Operation])
    #: by function and bounds of its arguments, the bounds of its results
    known: dict[tuple[FuncOp, tuple[float, ...]], list[float]] = field(
        default_factory=dict[tuple[FuncOp, "tuple[float, ...]"], "list[float]"]
    )

    def changes_of(self, value: SSAValue) -> list[Change]:
        """What the rewrites left on `value` itself."""
        found = self.session.error_bounds.changes.get(value, ())
        return [change for change in found if change.remark >= self.since]

    def of(self, value: SSAValue) -> float:
        """The bound of `value`, wherever its function is called from."""
        return self.moves.get(value, 0.0)

    def results(self, function: FuncOp, arguments: Sequence[float], depth: int = 0) -> list[float]:
        """The bounds of the results of `function` when its arguments are off by `arguments`."""
        key = function, tuple(arguments)
        if key not in self.known:
            count = len(function.function_type.outputs)
            self.known[key] = [inf] * count  # if it calls itself
            few = len(self.known) <= PER_FUNCTION * len(self.functions)
            if few and depth < DEEPEST and function.body.blocks:
                self.known[key] = self._body(function, arguments, depth)
        return self.known[key]

    def _body(self, function: FuncOp, arguments: Sequence[float], depth: int) -> list[float]:
        off: dict[SSAValue, float] = {}
        entry, *others = function.body.blocks
        for argument, by in zip(entry.args, arguments, strict=True):
            self._put(off, argument, by)
        for block in function.body.blocks:
            for op in block.ops:
                for result, by in zip(op.results, self._op(op, off, depth), strict=True):
                    self._put(off, result, by)
        last = function.body.blocks[-1].last_op
        count = len(function.function_type.outputs)
        if others or not isinstance(last, ReturnOp):
            return [inf if off else 0.0] * count
        return [off.get(value, 0.0) for value in last.operands]

    def _put(self, off: dict[SSAValue, float], value: SSAValue, by: float) -> None:
        by += sum(change.real for change in self.changes_of(value))
        if by:
            off[value] = by
            self.moves[value] = max(by, self.of(value))

    def _op(self, op: Operation, off: dict[SSAValue, float], depth: int) -> list[float]:
        """How far the results of `op` are off where its operands are off by `off`."""
        if isinstance(op, CallOp):
            called = self.functions.get((module_of(op), op.callee.string_value()))
            if called is not None:
                return self.results(called, [off.get(v, 0.0) for v in op.operands], depth + 1)
        by = propagated(self.session, op, lambda value: off.get(value, 0.0))
        if by == inf and all(off.get(value, 0.0) < inf for value in op.operands):
            self.unbounded.add(op)
        return [by] * len(op.results)

    def above(self, op: Operation) -> Iterable[SSAValue]:
        """The values that the results of `op` are computed from."""
        if isinstance(op, CallOp):
            called = self.functions.get((module_of(op), op.callee.string_value()))
            last = called.body.blocks[-1].last_op if called and called.body.blocks else None
            return [*op.operands, *(last.operands if isinstance(last, ReturnOp) else ())]
        return [*op.operands, *captured_values(op)] if op.regions else op.operands


def summarize(session: QContext, module: Operation, since: int = 0) -> list[OutputBound]:
    """One bound per result of every public function, for rewrites from remark number `since` on.

    What a private one gives is its callers' affair: a pass may let it give something else, of the
    same type or another, where all its calls follow.
    """
    found = ops_named(session, module, [FuncOp.name])[0]
    functions = [op for op in found if isinstance(op, FuncOp) and not op.is_declaration]
    sweep = None
    if session.error_bounds.changes:
        sweep = _Sweep(session, {(module_of(f), f.sym_name.data): f for f in functions}, since)
    bounds: list[OutputBound] = []
    for op in functions:
        if is_private(op):
            continue
        last = op.body.blocks[-1].last_op
        values = last.operands if isinstance(last, ReturnOp) else ()
        reals = [0.0] * len(values)
        if sweep is not None and values:
            reals = sweep.results(op, [0.0] * len(op.function_type.inputs))
        for index, (value, real) in enumerate(zip(values, reals, strict=True)):
            bounds.append(_bound(sweep, session, op.sym_name.data, index, value, real))
    return bounds


def _bound(
    sweep: _Sweep | None,
    session: QContext,
    function: str,
    index: int,
    value: SSAValue,
    real: float,
) -> OutputBound:
    params = qparams_of(value)
    scale = min(params.scale_list()) if params is not None else None
    numbers, blocked = _above(sweep, value) if sweep is not None and real else ([], [])
    remarks = session.remarks.remarks
    causing = [remarks[number] for number in numbers]
    level = max((_level(remark) for remark in causing), default=Numerics.EXACT)
    if real and level is Numerics.EXACT:
        level = Numerics.BOUNDED
    steps = real / scale if scale else (inf if real else 0.0)
    return OutputBound(function, index, str(level), steps, real, causing, blocked)


def _level(remark: Remark) -> Numerics:
    return Numerics.parse(remark.contract.partition("(")[0])


def _above(sweep: _Sweep, value: SSAValue) -> tuple[list[int], list[str]]:
    """Numbers of the rewrites that may have moved `value`, and the ops that let no bound
    through."""
    changes, blocked = list[Change](), dict[str, None]()
    pending, visited = [value], {value}
    while pending:
        current = pending.pop()
        changes += sweep.changes_of(current)
        owner = current.owner
        if not isinstance(owner, Operation):
            continue
        if owner in sweep.unbounded:
            key = key_text(owner)
            blocked[f"'{owner.name}'" + (f" ({key})" if key else "")] = None
        for inner in every_op(owner) if owner.regions else ():
            changes += [change for value in inner.results for change in sweep.changes_of(value)]
        for operand in sweep.above(owner):
            if operand not in visited and operand in sweep.moves:
                visited.add(operand)
                pending.append(operand)
    return sorted(n for n in causes(changes) if n >= sweep.since), sorted(blocked)
