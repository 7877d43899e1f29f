"""Random inputs for a model, where the user has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import UnrankedTensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from qdialect.dialects.onnx import integer_width
from qdialect.errors import QError
from qdialect.ops.shapes import Shape
from qdialect.quant import QCastOp, element_type, quant_element
from qdialect.reference import argument_names, random_inputs
from qdialect.workflows.extents import RANKS, Extents
from qdialect.workflows.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

_MOST_TRIED = 48
"""Kinds of inputs that are tried on a model."""
_BEYOND = 1.1
"""How far inputs go over the range they are quantized in, so that some are clipped."""


def drawn_inputs(model: Model, samples: int) -> list[Arrays]:
    """Random inputs by name; every other one has many values at boundaries."""
    function, shapes = model.function(), next(argument_shapes(model))
    names = argument_names(function)
    return [
        dict(zip(names, random_inputs(function, n, n % 2 == 1, shapes=shapes), strict=True))
        for n in range(samples)
    ]


def draw(
    function: FuncOp, seed: int, *, shapes: Sequence[Shape] | None = None, small: bool = False
) -> Arrays:
    """Random inputs of these shapes by name; odd seeds draw many values at boundaries.

    Floats that are quantized at once are spread over that range.  `small` keeps integers
    to 0 and 1, which are indices into nearly anything.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    arrays = random_inputs(function, seed, boundary=seed % 2 == 1, shapes=shapes)
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


def argument_shapes(model: Model) -> Iterator[list[Shape]]:
    """Shapes of the arguments of a model, with numbers for unknown extents, the likeliest first."""
    function = model.function()
    has_ranks = not any(isinstance(t, UnrankedTensorType) for t in function.function_type.inputs)
    found: list[tuple[int, list[Shape], Iterator[list[Shape]]]] = []
    for rank in (0,) if has_ranks else RANKS:
        extents = Extents(model.ctx, function, rank)
        solutions = extents.solutions()
        shapes = next(solutions)
        found.append((extents.doubts, shapes, solutions))
    found.sort(key=lambda each: each[0])
    yield from (shapes for _, shapes, _ in found)
    yield from found[0][2]


def suitable(model: Model, run: Callable[[Arrays], object]) -> dict[str, Any]:
    """The first options of `draw` that `run` gets through; its first error if there are
    none."""
    function, first = model.function(), None
    takes_integers = any(integer_width(element_type(t)) for t in function.function_type.inputs)
    for shapes in islice(argument_shapes(model), _MOST_TRIED):
        for small in (False, True)[: 1 + takes_integers]:
            options: dict[str, Any] = {"shapes": shapes, "small": small}
            try:
                run(draw(function, 0, **options))
            except QError as error:
                first = first or error
            else:
                return options
    assert first is not None
    raise first
