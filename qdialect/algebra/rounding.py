"""How a real number becomes an integer."""

from __future__ import annotations

from enum import Enum


class Rounding(str, Enum):
    """Rounding to the nearest integer; the modes differ in ties.

    `HALF_EVEN`: ties to the even neighbour (ONNX, IEEE 754).  `HALF_AWAY`: ties
    away from zero.  `HALF_UP`: ties towards plus infinity (TOSA single round).
    `GEMMLOWP`: the two-stage fixed-point rounding of TFLite (TOSA double round): half up to
    31 bits, then half away from zero.  `RUY`: that of its optimized kernels, twice half up.
    `RECIPROCAL`: half to even of x * fl(1 / scale) in floats, where the others round
    x / scale (PyTorch); exact numbers it rounds half to even.
    """

    HALF_EVEN = "half_even"
    HALF_AWAY = "half_away"
    HALF_UP = "half_up"
    GEMMLOWP = "gemmlowp"
    RUY = "ruy"
    RECIPROCAL = "reciprocal"

    @property
    def two_stage(self) -> bool:
        """Whether it rounds a product by a multiplier and a shift twice: then it is no rounding
        of real numbers."""
        return self in (Rounding.GEMMLOWP, Rounding.RUY)

    @property
    def in_reals(self) -> Rounding:
        """How it rounds an exact number: what a reciprocal loses, only floats lose."""
        return Rounding.HALF_EVEN if self is Rounding.RECIPROCAL else self
