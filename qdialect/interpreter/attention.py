"""The kernel of scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect.interpreter.quantize import is_quantized, load, plain, properties, stored, widened
from qdialect.interpreter.real import Real
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir import ops as nn


def _attention(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """softmax(scale * q @ k^T + mask) @ v; in float64 with quantized types."""
    if is_quantized(op):
        reals = [load(v, o.type).approx for v, o in zip(operands, op.operands, strict=True)]
        return stored(op, Real.floats(_attended(op, reals)), evaluation)
    return plain(op, _attended(op, [np.asarray(widened(v)) for v in operands]), evaluation)


def _attended(op: Operation, arrays: Sequence[Array]) -> Array:
    query, key, value, *mask = arrays
    scores: Array = (query @ np.swapaxes(key, 2, 3)) * query.dtype.type(properties(op)["scale"])
    if mask:
        scores = scores + mask[0]
    # A row that is masked throughout has no largest score to take off.
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights: Array = np.exp(scores - np.maximum(top, np.finfo(scores.dtype).min))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ value


KERNELS: Mapping[str, Kernel] = {nn.AttentionOp.name: _attention}
