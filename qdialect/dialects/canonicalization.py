"""How `xdsl-opt -p canonicalize`, xDSL's own pass, canonicalizes our ops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from xdsl.ir import Operation
from xdsl.traits import HasCanonicalizationPatternsTrait

if TYPE_CHECKING:
    from xdsl.pattern_rewriter import RewritePattern

    from qdialect.rewrite.pattern import RulePattern


@dataclass(frozen=True)
class Canonicalized(HasCanonicalizationPatternsTrait):
    """The rules of our pass `canonicalize` are the op's canonicalization patterns."""

    def get_patterns(self, op: type[Operation]) -> tuple[RewritePattern, ...]:
        """Those whose root `op` can be; imported when xDSL first asks."""
        return _patterns(op.name)

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        """None of all ops: `get_patterns` gives those of one."""
        return ()


@cache
def _patterns(name: str) -> tuple[RewritePattern, ...]:
    return tuple(pattern for pattern in canonicalization_patterns() if name in pattern.rule.roots())


@cache
def canonicalization_patterns() -> tuple[RulePattern, ...]:
    """The patterns of all ops, in a session of their own that remembers nothing."""
    from qdialect.context import QContext
    from qdialect.passes.cleanup.canonicalize import Canonicalize

    return tuple(Canonicalize().patterns(QContext(), logs=False))
