"""Random inputs for a model, where the user has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import UnrankedTensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import constant_values
from qdialect.errors import QError
from qdialect.interpreter import argument_names, random_inputs
from qdialect.interpreter.values import declared_shape
from qdialect.ir.ops import AddOp, ClipOp, DivOp, MulOp, SubOp
from qdialect.ir.ops.shapes import DYNAMIC, Shape
from qdialect.ir.quant import QCastOp, element_type, quant_element
from qdialect.ir.quant.elements import integer_width
from qdialect.plugins.onnx.extents import RANKS, Extents
from qdialect.report.histograms import range_of
from qdialect.workflows.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.ir.context import QContext
    from qdialect.quantizer.profile.record import Profile

    Arrays = dict[str, NDArray[Any]]
    Range = tuple[float, float]

_MOST_TRIED = 48
"""Kinds of inputs that are tried on a model."""
_BEYOND = 1.1
"""How far inputs go over the range they are quantized in, so that some are clipped."""
_DEEPEST = 8
"""So many ops from an input at most it is looked for what quantizes or clips it."""


def drawn_inputs(
    model: Model,
    samples: int,
    run: Callable[[Arrays], object] | None = None,
    beside: Sequence[Model] = (),
    profile: Profile | None = None,
) -> list[Arrays]:
    """Random inputs by name (see `draw`), in shapes that `run` gets through where these are not
    all known. Ranges are those that the model, the models `beside` it or a profile of it know."""
    function = model.function()
    options: dict[str, Any] = {"shapes": next(argument_shapes(model))}
    if run is not None and _is_guessed(function):
        options = suitable(model, run)
    options["ranges"] = input_ranges(model, beside, profile)
    return [draw(function, number, **options) for number in range(samples)]


def draw(
    function: FuncOp,
    seed: int,
    *,
    shapes: Sequence[Shape] | None = None,
    small: bool = False,
    ranges: Mapping[str, Range] | None = None,
) -> Arrays:
    """Random inputs of these shapes by name; odd seeds draw half of the values at boundaries.

    Floats are spread evenly over their `ranges` (`input_ranges`), with the ends of these as further
    boundaries, and are normal where none is known. Integers of 8 bits have all values, others few.
    `small` keeps integers to 0 and 1, which are indices into nearly anything.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    arrays = random_inputs(function, seed, boundary=seed % 2 == 1, shapes=shapes)
    drawn: Arrays = {}
    for name, value, array in zip(
        argument_names(function), function.body.blocks[0].args, arrays, strict=True
    ):
        limits = (ranges or {}).get(name)
        if array.dtype.kind in "iu" and quant_element(value.type) is None:
            if small:
                array = array & 1
            elif array.dtype.itemsize == 1:
                array = rng.integers(0, 256, array.shape, np.uint8).view(array.dtype)
        elif limits is not None and array.dtype.kind == "f":
            low, high = limits
            least, most = min(low, _BEYOND * low), max(high, _BEYOND * high)
            spread = rng.uniform(least, most, array.shape)
            if seed % 2:
                ends = np.where(rng.random(array.shape) < 0.5, low, high)
                kinds = rng.integers(0, 4, array.shape)
                array = np.select([kinds < 2, kinds == 2], [spread, ends], array)
            else:
                array = spread
            array = array.astype(arrays[len(drawn)].dtype)
        drawn[name] = array
    return drawn


def input_ranges(
    model: Model, beside: Sequence[Model] = (), profile: Profile | None = None
) -> dict[str, Range]:
    """The range of each float input that is known: by how it is first quantized or clipped, there
    or in a model `beside` it, else by a profile."""
    names = argument_names(model.function())
    found: dict[str, Range] = {}
    for one in (model, *beside):
        arguments = one.function().body.blocks[0].args
        for name, value in zip(names, arguments, strict=False):
            reach = _reach(value, one.ctx)
            if name not in found and reach is not None and isfinite(reach[1] - reach[0]):
                found[name] = reach
    for name in names:
        entry = None if profile is None else profile.entries.get(name)
        if name not in found and entry is not None and entry.tensor.count.sum():
            low, high = float(entry.tensor.minimum.min()), float(entry.tensor.maximum.max())
            if low < high and isfinite(high - low):
                found[name] = low, high
    return found


def _reach(value: SSAValue, ctx: QContext, depth: int = 0) -> Range | None:
    """The numbers between which a value is quantized or clipped, through what moves elements and
    what adds or multiplies constants."""
    for use in value.uses if depth < _DEEPEST else ():
        op = use.operation
        behavior = ctx.behaviors.get(op)
        if isinstance(op, QCastOp):
            reach = _grid_range(op)
        elif isinstance(op, ClipOp):
            bounds = [None if b is None else float(b.value.data) for b in (op.min, op.max)]
            reach = None if None in bounds else cast("Range", tuple(bounds))
        elif isinstance(op, AddOp | SubOp | MulOp | DivOp):
            reach = _before(op, use.index, ctx, depth + 1)
        elif behavior is not None and behavior.movement is not None:
            reach = _reach(op.results[0], ctx, depth + 1)
        else:
            reach = None
        if reach is not None:
            return reach
    return None


def _grid_range(op: QCastOp) -> Range | None:
    element = quant_element(op.result.type)
    if element is None or element.qparams.storage.is_float:
        return None
    return range_of(element.qparams)


def _before(op: Operation, index: int, ctx: QContext, depth: int) -> Range | None:
    """The range of an operand of arithmetic with a constant, by that of the result."""
    import numpy as np

    constant = constant_values(op.operands[1 - index], ctx)
    reach = None if constant is None or not constant.size else _reach(op.results[0], ctx, depth)
    if reach is None or constant is None:
        return None
    ends = np.array(reach)[:, None]
    numbers = constant.astype(np.float64).reshape(1, -1)
    with np.errstate(all="ignore"):
        if isinstance(op, AddOp):
            found = ends - numbers
        elif isinstance(op, SubOp):
            found = ends + numbers if index == 0 else numbers - ends
        elif isinstance(op, MulOp):
            found = ends / numbers
        else:
            found = ends * numbers if index == 0 else numbers / ends
    low, high = float(found.min()), float(found.max())
    return (low, high) if isfinite(high - low) else None


def _is_guessed(function: FuncOp) -> bool:
    """Whether shapes or integers that the model runs on have to be found out."""
    kinds = function.function_type.inputs
    return any(integer_width(element_type(t)) for t in kinds) or any(
        isinstance(t, UnrankedTensorType) or DYNAMIC in declared_shape(t) for t in kinds
    )


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
    function, first, ranges = model.function(), None, input_ranges(model)
    takes_integers = any(integer_width(element_type(t)) for t in function.function_type.inputs)
    for shapes in islice(argument_shapes(model), _MOST_TRIED):
        for small in (False, True)[: 1 + takes_integers]:
            options: dict[str, Any] = {"shapes": shapes, "small": small, "ranges": ranges}
            try:
                run(draw(function, 0, **options))
            except QError as error:
                first = first or error
            else:
                return options
    assert first is not None
    raise first
