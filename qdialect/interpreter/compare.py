"""How far two runs of the same function are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute

from qdialect.errors import InputError
from qdialect.interpreter.codes import codes_of, is_coded
from qdialect.interpreter.quantize import load
from qdialect.interpreter.values import Array
from qdialect.ir.quant import element_type, quant_element


@dataclass(frozen=True)
class Difference:
    """Two tensors of one type, the first being the reference.

    `max_steps`: largest distance in quantization steps for a quantized type (in places
    among the different numbers, ascending, for storage of floats and with a table, where
    codes of one number are equal), in units in the last place for a float type, in units
    for integers (infinite when one is NaN or infinite and the other is not).
    `max_abs`: the same in real units.
    `share_differing`: of elements that are not equal. `sqnr_db`: 10 log10 of
    reference power over power of the difference in real units (infinite when equal).
    `first_index`: of the first differing element in row-major order.
    """

    max_steps: float
    max_abs: float
    share_differing: float
    sqnr_db: float
    first_index: tuple[int, ...] | None

    @property
    def is_equal(self) -> bool:
        """Whether no element differs."""
        return self.first_index is None


def compare(a: Array, b: Array, type: Attribute) -> Difference:
    """How far `b` is from the reference `a`, both runtime values of an IR type.

    NaN equals NaN, and 0 equals -0. InputError when the shapes differ.
    """
    if a.shape != b.shape:
        raise InputError(f"cannot compare shapes {list(a.shape)} and {list(b.shape)}")
    places = _places(a, type), _places(b, type)
    differing = (places[0] != places[1]) & ~((places[0] != places[0]) & (places[1] != places[1]))
    if not differing.any():
        return Difference(0.0, 0.0, 0.0, math.inf, None)
    first = tuple(int(i) for i in np.argwhere(differing)[0])
    real_a, real_b = load(a, type).approx, load(b, type).approx
    with np.errstate(all="ignore"):
        distance = np.where(differing, np.abs(real_a - real_b), 0.0)
        distance = np.where(np.isnan(distance), np.inf, distance)
        steps = np.where(differing, _steps(*places, type), 0.0)
        steps = np.where(np.isnan(steps), np.inf, steps)
        sqnr = 10 * np.log10(np.sum(np.square(real_a)) / np.sum(np.square(distance)))
    return Difference(
        float(steps.max()),
        float(distance.max()),
        float(differing.mean()),
        float(sqnr),
        first,
    )


def compare_all(
    a: Sequence[Array], b: Sequence[Array], types: Sequence[Attribute]
) -> list[Difference]:
    """`compare` result by result; InputError when their numbers differ."""
    if not len(a) == len(b) == len(types):
        raise InputError(f"cannot compare {len(a)} and {len(b)} results of {len(types)} types")
    return [compare(x, y, kind) for x, y, kind in zip(a, b, types, strict=True)]


def _places(values: Array, type: Attribute) -> Array:
    """Stored codes that are not integers as their places in the order of numbers."""
    element = quant_element(type)
    if element is None or not is_coded(element.qparams.storage):
        return values
    return codes_of(element.qparams.storage).steps(values)


def _steps(a: Array, b: Array, type: Attribute) -> NDArray[np.float64]:
    if quant_element(type) is not None or a.dtype.kind in "iub":
        return np.abs(a.astype(np.float64) - b.astype(np.float64))
    ranks = _rank(a, str(element_type(type))), _rank(b, str(element_type(type)))
    finite = np.isfinite(a) & np.isfinite(b)
    return np.where(finite, np.abs(ranks[0] - ranks[1]), np.inf)


def _rank(values: NDArray[np.floating[Any]], name: str) -> NDArray[np.float64]:
    """The number of floats of the array's format between 0 and each value, signed."""
    width = values.dtype.itemsize
    bits = values.view(f"i{width}").astype(np.int64)
    low = np.int64(np.iinfo(f"i{width}").min)
    ranks = np.where(bits < 0, low - bits, bits)
    # bf16 is held as float32, whose last 16 bits it does not have.
    return ranks.astype(np.float64) / (1 << 16 if name == "bf16" and width == 4 else 1)
