"""Dequantized values element by element, from the definition of the layouts."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute

from qdialect.dialects.quant import quant_element


def dequantize(stored: np.ndarray, kind: Attribute) -> np.ndarray:
    """(q - zero point) * scale, per tensor or per axis, in float64."""
    element = quant_element(kind)
    assert element is not None
    qparams = element.qparams
    scales, zeros = qparams.scale_list(), qparams.zero_point_list()
    result = np.empty(stored.shape)
    for index in np.ndindex(stored.shape):
        cell = 0 if qparams.axis is None else index[qparams.axis]
        if qparams.blocks and qparams.axis is None:
            blocks = dict(qparams.blocks)
            at = [index[d] // blocks[d] if d in blocks else 0 for d in range(stored.ndim)]
            cell = int(np.ravel_multi_index(at, qparams.grid))
        result[index] = (int(stored[index]) - zeros[cell]) * scales[cell]
    return result
