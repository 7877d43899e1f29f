"""Does an encoding fit the shape of the tensor that carries it?

The rules and messages are upstream's; they hold for the operands and results of
quant ops, and in strict mode for every type.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from qdialect.algebra.qparams.parameters import Layout, QParams


def shape_error(container: Attribute, qparams: QParams) -> str | None:
    """Why `qparams` cannot be the encoding of `container`, a scalar or tensor type."""
    if qparams.layout is Layout.TENSOR:
        return None
    if isinstance(container, TensorType):
        shape: tuple[int, ...] | None = container.get_shape()
    elif isinstance(container, UnrankedTensorType):
        shape = None
    elif qparams.layout is Layout.AXIS:
        return "scalar types may not use per-axis quantization"
    else:
        return "scalar types may not use sub-channel quantization"
    if qparams.layout is Layout.AXIS:
        return None if shape is None else _axis_error(shape, qparams)
    if shape is None:
        return "tensor containing the sub-channel quantized type must be ranked"
    return _block_error(shape, qparams)


def _axis_error(shape: Sequence[int], qparams: QParams) -> str | None:
    axis = qparams.blocks[0][0]
    if axis >= len(shape):
        return "quantized dimension must be less than tensor rank"
    if shape[axis] not in (DYNAMIC_INDEX, qparams.count):
        return "quantized dimension size does not match number of scales"
    return None


def _block_error(shape: Sequence[int], qparams: QParams) -> str | None:
    rank = len(shape)
    for axis, size in qparams.blocks:
        if axis >= rank:
            return f"quantized dimension {axis} must be less than tensor rank {rank}"
        if shape[axis] != DYNAMIC_INDEX and shape[axis] % size:
            return (
                f"tensor dimension size {shape[axis]} at axis {axis} must be divisible by "
                f"the corresponding block size {size}"
            )
    if 0 in shape:
        return "tensor dimension size of zero is not allowed with sub-channel quantization"
    if len(qparams.grid) != rank:
        return f"Rank of scales {len(qparams.grid)} must match the rank of the tensor {rank}"
    sizes = dict(qparams.blocks)
    for axis, (extent, cells) in enumerate(zip(shape, qparams.grid, strict=True)):
        if axis not in sizes:
            expected = 1
        elif extent == DYNAMIC_INDEX:
            continue
        else:
            expected = extent // sizes[axis]
        if cells != expected:
            return (
                f"dimension size {expected} of scales tensor at axis {axis} should match "
                f"(tensor dimension at axis / block sizes at axis) = {expected}"
            )
    return None
