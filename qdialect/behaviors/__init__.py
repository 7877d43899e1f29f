"""Behavior declarations and their registry."""

from qdialect.behaviors.declaration import (
    Accumulator,
    Behavior,
    BehaviorRegistry,
    Port,
    Rule,
    axes,
    no_axes,
)

__all__ = ["Accumulator", "Behavior", "BehaviorRegistry", "Port", "Rule", "axes", "no_axes"]
