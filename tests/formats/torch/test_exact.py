"""Sums of two doubles decide what rationals decide."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qdialect.algebra.rounding import Rounding

torch: Any = pytest.importorskip("torch", reason="the numbers are tensors")

from qdialect.plugins.torch.write.exact import Exact  # noqa: E402


def numbers(seed: int, count: int = 400) -> list[float]:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=count) * 2.0 ** rng.integers(-20, 20, count)).tolist()


def value(number: Exact, index: int) -> Fraction:
    return Fraction(number.high[index].item()) + Fraction(number.low[index].item())


@pytest.mark.parametrize("name", ["__add__", "__sub__", "__mul__", "__truediv__"])
def test_arithmetic(name: str) -> None:
    a, b, c = numbers(1), numbers(2), numbers(3)
    parts = [Exact.of(torch.tensor(x, dtype=torch.float64)) for x in (a, b, c)]
    found = getattr(parts[0] * parts[2], name)(parts[1])
    for index, (x, y, z) in enumerate(zip(a, b, c, strict=True)):
        product = Fraction(x) * Fraction(z)
        exact = getattr(product, name)(Fraction(y))
        sums = name in ("__add__", "__sub__")
        size = abs(product) + abs(Fraction(y)) if sums else exact
        assert abs(value(found, index) - exact) <= abs(size) * Fraction(1, 2**98)


def test_ties_of_thirds() -> None:
    """q * s / s' with s' = 3 s: no double holds a third."""
    for rounding, half in ((Rounding.HALF_EVEN, 0.0), (Rounding.HALF_AWAY, 1.0)):
        steps = Exact.of(torch.tensor([3.0, -3.0, 9.0], dtype=torch.float64))
        ratio = Exact.of(0.1) / (Exact.of(0.1) * Exact.of(6.0))
        assert (steps * ratio).rounded(rounding).tolist() == [half, -half, 2.0]


def test_large_integers_and_special_numbers() -> None:
    large = 2**62 + 12345
    assert value(Exact.of(torch.tensor([large])), 0) == large
    special = Exact.of(torch.tensor([np.inf, -np.inf, np.nan], dtype=torch.float64))
    found = (special * Exact.of(0.3) + Exact.of(1.0)).rounded(Rounding.HALF_EVEN)
    np.testing.assert_array_equal(found.numpy(), [np.inf, -np.inf, np.nan])
    roots = Exact.of(torch.tensor([2.0, 9.0, 0.0], dtype=torch.float64)).sqrt()
    assert abs(value(roots, 0) ** 2 - 2) < Fraction(1, 2**98) and value(roots, 1) == 3
    assert value(roots, 2) == 0


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_one_rounding_to_floats(kind: str) -> None:
    """Beside a tie of the narrow type, on either side, by less than a double has."""
    dtype = getattr(torch, kind)
    bits = {"float32": 24, "float16": 11, "bfloat16": 8}[kind]
    tie = 1.0 + 2.0**-bits
    odd = 1.0 + 3 * 2.0**-bits
    high = torch.tensor([tie, tie, tie, odd, odd, odd], dtype=torch.float64)
    low = torch.tensor([0, 1e-20, -1e-20] * 2, dtype=torch.float64)
    step = 2.0 ** -(bits - 1)
    expected = [1.0, 1.0 + step, 1.0, 1 + 2 * step, 1 + 2 * step, 1 + step]
    assert Exact(high, low).to_float(dtype).double().tolist() == expected
