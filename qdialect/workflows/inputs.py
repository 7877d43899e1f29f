"""Random inputs for a model, where the user has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from qdialect.errors import QError
from qdialect.ops.shapes import DYNAMIC
from qdialect.quant import QCastOp, quant_element
from qdialect.reference import argument_names, random_inputs
from qdialect.reference.values import declared_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

EXTENTS = (1, 2, 4, 16, 32, 64, 128, 224)
"""What extents that a model leaves open are tried as, in this order."""

_BEYOND = 1.1
"""How far inputs go over the range they are quantized in, so that some are clipped."""


def drawn_inputs(function: FuncOp, samples: int) -> list[Arrays]:
    """Random inputs by name; every other one has many values at boundaries."""
    arguments = argument_names(function)
    return [
        dict(zip(arguments, random_inputs(function, n, boundary=n % 2 == 1), strict=True))
        for n in range(samples)
    ]


def draw(function: FuncOp, seed: int, *, extent: int = 1, small: bool = False) -> Arrays:
    """Random inputs by name; odd seeds draw many values at boundaries.

    Floats that are quantized at once are spread over that range.  `small` keeps integers
    to 0 and 1, which are indices into nearly anything.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    arrays = random_inputs(function, seed, boundary=seed % 2 == 1, dynamic=extent)
    drawn: Arrays = {}
    for name, value, array in zip(
        argument_names(function), function.body.block.args, arrays, strict=True
    ):
        limits = _range(value)
        if small and array.dtype.kind in "iu" and quant_element(value.type) is None:
            array = array & 1
        elif limits is not None and seed % 2 == 0:
            array = rng.uniform(*limits, array.shape).astype(array.dtype)
        drawn[name] = array
    return drawn


def _range(value: SSAValue) -> tuple[float, float] | None:
    """The numbers a float is quantized between, if that is the first thing done to it."""
    for use in value.uses:
        element = (
            quant_element(use.operation.result.type) if isinstance(use.operation, QCastOp) else None
        )
        if element is None or element.qparams.storage.is_float:
            continue
        storage, params = element.qparams.storage, element.qparams
        scale, zero = max(params.scale_list()), params.zero_point_list()[0]
        return _BEYOND * scale * (storage.min - zero), _BEYOND * scale * (storage.max - zero)
    return None


def candidates(function: FuncOp) -> Iterator[dict[str, Any]]:
    """Options of `draw` that may suit a model, the likeliest first."""
    is_open = any(DYNAMIC in declared_shape(t) for t in function.function_type.inputs.data)
    for extent in EXTENTS if is_open else EXTENTS[:1]:
        for small in (False, True):
            yield {"extent": extent, "small": small}


def suitable(function: FuncOp, run: Callable[[Arrays], object]) -> dict[str, Any]:
    """The first options of `draw` that `run` gets through; its first error if there are
    none."""
    first: QError | None = None
    for options in candidates(function):
        try:
            run(draw(function, 0, **options))
        except QError as error:
            first = first or error
        else:
            return options
    assert first is not None
    raise first
