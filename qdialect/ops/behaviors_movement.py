"""The declarations of movement ops: their index maps (law 2.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.ir import Operation

from qdialect.behaviors import Behavior, Port, PortKind, no_axes
from qdialect.ops.base import NNOp, shape_of
from qdialect.ops.constants import inline_array
from qdialect.ops.resize import nearest_indices
from qdialect.ops.shapes import DYNAMIC, normalize_axes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.qparams.maps import IndexMap

_INPUT = Port("input", PortKind.TIED, axes=None)
_RESULT = Port("result", PortKind.TIED, axes=None)


def values(op: Operation) -> dict[str, Any]:
    """The properties of an op as Python values."""
    return cast("NNOp", op).values


def _axis(op: Operation) -> int:
    return values(op)["axis"] % max(len(shape_of(op.operands[0])), 1)


# -- index maps -------------------------------------------------------------


def _reshape(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Reshape

    return Reshape(shape_of(op.results[0]))


def _squeeze(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Squeeze

    return Squeeze(normalize_axes(values(op)["axes"], len(shape_of(op.operands[0]))))


def _unsqueeze(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Unsqueeze

    return Unsqueeze(normalize_axes(values(op)["axes"], len(shape_of(op.results[0]))))


def _transpose(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Transpose

    return Transpose(values(op)["perm"])


def _slice(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Slice

    v = values(op)
    return Slice(v["starts"], v["stops"], v["steps"])


def _split(op: Operation) -> Sequence[IndexMap]:
    from qdialect.qparams.maps import split

    return split(len(shape_of(op.operands[0])), _axis(op), values(op)["sizes"])


def _join(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Concat

    return Concat(_axis(op))


def _pad(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Pad

    v = values(op)
    return Pad(v["low"], v["high"], v["mode"], v["value"])


def _gather(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import GatherDynamic

    indices = inline_array(op.operands[1])
    if indices is None:
        return GatherDynamic(_axis(op), shape_of(op.operands[1]))
    return _gather_given(op, [indices])


def _gather_given(op: Operation, plain: Sequence[NDArray[Any]]) -> IndexMap:
    from qdialect.qparams.maps import Gather

    return Gather.of(_axis(op), plain[0])


def _select(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Select

    return Select(shape_of(op.results[0]))


def _select_given(op: Operation, plain: Sequence[NDArray[Any]]) -> IndexMap:
    import numpy as np

    from qdialect.qparams.maps import Select

    shape = shape_of(op.results[0])
    return Select(shape, tuple(np.broadcast_to(plain[0], shape).reshape(-1).tolist()))


def _insert(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Insert

    v = values(op)
    return Insert(v["starts"], v["steps"])


def _expand(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Broadcast

    return Broadcast(shape_of(op.results[0]))


def _tile(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Tile

    return Tile(values(op)["repeats"])


def _repeat(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import RepeatInterleave

    return RepeatInterleave(values(op)["repeats"])


def _flip(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Flip

    return Flip(normalize_axes(values(op)["axes"], len(shape_of(op.operands[0]))))


def _depth_to_space(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import DepthToSpace

    v = values(op)
    return DepthToSpace(v["block"], v["mode"])


def _space_to_depth(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import SpaceToDepth

    v = values(op)
    return SpaceToDepth(v["block"], v["mode"])


def _im2col(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import Im2col

    v = values(op)
    pads = v["pads"]
    return Im2col(v["kernel"], v["strides"], pads[:2], pads[2:], v["dilations"])


def _resize_nearest(op: Operation) -> IndexMap:
    from qdialect.qparams.maps import ResizeNearest

    return ResizeNearest(*nearest_indices(shape_of(op.operands[0]), values(op)))


# -- identities ---------------------------------------------------------------


def _same_type(op: Operation) -> bool:
    return op.operands[0].type == op.results[0].type


def _same_static_type(op: Operation) -> bool:
    return _same_type(op) and DYNAMIC not in shape_of(op.results[0])


def _is_reshape_to_same(op: Operation) -> bool:
    shape = shape_of(op.results[0])
    # The number of elements, if it is not 0, tells one unknown extent.
    return _same_type(op) and shape.count(DYNAMIC) <= (0 not in shape)


def _moves_single_elements(op: Operation) -> bool:
    return values(op)["block"] == 1


def _keeps_order(op: Operation) -> bool:
    perm = values(op)["perm"]
    return perm == tuple(sorted(perm))


def _takes_all(op: Operation) -> bool:
    return _same_static_type(op) and set(values(op)["steps"]) <= {1}


def _adds_nothing(op: Operation) -> bool:
    v = values(op)
    return not any((*v["low"], *v["high"]))


def _repeats_nothing(op: Operation) -> bool:
    return set(values(op)["repeats"]) <= {1}


def _flips_nothing(op: Operation) -> bool:
    shape = shape_of(op.operands[0])
    return all(shape[axis] in (0, 1) for axis in values(op)["axes"])


def _keeps_coordinates(op: Operation) -> bool:
    shape = shape_of(op.operands[0])
    if shape_of(op.results[0]) != shape:
        return False
    found = nearest_indices(shape, values(op))
    return all(index is None for index in found.indices)


def _is_only_part(op: Operation) -> bool:
    return len(op.results) == 1 and _same_type(op)


# -- declarations ---------------------------------------------------------------


def _movement(
    name: str,
    movement: Callable[[Operation], IndexMap],
    is_identity: Callable[[Operation], bool] | None = None,
) -> Behavior:
    return Behavior(name, (_INPUT,), (_RESULT,), movement=movement, is_identity=is_identity)


MOVEMENT: tuple[Behavior, ...] = (
    _movement("nn.reshape", _reshape, _is_reshape_to_same),
    _movement("nn.flatten", _reshape, _is_reshape_to_same),
    _movement("nn.squeeze", _squeeze, _same_type),
    _movement("nn.unsqueeze", _unsqueeze, _same_type),
    _movement("nn.transpose", _transpose, _keeps_order),
    _movement("nn.slice", _slice, _takes_all),
    _movement("nn.pad", _pad, _adds_nothing),
    _movement("nn.expand", _expand, _same_static_type),
    _movement("nn.tile", _tile, _repeats_nothing),
    _movement("nn.repeat", _repeat, _repeats_nothing),
    _movement("nn.flip", _flip, _flips_nothing),
    _movement("nn.depth_to_space", _depth_to_space, _moves_single_elements),
    _movement("nn.space_to_depth", _space_to_depth, _moves_single_elements),
    _movement("nn.im2col", _im2col),
    _movement("nn.resize_nearest", _resize_nearest, _keeps_coordinates),
    Behavior(
        "nn.split",
        (_INPUT,),
        (Port("parts", PortKind.TIED, axes=None),),
        movement=_split,
        joins=_join,
        is_identity=_is_only_part,
    ),
    Behavior(
        "nn.reshape_to",
        (_INPUT, Port("shape", PortKind.PLAIN, axes=no_axes)),
        (_RESULT,),
        movement=_reshape,
    ),
    Behavior(
        "nn.gather",
        (_INPUT, Port("indices", PortKind.PLAIN, axes=no_axes)),
        (_RESULT,),
        movement=_gather,
        movement_given=_gather_given,
    ),
    Behavior(
        "nn.select",
        (
            Port("condition", PortKind.PLAIN, axes=no_axes),
            Port("lhs", PortKind.TIED, axes=None),
            Port("rhs", PortKind.TIED, axes=None),
        ),
        (_RESULT,),
        movement=_select,
        movement_given=_select_given,
    ),
    Behavior(
        "nn.insert",
        (_INPUT, Port("update", PortKind.TIED, axes=None)),
        (_RESULT,),
        movement=_insert,
    ),
    Behavior(
        "nn.concat",
        (Port("inputs", PortKind.TIED, axes=None),),
        (_RESULT,),
        variadic=True,
        movement=_join,
        is_identity=lambda op: len(op.operands) == 1 and _same_type(op),
        mixes=True,
    ),
)
