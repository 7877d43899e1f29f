"""Scales whose shape says where they lie, although the attributes of their node do not.

Quantizers write nodes that no runtime runs, but that have one meaning.  A vector of scales comes
with extents of one beside it, or for a bias [1, N] along the wrong dimension; blocks come with
no `block_size`, or along another axis than their grid:

    DequantizeLinear<axis=0>(w: i8[8,3,3,3], s: f32[8,1,1])                   ->  s: f32[8]
    DequantizeLinear<axis=0, block_size=32>(w: i4[128,1536], s: f32[128,48])  ->  axis=1
    QuantizeLinear(w: f32[32,32], s: f32[2,32])                  ->  axis=0, block_size=16

Such a node is read as if it had been written right.  What fits its attributes, or fits in more
than one way, stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.ir import Attribute

from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.packages import package
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.quantization import shape_of

if TYPE_CHECKING:
    from onnx import NodeProto

    from qdialect.plugins.onnx.read.graph_tensors import GraphTensors

_CASTS = ("QuantizeLinear", "DequantizeLinear")
_DOMAINS = ("", "com.microsoft")


@dataclass(frozen=True)
class Field:
    """Where scales lie: their shape, the dimension they go along, and the elements per block
    (0: one scale for each index)."""

    dims: tuple[int, ...]
    axis: int
    block: int = 0


def placed(tensors: GraphTensors, node: Node, source: Attribute) -> Node:
    """A cast of a tensor of type `source` as it is meant, or the node itself where it says that
    already."""
    if node.op_type not in _CASTS or node.domain not in _DOMAINS:
        return node
    scale, shape = tensors.statics.get(node.input(1)), shape_of(source)
    if scale is None or shape is None:
        return node
    zero = tensors.statics.get(node.input(2))
    if node.input(2) and (zero is None or list(zero.dims) != list(scale.dims)):
        return node
    attributes = {a.name: a.i for a in node.proto.attribute}
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    stated = Field(tuple(scale.dims), axis, block)
    meant = _meant(stated, shape)
    if meant is None:
        return node
    inputs = [node.input(0), *(_reshaped(tensors, name, meant.dims) for name in node.inputs[1:])]
    return replace(node, proto=_rewritten(node.proto, meant), inputs=inputs, _values={})


def correction(keys: Sequence[str]) -> list[str]:
    """What is said of nodes that were read as they are meant, none if there are none."""
    if not keys:
        return []
    others = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    return [
        f"the scales of node '{keys[0]}'{others} do not fit its axis and block size, and no "
        "runtime takes them: read as their shape says"
    ]


def _meant(stated: Field, shape: Sequence[int]) -> Field | None:
    """The one way in which scales fit a tensor, if it is not the stated one."""
    dims, rank = stated.dims, len(shape)
    wide = [d for d, n in enumerate(dims) if n != 1]
    if stated.block:
        found = [d for d in range(rank) if _is_grid(dims, shape, d, stated.block)]
        fits = -rank <= stated.axis < rank and stated.axis % rank in found
        return Field(dims, found[0], stated.block) if len(found) == 1 and not fits else None
    if not dims or dims == (1,):
        return None
    if len(wide) > 1:
        return _unstated_blocks(dims, shape)
    if not wide:
        return Field((), stated.axis)
    count = dims[wide[0]]
    along = [d for d, n in enumerate(shape) if n == count]
    inside = -rank <= stated.axis < rank
    if inside and shape[stated.axis] in (count, DYNAMIC):
        return Field((count,), stated.axis) if len(dims) > 1 else None
    if len(dims) == rank and wide[0] in along:
        return Field((count,), wide[0])
    # A vector for a tensor that is one, but for extents of one.
    if inside and len(along) == 1 and all(n == 1 for d, n in enumerate(shape) if d != along[0]):
        return Field((count,), along[0])
    return _unstated_blocks(dims, shape)


def _is_grid(dims: Sequence[int], shape: Sequence[int], axis: int, block: int) -> bool:
    """Whether `dims` are the numbers of blocks of `block` elements along a dimension."""
    if len(dims) != len(shape) or block < 1:
        return False
    needed = [-(-n // block) if d == axis else n for d, n in enumerate(shape)]
    return DYNAMIC not in shape and list(dims) == needed


def _unstated_blocks(dims: Sequence[int], shape: Sequence[int]) -> Field | None:
    """A grid that is coarser than the tensor along one dimension."""
    if len(dims) != len(shape) or DYNAMIC in shape:
        return None
    coarse = [d for d, (cells, n) in enumerate(zip(dims, shape, strict=True)) if cells != n]
    if len(coarse) != 1 or dims[coarse[0]] < 1 or shape[coarse[0]] % dims[coarse[0]]:
        return None
    axis = coarse[0]
    return Field(tuple(dims), axis, shape[axis] // dims[axis])


def _reshaped(tensors: GraphTensors, name: str, dims: Sequence[int]) -> str:
    """The name of the same constant in another shape, which is made where there is none."""
    if not name or list(tensors.statics[name].dims) == list(dims):
        return name
    made = package("onnx").TensorProto()
    made.CopyFrom(tensors.statics[name])
    del made.dims[:]
    made.dims.extend(dims)
    made.name = f"{name}_placed"
    while made.name in tensors.statics or made.name in tensors.values:
        if made.name in tensors.statics and tensors.statics[made.name] == made:
            return made.name
        made.name += "_"
    tensors.statics[made.name] = made
    return made.name


def _rewritten(proto: NodeProto, meant: Field) -> NodeProto:
    made = package("onnx").NodeProto()
    made.CopyFrom(proto)
    kept = [a for a in proto.attribute if a.name not in ("axis", "block_size")]
    del made.attribute[:]
    made.attribute.extend(kept)
    stated = {"axis": meant.axis, "block_size": meant.block} if meant.dims else {}
    for name, value in stated.items():
        if name == "axis" or value:
            made.attribute.append(package("onnx.helper").make_attribute(name, value))
    return made
