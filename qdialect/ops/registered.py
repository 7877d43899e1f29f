"""The declarations of our own ops, gathered into the default registry."""

from __future__ import annotations

from qdialect.behaviors import BehaviorRegistry
from qdialect.ops.behaviors import BEHAVIORS


def default_registry() -> BehaviorRegistry:
    """A fresh registry holding the declarations of the `nn` dialect."""
    return BehaviorRegistry(BEHAVIORS)
