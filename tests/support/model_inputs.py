"""Random inputs of a model in an engine's process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.plugins.tflite.engine import Port

_OPEN = 1
"""What an extent is that only a run tells."""


def random_arrays(
    ports: Sequence[Port], seed: int = 0, *, extent: int = _OPEN
) -> list[NDArray[Any]]:
    """Random numbers for inputs: any codes of 8 and 16 bits, floats in [-1, 1], and 0 or 1 where
    integers are wide, which are indices into nearly anything. Extents that only a run tells are
    `extent`."""
    rng = np.random.default_rng(seed)
    arrays: list[NDArray[Any]] = []
    for port in ports:
        shape = [extent if n == -1 else n for n in port.signature]
        dtype = np.dtype("float32" if port.type == "bfloat16" else port.type)
        if dtype.kind == "f":
            array = rng.uniform(-1, 1, shape).astype(dtype)
        elif dtype.kind in "iu" and dtype.itemsize <= 2:
            limits = np.iinfo(dtype)
            array = rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
        else:
            array = rng.integers(0, 1, shape, endpoint=True).astype(dtype)
        arrays.append(array)
    return arrays
