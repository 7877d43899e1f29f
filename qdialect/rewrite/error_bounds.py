"""Bounds of how far values may be from what the program first computed.

Every rewrite that is not exact leaves a `Change` on the values it puts in place of others: how far
they may be off if the function's inputs are equal. A later rewrite transfers a change to the value
that replaces the first one or, where that value is erased, to its users. For

    %0 = quant.rescale %x : !a to !b       bounded(1): a change of one step of !b
    %1 = nn.transpose %0 ...

a rule that erases %0 transfers the change to %1, the gain of a transpose being 1. `summary` adds
the changes up along the final program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

from xdsl.ir import SSAValue

from qdialect.numerics.contract import Contract, Numerics
from qdialect.quant import quant_element


@dataclass(frozen=True)
class Change:
    """One rewrite: its number in the remark log, its class, and how far a value is off, in
    real units (infinite where that is not known)."""

    remark: int
    level: Numerics
    real: float


@dataclass
class ErrorBounds:
    """The changes on each value; those on its operands are not counted."""

    changes: dict[SSAValue, tuple[Change, ...]] = field(
        default_factory=dict[SSAValue, "tuple[Change, ...]"]
    )

    def record(self, value: SSAValue, remark: int, contract: Contract) -> None:
        """A rewrite under `contract`, the remark of this number, computes `value`."""
        self._add(value, [Change(remark, contract.level, _real(value, contract))])

    def carry(self, old: SSAValue, new: SSAValue) -> None:
        """`new` replaces `old` everywhere."""
        self._add(new, self.changes.pop(old, ()))

    def share(self, old: SSAValue, new: SSAValue) -> None:
        """`new` replaces `old` for some users, and `old` stays for the others."""
        self._add(new, self.changes.get(old, ()))

    def transfer(self, old: SSAValue, users: Iterable[tuple[SSAValue, float, float]]) -> None:
        """`old` is erased, and `users` (value, a, b) are computed without it: such a value moves by
        at most a * d + b where `old` moves by d."""
        known = list(users)
        for change in self.changes.pop(old, ()):
            for user, a, b in known:
                real = a * change.real + b if change.real and a else 0.0
                self._add(user, [replace(change, real=real)])

    def of(self, value: SSAValue) -> float:
        """How far `value` may be off if its operands are not, in real units."""
        return sum(change.real for change in self.changes.get(value, ()))

    def _add(self, value: SSAValue, changes: Iterable[Change]) -> None:
        merged = {change.remark: change for change in self.changes.get(value, ())}
        for change in changes:
            before = merged.get(change.remark)
            real = change.real + (before.real if before else 0.0)
            merged[change.remark] = replace(change, real=real)
        if merged:
            self.changes[value] = tuple(merged.values())


def _real(value: SSAValue, contract: Contract) -> float:
    element = quant_element(value.type)
    if contract.level > Numerics.BOUNDED or element is None:
        return inf
    steps = max(contract.steps, 1.0 if contract.level is Numerics.TIES else 0.0)
    return steps * max(element.qparams.scale_list())
