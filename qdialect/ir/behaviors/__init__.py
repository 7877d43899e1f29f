"""Behavior declarations and their registry; imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qdialect.ir.behaviors.declaration import (
        Accumulator,
        AffineFunction,
        Behavior,
        Choice,
        Clamp,
        Comparison,
        Computation,
        Contraction,
        Elementwise,
        Lookup,
        Movement,
        OrderPreserving,
        Port,
        PortKind,
        Selection,
        Size,
        Sizes,
        axes,
        no_axes,
    )
    from qdialect.ir.behaviors.registry import BehaviorRegistry

__all__ = [
    "Accumulator",
    "AffineFunction",
    "Behavior",
    "BehaviorRegistry",
    "Choice",
    "Clamp",
    "Comparison",
    "Computation",
    "Contraction",
    "Elementwise",
    "Lookup",
    "Movement",
    "OrderPreserving",
    "Port",
    "PortKind",
    "Selection",
    "Size",
    "Sizes",
    "axes",
    "no_axes",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'qdialect.ir.behaviors' has no attribute '{name}'")
    module = "registry" if name == "BehaviorRegistry" else "declaration"
    value = getattr(import_module(f"qdialect.ir.behaviors.{module}"), name)
    globals()[name] = value
    return value
