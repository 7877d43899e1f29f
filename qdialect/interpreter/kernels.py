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
from qdialect.plugin import named, plugins


def _late(where: str) -> Kernel:
    return lambda op, operands, evaluation: named(where)(op, operands, evaluation)


KEPT_NODES: Mapping[str, Kernel] = {
    name: _late(where) for plugin in plugins() for name, where in plugin.kept.items()
}
"""Kernels of what is kept of models without being understood."""

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
    **{
        name: kernel
        for plugin in plugins()
        for table in plugin.kernels
        for name, kernel in named(table).items()
    },
}
