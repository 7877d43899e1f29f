"""Transfers error bounds while rules rewrite a module.

The `Rewriter` reports each edit of a rewrite here: a value replaced, an op erased. Where an op with
a change on its result is erased, `ErrorBounds.transfer` moves the change to the values that the
rewrite computes without it, with the gain of what was in between.
"""

from __future__ import annotations

from math import inf

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.gain import influence
from qdialect.context import QContext
from qdialect.numerics.contract import EXACT, Contract, Numerics

_Users = list[tuple[SSAValue, float, float]]
"""Values computed without one that is erased, with a and b of `ErrorBounds.transfer`."""


class Provenance:
    """The edits of one rewrite, as far as error bounds depend on them."""

    def __init__(self, session: QContext) -> None:
        self._session = session
        self._contract = EXACT
        self._users: dict[SSAValue, _Users] = {}

    def begin(self, contract: Contract) -> None:
        """A rule fires under `contract`; its remark is the last one."""
        self._contract = contract
        self._users = {}

    def replaced(self, old: SSAValue, new: SSAValue) -> None:
        """Uses of `old` now use `new`."""
        error_bounds = self._session.error_bounds
        error_bounds.carry(old, new)
        self._changed(new)
        if error_bounds.changes:
            self._users[old] = [(new, 1.0, 0.0)]

    def erased(self, op: Operation) -> None:
        """`op` is about to be erased: its results are replaced, or dead."""
        error_bounds = self._session.error_bounds
        if not error_bounds.changes:
            return
        users: _Users = []
        for result in op.results:
            below = self._users.get(result, [])
            error_bounds.transfer(result, below)
            users += below
        for index in range(len(op.operands)):
            self._inherit(op, index, users)

    def _changed(self, value: SSAValue) -> None:
        if self._contract.level is not Numerics.EXACT:
            number = len(self._session.remarks.remarks) - 1
            self._session.error_bounds.record(value, number, self._contract)

    def _inherit(self, op: Operation, index: int, users: _Users) -> None:
        """An operand that only `op` uses will be erased too: note that it moves `users` through
        `op`."""
        operand = op.operands[index]
        dying = all(use.operation is op for use in operand.uses)
        if not users or not isinstance(operand.owner, Operation) or not dying:
            return
        a, b = influence(self._session, op, index) or (inf, inf)
        self._users.setdefault(operand, []).extend(
            (user, a * a2, b * a2 + b2) if a2 else (user, 0.0, 0.0) for user, a2, b2 in users
        )
