"""How `xdsl-opt -p canonicalize`, xDSL's own pass, canonicalizes our ops."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from xdsl.ir import Operation
from xdsl.traits import HasCanonicalizationPatternsTrait

if TYPE_CHECKING:
    from xdsl.pattern_rewriter import RewritePattern


@dataclass(frozen=True)
class Canonicalized(HasCanonicalizationPatternsTrait):
    """The rules of our pass `canonicalize` are the op's canonicalization patterns."""

    def get_patterns(self, op: type[Operation]) -> tuple[RewritePattern, ...]:
        """Those whose root `op` can be; imported when xDSL first asks."""
        return import_module("qdialect.passes.cleanup.canonicalize").patterns_of(op.name)
