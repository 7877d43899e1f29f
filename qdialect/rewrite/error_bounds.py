"""How far values have moved from what the program first computed.

Every rewrite that is not exact leaves a `Change` on the values it put in place of others:
how far they may be off, inputs being equal. Later rewrites hand it on: to what replaces
the value, or, where the value is gone, to what is computed without it.
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
    """The changes on each value, its operands' not counted."""

    own: dict[SSAValue, tuple[Change, ...]] = field(
        default_factory=dict[SSAValue, "tuple[Change, ...]"]
    )

    def record(self, value: SSAValue, remark: int, contract: Contract) -> None:
        """A rewrite under `contract` made `value`."""
        self._add(value, [Change(remark, contract.level, _real(value, contract))])

    def carry(self, old: SSAValue, new: SSAValue) -> None:
        """`new` stands for `old` from now on."""
        self._add(new, self.own.pop(old, ()))

    def share(self, old: SSAValue, new: SSAValue) -> None:
        """`new` stands for `old` somewhere, and `old` stays."""
        self._add(new, self.own.get(old, ()))

    def transfer(self, old: SSAValue, users_of: Iterable[tuple[SSAValue, float, float]]) -> None:
        """`old` is gone; heirs are computed without it, which `old` moves by at most
        a * d + b where it moves by d."""
        below = list(users_of)
        for change in self.own.pop(old, ()):
            for heir, a, b in below:
                real = a * change.real + b if change.real and a else 0.0
                self._add(heir, [replace(change, real=real)])

    def of(self, value: SSAValue) -> float:
        """How far `value` may be off if its operands are not."""
        return sum(change.real for change in self.own.get(value, ()))

    def _add(self, value: SSAValue, changes: Iterable[Change]) -> None:
        merged = {change.remark: change for change in self.own.get(value, ())}
        for change in changes:
            before = merged.get(change.remark)
            real = change.real + (before.real if before else 0.0)
            merged[change.remark] = replace(change, real=real)
        if merged:
            self.own[value] = tuple(merged.values())


def _real(value: SSAValue, contract: Contract) -> float:
    element = quant_element(value.type)
    if contract.level > Numerics.BOUNDED or element is None:
        return inf
    steps = max(contract.steps, 1.0 if contract.level is Numerics.TIES else 0.0)
    return steps * max(element.qparams.scale_list())
