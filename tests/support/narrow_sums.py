"""Kernels of the interpreter that add up products as narrow accumulators do.

One product after the other is added, in integers that saturate or wrap; or neighboring products
of raw codes in pairs that saturate, as `vpmaddubsw` of x86 does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from qdialect.algebra.sums import SumType, to_signed
from qdialect.interpreter import Evaluation, Kernel
from qdialect.interpreter import contraction as exact
from qdialect.interpreter.real import Real
from qdialect.ir.ops import CONVOLUTIONS, FullyConnectedOp, MatMulOp
from qdialect.ir.quant import quant_element

Array = Any


def narrow_kernels(kind: SumType, wrong: Counter[str] | None = None) -> Mapping[str, Kernel]:
    """Kernels by op; `wrong` counts, by key of an op, the sums that differ from the exact ones."""
    found = Counter[str]() if wrong is None else wrong
    names = [op.name for op in (*CONVOLUTIONS, FullyConnectedOp, MatMulOp)]
    return {name: _narrow(exact.KERNELS[name], kind, found) for name in names}


def _narrow(kernel: Kernel, kind: SumType, wrong: Counter[str]) -> Kernel:
    def run(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> Sequence[Array]:
        elements = [quant_element(operand.type) for operand in op.operands[:2]]
        if None in elements:
            return kernel(op, operands, evaluation)
        on_left = not op.name.startswith("nn.conv")

        def product(a: Array, b: Array) -> Real:
            true = a @ b
            if kind.pair_bits is None:
                found = accumulated(a, b, kind)
            else:
                x, w = (element.data for element in elements if element is not None)
                above = (
                    x.zero_point - x.storage.full_range[0],
                    w.zero_point_list()[0] + to_signed(w.storage),
                )
                shifts = above if on_left else above[::-1]
                found = true + lost_in_pairs(a + shifts[0], b + shifts[1], kind.pair_bits)
            wrong[_key(op)] += int((found != true).sum())
            return Real.integers(found)

        held = exact.matrix_product
        exact.matrix_product = product
        try:
            return kernel(op, operands, evaluation)
        finally:
            exact.matrix_product = held

    return run


def _key(op: Operation) -> str:
    key = op.attributes.get("nn.key")
    return op.name if key is None else str(key)


def accumulated(a: Array, b: Array, kind: SumType) -> Array:
    """`a @ b`, one product after the other."""
    half = 2.0 ** (kind.bits - 1)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    total = np.zeros((*batch, a.shape[-2], b.shape[-1]))
    for k in range(a.shape[-1]):
        total = total + a[..., :, k, None] * b[..., None, k, :]
        if kind.saturating:
            total = np.clip(total, -half, half - 1)
        else:
            total = (total + half) % (2 * half) - half
    return total


def lost_in_pairs(a: Array, b: Array, bits: int) -> Array:
    """What saturation of sums of two products changes in `a @ b`, of raw codes."""
    half, lost = 2.0 ** (bits - 1), 0.0
    for k in range(0, a.shape[-1], 2):
        pair = sum(
            a[..., :, n, None] * b[..., None, n, :] for n in range(k, min(k + 2, a.shape[-1]))
        )
        lost = lost + np.clip(pair, -half, half - 1) - pair
    return lost
