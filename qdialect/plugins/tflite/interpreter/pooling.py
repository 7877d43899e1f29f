"""What LiteRT computes for pools of codes: on the codes alone, whatever the qparams are.

    average   sign(S) * floor((|S| + floor(n / 2)) / n), S the sum of the n codes inside the input
    maximum   the largest code

The mean rounds half away from code 0, not from real 0, so that ties depend on the zero point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import Operation

from qdialect.interpreter.pooling import max_pool, window_counts
from qdialect.interpreter.quantize import properties
from qdialect.interpreter.values import Array, Evaluation
from qdialect.interpreter.windows import windows
from qdialect.ir import ops as nn
from qdialect.plugins.tflite.interpreter.tensors import all_quantized

if TYPE_CHECKING:
    from qdialect.plugins.tflite.interpreter import Row


def _average(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array] | None:
    """The mean of the codes in each window."""
    x = operands[0]
    known = all_quantized(op, operands, x.ndim)
    v = properties(op)
    if known is None or v["count_include_pad"]:
        return None
    of = [v[name] for name in ("kernel", "strides", "pads", "dilations")]
    view = windows(x.astype(np.int64), of[0], of[1], of[2], of[3], 0, v["ceil_mode"])
    out = view.shape[x.ndim :]
    counts = np.maximum(window_counts(op, x.shape[2:], out), 1)
    return [_mean(view.sum(axis=tuple(range(2, x.ndim))), counts).astype(x.dtype)]


def _mean(sums: Array, counts: Array) -> Array:
    return np.sign(sums) * ((np.abs(sums) + counts // 2) // counts)


def _maximum(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array] | None:
    if all_quantized(op, operands, operands[0].ndim) is None:
        return None
    return max_pool(op, operands, evaluation)


_TABLE: Mapping[str, Row] = {
    **{kind.name: _average for kind in nn.AVERAGE_POOLS},
    **{kind.name: _maximum for kind in nn.MAX_POOLS},
}

ROWS: Mapping[str, Mapping[str, Row]] = dict.fromkeys(
    ("litert-ref", "litert-opt", "litert-xnn"), _TABLE
)
"""The rows of this file. XNNPACK averages no codes."""
