"""Resampling that computes: bilinear resize."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from qdialect.ops.base import INTS, REALS, FunctionOp, Values
from qdialect.ops.shapes import DYNAMIC, Shape, ShapeError, require_rank
from qdialect.ops.spatial_movement import resized

COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")


@irdl_op_definition
class ResizeLinearOp(FunctionOp):
    """Bilinear resampling over H and W of NCHW tensors to `sizes`, or by `scales` (one of
    the two, one entry per dimension, batch and channels as they are), as ONNX Resize.

    Along H and W result index j lies in the input at coordinate

        asymmetric          j / scale
        half_pixel          (j + 0.5) / scale - 0.5
        pytorch_half_pixel  the same, 0 if out = 1
        align_corners       j * (in - 1) / (out - 1), 0 if out = 1

    in f32, clamped to [0, in - 1]: with i its floor and w the rest, it is (1 - w) of
    element i and w of element i + 1. scale is out / in when `sizes` are given. On a
    quantized operand the exact result is quantized with `rounding`.
    """

    name = "nn.resize_linear"
    sizes = opt_prop_def(INTS)
    scales = opt_prop_def(REALS)
    coordinates = prop_def(StringAttr, StringAttr("half_pixel"))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x = operands[0]
        require_rank(x, 4, "an input")
        known = values["coordinates"]
        if known not in COORDINATES:
            raise ShapeError(f"unknown coordinates '{known}' (one of {', '.join(COORDINATES)})")
        shape, scales = resized(x, values), values.get("scales")
        kept = scales[:2] == (1.0, 1.0) if scales else _fit(x[:2], shape[:2])
        if not kept:
            raise ShapeError("resizes over height and width only")
        return [shape]


def _fit(a: Shape, b: Shape) -> bool:
    return all(n == m or DYNAMIC in (n, m) for n, m in zip(a, b, strict=True))


OPS = [ResizeLinearOp]
