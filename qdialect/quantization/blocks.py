"""Weights in blocks: a scale for every N numbers along the dimension that is summed.

    y = x @ dequantize(codes)

Scales that differ inside of a sum cannot be taken out of it, so there is no sum of integers:
the product stays float, and only its weights are codes. That is what people do to large
products whose weights do not fit the cache, in four bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from qdialect.behaviors import Behavior
from qdialect.numerics.float_text import round_to_format
from qdialect.numerics.weights import (
    positive_codes,
    quantized,
    symmetric_scales,
    zero_of,
)
from qdialect.ops import make_constant, shape_of
from qdialect.ops.keys import KEY
from qdialect.qparams import QParams, Storage
from qdialect.quant import DCastOp, UniformType, element_type
from qdialect.quantization.values import Values, codes_behind, real_array
from qdialect.rewrite import Refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray

WEIGHTS_ONLY = "weights-only"


def block_refusal(values: Values, op: Operation, behavior: Behavior) -> Refusal | None:
    """The reason for which an op stays float: its weights will be in blocks."""
    block = values.recipe.block
    if not block or _summed_axis(values, op, behavior) is None:
        return None
    return Refusal(
        WEIGHTS_ONLY, f"its weights are codes in blocks of {block}, without a sum of them"
    )


def _summed_axis(values: Values, op: Operation, behavior: Behavior) -> int | None:
    """The dimension of a constant matrix that is summed, if blocks divide it."""
    acc, size = behavior.accumulator, values.recipe.block
    if acc is None or codes_behind(op.operands[acc.rhs]) is not None:
        return None
    shape = shape_of(op.operands[acc.rhs])
    array = real_array(op.operands[acc.rhs], values.ctx.blobs)
    if array is None or len(shape) != 2 or not np.isfinite(array).all():
        return None
    axis = 1 - acc.rhs_axis(op) % 2
    return axis if shape[axis] % size == 0 else None


def write_blocks(values: Values, op: Operation, behavior: Behavior) -> None:
    """The weights of an op as dequantized codes."""
    axis, acc, block = _summed_axis(values, op, behavior), behavior.accumulator, op.parent
    assert axis is not None and acc is not None and block is not None
    old = op.operands[acc.rhs]
    array = real_array(old, values.ctx.blobs)
    assert array is not None
    params, codes = in_blocks(
        array,
        axis,
        values.recipe.block,
        Storage.of(values.recipe.weights),
        str(element_type(old.type)),
    )
    made = make_constant(codes, UniformType(params), values.ctx.blobs)
    assert isinstance(old.owner, Operation)
    if KEY in old.owner.attributes:
        made.attributes[KEY] = old.owner.attributes[KEY]
    real = DCastOp(made.result, old.type)
    made.location = real.location = old.owner.location
    block.insert_ops_before([made, real], op)
    op.operands[acc.rhs] = real.result


def in_blocks(
    array: NDArray[np.float64],
    axis: int,
    size: int,
    storage: Storage,
    expressed: str,
) -> tuple[QParams, NDArray[Any]]:
    """A matrix with a scale of least squared error for every `size` numbers along `axis`."""
    turned = np.moveaxis(array, axis, 1)
    count = turned.shape[1] // size
    rows = turned.reshape(-1, size)
    found = symmetric_scales(rows, positive_codes(storage), search=True)
    scales = np.array([round_to_format(float(scale) or 1.0, expressed) for scale in found])
    zero = zero_of(storage)
    codes = (
        np.moveaxis(quantized(rows, scales, positive_codes(storage)).reshape(turned.shape), 1, axis)
        + zero
    )
    width = max(8, storage.width)
    codes = codes.astype(np.dtype(f"{'i' if storage.signed else 'u'}{width // 8}"))
    grid = np.moveaxis(scales.reshape(turned.shape[0], count), 1, axis)
    blocks = [(dimension, size if dimension == axis else 1) for dimension in range(2)]
    params = QParams.blockwise(
        storage, blocks, grid.shape, grid.ravel().tolist(), [zero] * grid.size, expressed
    )
    return params, codes
