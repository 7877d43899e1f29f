"""How much of the noise in a value comes out of a model."""

from __future__ import annotations

import numpy as np
import pytest

from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.quantizer.float_rewrites.equalize import Equalize
from qdialect.quantizer.float_rewrites.importance import MOST, importances
from qdialect.quantizer.float_rewrites.statistics import measured, numbered
from qdialect.quantizer.recipe import Recipe
from tests.generators.channel_networks import random_channels

T = "tensor<64x64xf32>"
BRANCHES = f"""
func.func @main(%x: {T} {{nn.name = "x"}}) -> {T} {{
  %c = nn.constant dense<0.1> : {T} : {T}
  %0 = nn.mul %x, %c {{nn.key = "small"}} : ({T}, {T}) -> {T}
  %1 = nn.add %x, %0 {{nn.key = "sum"}} : ({T}, {T}) -> {T}
  %2 = nn.add %1, %1 {{nn.key = "twice"}} : ({T}, {T}) -> {T}
  func.return %2 : {T}
}}
"""


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_a_small_branch_counts_as_much_as_it_is(engine: str) -> None:
    ctx = new_context()
    module = read_module(BRANCHES, ctx)
    sample = {"x": np.random.default_rng(0).normal(0, 1, (64, 64)).astype("f4")}
    found = measured(module, ctx, [sample], engine)
    numbers = [n for n, v in enumerate(numbered(Interpreter(ctx, module).function()))]
    small, total, twice = (found.importance[n] for n in numbers[-3:])
    # Noise of a share of 0.1 of the sum, which is 1.1 times x; twice the same is all of it.
    assert small == pytest.approx((0.1 / 1.1) ** 2, rel=0.1)
    assert total == pytest.approx(1.0, rel=0.1) and twice == pytest.approx(1.0, rel=0.1)


def test_a_value_without_a_rank_is_passed_by() -> None:
    """As a loop gives it, whose states may grow."""
    ctx, free = new_context(), "tensor<*xf32>"
    text = f"""
func.func @main(%x: {T} {{nn.name = "x"}}) -> {T} {{
  %0 = onnx.node "Identity" (%x) {{nn.key = "free"}} : ({T}) -> {free}
  %1 = onnx.node "Identity" (%0) {{nn.key = "fixed"}} : ({free}) -> {T}
  %2 = nn.add %1, %1 {{nn.key = "twice"}} : ({T}, {T}) -> {T}
  func.return %2 : {T}
}}"""
    module = read_module(text, ctx)
    sample = {"x": np.ones((64, 64), np.float32)}
    found = measured(module, ctx, [sample], "onnxruntime")
    numbers = [n for n, _ in enumerate(numbered(Interpreter(ctx, module).function()))]
    assert list(found.importance) == numbers[-1:]


def test_generated_networks_stay_as_they_are() -> None:
    found = 0
    for seed in range(12):
        ctx, random = new_context(), np.random.default_rng(seed)
        text = random_channels(seed)
        module = read_module(text, ctx)
        shape = (1, 3, 5, 5) if "%x: tensor<1x3x5x5" in text else (1, 4, 6)
        samples = [{"x": random.normal(0, 1, shape).astype("f4")} for _ in range(2)]
        before = str(module)
        statistics = measured(module, ctx, samples, "numpy")
        assert str(module) == before
        assert all(0 < each < np.inf for each in statistics.importance.values())
        found += len(statistics.importance)
        planned = Equalize().foretold(module, ctx, statistics, Recipe())
        if planned is not None:
            less = sum(each.before - each.after for each in planned.chosen)
            assert 0 <= less < planned.total and np.isfinite(planned.gain)
            assert str(module) == before
    assert found > 20


def test_of_many_values_some_are_tried() -> None:
    ctx = new_context()
    lines = [
        f'%{n + 1} = nn.add %{n}, %{n} {{nn.key = "{n}"}} : ({T}, {T}) -> {T}'
        for n in range(2 * MOST)
    ]
    body = "\n".join(lines)
    text = f'func.func @main(%0: {T} {{nn.name = "x"}}) -> {T} {{\n{body}\n'
    module = read_module(f"{text}func.return %{2 * MOST} : {T}\n}}", ctx)
    sample = {"x": np.ones((64, 64), np.float32)}
    powers = {n: 4.0**n for n in range(1, 2 * MOST + 1)}
    found = importances(module, ctx, powers, [sample], "numpy")
    assert sorted(found) == sorted(powers)
    assert all(each == pytest.approx(1.0, rel=0.1) for each in found.values())


def test_nothing_is_said_without_samples() -> None:
    ctx = new_context()
    module = read_module(BRANCHES, ctx)
    assert importances(module, ctx, {2: 1.0}, [], "numpy") == {}
