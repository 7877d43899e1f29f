"""Random inputs for a function, reproducible from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from qdialect.algebra.qparams import QParams
from qdialect.errors import InputError
from qdialect.interpreter.codes import codes_of, is_coded
from qdialect.interpreter.quantize import field
from qdialect.interpreter.values import Array, Floats, as_float, declared_shape, runtime_dtype
from qdialect.ir.ops.locations import op_where
from qdialect.ir.ops.shapes import DYNAMIC, Shape
from qdialect.ir.quant import quant_element

MOST = 1 << 26
"""Elements of all arguments together."""
_SHARE = 0.5
"""Share of elements that `boundary` draws from the special values."""


def random_inputs(
    func: FuncOp,
    seed: int,
    boundary: bool = False,
    *,
    floats: Floats = "ieee",
    shapes: Sequence[Shape] | None = None,
) -> list[Array]:
    """One array per argument, in order; the same for the same seed and signature.

    Stored integers are uniform in the storage bounds, codes among those that may be
    stored (none is NaN), floats normal, integers
    uniform in [-8, 8] (or [0, 8] without sign). With `boundary` half of the elements
    are special instead: storage bounds, zero point and their neighbours; for floats
    0, -0 and values from 1e-3 to 1e6. `shapes` are those of the arguments; without them
    unknown extents are 1. InputError (`too-large`) for more than `MOST` elements.
    """
    rng = np.random.default_rng(seed)
    kinds = func.function_type.inputs.data
    if shapes is None:
        shapes = [tuple(1 if n == DYNAMIC else n for n in declared_shape(kind)) for kind in kinds]
    if sum(map(prod, shapes)) > MOST:
        raise InputError(
            f"the arguments of '{func.sym_name.data}' have {sum(map(prod, shapes)):.3g} elements; "
            f"inputs of at most {MOST:.3g} are drawn",
            where=op_where(func),
            code="too-large",
        )
    return [
        _draw(rng, kind, boundary, floats, shape) for kind, shape in zip(kinds, shapes, strict=True)
    ]


def _draw(
    rng: np.random.Generator,
    kind: Attribute,
    boundary: bool,
    floats: Floats,
    shape: Shape,
) -> Array:
    dtype, element = runtime_dtype(kind, floats), quant_element(kind)
    if element is not None:
        storage = element.qparams.storage
        if is_coded(storage):
            return _draw_codes(rng, element.qparams, shape, boundary).astype(dtype)
        values = rng.integers(storage.min, storage.max, shape, np.int64, endpoint=True)
        if boundary:
            zero = np.broadcast_to(field(element.qparams, shape)[1], shape)
            special = [storage.min, storage.min + 1, storage.max - 1, storage.max, 0, 0, 0]
            offset = [0, 0, 0, 0, -1, 0, 1]
            which = rng.integers(0, len(special), shape)
            near_zero = zero + np.array(offset)[which]
            chosen = np.where(which < 4, np.array(special)[which], near_zero)
            chosen = np.clip(chosen, storage.min, storage.max)
            values = np.where(rng.random(shape) < _SHARE, chosen, values)
        return values.astype(dtype)
    if dtype.kind == "f":
        reals: NDArray[Any] = rng.normal(size=shape)
        if boundary:
            special = np.array([0.0, -0.0, 1e-3, -1e-3, 1.0, -1.0, 0.5, 1e6, -1e6])
            chosen = special[rng.integers(0, special.size, shape)]
            reals = np.where(rng.random(shape) < _SHARE, chosen, reals)
        return as_float(reals, kind, floats)
    low = -8 if dtype.kind == "i" else 0
    return rng.integers(low, 8 if dtype.kind != "b" else 1, shape, endpoint=True).astype(dtype)


def _draw_codes(
    rng: np.random.Generator, qparams: QParams, shape: tuple[int, ...], boundary: bool
) -> Array:
    codes = codes_of(qparams.storage)
    values = rng.choice(codes.valid, shape)
    if not boundary:
        return values
    numbers, lowest = codes.levels
    zero = np.searchsorted(numbers, np.broadcast_to(field(qparams, shape)[1], shape))
    which = rng.integers(0, 7, shape)
    ends = np.array([0, 1, numbers.size - 2, numbers.size - 1, 0, 0, 0])[which]
    level = np.where(which < 4, ends, zero + np.array([0, 0, 0, 0, -1, 0, 1])[which])
    chosen = lowest[np.clip(level, 0, numbers.size - 1)]
    return np.where(rng.random(shape) < _SHARE, chosen, values)
