"""What the op computes, for the interpreter of qdialect: `--verify-numerics` compares with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdialect.interpreter import Evaluation, evaluate_op
from qdialect.ir.ops import Conv2DOp
from qdialect.ir.quant import ARITHMETIC_KEY, arithmetic_of, quant_element
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation


def conv_relu(
    op: Operation, operands: Sequence[NDArray[Any]], evaluation: Evaluation
) -> list[NDArray[Any]]:
    """The larger of the convolution and 0.

    Rounding and saturation are monotone, and 0 has a code: so codes may be compared.
    """
    (kind,) = op.result_types
    strides, pads = op.properties["strides"], op.properties["pads"]
    conv = Conv2DOp(*op.operands, strides=strides, pads=pads, result_types=[kind])
    # The module says in which arithmetic its ops on codes are defined: reals, or floats as in ONNX.
    conv.attributes[ARITHMETIC_KEY] = StringAttr(arithmetic_of(op).value)
    (sums,) = evaluate_op(conv, operands, evaluation.ctx, evaluation.floats)
    element = quant_element(kind)
    zeros = [0] if element is None else element.qparams.zero_point_list()  # one, or by channel
    return [np.maximum(sums, np.array(zeros, sums.dtype).reshape(1, -1, 1, 1))]
