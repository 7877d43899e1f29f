"""Kernels of reductions.

Maxima and minima are of floats or stored integers. Sums and means without quantized
types are taken in the type of the operand (f16 and bf16 in f32, rounded once); with
them they are exact and stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from xdsl.ir import Operation

from qdialect.interpreter.codes import ordered, unordered
from qdialect.interpreter.contraction import factor
from qdialect.interpreter.quantize import is_quantized, plain, properties, stored, widened
from qdialect.interpreter.real import Real, total
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir import ops as nn
from qdialect.ir.quant import quant_element


def _axes(op: Operation, x: Array) -> tuple[int, ...]:
    axes: tuple[int, ...] = properties(op)["axes"]
    return tuple(axis % x.ndim for axis in axes)


def _extremum(reduce: Callable[..., Array]) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        x, keep = operands[0], properties(op)["keepdims"]
        axes = _axes(op, x)
        element = quant_element(op.operands[0].type)
        if element is None:
            return [np.asarray(reduce(x, axis=axes, keepdims=keep))]
        storage = element.qparams.storage
        ranks = np.asarray(reduce(ordered(x, storage), axis=axes, keepdims=keep))
        return [unordered(ranks, storage, x.dtype)]

    return kernel


def _sum(mean: bool) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        x, keep = operands[0], properties(op)["keepdims"]
        axes = _axes(op, x)
        if not is_quantized(op):
            wide = widened(x)
            reduced = wide.mean(axes, keepdims=keep) if mean else wide.sum(axes, keepdims=keep)
            return plain(op, np.asarray(reduced), evaluation)
        steps, scales = factor(op, 0, x, axes)
        ends = tuple(range(x.ndim - len(axes), x.ndim))
        rows = np.moveaxis(steps, axes, ends)
        count = prod(x.shape[axis] for axis in axes)
        thin = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
        sums = total(rows.reshape(*(x.shape[d] for d in range(x.ndim) if d not in axes), 1, count))
        y = sums.reshape(thin or (1,)) * Real.floats(scales.reshape(scales.shape or (1,)))
        if mean:
            y = y / Real.integers(np.array(count))
        shape = thin if keep else tuple(n for d, n in enumerate(x.shape) if d not in axes)
        (result,) = stored(op, y.reshape(shape or (1,)), evaluation)
        return [result.reshape(shape)]

    return kernel


largest, smallest = _extremum(np.max), _extremum(np.min)

KERNELS: Mapping[str, Kernel] = {
    nn.ReduceMaxOp.name: largest,
    nn.ReduceMinOp.name: smallest,
    nn.ReduceMeanOp.name: _sum(mean=True),
    nn.ReduceSumOp.name: _sum(mean=False),
}
