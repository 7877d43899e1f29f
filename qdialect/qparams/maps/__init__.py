"""How qparams follow data movement: one frozen dataclass per kind of movement op."""

from qdialect.qparams.maps.base import IndexMap
from qdialect.qparams.maps.dims import (
    Broadcast,
    Flip,
    RepeatInterleave,
    ResizeNearest,
    Slice,
    Tile,
    Transpose,
    split,
)
from qdialect.qparams.maps.gather import Gather, GatherDynamic, Take
from qdialect.qparams.maps.insert import Insert
from qdialect.qparams.maps.join import Concat, Select
from qdialect.qparams.maps.pad import Pad
from qdialect.qparams.maps.reshape import Reshape
from qdialect.qparams.maps.spatial import DepthToSpace, Im2col, SpaceToDepth
from qdialect.qparams.maps.views import First, Flatten, Squeeze, Unsqueeze

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
