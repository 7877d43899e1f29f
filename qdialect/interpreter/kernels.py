"""The kernels by op name: of our own dialects, and of those that we read and write."""

from __future__ import annotations

from collections.abc import Mapping

from qdialect.interpreter import (
    attention,
    casts,
    contraction,
    dynamic,
    elementwise,
    indexing,
    interpolation,
    movement,
    normalization,
    ordering,
    pooling,
    recurrent,
    reduction,
)
from qdialect.interpreter.values import Kernel
from qdialect.plugins.linalg import interpreter as linalg
from qdialect.plugins.stablehlo.interpreter import functions as stablehlo
from qdialect.plugins.tflite.interpreter import nodes
from qdialect.plugins.tosa import interpreter as tosa

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
