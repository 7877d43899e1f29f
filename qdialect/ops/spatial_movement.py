"""Movement ops between channels and space of NCHW tensors: depth_to_space,
space_to_depth, im2col, resize_nearest."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf, prod

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from qdialect.numerics.float_text import round_to_format
from qdialect.ops.base import INTS, REALS, UnaryOp, Values, ints
from qdialect.ops.shapes import DYNAMIC, Shape, ShapeError, require_rank, window_shape

COORDINATES = ("asymmetric", "half_pixel", "align_corners")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


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


_LARGEST_RESIZED = 1 << 24


@irdl_op_definition
class DepthToSpaceOp(_PhaseOp):
    """[N, C * block^2, H, W] -> [N, C, H * block, W * block]"""

    name = "nn.depth_to_space"

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        block = cls._block(x, values)
        n, c, h, w = x
        return [(n, _divided(c, block * block), _times(h, block), _times(w, block))]


@irdl_op_definition
class SpaceToDepthOp(_PhaseOp):
    """[N, C, H * block, W * block] -> [N, C * block^2, H, W]; ONNX has DCR."""

    name = "nn.space_to_depth"

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        block = cls._block(x, values)
        n, c, h, w = x
        return [(n, _times(c, block * block), _divided(h, block), _divided(w, block))]


@irdl_op_definition
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


@irdl_op_definition
class ResizeNearestOp(UnaryOp):
    """Nearest-neighbour resampling to `sizes`, or by `scales` (one of the two, one entry
    per dimension), as ONNX Resize.

    Along each dimension result index j reads the input near coordinate

        asymmetric     j / scale
        half_pixel     (j + 0.5) / scale - 0.5
        align_corners  j * (in - 1) / (out - 1), 0 if out = 1

    rounded by `nearest` and clamped to [0, in). scale is out / in when `sizes` are
    given. All in f32, as ONNX Runtime evaluates it.
    """

    name = "nn.resize_nearest"
    sizes = opt_prop_def(INTS)
    scales = opt_prop_def(REALS)
    coordinates = prop_def(StringAttr, StringAttr("half_pixel"))
    nearest = prop_def(StringAttr, StringAttr("round_prefer_floor"))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        for what, known in (("coordinates", COORDINATES), ("nearest", NEAREST)):
            if values[what] not in known:
                raise ShapeError(f"unknown {what} '{values[what]}' (one of {', '.join(known)})")
        return [resized(operands[0], values)]


def resized(x: Shape, values: Values) -> Shape:
    """The shape that `sizes` or `scales`, one per dimension, give."""
    sizes: tuple[int, ...] | None = values.get("sizes")
    scales: tuple[float, ...] | None = values.get("scales")
    given = sizes or scales or ()
    if (sizes is None) == (scales is None) or len(given) != len(x):
        raise ShapeError(f"expects either {len(x)} sizes or {len(x)} scales")
    if sizes is not None:
        if min((0, *sizes)) < 0 or any(n == 0 != size for n, size in zip(x, sizes, strict=True)):
            raise ShapeError(f"cannot resize {list(x)} to {list(sizes)}")
        return _bounded(sizes)
    if any(not 0.0 < scale < inf for scale in given):
        raise ShapeError(f"scales must be positive, but are {list(given)}")
    return _bounded(tuple(_scaled(n, scale) for n, scale in zip(x, given, strict=True)))


def _bounded(shape: Shape) -> Shape:
    """The shape, if the indices along each dimension can be listed."""
    if max((0, *shape)) > _LARGEST_RESIZED:
        raise ShapeError(f"resizes to {list(shape)}, but dimensions end at {_LARGEST_RESIZED}")
    return shape


def _scaled(size: int, scale: float) -> int:
    """floor(size * scale), the product in f32"""
    if size == DYNAMIC:
        return DYNAMIC
    return floor(round_to_format(size * round_to_format(scale, "f32"), "f32"))


def _times(size: int, factor: int) -> int:
    return DYNAMIC if size == DYNAMIC else size * factor


def _divided(size: int, factor: int) -> int:
    if size == DYNAMIC:
        return DYNAMIC
    if size % factor:
        raise ShapeError(f"extent {size} is not a multiple of {factor}")
    return size // factor


OPS = [DepthToSpaceOp, SpaceToDepthOp, Im2colOp, ResizeNearestOp]
