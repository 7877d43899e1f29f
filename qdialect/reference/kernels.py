"""The kernels by op name: of our own dialects, and of those that we read and write."""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.reference import (
    attention,
    casts,
    contraction,
    dynamic,
    elementwise,
    indexing,
    interpolation,
    linalg,
    movement,
    normalization,
    ordering,
    pooling,
    recurrent,
    reduction,
    tosa,
)
from qdialect.reference.litert import nodes
from qdialect.reference.stablehlo import functions as stablehlo
from qdialect.reference.values import Kernel

DEFAULT_KERNELS: Mapping[str, Kernel] = {
    **attention.KERNELS,
    **recurrent.KERNELS,
    **casts.KERNELS,
    **contraction.KERNELS,
    **dynamic.KERNELS,
    **elementwise.KERNELS,
    **indexing.KERNELS,
    **interpolation.KERNELS,
    **movement.KERNELS,
    **normalization.KERNELS,
    **ordering.KERNELS,
    **pooling.KERNELS,
    **reduction.KERNELS,
    **linalg.KERNELS,
    **tosa.KERNELS,
    **stablehlo.KERNELS,
    **nodes.KERNELS,
}
