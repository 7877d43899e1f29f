"""Windows that slide over the spatial dimensions of a tensor [N, C, spatial...]: where the
taps of each window read, and the elements that they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.declare import values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]


def pads(op: Operation) -> bool:
    """Whether windows reach outside the input."""
    return any(values(op)["pads"])


def taps(op: Operation, kernel: Sequence[int], out: Sequence[int] | None = None) -> list[Places]:
    """Where each tap of each window reads, [kernel, out] along each spatial dimension; `out` are
    the extents of the result where its type does not say them."""
    import numpy as np

    v, out = values(op), shape_of(op.results[0])[2:] if out is None else out
    return [
        np.arange(k)[:, None] * dilation + np.arange(n) * stride - pad
        for k, n, stride, dilation, pad in zip(
            kernel, out, v["strides"], v["dilations"], v["pads"][: len(out)], strict=True
        )
    ]


def transposed_taps(
    op: Operation, kernel: Sequence[int], out: Sequence[int] | None = None
) -> list[Places]:
    """The same for a transposed convolution; -1 where a tap meets no input element."""
    import numpy as np

    v, out = values(op), shape_of(op.results[0])[2:] if out is None else out
    result: list[Places] = []
    for d, (k, n) in enumerate(zip(kernel, out, strict=True)):
        places = np.arange(n) + v["pads"][d] - np.arange(k)[:, None] * v["dilations"][d]
        stride = v["strides"][d]
        result.append(np.where(places % stride == 0, places // stride, -1))
    return result


def windows(
    op: Operation, x: Any, taps: Sequence[Places], size: Sequence[int] | None = None
) -> tuple[Any, NDArray[np.bool_]]:
    """Windows [N, C, kernel..., out...] over x, and which of their elements are inside
    it ([kernel..., out...]; the others hold anything); `size` are the spatial extents of x where
    its type does not say them."""
    import numpy as np

    size = shape_of(op.operands[0])[2:] if size is None else size
    if 0 in size:
        raise ValueError("windows over an empty input")
    rank = len(size)
    mask: NDArray[np.bool_] = np.ones((1,) * (2 * rank), np.bool_)
    index: list[Places] = []
    for d, (places, extent) in enumerate(zip(taps, size, strict=True)):
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = places.shape
        mask = mask & ((places >= 0) & (places < extent)).reshape(shape)
        index.append(np.clip(places, 0, extent - 1).reshape(shape))
    return x[(slice(None), slice(None), *index)], mask
