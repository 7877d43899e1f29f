"""Rescales as their source defines them: in exact arithmetic, or in floats, op by op.

A quantized op of an ONNX model is DequantizeLinear, a float op and QuantizeLinear, each rounded
to the expressed type; of a module on codes it is one function in the reals, rounded once.  With
s = 2 max / 255 the largest value of a tensor lies on a tie in float32 where it does not in the
reals, so rules decide on the codes that their source gives.  The parameter `floats` is the
expressed type of such a model, or None for exact arithmetic.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

from qdialect.algebra import requantize as exact
from qdialect.algebra.float_path import codes_of_floats, requantize_floats
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.rounding import Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.requantize import Codes, QuantGrid


UNROUNDED = frozenset({"f16"})
"""Types of floats that ONNX Runtime computes in f32, rounding between some ops only; those of bf16
and of f64 have kernels of their own, or none."""


class Arithmetic(Enum):
    """In which arithmetic the quantized ops of a module are defined."""

    REAL = "real"
    EXPRESSED = "expressed"

    def floats(self, expressed: str) -> str | None:
        """The floats that ops on values of this expressed type compute in; None: the reals."""
        return expressed if self is Arithmetic.EXPRESSED else None


def requantized(
    codes: NDArray[Any],
    a: QuantGrid,
    b: QuantGrid,
    rounding: Rounding,
    floats: str | None,
) -> Codes:
    """Codes of `a` as codes of `b`."""
    if floats is None:
        return exact.requantize(codes, a, b, rounding)
    return requantize_floats(codes.astype(np.int64, copy=False), a, b, floats, rounding)


def table(a: QuantGrid, b: QuantGrid, rounding: Rounding, floats: str | None) -> Codes:
    """The rescale a -> b as an array indexed by q - a.low; read-only."""
    return exact.table(a, b, rounding) if floats is None else _table(a, b, rounding, floats)


@lru_cache(maxsize=256)
def _table(a: QuantGrid, b: QuantGrid, rounding: Rounding, floats: str) -> Codes:
    result = requantized(exact.codes_of(a), a, b, rounding, floats)
    result.flags.writeable = False
    return result


def composes(
    a: QuantGrid,
    b: QuantGrid,
    c: QuantGrid,
    first: Rounding,
    second: Rounding,
    floats: str | None,
) -> bool:
    """Whether a -> b -> c equals a -> c (rounding `second`) on every code of `a`."""
    if floats is None:
        return exact.composes(a, b, c, first, second)
    middle = table(a, b, first, floats)
    return np.array_equal(requantized(middle, b, c, second, floats), table(a, c, second, floats))


def is_real(a: QuantGrid, b: QuantGrid, rounding: Rounding, floats: str | None) -> bool:
    """Whether a -> b is on all codes what it is in the reals; False if these are too many."""
    if floats is None:
        return True
    few = a.high - a.low < 1 << exact.TABLE_WIDTH
    return few and np.array_equal(table(a, b, rounding, floats), exact.table(a, b, rounding))


def is_lossless(a: QuantGrid, b: QuantGrid, floats: str | None) -> bool:
    """Whether every code of `a` names the same number after a -> b."""
    return exact.is_lossless(a, b) and is_real(a, b, Rounding.HALF_EVEN, floats)


def keeps_distinct(a: QuantGrid, b: QuantGrid, rounding: Rounding, floats: str | None) -> bool:
    """Whether a -> b maps different codes of `a` to different codes."""
    if floats is None:
        return exact.keeps_distinct(a, b, rounding)
    few = a.high - a.low < 1 << exact.TABLE_WIDTH
    return few and bool((np.diff(table(a, b, rounding, floats)) > 0).all())


def quantized(value: float, b: QuantGrid, rounding: Rounding, floats: str | None) -> int:
    """The code of one number, which floats of that type hold; infinities saturate."""
    if floats is None or value in (0, inf, -inf):
        return exact.quantize_real(value, b, rounding)
    return int(codes_of_floats(np.array([value]), b, floats, rounding)[0])
