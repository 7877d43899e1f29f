"""Behavior declarations and their registry."""

from qdialect.behaviors.declaration import (
    Accumulator,
    Affine,
    Behavior,
    BehaviorRegistry,
    Port,
    Rule,
    axes,
    no_axes,
)

__all__ = [
    "Accumulator",
    "Affine",
    "Behavior",
    "BehaviorRegistry",
    "Port",
    "Rule",
    "axes",
    "no_axes",
]
