"""Rational numbers in arrays, and float functions evaluated on them by their declarations."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from qdialect.ops import constant_array, constant_of
from qdialect.workflows.model import Model


class Exact:
    """A rational number that stays one beside floats."""

    __array_priority__ = 1e3

    def __init__(self, value: Any) -> None:
        self.value = value.value if isinstance(value, Exact) else Fraction(value)

    def __add__(self, other: Any) -> Exact:
        return Exact(self.value + Exact(other).value)

    def __mul__(self, other: Any) -> Exact:
        return Exact(self.value * Exact(other).value)

    def __truediv__(self, other: Any) -> Exact:
        return Exact(self.value / Exact(other).value)

    def __neg__(self) -> Exact:
        return Exact(-self.value)

    def __sub__(self, other: Any) -> Exact:
        return self + -Exact(other)

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        return self.value == Exact(other).value

    def __lt__(self, other: Any) -> bool:
        return self.value < Exact(other).value

    __hash__ = None  # type: ignore[assignment]


def exact(shape: tuple[int, ...], random: np.random.Generator) -> NDArray[np.object_]:
    """Numbers by chance."""
    numbers = random.integers(-9, 10, (2, *shape))
    pairs = zip(*numbers.reshape(2, -1), strict=True)
    parts = [Fraction(int(a), 1 + abs(int(b))) for a, b in pairs]
    return exact_array(np.array(parts, np.object_).reshape(shape))


def exact_array(array: NDArray[Any]) -> NDArray[np.object_]:
    """The numbers of an array as they are."""
    made = np.empty(array.size, np.object_)
    made[:] = [Exact(number) for number in array.reshape(-1).tolist()]
    return made.reshape(array.shape)


def exact_run(model: Model, x: NDArray[np.object_]) -> list[NDArray[np.object_]]:
    """What a function gives for its argument, by index maps, bounds and formulas."""
    function, found = model.function(), dict[SSAValue, NDArray[np.object_]]()
    found[function.body.block.args[0]] = x
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            return [found[value] for value in op.operands]
        if op.results and (constant := constant_of(op.results[0])) is not None:
            found[op.results[0]] = exact_array(constant_array(constant, model.ctx.blobs))
            continue
        behavior, operands = model.ctx.behaviors.get(op), [found[value] for value in op.operands]
        assert behavior is not None
        if behavior.movement is not None:
            made = behavior.maps(op)[0].apply(operands, exact_array(np.zeros(())))
        elif behavior.clamp is not None:
            low, high = behavior.clamp(op)
            made = np.empty_like(operands[0])
            made.reshape(-1)[:] = [_clamped(n, low, high) for n in operands[0].reshape(-1)]
        else:
            assert behavior.arithmetic is not None
            made = behavior.arithmetic(op, operands)
        found[op.results[0]] = made
    raise AssertionError("nothing is returned")


def _clamped(number: Exact, low: float, high: float) -> Exact:
    if isfinite(low) and number < low:
        return Exact(low)
    return Exact(high) if isfinite(high) and Exact(high) < number else number
