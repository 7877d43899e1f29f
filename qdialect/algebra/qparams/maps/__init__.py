"""How qparams follow data movement: one frozen dataclass per kind of movement op, imported
when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qdialect.algebra.qparams.maps.base import IndexMap
    from qdialect.algebra.qparams.maps.dims import (
        Broadcast,
        Flip,
        RepeatInterleave,
        ResizeNearest,
        Slice,
        Tile,
        Transpose,
        split,
    )
    from qdialect.algebra.qparams.maps.gather import Gather, GatherDynamic, Take
    from qdialect.algebra.qparams.maps.insert import Insert
    from qdialect.algebra.qparams.maps.join import Concat, Select
    from qdialect.algebra.qparams.maps.pad import Pad
    from qdialect.algebra.qparams.maps.reshape import Reshape
    from qdialect.algebra.qparams.maps.spatial import DepthToSpace, Im2col, SpaceToDepth
    from qdialect.algebra.qparams.maps.views import First, Flatten, Squeeze, Unsqueeze

_MODULES = {
    "Broadcast": "dims",
    "Concat": "join",
    "DepthToSpace": "spatial",
    "First": "views",
    "Flatten": "views",
    "Flip": "dims",
    "Gather": "gather",
    "GatherDynamic": "gather",
    "Im2col": "spatial",
    "IndexMap": "base",
    "Insert": "insert",
    "Pad": "pad",
    "RepeatInterleave": "dims",
    "Reshape": "reshape",
    "ResizeNearest": "dims",
    "Select": "join",
    "Slice": "dims",
    "SpaceToDepth": "spatial",
    "Squeeze": "views",
    "Take": "gather",
    "Tile": "dims",
    "Transpose": "dims",
    "Unsqueeze": "views",
    "split": "dims",
}

__all__ = [
    "Broadcast",
    "Concat",
    "DepthToSpace",
    "First",
    "Flatten",
    "Flip",
    "Gather",
    "GatherDynamic",
    "Im2col",
    "IndexMap",
    "Insert",
    "Pad",
    "RepeatInterleave",
    "Reshape",
    "ResizeNearest",
    "Select",
    "Slice",
    "SpaceToDepth",
    "Squeeze",
    "Take",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "split",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
