"""Bounds of what float32 loses: never exceeded, and of the size of what is lost."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from qdialect.algebra import elementary_functions as elementary
from qdialect.algebra.first_order import Traced
from qdialect.algebra.running_errors import SLACK, UNIT, Rounded
from tests.support.exact_numbers import clipped, exactly

Program = Callable[[Any, Any], Any]
SEEDS = st.integers(0, 2**32 - 1)
SHAPE = (5, 5)


def random_program(seed: int) -> Program:
    """Sums, differences, products, quotients and matrix products, a clamp now and then."""
    draw = np.random.default_rng(seed)
    steps = [(int(draw.integers(7)), *draw.integers(0, 2 + n, 2).tolist()) for n in range(6)]

    def run(x: Any, y: Any) -> Any:
        known = [x, y]
        for kind, first, second in steps:
            a, b = known[first], known[second]
            results: list[Callable[[], Any]] = [
                lambda: a + b,  # noqa: B023
                lambda: a - b,  # noqa: B023
                lambda: a * b,  # noqa: B023
                lambda: a / (b * b + 1.0),  # noqa: B023
                lambda: a @ b,  # noqa: B023
                lambda: clipped(a, -1.5, 2.0),  # noqa: B023
                lambda: a.swapaxes(0, 1)[::-1] * 0.25,  # noqa: B023
            ]
            known.append(results[kind]())
        return known[-1]

    return run


def operands(seed: int) -> list[NDArray[np.float32]]:
    random = np.random.default_rng(seed)
    return [random.normal(0, 1, SHAPE).astype(np.float32) for _ in range(2)]


class InFloat32:
    """Float32 as an engine computes it, with sums in an order of its own."""

    __array_ufunc__ = None

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array, np.float32)

    def _other(self, other: Any) -> NDArray[np.float32]:
        return other.array if isinstance(other, InFloat32) else np.float32(other)

    def __add__(self, other: Any) -> InFloat32:
        return InFloat32(self.array + self._other(other))

    def __sub__(self, other: Any) -> InFloat32:
        return InFloat32(self.array - self._other(other))

    def __mul__(self, other: Any) -> InFloat32:
        return InFloat32(self.array * self._other(other))

    def __truediv__(self, other: Any) -> InFloat32:
        return InFloat32(self.array / self._other(other))

    def __matmul__(self, other: Any) -> InFloat32:
        total, b = np.zeros(SHAPE, np.float32), self._other(other)
        for k in np.random.default_rng(0).permutation(SHAPE[1]):
            total = total + self.array[:, k : k + 1] * b[k : k + 1]
        return InFloat32(total)

    def clip(self, low: float, high: float) -> InFloat32:
        return InFloat32(self.array.clip(np.float32(low), np.float32(high)))

    def swapaxes(self, first: int, second: int) -> InFloat32:
        return InFloat32(self.array.swapaxes(first, second))

    def __getitem__(self, index: Any) -> InFloat32:
        return InFloat32(self.array[index])


def lost(program: Program, arrays: list[NDArray[np.float32]]) -> list[Fraction]:
    """How far float32 is from exact rationals, element by element."""
    found = program(*(InFloat32(x) for x in arrays)).array.reshape(-1).tolist()
    exact = program(*(exactly(x) for x in arrays)).reshape(-1).tolist()
    return [abs(Fraction(a) - b.value) for a, b in zip(found, exact, strict=True)]


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_float32_is_within_the_bound_of_rationals(seed: int) -> None:
    program, arrays = random_program(seed), operands(seed)
    bounds = program(*(Rounded.exactly(x) for x in arrays)).bound.reshape(-1).tolist()
    assert all(a <= Fraction(b) for a, b in zip(lost(program, arrays), bounds, strict=True))


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_and_to_first_order(seed: int) -> None:
    """Products of two roundings are far below one of them; a clamp that float32 sees on its other
    side would be an accident."""
    program, arrays = random_program(seed), operands(seed)
    traced = program(*(Traced.exactly(x) for x in arrays))
    rounded = program(*(Rounded.exactly(x) for x in arrays))
    for element, a in enumerate(lost(program, arrays)):
        found = traced.error_of(element)
        assert a <= Fraction(found.bound * (1 + 1e-3)) + Fraction(2.0**-140)
        assert found.deviation <= found.bound
        assert found.bound <= rounded.bound.reshape(-1)[element] * (1 + 1e-3)


def test_the_bound_is_of_the_size_of_what_is_lost() -> None:
    ratios: list[float] = []
    for seed in range(40):
        program, arrays = random_program(seed), operands(seed)
        bound = float(program(*(Rounded.exactly(x) for x in arrays)).bound.max())
        most = float(max(lost(program, arrays)))
        if most:
            ratios.append(bound / most)
    assert np.median(ratios) < 30


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": elementary.exp,
    "log": lambda x: elementary.log(x * x + 0.25),
    "sqrt": lambda x: elementary.sqrt(x * x + 0.25),
    "erf": elementary.erf,
    "tanh": elementary.tanh,
    "power": lambda x: elementary.power(x, 3.0),
    "root": lambda x: elementary.power(x * x + 0.25, -1.5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numbers_that_are_off(name: str) -> None:
    """Whatever an operand is within its error, and however far a library may be off."""
    function, random = FUNCTIONS[name], np.random.default_rng(1)
    x, off = random.normal(0, 2, 200), np.exp(random.uniform(-18, -2, 200))
    found = function(Rounded(x, off))
    for part in (-1.0, -0.3, 0.0, 0.7, 1.0):
        apart = np.abs(function(x + part * off) - function(x))
        assert (apart <= found.bound).all()
    exact = function(Rounded(x, np.zeros(200)))
    assert (exact.bound >= UNIT * np.abs(function(x))).all()
    assert (exact.bound <= 4000 * UNIT * np.maximum(np.abs(function(x)), 1)).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_slopes_are_those_of_differences(name: str) -> None:
    function, random = FUNCTIONS[name], np.random.default_rng(2)
    x, step = random.normal(0, 1, 20), 1e-6
    slopes = np.abs(function(x + step) - function(x - step)) / (2 * step)
    alone, off = function(Traced(x, None)), function(Traced(x, np.ones(20)))
    for element, slope in enumerate(slopes):
        more = off.error_of(element).bound - alone.error_of(element).bound
        assert more == pytest.approx(slope * SLACK, rel=1e-5, abs=1e-8)


def test_no_bound_where_nothing_is_known() -> None:
    near = Rounded(np.array([0.5, 0.5]), np.array([0.5, 0.25]))
    assert np.isinf((1.0 / near).bound).tolist() == [True, False]
    assert np.isinf(near.log().bound).tolist() == [True, False]
    assert np.isinf((near - 0.1).sqrt().bound).tolist() == [True, False]
    for number in (near, Traced.exactly(near.value)):
        with pytest.raises(ValueError, match="jumps"):
            number.floor()


def test_infinite_numbers_are_what_they_are() -> None:
    masked = Rounded.exactly(np.array([-np.inf, 1.0])) + 0.1
    assert masked.exp().value[0] == 0
    assert masked.exp().bound[0] < 1e-40
    traced = (Traced.exactly(np.array([-np.inf, 1.0])) + 0.1).exp()
    assert traced.error_of(0).bound < 1e-40


@pytest.mark.parametrize("kind", [Rounded, Traced])
def test_what_is_copied_or_chosen_by_order(kind: Any) -> None:
    """The larger of two, every other one, between constants of the function itself."""

    def function(x: Any) -> Any:
        return np.pad(np.maximum(*x)[::2], 1, constant_values=3.0)

    first = kind.exactly(np.array([1.0, -2.0, 5.0])).widened(np.array([0.5, 9.0, 0.25]))
    second = kind.exactly(np.array([0.0, 7.0, 5.5])).widened(np.array([0.125, 9.0, 1.0]))
    found = kind.of_monotone(function, [first, second])
    assert found.value.tolist() == [3.0, 1.0, 5.5, 3.0]
    if isinstance(found, Rounded):
        errors = found.error.tolist()
    else:
        errors = [found.error_of(n).bound / SLACK for n in range(4)]
    assert errors == pytest.approx([0.0, 0.5, 1.0, 0.0])
