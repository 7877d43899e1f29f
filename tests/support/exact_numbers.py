"""Rational numbers that stay such beside floats, and the results of float graphs in them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import total_ordering
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from qdialect.ir.ops import ConstantOp, constant_array
from qdialect.workflows.model import Model

Numbers = NDArray[np.object_]


@total_ordering
class Exact:
    """A rational number; floats that it meets are the numbers they are."""

    __array_priority__ = 1e3

    def __init__(self, value: Any) -> None:
        self.value = value.value if isinstance(value, Exact) else Fraction(value)

    def __add__(self, other: Any) -> Exact:
        return Exact(self.value + Exact(other).value)

    def __sub__(self, other: Any) -> Exact:
        return Exact(self.value - Exact(other).value)

    def __mul__(self, other: Any) -> Exact:
        return Exact(self.value * Exact(other).value)

    def __truediv__(self, other: Any) -> Exact:
        return Exact(self.value / Exact(other).value)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Exact:
        return Exact(other) - self

    def __rtruediv__(self, other: Any) -> Exact:
        return Exact(other) / self

    def __eq__(self, other: object) -> bool:
        return self.value == Exact(other).value

    def __lt__(self, other: Any) -> bool:
        return self.value < (other.value if isinstance(other, Exact) else other)

    __hash__ = None  # type: ignore[assignment]


def exactly(array: Any) -> Numbers:
    """The numbers of an array."""
    values = np.asarray(array)
    found = np.empty(values.shape, np.object_)
    for place, value in np.ndenumerate(values):
        found[place] = Exact(value.item() if isinstance(value, np.generic) else value)
    return found


def random_rationals(shape: tuple[int, ...], random: np.random.Generator) -> Numbers:
    """Small ones, few of which are floats."""
    numbers = random.integers(-9, 10, (2, *shape))
    found = np.empty(shape, np.object_)
    for place in np.ndindex(shape):
        above, below = (int(each[place]) for each in numbers)
        found[place] = Exact(Fraction(above, 1 + abs(below)))
    return found


def clipped(numbers: Any, low: float, high: float) -> Any:
    """min(max(x, low), high), of rationals too."""
    if getattr(numbers, "dtype", None) != np.object_:
        return numbers.clip(low, high)
    if isfinite(low):
        numbers = np.maximum(numbers, exactly(low))
    return np.minimum(numbers, exactly(high)) if isfinite(high) else numbers


def exact_results(model: Model, inputs: Sequence[Numbers]) -> list[Numbers]:
    """The results of a float model whose ops copy elements, are clamps or have formulas in
    + - * /."""
    block = model.function().body.block
    values: dict[SSAValue, Numbers] = dict(zip(block.args, inputs, strict=True))
    for op in block.ops:
        operands = [values[value] for value in op.operands]
        if isinstance(op, ReturnOp):
            return operands
        if isinstance(op, ConstantOp):
            values[op.result] = exactly(constant_array(op, model.ctx.blobs))
            continue
        behavior = model.ctx.behaviors.get(op)
        assert behavior is not None
        if behavior.movement is not None:
            (along,) = behavior.maps(op)
            values[op.results[0]] = along.apply(operands, exactly(0))
            continue
        if behavior.clamp is not None:
            values[op.results[0]] = clipped(operands[0], *behavior.clamp(op))
            continue
        assert behavior.arithmetic is not None, op.name
        values[op.results[0]] = behavior.arithmetic(op, operands)
    raise AssertionError("no function ends like this")
