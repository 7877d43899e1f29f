"""Behavior declarations and their registry."""

from qdialect.behaviors.declaration import (
    Accumulator,
    Affine,
    Behavior,
    Port,
    Rule,
    Size,
    Sizes,
    axes,
    no_axes,
)
from qdialect.behaviors.registry import BehaviorRegistry

__all__ = [
    "Accumulator",
    "Affine",
    "Behavior",
    "BehaviorRegistry",
    "Port",
    "Rule",
    "Size",
    "Sizes",
    "axes",
    "no_axes",
]
