"""A rewrite rule: pattern, check, rewrite, and a contract.

A rule is small.  `match` recognizes the pattern and reads nothing it does not
need; `check` decides whether this instance may be rewritten and returns the
`Contract` it can prove, or a `Refusal` with the reason; `rewrite` changes the IR
through the `Rewriter`: it inserts all new ops, then replaces values, so that new
ops which the target refuses can be taken back.  Nothing is built before `check`
has passed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from xdsl.ir import Operation

from qdialect.algebra.contract import Contract

if TYPE_CHECKING:
    from qdialect.ir.context import QContext
    from qdialect.rewrite.rewriter import Rewriter

M = TypeVar("M")


@dataclass(frozen=True)
class Refusal:
    """Why a matched pattern is left alone: `code` for programs, `reason` for people."""

    code: str
    reason: str


class Rule(ABC, Generic[M]):
    """One rewrite; `M` is what its pattern binds."""

    name: ClassVar[str]
    #: the name of the op at which the pattern can match, if there is one
    root: ClassVar[str]
    #: whether the pattern reads more than its root, what is next to that, and types
    far_reaching: ClassVar[bool] = False

    def __init__(self, session: QContext) -> None:
        self.session = session

    def prepare(self, module: Operation) -> None:
        """Called once before a run: the place for a linear analysis."""

    def roots(self) -> Iterable[str]:
        """Names of the ops at which the pattern can match."""
        return (self.root,)

    @abstractmethod
    def match(self, op: Operation) -> M | None:
        """What the pattern binds at `op`, or None if it is not there."""

    @abstractmethod
    def check(self, match: M) -> Contract | Refusal:
        """The contract this instance satisfies, or why it must not fire."""

    @abstractmethod
    def rewrite(self, match: M, rewriter: Rewriter) -> None:
        """Apply; called only after `check` returned a contract the user allows."""
