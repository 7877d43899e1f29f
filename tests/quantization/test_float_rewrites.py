"""Rewrites of float models: the function stays, and less is lost by rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import qdialect as qd
from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.ir.ops import ConstantOp, constant_array
from qdialect.plugins.mlir.read import read_module
from qdialect.quantizer.float_rewrites.apply import replace_constants
from qdialect.quantizer.float_rewrites.base import AnyRewrite, ByFactors
from qdialect.quantizer.float_rewrites.equalize import Equalize
from qdialect.quantizer.float_rewrites.permute import Permute, Permuted
from qdialect.quantizer.float_rewrites.rotate import Rotate, Rotated
from qdialect.quantizer.float_rewrites.shift import Shift, Shifted
from qdialect.quantizer.float_rewrites.smooth import Smooth
from qdialect.quantizer.float_rewrites.split import Doubled, Split
from qdialect.quantizer.float_rewrites.statistics import Statistics, measured
from qdialect.quantizer.preparation import prepare
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.installed import get_target
from qdialect.workflows.model import Model
from tests.generators.channel_networks import random_channels
from tests.generators.norm_networks import WIDTH, random_stream
from tests.support.exact_numbers import exact_results, random_rationals

Arrays = Mapping[str, NDArray[Any]]
SIZE = 16


def dense(array: NDArray[Any]) -> str:
    kind = f"tensor<{'x'.join(map(str, array.shape))}xf32>"
    return f"nn.constant dense<{array.astype('f4').tolist()}> : {kind} : {kind}"


def spread_sizes(seed: int = 0) -> NDArray[np.float64]:
    return np.exp(np.random.default_rng(seed).normal(0, 1.5, SIZE))


def chain() -> str:
    """Two convolutions with a relu between, whose channels are of other sizes."""
    random, sizes = np.random.default_rng(1), spread_sizes()
    first = random.normal(0, 1, (SIZE, 4, 1, 1)) * sizes[:, None, None, None]
    second = random.normal(0, 1, (6, SIZE, 3, 3)) / sizes[None, :, None, None]
    x, h, y = "tensor<1x4x6x6xf32>", f"tensor<1x{SIZE}x6x6xf32>", "tensor<1x6x6x6xf32>"
    return f"""
func.func @main(%x: {x} {{nn.name = "x"}}) -> {y} {{
  %w = {dense(first)}
  %v = {dense(second)}
  %0 = nn.conv2d %x, %w {{nn.key = "first"}} : ({x}, tensor<{SIZE}x4x1x1xf32>) -> {h}
  %1 = nn.relu %0 {{nn.key = "relu"}} : ({h}) -> {h}
  %2 = nn.conv2d %1, %v pads [1, 1, 1, 1] {{nn.key = "second"}}
    : ({h}, tensor<6x{SIZE}x3x3xf32>) -> {y}
  func.return %2 : {y}
}}
"""


def gated() -> str:
    """A gelu, of which a few channels are large, and two products of it."""
    random, sizes = np.random.default_rng(1), spread_sizes()
    first = random.normal(0, 1, (SIZE, 8)) * sizes[:, None]
    second = random.normal(0, 1, (2, 6, SIZE)) / sizes
    x, h, y = "tensor<5x8xf32>", f"tensor<5x{SIZE}xf32>", "tensor<5x6xf32>"
    return f"""
func.func @main(%x: {x} {{nn.name = "x"}}) -> {y} {{
  %w = {dense(first)}
  %u = {dense(second[0])}
  %v = {dense(second[1])}
  %0 = nn.fully_connected %x, %w {{nn.key = "first"}} : ({x}, tensor<{SIZE}x8xf32>) -> {h}
  %1 = nn.gelu %0 {{nn.key = "gelu"}} : ({h}) -> {h}
  %2 = nn.fully_connected %1, %u {{nn.key = "a"}} : ({h}, tensor<6x{SIZE}xf32>) -> {y}
  %3 = nn.fully_connected %1, %v {{nn.key = "b"}} : ({h}, tensor<6x{SIZE}xf32>) -> {y}
  %4 = nn.add %2, %3 {{nn.key = "sum"}} : ({y}, {y}) -> {y}
  func.return %4 : {y}
}}
"""


def offset() -> str:
    """Channels around numbers far from each other, and a product of them."""
    random = np.random.default_rng(1)
    biases = random.normal(0, 30, SIZE)
    x, h, y = "tensor<5x8xf32>", f"tensor<5x{SIZE}xf32>", "tensor<5x6xf32>"
    return f"""
