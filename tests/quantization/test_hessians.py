"""Moments of operands foretell what other weights do to the results of contractions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.ir import Operation

import qdialect as qd
from qdialect.algebra.weight_rounding import Grid, damped, gptq, loss
from qdialect.quantizer import hessians
from qdialect.quantizer.hessians import (
    array_of,
    batches,
    measurable,
    moments,
    moments_of_parts,
    rows_of,
)
from qdialect.quantizer.operands import float_operands
from qdialect.quantizer.profile.record import Profile, Settings
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.values import Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NET = """
func.func @main(%x: tensor<{x}xf32> {{nn.name = "x"}}) -> tensor<{y}xf32> {{
  %r = nn.relu %x {{nn.key = "relu"}} : (tensor<{x}xf32>) -> tensor<{x}xf32>
  %w = nn.constant dense<{values}> : tensor<{w}xf32> : tensor<{w}xf32>
  %0 = nn.{op} %{operand}, %w {attributes} {{nn.key = "y"}}
      : (tensor<{x}xf32>, tensor<{w}xf32>) -> tensor<{y}xf32>
  func.return %0 : tensor<{y}xf32>
}}
"""
CASES = {
    "conv1d": ("2x4x9", "3x4x3", "2x3x5", "strides [2] pads [1, 1]"),
    "conv2d": (
        "2x4x7x6",
        "6x2x3x2",
        "2x6x5x4",
        "strides [1, 2] pads [2, 1, 0, 2] dilations [2, 1] groups 2",
    ),
    "depthwise": ("1x4x6x6", "8x1x3x3", "1x8x3x3", "strides [2, 2] pads [1, 1, 1, 1] groups 4"),
    "conv_transpose2d": ("1x4x5x5", "4x3x2x2", "1x6x6x6", "groups 2"),
    "conv_transpose1d": ("2x4x5", "4x3x3", "2x3x10", "strides [2] pads [1, 0]"),
    "fully_connected": ("3x8", "5x8", "3x5", ""),
    "matmul": ("2x3x8", "8x5", "2x3x5", ""),
    "vector": ("3x8", "8", "3", ""),
}


def opened(
    folder: Path, name: str, operand: str = "r", extents: bool = True
) -> tuple[Values, Operation, Array]:
    """The values of a net of one contraction, the op, and its weights; without `extents`, those
    behind the first two are not known."""
    x, w, y, attributes = CASES[name]
    weights = np.random.default_rng(3).normal(size=[int(n) for n in w.split("x")]).astype("f4")
    if not extents:
        x, y = ("x".join(t.split("x")[:2] + ["?"] * (t.count("x") - 1)) for t in (x, y))
    kind = {"depthwise": "conv2d", "vector": "matmul"}.get(name, name)
    text = NET.format(
        x=x, w=w, y=y, op=kind, attributes=attributes, values=weights.tolist(), operand=operand
    )
    path = folder / "net.mlir"
    path.write_text(text)
    model = qd.load(path)
    (op,) = [op for op in model.module.walk() if op.name == f"nn.{kind}"]
    profile = Profile("", Settings("numpy"))
    return Values(model.function(), model.ctx, profile, Recipe()), op, weights


def samples(name: str) -> list[dict[str, Array]]:
    shape = [int(n) for n in CASES[name][0].split("x")]
    random = np.random.default_rng(4)
    return [{"x": random.normal(size=shape).astype("f4") + np.float32(0.5)} for _ in range(3)]


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("operand", ["r", "x"])
@pytest.mark.parametrize("name", CASES)
def test_moments_foretell_the_error_of_results(
    tmp_path: Path, name: str, operand: str, engine: str
) -> None:
    values, op, weights = opened(tmp_path, name, operand)
    assert measurable(op)
    found = moments(values, [op], samples(name), engine)[op]
    error = np.random.default_rng(5).normal(size=weights.shape)
    behavior = values.ctx.behaviors.get(op)
    assert behavior is not None and behavior.accumulator is not None
    assert behavior.arithmetic is not None
    results: list[Array] = []
    for sample in samples(name):
        x = np.maximum(sample["x"], 0) if operand == "r" else sample["x"]
        made = behavior.arithmetic(op, [x.astype("f8"), error])
        axis = behavior.accumulator.result_axis(op) if name != "vector" else None
        made = made[None] if axis is None else np.moveaxis(made, axis, 0)
        results.append(made.reshape(len(made), -1))
    result = np.concatenate(results, axis=1)
    rows = rows_of(op, error)
    assert rows is not None
    assert loss(rows, found.second()).reshape(-1) == pytest.approx((result**2).mean(axis=1), 1e-4)
    about_mean = loss(rows, found.covariance()).reshape(-1)
    assert about_mean == pytest.approx(result.var(axis=1), 1e-4)


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "depthwise", "conv_transpose1d"])
def test_extents_that_only_samples_have(tmp_path: Path, name: str) -> None:
    products: list[Array] = []
    for extents in (True, False):
        values, op, _ = opened(tmp_path, name, extents=extents)
        assert measurable(op)
        products.append(moments(values, [op], samples(name), "numpy")[op].products)
    assert products[0].any() and (products[0] == products[1]).all()


@pytest.mark.parametrize("name", CASES)
def test_rows_and_weights_are_the_same_numbers(tmp_path: Path, name: str) -> None:
    _, op, weights = opened(tmp_path, name)
    rows = rows_of(op, weights)
    assert rows is not None and rows.ndim == 3
    assert (array_of(op, rows) == weights).all()


@pytest.mark.parametrize("name", ["conv2d", "depthwise", "conv_transpose2d", "matmul"])
def test_some_of_many_positions(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, op, _ = opened(tmp_path, name)
    whole = moments(values, [op], samples(name), "numpy")[op].count
    monkeypatch.setattr(hessians, "_LEAST_POSITIONS", 4)
    monkeypatch.setattr(hessians, "_POSITIONS", 0)
    found = moments(values, [op], samples(name), "numpy")[op]
    assert 0 < found.count < whole and np.isfinite(found.second()).all()


def test_samples_that_overflow_do_not_count(tmp_path: Path) -> None:
    values, op, _ = opened(tmp_path, "fully_connected")
    sound, broken = samples("fully_connected")[0], {"x": np.full((3, 8), np.inf, "f4")}
    expected = moments(values, [op], [sound], "numpy")[op]
    found = moments(values, [op], [broken, sound], "numpy")[op]
    assert found.count == expected.count and (found.products == expected.products).all()


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("count", [1, 4, 5])
def test_parts_of_samples_are_measured_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, engine: str
) -> None:
    """To the bit what each part gives alone."""
    values, op, _ = opened(tmp_path, "conv2d")
    given = (samples("conv2d") * 2)[:count]
    alone = [moments(values, [op], given[first::2], engine)[op] for first in range(2)]
    runs: list[str] = []

    def counted(*given: Any) -> Any:
        runs.append(given[2])
        return float_operands(*given)

    monkeypatch.setattr(hessians, "float_operands", counted)
    together = [part[op] for part in moments_of_parts(values, [op], given, engine, 2)]
    assert runs == [engine]
    for part, expected in zip(together, alone, strict=True):
        assert part.count == expected.count
        assert (part.products == expected.products).all() and (part.sums == expected.sums).all()


def test_the_covariance_of_channels_that_are_nearly_constant(tmp_path: Path) -> None:
    """What a relu6 leaves of saturated channels: GPTQ takes no matrix that is not positive."""
    values, op, weights = opened(tmp_path, "fully_connected", operand="x")
    random = np.random.default_rng(5)
    near = [{"x": (6 - 1e-5 * random.random((3, 8))).astype("f4")} for _ in range(40)]
    near += [{"x": np.full((3, 8), 6, "f4")} for _ in range(4)]
    found = moments(values, [op], near, "numpy")[op].covariance()
    expected = np.cov(np.concatenate([s["x"] for s in near]).astype("f8").T, bias=True)
    assert np.abs(found[0] - expected).max() < 1e-3 * np.trace(expected)
    codes = gptq(weights[None].astype("f8"), Grid(np.array(0.1), -8, 7), damped(found))
    assert codes.shape == (1, *weights.shape)


def test_large_matrices_are_measured_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops = [opened(tmp_path, name)[1] for name in ("conv2d", "fully_connected", "depthwise")]
    assert list(batches(ops)) == [ops]
    monkeypatch.setattr(hessians, "LIMIT_BYTES", 8 * (2 * 12**2 + 8**2))
    assert list(batches(ops)) == [ops[:2], ops[2:]]
    assert list(batches(ops, 2)) == [ops[:1], ops[1:2], ops[2:]]
    monkeypatch.setattr(hessians, "LIMIT_BYTES", 1)
    assert list(batches(ops)) == [[op] for op in ops]
