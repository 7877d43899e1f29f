"""Ops whose operands and results are codes with one scale and zero point each.

A row made by `codes_row` computes the codes of the one result from codes; for other types the row
says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import Layout, QParams
from qdialect.interpreter.values import Array, Evaluation, storage_dtype
from qdialect.plugins.tflite.interpreter import Row
from qdialect.plugins.tflite.interpreter.tensors import quantized

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Codes:
    """The qparams of a tensor: one scale, in f32 as files have it, and one zero point."""

    qparams: QParams

    @property
    def scale(self) -> np.float32:
        """The scale."""
        return np.float32(self.qparams.scale_array().reshape(-1)[0])

    @property
    def zero(self) -> int:
        """The zero point."""
        return int(self.qparams.zero_point_array().reshape(-1)[0])

    @property
    def low(self) -> int:
        """The lowest code."""
        return self.qparams.storage.min

    @property
    def high(self) -> int:
        """The highest code."""
        return self.qparams.storage.max

    @property
    def type(self) -> str:
        """`i8`, `u8`, `i16`: the type of codes."""
        return self.qparams.storage.spelling

    @property
    def all(self) -> Integers:
        """Every code, in order."""
        return np.arange(self.low, self.high + 1, dtype=np.int64)

    def steps(self, codes: Array) -> Integers:
        """Codes less the zero point."""
        return codes.astype(np.int64) - self.zero

    def saturated(self, codes: Any) -> Array:
        """Integers as codes, those beyond the storage saturated."""
        return np.clip(codes, self.low, self.high).astype(storage_dtype(self.qparams.storage))


def codes_of(value: SSAValue) -> Codes | None:
    """The qparams of a value; None where they are not one scale and integer codes."""
    found = quantized(value, 0)
    if found is None or found.qparams.layout is not Layout.TENSOR:
        return None
    return Codes(found.qparams)


Compute = Callable[[Operation, Sequence[Array], Sequence[Codes]], Any]
"""Computes codes of the result, which may be beyond its storage, from operands and the qparams
of operands and of the result."""


def codes_row(compute: Compute, *types: str) -> Row:
    """The row of an op of one result whose first operand and result have one of `types`."""

    def row(
        op: Operation, operands: Sequence[Array], evaluation: Evaluation
    ) -> Sequence[Array] | None:
        found = [codes_of(value) for value in (*op.operands, op.results[0])]
        known = [one for one in found if one is not None]
        if len(known) != len(found) or known[0].type not in types or known[-1].type not in types:
            return None
        return [known[-1].saturated(compute(op, operands, known))]

    return row
