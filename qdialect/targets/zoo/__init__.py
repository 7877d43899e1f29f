"""Targets of others, each written down from its public documentation.

What they state is cited line by line in docs/reference/targets.md; a test holds the two together.
Prices are the defaults of a target: nobody measured them.
"""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.ir.ops.registry import default_components
from qdialect.targets.kernels import Kernel


def with_kernels(kernels: Mapping[str, tuple[Kernel, ...]]) -> frozenset[str]:
    """The composite ops among those that have kernels: a target runs them whole, and the others
    are better left as their parts."""
    return frozenset(default_components()).intersection(kernels)
