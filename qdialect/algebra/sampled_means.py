"""Means of few samples, drawn to zero as far as the samples leave them in doubt.

Of n numbers with mean m and variance v the mean has a standard error of sqrt(v / n).  To take m
for the mean M of all there are is wrong by v / n in square, to take zero by M^2; the multiple of m
that is least wrong is m M^2 / (M^2 + v / n) (Wiener).  M is not known, and m^2 is larger than M^2,
the more so the less is known: so

    m m^2 / (m^2 + d^2 v / n)        with d standard errors that are in doubt
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.algebra.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DOUBT = 2.0


def drawn_to_zero(mean: Array, squares: Array, count: int, doubt: float = DOUBT) -> Array:
    """Means of `count` samples each, of which the squares have the means `squares`; one sample says
    nothing of its error, and is taken as it is."""
    variance = np.maximum(squares - np.square(mean), 0.0)
    error = doubt**2 * variance / max(count - 1, 1)
    power = np.square(mean)
    return mean * np.divide(power, power + error, out=np.zeros_like(mean), where=power > 0)
