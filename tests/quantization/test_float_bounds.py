"""What rewrites change in float32 is within its bounds, in the interpreter and in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import qdialect as qd
from qdialect.errors import QError
from qdialect.interpreter import Interpreter
from qdialect.interpreter.machine import output_names
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.quantizer.float_rewrites.base import AnyRewrite
from qdialect.quantizer.float_rewrites.float_bounds import (
    FloatBound,
    NoBoundError,
    float_bounds,
    worst,
)
from qdialect.quantizer.float_rewrites.statistics import measured
from qdialect.quantizer.float_rewrites.table import rewrites
from qdialect.quantizer.preparation import prepare
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.installed import get_target
from qdialect.workflows.model import Model
from qdialect.workflows.run import open_engine
from tests.generators.channel_networks import random_channels
from tests.generators.graphs.feeds import random_feeds
from tests.generators.graphs.maker import random_graph
from tests.quantization.test_float_rewrites import NETS

Arrays = Mapping[str, NDArray[Any]]
REWRITES = {
    each.name: replace(each, worth=-np.inf) for each in rewrites(2) if each.name != "smooth"
}
"""Of whatever gain: every place where a rewrite can be made. Generated networks have no place for
`smooth`, which is `smooth codes` behind other ops."""


def opened(text: str) -> Model:
    ctx = new_context()
    ctx.target = get_target("onnxruntime")
    return Model(read_module(text, ctx), ctx)


def inputs(model: Model, count: int = 4) -> list[Arrays]:
    random, shape = np.random.default_rng(3), shape_of(model.function().body.block.args[0])
    return [{"x": random.normal(0, 1, shape).astype("f4")} for _ in range(count)]


def rewritten(model: Model, rewrite: AnyRewrite, samples: list[Arrays]) -> Model | None:
    changed = Model(model.module.clone(), model.ctx.clone())
    found = measured(changed.module, changed.ctx, samples, "numpy")
    # An order matters to blocks alone.
    recipe = Recipe(weights="u4", block=2) if rewrite.name == "permute" else Recipe()
    made = rewrite(changed.module, changed.ctx, found, recipe)
    return None if made is None else changed


def bounds_of(before: Model, after: Model, sample: Arrays) -> FloatBound:
    programs = [(each.module, each.ctx) for each in (before, after)]
    return worst(float_bounds(programs[0], programs[1], sample))


def difference(before: Model, after: Model, sample: Arrays, engine: str) -> float:
    """The largest, in real units."""
    first, second = (open_engine(each, engine)(sample) for each in (before, after))
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)


@pytest.mark.parametrize("name", REWRITES)
def test_generated_networks_differ_by_less(name: str) -> None:
    ratios: list[float] = []
    for seed in range(24):
        model = opened(random_channels(seed))
        if seed % 2:
            prepare(model.module, model.ctx, frozenset())
        samples = inputs(model)
        changed = rewritten(model, REWRITES[name], samples)
        if changed is None:
            continue
        bound = bounds_of(model, changed, samples[0])
        for engine in ("numpy", "onnxruntime"):
            apart = difference(model, changed, samples[0], engine)
            assert apart <= bound.likely <= bound.first_order
            # Second order is what the bounds to first order neglect.
            assert bound.first_order <= bound.strict * 1.001
        ratios.append(bound.relative(bound.first_order))
    assert len(ratios) >= 3
    assert np.median(ratios) < 1e-2


@pytest.mark.parametrize("name", [name for name in NETS if name != "even"])
def test_networks_with_room_for_one_rewrite(name: str, tmp_path: Path) -> None:
    text, shape, rewrite = NETS[name]
    model, random = opened(text), np.random.default_rng(5)
    samples = [{"x": random.normal(0, 1, shape).astype("f4")} for _ in range(8)]
    changed = rewritten(model, rewrite, samples)
    assert changed is not None
    bound = bounds_of(model, changed, samples[0])
    assert 0 < difference(model, changed, samples[0], "onnxruntime") <= bound.likely
    assert bound.relative(bound.first_order) < 1e-3
    assert bound.relative(bound.likely) < 1e-4
    assert bound.as_json()["first_order"] == bound.relative(bound.first_order)


TEXT = """
!x = tensor<{rows}x4xf32>
func.func @main(%x: !x {{nn.name = "x"}}) -> !x {{
  %w = nn.constant dense<[[{first}, 2.0, 0.0, 1.0], [1.0, 0.5, 0.25, 2.0],
    [0.5, 1.0, 1.0, 0.5], [1.0, 0.0, 0.0, 1.0]]> : tensor<4x4xf32> : tensor<4x4xf32>
  %h = nn.fully_connected %x, %w : (!x, tensor<4x4xf32>) -> !x
  %r = nn.{function}
  return %r : !x
}}
"""
SOFTMAX = "softmax %h axis 1 : (!x) -> !x"


def test_a_rewrite_that_is_wrong_is_seen() -> None:
    first, second = (
        opened(TEXT.format(rows=3, first=number, function=SOFTMAX)) for number in (1.0, 1.25)
    )
    (sample,) = inputs(first, 1)
    bound, apart = bounds_of(first, second, sample), difference(first, second, sample, "numpy")
    assert apart > 1e-2
    assert apart <= bound.likely <= apart * 1.001 + 1e-5


def test_shapes_that_types_do_not_say() -> None:
    known, unknown = (
        opened(TEXT.format(rows=rows, first=1.0, function=SOFTMAX)) for rows in (3, "?")
    )
    (sample,) = inputs(known, 1)
    assert bounds_of(known, known, sample) == bounds_of(unknown, unknown, sample)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("floor %h : (!x) -> !x", "a function that jumps"),
        ("arg_max %h axis 1 : (!x) -> tensor<3x1xi64>", "nothing says what 'nn.arg_max' rounds"),
    ],
)
def test_there_is_no_bound(function: str, reason: str) -> None:
    text = TEXT.format(rows=3, first=1.0, function=function)
    if "arg_max" in function:
        text = text.replace("return %r", "%s = nn.relu %h : (!x) -> !x\nreturn %s")
    model = opened(text)
    (sample,) = inputs(model, 1)
    with pytest.raises(NoBoundError, match=reason):
        bounds_of(model, model, sample)


def test_what_is_no_number_has_none() -> None:
    model = opened(TEXT.format(rows=3, first=1.0, function="log %h : (!x) -> !x"))
    bound = bounds_of(model, model, {"x": np.full((3, 4), -1, np.float32)})
    assert np.isinf([bound.strict, bound.first_order, bound.likely]).all()
    found = bound.as_json()
    assert found["strict"] is found["first_order"] is found["likely"] is found["largest"] is None


def test_any_graph_has_a_bound_or_a_reason(tmp_path: Path) -> None:
    """The interpreter in float32 and in float64 are no further apart than strictly allowed."""
    bounded = 0
    for seed in (*range(40), 81, 97, 128, 134, 141):
        graph = random_graph(seed)
        onnx.save(graph, tmp_path / "graph.onnx")
        try:
            model = qd.load(tmp_path / "graph.onnx")
        except QError:
            continue
        sample, program = random_feeds(graph, 0), (model.module, model.ctx)
        ieee = Interpreter(model.ctx, model.module)
        real = Interpreter(model.ctx, model.module, floats="real")
        names = output_names(ieee.function())
        try:
            found = float_bounds(program, program, sample, 1)
            results = zip(names, ieee.run(sample), real.run(sample), strict=True)
        except (NoBoundError, QError):
            continue
        bounds = {each.output: each for each in found}
        for name, a, b in results:
            if name in bounds:
                apart = np.abs(a - b)[np.isfinite(a) & np.isfinite(b)]
                assert apart.max(initial=0.0) <= bounds[name].strict
                bounded += 1
    assert bounded > 5


def test_floats_of_other_types_have_no_bound() -> None:
    text = TEXT.format(rows=3, first=1.0, function=SOFTMAX).replace("f32", "f64")
    model = opened(text)
    with pytest.raises(NoBoundError, match="f64"):
        bounds_of(model, model, {"x": np.zeros((3, 4))})


def test_steps_say_it(tmp_path: Path) -> None:
    text, shape, _ = NETS["equalize"]
    (tmp_path / "net.mlir").write_text(text)
    data = np.random.default_rng(0).normal(0, 1, (24, *shape)).astype("f4")
    np.savez(tmp_path / "data.npz", x=data)
    made = qd.quantize(qd.load(tmp_path / "net.mlir"), tmp_path / "data.npz", effort=1)
    (step,) = (each for each in made.steps if each.name == "equalize")
    assert step.kept
    assert isinstance(step.in_float32, FloatBound)
    assert 0 < step.as_json()["in_float32"]["first_order"] < 1e-3
    assert step.difference.startswith("< ")
    assert all(not each.difference for each in made.steps if each.name != "equalize")
