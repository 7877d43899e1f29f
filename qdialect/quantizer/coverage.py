"""Which ops of a module are quantized, which stay float, and why: for people and for checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from qdialect.ir.dialects.kept import KeptOp
from qdialect.rewrite.remarks import key_text

PARTLY = frozenset({"dynamic", "weights-only", "table"})
"""Codes of ops that take and give floats, with weights or a table in codes."""


@dataclass(frozen=True)
class Left:
    """An op that stays float."""

    op: str
    key: str
    code: str
    reason: str

    def __str__(self) -> str:
        name = f"'{self.key}' ({self.op})" if self.key else f"'{self.op}'"
        return f"{name} [{self.code}]: {self.reason}"


@dataclass(frozen=True)
class Coverage:
    """The ops that were quantized, by name, those left float, and entries of the profile
    that name nothing in the model."""

    quantized: Counter[str] = field(default_factory=Counter[str])
    left: Sequence[Left] = ()
    stale: Sequence[str] = ()

    @property
    def total(self) -> int:
        """The number of ops, quantized or float."""
        return self.quantized.total() + len(self.left)

    @property
    def has_codes(self) -> bool:
        """Whether anything is in codes, if only weights."""
        return bool(self.quantized) or any(left.code in PARTLY for left in self.left)

    def summary(self) -> list[str]:
        """Lines for people."""
        partly = sum(left.code in PARTLY for left in self.left)
        more = f", {partly} in part" if partly else ""
        lines = [f"{self.quantized.total()} of {self.total} float ops quantized{more}"]
        for code, count in Counter(left.code for left in self.left).most_common():
            shown = [str(left).replace(f" [{code}]", "") for left in self.left if left.code == code]
            lines.append(f"  {count} float [{code}]: {shown[0]}" + (", ..." if count > 1 else ""))
        if self.stale:
            lines.append(f"  {len(self.stale)} stale entries: '{self.stale[0]}', ...")
        return lines


def left_float(op: Operation, code: str, reason: str) -> Left:
    """The entry of `Coverage.left` for an op."""
    return Left(kind_of(op), key_text(op), code, reason)


def kind_of(op: Operation) -> str:
    """The name of an op for messages, with the format of one that is kept."""
    return f"{op.format} {op.kind}" if isinstance(op, KeptOp) else op.name
