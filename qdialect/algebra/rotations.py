"""Rotations that spread what is in one channel over all of them; pure numbers.

A vector whose largest element is far above the others has a coarse grid.  Multiplied by an
orthogonal matrix of elements of one size it keeps its length and has elements of about one size
(QuIP#: Tseng et al., 2024; QuaRot: Ashkboos et al., 2024).  Matrices of Hadamard are so for powers
of two, and of other sizes n = m * 2^k

    R = (Q (x) H) diag(d)      H of 2^k, Q a random rotation of the odd m, d random signs

mixes every channel with every other too.

Where means have to stay, as those of a layer norm, R 1 = 1.  A reflection (Householder, 1958) takes
the image of the vector of ones back to it:

    R' = (I - 2 w w^T / w^T w) R      w = R 1 - 1

and as w has elements of about one size it leaves those of R so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def hadamard(size: int) -> Array:
    """Sylvester's matrix of elements +-1 / sqrt(size), its own inverse; ValueError unless the size
    is a power of two."""
    if size < 1 or size & (size - 1):
        raise ValueError(f"expects a power of two, not {size}")
    made = np.ones((1, 1))
    while len(made) < size:
        made = np.block([[made, made], [made, -made]])
    return made / np.sqrt(size)


def random_rotation(size: int, random: np.random.Generator) -> Array:
    """An orthogonal matrix [size, size] as above."""
    power = size & -size
    odd = np.linalg.qr(random.normal(size=(size // power, size // power)))[0]
    signs = random.choice(np.array([-1.0, 1.0]), size)
    return np.asarray(np.kron(odd, hadamard(power)) * signs, np.float64)


def rotation_keeping_ones(size: int, random: np.random.Generator) -> Array:
    """An orthogonal matrix [size, size] whose rows and columns have the sum 1."""
    made = random_rotation(size, random)
    normal = made.sum(axis=1) - 1
    length = normal @ normal
    # Of a normal of zero length up to rounding there is nothing to take back.
    if length < 1e-12:
        return made
    return np.asarray(made - 2 * np.outer(normal, normal @ made) / length, np.float64)
