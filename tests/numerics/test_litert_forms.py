"""Tables of LiteRT's functions on codes, and of the same on floats between casts, in LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qdialect.algebra.requantize import QuantGrid
from qdialect.plugins.tflite.numerics import functions
from qdialect.plugins.tflite.numerics import rescale as litert

models = pytest.importorskip("tests.support.tflite_models")


def _grids(seed: int, low: float = 0.5, high: float = 2.0) -> tuple[QuantGrid, QuantGrid]:
    rng = np.random.default_rng(seed)
    scale = float(np.float32(rng.uniform(0.005, 0.1)))
    ratio = (1.0, 0.5, rng.uniform(low, high))[seed % 3]
    return (
        QuantGrid(scale, int(rng.integers(-60, 60)), -128, 127),
        QuantGrid(float(np.float32(scale * ratio)), int(rng.integers(-128, -40)), -128, 127),
    )


def _codes(grid: QuantGrid) -> Any:
    return litert.all_codes(grid).astype(np.int8)[None]


def _tensor(name: str, grid: QuantGrid, shape: tuple[int, ...] = (1, 256)) -> Any:
    return models.tensor(name, shape, "INT8", scales=[grid.scale], zero_points=[grid.zero])


def _one(name: str, a: QuantGrid, b: QuantGrid, options: Any = None, resolver: str = "xnn") -> Any:
    ops = [models.op(name, ["x"], ["y"], options)]
    data = models.model([_tensor("x", a)], [_tensor("y", b)], ops)
    return models.run_litert(data, [_codes(a)], resolver=resolver)[0][0]


def _island(name: str, a: QuantGrid, b: QuantGrid, options: Any = None) -> Any:
    f = models.tensor("f", (1, 256), "FLOAT32")
    g = models.tensor("g", (1, 256), "FLOAT32")
    ops = [
        models.op("DEQUANTIZE", ["x"], ["f"]),
        models.op(name, ["f"], ["g"], options),
        models.op("QUANTIZE", ["g"], ["y"]),
    ]
    data = models.model([_tensor("x", a)], [_tensor("y", b)], ops, [f, g])
    return models.run_litert(data, [_codes(a)], resolver="xnn")[0][0]


@pytest.mark.parametrize("seed", range(9))
def test_leaky_relu(seed: int) -> None:
    alpha = float(np.float32((0.2, 0.01, 0.3)[seed % 3]))
    a, b = _grids(seed)
    made = functions.leaky_relu(a, b, alpha)
    assert made is not None
    assert np.array_equal(made.codes, _one("LEAKY_RELU", a, b, {"alpha": alpha}))


@pytest.mark.parametrize("seed", range(9))
def test_hard_swish(seed: int) -> None:
    a, b = _grids(seed, 0.6, 1.2)
    made = functions.hard_swish(a, b)
    if made is not None:
        assert np.array_equal(made.codes, _one("HARD_SWISH", a, b, resolver="opt"))


@pytest.mark.parametrize("seed", range(9))
def test_islands_of_exact_steps(seed: int) -> None:
    a, b = _grids(seed)
    alpha = np.float32(0.2)
    meant = functions.island(a, b, lambda x: np.maximum(x, 0) + np.minimum(x, 0) * alpha)
    assert np.array_equal(meant.codes, _island("LEAKY_RELU", a, b, {"alpha": float(alpha)}))
    meant = functions.island(a, b, lambda x: np.maximum(x, 0))
    assert np.array_equal(meant.codes, _island("RELU", a, b))


@pytest.mark.parametrize("seed", range(9))
def test_islands_of_real_functions(seed: int) -> None:
    a, b = _grids(seed, 0.6, 1.2)
    meant = functions.of_real(a, b, lambda x: x * np.clip(x + 3, 0, 6) / 6)
    found = _island("HARD_SWISH", a, b)
    assert np.array_equal(meant.codes[~meant.open], found[~meant.open])
    assert (np.abs(meant.codes - found) <= meant.open).all()


@pytest.mark.parametrize("seed", range(4))
def test_products_of_all_pairs(seed: int) -> None:
    a, b = _grids(seed)
    c, _ = _grids(seed + 7)
    c = c._replace(scale=float(np.float32(c.scale * 8)))
    made, floats = functions.pairs_of_products(a, b, c)
    takes = [_tensor("x", a, (256, 1)), _tensor("w", b, (1, 256))]
    gives = [_tensor("y", c, (256, 256))]
    given = [_codes(a).reshape(256, 1), _codes(b)]
    data = models.model(takes, gives, [models.op("MUL", ["x", "w"], ["y"])])
    assert np.array_equal(models.run_litert(data, given, resolver="xnn")[0], made)
    assert np.abs(made - floats).max() <= 1


def test_an_undecided_code_is_no_equality() -> None:
    a = QuantGrid(1.0, 0, -128, 127)
    half = QuantGrid(2.0, 0, -128, 127)
    table = functions.of_real(a, half, lambda x: x)
    assert table.open.sum() == 128
    assert not table.is_same(table)
    assert table.apart(table) == 2
