"""How far values may be from what the program first computed.

Every value stands for a value of the first program. A `Change` on it bounds how far it is from that
value if its operands are what they stand for; `summary` adds the changes up along the final ops,
and `replacements` keeps them right where a rewrite puts one value in place of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import Contract, Numerics
from qdialect.errors import PassFailure
from qdialect.ir.quant import quant_element


@dataclass(frozen=True, eq=False)
class Change:
    """How far a value is from what it stands for: `real`, in real units, is infinite where that is
    not known.

    `remark` is the number, in the remark log, of the last rewrite that it comes from. `parts` are
    the changes that were added up, which explain it and say no more.
    """

    real: float
    remark: int
    parts: tuple[Change, ...] = ()


@dataclass
class ErrorBounds:
    """The changes on each value of a module; those on its operands are not counted."""

    changes: dict[SSAValue, tuple[Change, ...]] = field(
        default_factory=dict[SSAValue, "tuple[Change, ...]"]
    )

    def of(self, value: SSAValue) -> float:
        """How far `value` may be off if its operands are not, in real units."""
        return total(self.changes.get(value, ()))

    def add(self, value: SSAValue, changes: Iterable[Change]) -> None:
        """Further changes of `value`."""
        known = self.changes.get(value, ())
        every = dict.fromkeys((*known, *changes))
        if every:
            self.changes[value] = tuple(every)

    def record(self, value: SSAValue, remark: int, contract: Contract) -> None:
        """A rewrite under `contract`, the remark of this number, computes `value`."""
        if contract.level is not Numerics.EXACT:
            self.add(value, [Change(real_bound(value, contract), remark)])

    def merge(self, old: SSAValue, new: SSAValue) -> None:
        """`new`, an op of the same operands, is used in place of `old` from now on."""
        before, after = self.changes.pop(old, ()), self.changes.get(new, ())
        if before:
            self.changes[new] = sum_up([*after, *before], max(total(before), total(after)))

    def forget(self, op: Operation) -> None:
        """`op` is erased: somebody replaced its results, or nobody uses them."""
        if self.changes:
            for result in op.results:
                self.changes.pop(result, None)

    def check(self, name: str) -> None:
        """Raise PassFailure (`internal-error`) if the pass `name` erased an op with a change other
        than by the functions that see to its changes."""
        for value in self.changes:
            owner = value.owner
            if isinstance(owner, Operation) and owner.parent is None:
                raise PassFailure(
                    f"pass '{name}' erased '{owner.name}', whose result is not exact, and nothing "
                    "counts that any more",
                    code="internal-error",
                )


def sum_up(changes: Sequence[Change], real: float) -> tuple[Change, ...]:
    """One change of `real` that comes from `changes`; none if these are none."""
    if not changes:
        return ()
    every = tuple(dict.fromkeys(changes))
    return (Change(real, max(change.remark for change in every), every),)


def causes(changes: Iterable[Change]) -> set[int]:
    """The numbers of all rewrites that changes come from."""
    found, pending, visited = set[int](), list(changes), set[Change]()
    while pending:
        change = pending.pop()
        if change not in visited:
            visited.add(change)
            pending += change.parts
            if not change.parts:
                found.add(change.remark)
    return found


def total(changes: Iterable[Change]) -> float:
    """How far a value with `changes` is from what it stands for, in real units."""
    return sum(change.real for change in changes)


def real_bound(value: SSAValue, contract: Contract) -> float:
    """How far `value` is off by `contract`, in real units; infinite if that is not known."""
    element = quant_element(value.type)
    if contract.level > Numerics.BOUNDED or element is None:
        return inf
    steps = max(contract.steps, 1.0 if contract.level is Numerics.TIES else 0.0)
    return steps * max(element.qparams.scale_list())
