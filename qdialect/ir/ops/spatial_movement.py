"""Movement ops between channels and space of NCHW tensors: depth_to_space,
space_to_depth, im2col.

    %y = nn.depth_to_space %x block 2 : (tensor<1x8x4x4xf32>) -> tensor<1x2x8x8xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Operation
from xdsl.irdl import prop_def

from qdialect.ir.ops.base import INTS, UnaryOp, Values, ints
from qdialect.ir.ops.declare import nn_op, values
from qdialect.ir.ops.movement import moves
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, require_rank, window_shape

if TYPE_CHECKING:
    from qdialect.algebra.qparams.maps import IndexMap


class _PhaseOp(UnaryOp):
    """`mode` is the order of channels: DCR has the phase (row, column in a block)
    outside the channel, k = phase * C + c; CRD inside, k = c * block^2 + phase."""

    block = prop_def(IntegerAttr.constr(i64))
    mode = prop_def(StringAttr, StringAttr("DCR"))

    @classmethod
    def _block(cls, x: Shape, values: Values) -> int:
        require_rank(x, 4, "an input")
        if values["mode"] not in ("DCR", "CRD"):
            raise ShapeError(f"unknown mode '{values['mode']}'")
        if values["block"] < 1:
            raise ShapeError(f"block must be at least 1, but is {values['block']}")
        return values["block"]


def _moves_single_elements(op: Operation) -> bool:
    return values(op)["block"] == 1


def _depth_to_space(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import DepthToSpace

    v = values(op)
    return DepthToSpace(v["block"], v["mode"])


@nn_op(moves(_depth_to_space, _moves_single_elements))
class DepthToSpaceOp(_PhaseOp):
    """[N, C * block^2, H, W] -> [N, C, H * block, W * block]"""

    name = "nn.depth_to_space"

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        block = cls._block(x, values)
        n, c, h, w = x
        return [(n, _divided(c, block * block), _times(h, block), _times(w, block))]


def _space_to_depth(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import SpaceToDepth

    v = values(op)
    return SpaceToDepth(v["block"], v["mode"])


@nn_op(moves(_space_to_depth, _moves_single_elements))
class SpaceToDepthOp(_PhaseOp):
    """[N, C, H * block, W * block] -> [N, C * block^2, H, W]; ONNX has DCR."""

    name = "nn.space_to_depth"

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        block = cls._block(x, values)
        n, c, h, w = x
        return [(n, _times(c, block * block), _divided(h, block), _divided(w, block))]


def _im2col(op: Operation) -> IndexMap:
    from qdialect.algebra.qparams.maps import Im2col

    v = values(op)
    pads = v["pads"]
    return Im2col(v["kernel"], v["strides"], pads[:2], pads[2:], v["dilations"])


@nn_op(moves(_im2col))
class Im2colOp(UnaryOp):
    """The patches a convolution multiplies: [N, C, H, W] -> [N, C * taps, places].

    Row c * taps + t of a column is tap t (row-major in `kernel`) of channel c; columns
    are the windows in row-major order. Padding (top, left, bottom, right) is real 0.
    """

    name = "nn.im2col"
    kernel = prop_def(INTS)
    strides = prop_def(INTS, ints(1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        require_rank(x, 4, "an input")
        places = window_shape(
            x[2:], values["kernel"], values["strides"], values["pads"], values["dilations"]
        )
        columns = DYNAMIC if DYNAMIC in places else prod(places)
        return [(x[0], _times(x[1], prod(values["kernel"])), columns)]


def _times(size: int, factor: int) -> int:
    return DYNAMIC if size == DYNAMIC else size * factor


def _divided(size: int, factor: int) -> int:
    if size == DYNAMIC:
        return DYNAMIC
    if size % factor:
        raise ShapeError(f"extent {size} is not a multiple of {factor}")
    return size // factor