func.func @main(%x: {x} {{nn.name = "x"}}) -> {y} {{
  %w = {dense(random.normal(0, 1, (SIZE, 8)))}
  %b = {dense(biases)}
  %v = {dense(random.normal(0, 1, (6, SIZE)))}
  %0 = nn.fully_connected %x, %w, %b {{nn.key = "first"}}
    : ({x}, tensor<{SIZE}x8xf32>, tensor<{SIZE}xf32>) -> {h}
  %1 = nn.fully_connected %0, %v {{nn.key = "second"}} : ({h}, tensor<6x{SIZE}xf32>) -> {y}
  func.return %1 : {y}
}}
"""


def attention(largest: float = 30.0) -> str:
    """A softmax times values of which two channels are large, and a product of them; if none is
    larger, all weights are of one size."""
    random, sizes = np.random.default_rng(1), np.ones(SIZE)
    sizes[[3, 8]] = largest
    first, second = random.normal(0, 1, (SIZE, 8)), random.normal(0, 1, (6, SIZE))
    if largest == 1:
        first, second = np.sign(first), np.sign(second)
    x, s = "tensor<5x8xf32>", "tensor<5x5xf32>"
    h, y = f"tensor<5x{SIZE}xf32>", "tensor<5x6xf32>"
    return f"""
func.func @main(%x: {x} {{nn.name = "x"}}) -> {y} {{
  %q = {dense(random.normal(0, 0.3, (5, 8)))}
  %w = {dense(first * sizes[:, None])}
  %u = {dense(second / sizes)}
  %0 = nn.fully_connected %x, %q {{nn.key = "scores"}} : ({x}, tensor<5x8xf32>) -> {s}
  %1 = nn.softmax %0 axis 1 {{nn.key = "softmax"}} : ({s}) -> {s}
  %2 = nn.fully_connected %x, %w {{nn.key = "values"}} : ({x}, tensor<{SIZE}x8xf32>) -> {h}
  %3 = nn.matmul %1, %2 {{nn.key = "mean"}} : ({s}, {h}) -> {h}
  %4 = nn.fully_connected %3, %u {{nn.key = "out"}} : ({h}, tensor<6x{SIZE}xf32>) -> {y}
  func.return %4 : {y}
}}
"""


def stream() -> str:
    """A sum that a norm with two large gains takes, and a product of that."""
    random, gains = np.random.default_rng(1), np.ones(SIZE)
    gains[[3, 8]] = -30
    x, h, y = "tensor<5x8xf32>", f"tensor<5x{SIZE}xf32>", "tensor<5x6xf32>"
    return f"""
func.func @main(%x: {x} {{nn.name = "x"}}) -> {y} {{
  %w = {dense(random.normal(0, 1, (SIZE, 8)))}
  %v = {dense(random.normal(0, 1, (SIZE, 8)))}
  %g = {dense(gains)}
  %u = {dense(random.normal(0, 1, (6, SIZE)) / gains)}
  %0 = nn.fully_connected %x, %w {{nn.key = "first"}} : ({x}, tensor<{SIZE}x8xf32>) -> {h}
  %1 = nn.relu %x {{nn.key = "relu"}} : ({x}) -> {x}
  %2 = nn.fully_connected %1, %v {{nn.key = "block"}} : ({x}, tensor<{SIZE}x8xf32>) -> {h}
  %3 = nn.add %0, %2 {{nn.key = "sum"}} : ({h}, {h}) -> {h}
  %4 = nn.layer_norm %3, %g {{nn.key = "norm"}} : ({h}, tensor<{SIZE}xf32>) -> {h}
  %5 = nn.fully_connected %4, %u {{nn.key = "last"}} : ({h}, tensor<6x{SIZE}xf32>) -> {y}
  func.return %5 : {y}
}}
"""


def mixture() -> str:
    """A gelu, whose large and small weights meet in no order."""
    random = np.random.default_rng(1)
    sizes = random.permutation(np.repeat([1.0, 6.0], SIZE // 2))
    x, h, y = "tensor<5x8xf32>", f"tensor<5x{SIZE}xf32>", "tensor<5x6xf32>"
    return f"""
