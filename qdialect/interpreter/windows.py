"""Sliding windows over the spatial dimensions of arrays [N, C, spatial...]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.ir.ops.shapes import window_shape

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
    """Windows as a read-only view [N, C, kernel..., out...].

    `pads` (all begins, then all ends) are filled with `fill`, and so is what a last
    window of `ceil_mode` reads beyond them.
    """
    rank = len(kernel)
    out = window_shape(x.shape[2:], kernel, strides, pads, dilations, ceil_mode)
    widths = [(0, 0), (0, 0)]
    for d in range(rank):
        reach = (out[d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1
        after = max(pads[d + rank], reach - x.shape[d + 2] - pads[d])
        widths.append((pads[d], after))
    if any(map(any, widths)):
        x = np.pad(x, widths, constant_values=fill)
    batch, spatial = x.strides[:2], x.strides[2:]
    taps = [n * d for n, d in zip(spatial, dilations, strict=True)]
    steps = [n * s for n, s in zip(spatial, strides, strict=True)]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:2], *kernel, *out),
        (*batch, *taps, *steps),
        writeable=False,
    )


def stretched(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
) -> Array:
    """What a transposed convolution slides its mirrored kernel over by steps of one:
    zeros between the elements of x, and around them as far as the kernel reaches."""
    rank = len(kernel)
    size = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], strides, strict=True)]
    low = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    extents = [
        n + 2 * reach + more for n, reach, more in zip(size, low, output_padding, strict=True)
    ]
    result = np.zeros((*x.shape[:2], *extents), x.dtype)
    places = [slice(first, first + n, s) for first, n, s in zip(low, size, strides, strict=True)]
    result[(..., *places)] = x
    inner = [slice(pads[d], extents[d] - pads[d + rank]) for d in range(rank)]
    return result[(..., *inner)]
