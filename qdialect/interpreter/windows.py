"""Sliding windows over the last two dimensions of NCHW arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.dialects.nn.shapes import window_shape

Array = NDArray[Any]


def windows(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    fill: Any,
    ceil_mode: bool = False,
) -> Array:
    """Windows as a read-only view [N, C, kernel H, kernel W, out H, out W].

    `pads` (top, left, bottom, right) are filled with `fill`, and so is what a last
    window of `ceil_mode` reads beyond them.
    """
    out = window_shape(x.shape[2:], kernel, strides, pads, dilations, ceil_mode)
    widths = [(0, 0), (0, 0)]
    for d in range(2):
        reach = (out[d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1
        after = max(pads[d + 2], reach - x.shape[d + 2] - pads[d])
        widths.append((pads[d], after))
    if any(map(any, widths)):
        x = np.pad(x, widths, constant_values=fill)
    sn, sc, sh, sw = x.strides
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:2], kernel[0], kernel[1], *out),
        (sn, sc, sh * dilations[0], sw * dilations[1], sh * strides[0], sw * strides[1]),
        writeable=False,
    )
