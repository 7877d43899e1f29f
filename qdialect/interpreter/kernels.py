"""The kernels of our own dialects by op name."""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.interpreter import (
    casts,
    contraction,
    elementwise,
    movement,
    normalization,
    pooling,
)
from qdialect.interpreter.values import Kernel

DEFAULT_KERNELS: Mapping[str, Kernel] = {
    **casts.KERNELS,
    **contraction.KERNELS,
    **elementwise.KERNELS,
    **movement.KERNELS,
    **normalization.KERNELS,
    **pooling.KERNELS,
}
