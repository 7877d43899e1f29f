"""Movement ops that change only how dimensions are numbered or repeated: squeeze,
unsqueeze, expand, tile, repeat, flip."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, prop_def

from qdialect.ops.base import INTS, UnaryOp, Values
from qdialect.ops.shapes import DYNAMIC, Shape, ShapeError, broadcast, normalize_axes


@irdl_op_definition
class SqueezeOp(UnaryOp):
    """Without the dimensions `axes`, which have extent 1."""

    name = "nn.squeeze"
    axes = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        axes = normalize_axes(values["axes"], len(x))
        for axis in axes:
            if x[axis] not in (1, DYNAMIC):
                raise ShapeError(f"cannot squeeze dimension {axis} of extent {x[axis]}")
        return [tuple(n for d, n in enumerate(x) if d not in axes)]


@irdl_op_definition
class UnsqueezeOp(UnaryOp):
    """With dimensions of extent 1 inserted such that they are `axes` of the result."""

    name = "nn.unsqueeze"
    axes = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, wanted = operands[0], values["axes"]
        rank = len(x) + len(wanted)
        axes = normalize_axes(wanted, rank)
        rest = iter(x)
        return [tuple(1 if d in axes else next(rest) for d in range(rank))]


@irdl_op_definition
class ExpandOp(UnaryOp):
    """Broadcast with `shape` as numpy does, aligned at the last dimension; an extent 1
    of `shape` keeps that of the input."""

    name = "nn.expand"
    shape = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        shape = tuple[int, ...](values["shape"])
        if min((0, *shape)) < 0:
            raise ShapeError(f"cannot expand to {list(shape)}")
        return [broadcast([operands[0], shape])]


class _Repeated(UnaryOp):
    """`repeats` lists one factor per dimension."""

    repeats = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, repeats = operands[0], values["repeats"]
        if len(repeats) != len(x):
            raise ShapeError(f"expects {len(x)} repeats, but got {len(repeats)}")
        if min((0, *repeats)) < 0:
            raise ShapeError(f"repeats must not be negative, but are {list(repeats)}")
        return [tuple(n if n == DYNAMIC else n * r for n, r in zip(x, repeats, strict=True))]


@irdl_op_definition
class TileOp(_Repeated):
    """`repeats[d]` copies of the tensor along dimension d, one after the other."""

    name = "nn.tile"


@irdl_op_definition
class RepeatOp(_Repeated):
    """Every index of dimension d `repeats[d]` times in a row."""

    name = "nn.repeat"


@irdl_op_definition
class FlipOp(UnaryOp):
    """Dimensions `axes` read from their end."""

    name = "nn.flip"
    axes = prop_def(INTS)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        normalize_axes(values["axes"], len(operands[0]))
        return [operands[0]]


OPS = [SqueezeOp, UnsqueezeOp, ExpandOp, TileOp, RepeatOp, FlipOp]
