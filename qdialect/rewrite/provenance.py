"""Keeps `ErrorBounds` right while one rule after another rewrites a module."""

from __future__ import annotations

from math import inf

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.gain import influence
from qdialect.context import QContext
from qdialect.numerics.contract import EXACT, Contract, Numerics

#: values computed without one that is gone, with a and b of `ErrorBounds.transfer`
_UsersOf = list[tuple[SSAValue, float, float]]


class Provenance:
    """What the `Rewriter` tells of one rewrite."""

    def __init__(self, session: QContext) -> None:
        self._session = session
        self._contract = EXACT
        self._users_of: dict[SSAValue, _UsersOf] = {}

    def begin(self, contract: Contract) -> None:
        """A rule fires under `contract`; its remark is the last one."""
        self._contract = contract
        self._users_of = {}

    def replaced(self, old: SSAValue, new: SSAValue) -> None:
        """Uses of `old` now use `new`."""
        error_bounds = self._session.error_bounds
        error_bounds.carry(old, new)
        self._changed(new)
        if error_bounds.own:
            self._users_of[old] = [(new, 1.0, 0.0)]

    def bypassed(self, op: Operation, index: int) -> None:
        """Operand `index` of `op` is about to be another value."""
        if not self._session.error_bounds.own and self._contract.level is Numerics.EXACT:
            return
        for result in op.results:
            self._changed(result)
        self._inherit(op, index, [(result, 1.0, 0.0) for result in op.results])

    def erased(self, op: Operation) -> None:
        """`op` is about to be erased: its results are replaced, or dead."""
        error_bounds = self._session.error_bounds
        if not error_bounds.own:
            return
        users_of: _UsersOf = []
        for result in op.results:
            below = self._users_of.get(result, [])
            error_bounds.transfer(result, below)
            users_of += below
        for index in range(len(op.operands)):
            self._inherit(op, index, users_of)

    def _changed(self, value: SSAValue) -> None:
        if self._contract.level is not Numerics.EXACT:
            number = len(self._session.remarks.remarks) - 1
            self._session.error_bounds.record(value, number, self._contract)

    def _inherit(self, op: Operation, index: int, users_of: _UsersOf) -> None:
        """What `op` was computed from may go, and matter to `users_of` no more than through it."""
        operand = op.operands[index]
        dying = all(use.operation is op for use in operand.uses)
        if not users_of or not isinstance(operand.owner, Operation) or not dying:
            return
        a, b = influence(self._session, op, index) or (inf, inf)
        mine = self._users_of.setdefault(operand, [])
        mine += [
            (heir, a * a2, b * a2 + b2) if a2 else (heir, 0.0, 0.0) for heir, a2, b2 in users_of
        ]
