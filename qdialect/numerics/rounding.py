"""How a real number becomes an integer."""

from __future__ import annotations

from enum import Enum


class Rounding(str, Enum):
    """Rounding to the nearest integer; the modes differ in ties.

    `HALF_EVEN`: ties to the even neighbour (ONNX, IEEE 754).  `HALF_AWAY`: ties
    away from zero.  `HALF_UP`: ties towards plus infinity (TOSA single round).
    `GEMMLOWP`: the two-stage fixed-point rounding of TFLite (TOSA double round).
    `RECIPROCAL`: half to even of x * fl(1 / scale) in floats, where the others round
    x / scale (PyTorch); exact numbers it rounds half to even.
    """

    HALF_EVEN = "half_even"
    HALF_AWAY = "half_away"
    HALF_UP = "half_up"
    GEMMLOWP = "gemmlowp"
    RECIPROCAL = "reciprocal"

    @property
    def in_reals(self) -> Rounding:
        """How it rounds an exact number: what a reciprocal loses, only floats lose."""
        return Rounding.HALF_EVEN if self is Rounding.RECIPROCAL else self
