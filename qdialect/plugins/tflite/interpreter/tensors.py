"""What LiteRT's kernels read of a quantized tensor: codes, zero points, scales in float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.interpreter.quantize import spread
from qdialect.interpreter.values import Array, storage_dtype
from qdialect.ir.ops.base import KERNEL_ORDER
from qdialect.ir.quant import quant_element


@dataclass(frozen=True)
class Quantized:
    """The qparams of a value. Scales and zero points broadcast to the tensor."""

    qparams: QParams
    rank: int

    @property
    def scale(self) -> NDArray[np.float32]:
        """The scales as the file has them."""
        values = self.qparams.scale_array().astype(np.float32)
        return spread(self.qparams, values, self.rank)

    @property
    def wide_scale(self) -> NDArray[np.float64]:
        """The scales of the file, as doubles."""
        return self.scale.astype(np.float64)

    @property
    def zero(self) -> NDArray[np.int64]:
        """The zero points."""
        return spread(self.qparams, self.qparams.zero_point_array(), self.rank)

    @property
    def code_type(self) -> str:
        """`i8`, `u8`, `i16` ...: the type of codes."""
        return self.qparams.storage.spelling

    def offsets(self, codes: Array) -> NDArray[np.int64]:
        """Codes less zero points."""
        return codes.astype(np.int64) - self.zero

    def codes(self, steps: NDArray[np.int64]) -> Array:
        """Steps plus the zero point as codes, those beyond the storage saturated."""
        storage = self.qparams.storage
        codes = np.clip(steps + self.zero, storage.min, storage.max)
        return codes.astype(storage_dtype(storage))


def quantized(value: SSAValue, array_rank: int) -> Quantized | None:
    """The qparams of a value whose codes are integers; None of any other."""
    element = quant_element(value.type)
    if element is None or element.qparams.storage.is_float:
        return None
    if element.qparams.storage.quantile is not None:
        return None
    return Quantized(element.qparams, array_rank)


def all_quantized(op: Operation, operands: Sequence[Array], rank: int) -> list[Quantized] | None:
    """The qparams of all operands and of the one result, of `rank`; None if any has none."""
    values: list[Any] = [*op.operands, op.results[0]]
    ranks = [*(operand.ndim for operand in operands), rank]
    found = [quantized(value, n) for value, n in zip(values, ranks, strict=True)]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def file_order(op: Operation, rank: int) -> list[int]:
    """The dimensions of the result in the order in which the file has them."""
    declared = op.attributes.get(KERNEL_ORDER)
    if not isinstance(declared, DenseArrayBase):
        return list(range(rank))
    return [int(d) for d in cast("DenseArrayBase[IntegerType]", declared).get_values()]


def in_order(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """A shape, or one that is broadcast to it, in the order of the file."""
    full = (1,) * (len(order) - len(shape)) + tuple(shape)
    return tuple(full[d] for d in order)


def whole_vectors(shape: tuple[int, ...], run: int, length: int) -> NDArray[np.bool_]:
    """Whether each element lies in a whole vector of `length` of its run of memory."""
    places = np.arange(prod(shape)) % max(run, 1)
    return (places < run // length * length).reshape(shape)


def in_vectors(op: Operation, shape: tuple[int, ...], length: int) -> NDArray[np.bool_]:
    """Whether SIMD of `length` elements computes each element of a result, in our order."""
    order = file_order(op, len(shape))
    places = whole_vectors(in_order(shape, order), prod(shape), length)
    return places.transpose(np.argsort(order))