func.func @main(%x: {x} {{nn.name = "x"}}) -> {y} {{
  %w = {dense(random.normal(0, 1, (SIZE, 8)))}
  %v = {dense(random.normal(0, 1, (SIZE, 6)) * sizes[:, None])}
  %0 = nn.fully_connected %x, %w {{nn.key = "first"}} : ({x}, tensor<{SIZE}x8xf32>) -> {h}
  %1 = nn.gelu %0 {{nn.key = "gelu"}} : ({h}) -> {h}
  %2 = nn.matmul %1, %v {{nn.key = "second"}} : ({h}, tensor<{SIZE}x6xf32>) -> {y}
  func.return %2 : {y}
}}
"""


def outlier() -> str:
    """A clamp that lets no factor pass, and weights of which one column is large."""
    random = np.random.default_rng(1)
    second = random.normal(0, 1, (6, SIZE))
    second[:, 3] *= 12
    x, h, y = "tensor<5x8xf32>", f"tensor<5x{SIZE}xf32>", "tensor<5x6xf32>"
    return f"""
func.func @main(%x: {x} {{nn.name = "x"}}) -> {y} {{
  %w = {dense(random.normal(0, 1, (SIZE, 8)))}
  %v = {dense(second)}
  %0 = nn.fully_connected %x, %w {{nn.key = "first"}} : ({x}, tensor<{SIZE}x8xf32>) -> {h}
  %1 = nn.clip %0 min -1.0 max 1.0 {{nn.key = "clip"}} : ({h}) -> {h}
  %2 = nn.fully_connected %1, %v {{nn.key = "second"}} : ({h}, tensor<6x{SIZE}xf32>) -> {y}
  func.return %2 : {y}
}}
"""


NETS: Mapping[str, tuple[str, tuple[int, ...], AnyRewrite]] = {
    "equalize": (chain(), (1, 4, 6, 6), Equalize()),
    "smooth": (gated(), (5, 8), Smooth(on_codes=True)),
    "shift": (offset(), (5, 8), Shift()),
    "rotate": (attention(), (5, 8), Rotate()),
    "permute": (mixture(), (5, 8), Permute()),
    "split": (outlier(), (5, 8), Split()),
    "stream": (stream(), (5, 8), Rotate()),
    "even": (attention(largest=1.0), (5, 8), Rotate()),
}


def recipe_of(rewrite: AnyRewrite) -> Recipe:
    few = {"permute": Recipe(weights="u4", block=4), "split": Recipe(weights="i4")}
    return few.get(rewrite.name, Recipe())


def opened(text: str, folder: Path) -> Model:
    path = folder / "net.mlir"
    path.write_text(text)
    model = qd.load(path)
    model.ctx.target = get_target("onnxruntime")
    return model


def read(folder: Path, name: str) -> tuple[Model, Sequence[Arrays], AnyRewrite]:
    text, shape, rewrite = NETS[name]
    random = np.random.default_rng(5)
    samples = [{"x": random.normal(0, 1, shape).astype("f4")} for _ in range(24)]
    return opened(text, folder), samples, rewrite


def rewritten(model: Model, samples: Sequence[Arrays], rewrite: AnyRewrite) -> Model:
    changed = Model(model.module.clone(), model.ctx.clone())
    found = measured(changed.module, changed.ctx, samples, "numpy")
    made = rewrite(changed.module, changed.ctx, found, recipe_of(rewrite))
    assert made is not None
    assert made.groups == 1
    assert made.channels == (1 if rewrite.name == "split" else SIZE)
    # Of an order it is foretold that small weights lose no more than themselves anyway.
    assert made.gain > (0.2 if rewrite.name == "permute" else 1)
    return changed


@pytest.mark.parametrize("name", [name for name in NETS if name != "even"])
def test_the_function_stays(name: str, tmp_path: Path) -> None:
    model, samples, rewrite = read(tmp_path, name)
    changed = rewritten(model, samples, rewrite)
    changed.module.verify()
    assert str(changed.module) != str(model.module)
    for sample in samples[:3]:
        (before,), (after,) = (qd.run(each, sample).values() for each in (model, changed))
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5 * np.abs(before).max())


def in_rationals(text: str) -> str:
    """A net of ops with formulas in + - * /; no rewrite asks which functions they are."""
    return text.replace("nn.gelu", "nn.hard_swish").replace("softmax %0 axis 1", "abs %0")


def exact_numbers(choice: Any) -> Any:
    """A choice with numbers such that no new constant is rounded: powers of two, integers, and of
    rotations the Hadamard matrix; orders and halves round none."""
    if isinstance(choice, Permuted | Doubled):
        return choice
    if isinstance(choice, ByFactors):
        powers = np.exp2(np.rint(np.log2(choice.factors.factors)))
        return replace(choice, factors=replace(choice.factors, factors=powers))
    if isinstance(choice, Shifted):
        return replace(choice, numbers=np.rint(choice.numbers))
    assert isinstance(choice, Rotated)
    matrix = np.ones((1, 1))
    while len(matrix) < SIZE:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]]) / 2**0.5
    changes = [(group, block, np.rint(matrix * 4) / 4) for group, block, _ in choice.changes]
    return replace(choice, changes=changes)


@pytest.mark.parametrize("name", [name for name in NETS if name not in ("even", "stream")])
def test_the_function_stays_in_rationals(name: str, tmp_path: Path) -> None:
    """All but that of a norm, which takes a root."""
    text, shape, rewrite = NETS[name]
    model = opened(in_rationals(text), tmp_path)
    for op in list(model.function().body.block.ops):
        if isinstance(op, ConstantOp):
            numbers = {(user.operation, user.index) for user in op.result.uses}
            array = np.rint(4 * constant_array(op, model.ctx.blobs)) / 4
            replace_constants(dict.fromkeys(numbers, array.astype(np.float64)), model.ctx)
    random = np.random.default_rng(5)
    samples = [{"x": random.normal(0, 1, shape).astype("f4")} for _ in range(8)]
    changed = Model(model.module.clone(), model.ctx.clone())
    found = measured(changed.module, changed.ctx, samples, "numpy")
    foretold = rewrite.foretold(changed.module, changed.ctx, found, recipe_of(rewrite))
    assert foretold is not None
    chosen = [exact_numbers(choice) for choice in foretold.chosen]
    assert replace(foretold, chosen=chosen).apply() is not None
    assert str(changed.module) != str(model.module)
    x = random_rationals(shape, random)
    before, after = (exact_results(each, [x]) for each in (model, changed))
    assert (before[0] == after[0]).all()
    assert len({str(each.value) for each in before[0].reshape(-1)}) > 10


@pytest.mark.parametrize("name", [name for name in NETS if name != "even"])
def test_less_is_lost(name: str, tmp_path: Path) -> None:
    model, samples, rewrite = read(tmp_path, name)
    found = measured(model.module, model.ctx, samples, "numpy")
    changed = Model(model.module.clone(), model.ctx.clone())
    made = rewrite(changed.module, changed.ctx, found, recipe_of(rewrite))
    assert made is not None
    np.savez(tmp_path / "data.npz", x=np.stack([sample["x"] for sample in samples]))
    losses: list[float] = []
    for each, kept in ((model, frozenset[str]()), (changed, made.keep_float)):
        recipe = replace(recipe_of(rewrite), keep_float=kept)
        quantized = qd.quantize(
            each, tmp_path / "data.npz", recipe=recipe, target="onnxruntime"
        ).model
        pairs = [(qd.run(model, s), qd.run(quantized, s)) for s in samples[:6]]
        noise = [np.square(a[n] - b[n]).mean() for a, b in pairs for n in a]
        losses.append(float(np.mean(noise)))
    assert losses[1] < 0.7 * losses[0]


def test_statistics_are_those_of_the_values(tmp_path: Path) -> None:
    model, samples, _ = read(tmp_path, "equalize")
    found = measured(model.module, model.ctx, samples, "numpy")
    x = np.stack([sample["x"] for sample in samples])
    assert found.count == len(samples)
    assert found.channels[0].low.shape == (1, 4, 1, 1)
    np.testing.assert_allclose(found.channels[0].low.reshape(-1), x.min(axis=(0, 1, 3, 4)))
    power = np.square(x, dtype=float).mean(axis=(0, 1, 3, 4))
    np.testing.assert_allclose(found.channels[0].power.reshape(-1), power, rtol=1e-6)


def test_there_is_nothing_to_do_without_statistics_or_groups(tmp_path: Path) -> None:
    model, _, _ = read(tmp_path, "equalize")
    assert Smooth()(model.module, model.ctx, Statistics(), Recipe()) is None
    assert Equalize()(model.module, model.ctx, Statistics(), Recipe()) is None


@pytest.mark.parametrize("name", ["shift", "rotate", "permute", "split"])
def test_neither_is_there_without_statistics(name: str, tmp_path: Path) -> None:
    model, _, rewrite = read(tmp_path, name)
    assert rewrite(model.module, model.ctx, Statistics(), recipe_of(rewrite)) is None


def test_no_order_matters_where_all_of_a_row_has_one_scale(tmp_path: Path) -> None:
    model, samples, rewrite = read(tmp_path, "permute")
    found = measured(model.module, model.ctx, samples, "numpy")
    for recipe in (Recipe(), Recipe(weights="u4", block=SIZE)):
        assert rewrite(model.module, model.ctx, found, recipe) is None


def test_copies_have_to_gain_in_all(tmp_path: Path) -> None:
    model, samples, _ = read(tmp_path, "split")
    found = measured(model.module, model.ctx, samples, "numpy")
    gains = [
        Split(in_all=least).foretold(model.module, model.ctx, found, Recipe(weights="i4"))
        for least in (0.1, 40.0)
    ]
    assert gains[0] is not None and 0.1 < gains[0].gain < 40
    assert gains[1] is None


@pytest.mark.parametrize("weights", ["u2", "nf4", "mxfp4", "mxint8"])
def test_formats_that_are_in_blocks_only_are_foretold(weights: str, tmp_path: Path) -> None:
    """They have no integers that are summed."""
    model, samples, rewrite = read(tmp_path, "permute")
    found = measured(model.module, model.ctx, samples, "numpy")
    made = rewrite.foretold(model.module, model.ctx, found, Recipe(weights=weights))
    assert made is None or made.gain > 0


@pytest.mark.parametrize("rewrite", [Shift(), Rotate()], ids=["shift", "rotate"])
@pytest.mark.parametrize("name", ["equalize", "even"])
def test_there_is_nothing_to_gain(name: str, rewrite: AnyRewrite, tmp_path: Path) -> None:
    """Nothing passes a relu; of channels alike none is large or off the middle."""
    model, samples, _ = read(tmp_path, name)
    before, found = str(model.module), measured(model.module, model.ctx, samples, "numpy")
    assert rewrite(model.module, model.ctx, found, Recipe()) is None
    assert str(model.module) == before


def test_functions_of_streams_stay() -> None:
    """Also where a rotation promises nothing."""
    for seed in range(12):
        ctx, (text, given) = new_context(), random_stream(seed)
        module = read_module(text, ctx)
        prepare(module, ctx, frozenset())
        before = Interpreter(ctx, module).run([given])
        found = measured(module, ctx, [{"x": given}], "numpy")
        made = Rotate(worth=-100.0)(module, ctx, found, Recipe())
        assert made is not None
        assert made.channels >= WIDTH
        module.verify()
        for was, now in zip(before, Interpreter(ctx, module).run([given]), strict=True):
            np.testing.assert_allclose(now, was, atol=2e-5 * np.abs(was).max())


RECIPES = (Recipe(), Recipe(per_channel=False), Recipe(weights_only=frozenset({"all"}), block=2))


@pytest.mark.parametrize(
    "rewrite", [Shift(), Rotate(), Permute(), Split()], ids=["shift", "rotate", "permute", "split"]
)
def test_functions_of_generated_networks_stay(rewrite: AnyRewrite) -> None:
    groups = 0
    for seed in range(12):
        ctx, random = new_context(), np.random.default_rng(seed)
        text = random_channels(seed)
        module = read_module(text, ctx)
        shape = (1, 3, 5, 5) if "%x: tensor<1x3x5x5" in text else (1, 4, 6)
        samples = [{"x": random.normal(0, 1, shape).astype("f4")} for _ in range(4)]
        before = Interpreter(ctx, module).run([samples[0]["x"]])
        found = measured(module, ctx, samples, "numpy")
        made = rewrite(module, ctx, found, RECIPES[seed % len(RECIPES)])
        groups += 0 if made is None else made.groups
        module.verify()
        for was, now in zip(before, Interpreter(ctx, module).run([samples[0]["x"]]), strict=True):
            np.testing.assert_allclose(now, was, atol=1e-5 * np.abs(was).max())
    assert groups
