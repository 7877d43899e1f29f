"""Weights rounded behind quantized ops: each stage makes up for what the ones above lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import qdialect as qd
from qdialect.ir.ops import keys_of
from qdialect.quantizer import weight_rounding
from qdialect.quantizer.apply_profile import apply_profile
from qdialect.quantizer.bias_correction import BiasCorrection
from qdialect.quantizer.block_rounding import BlockRounding
from qdialect.quantizer.grids import Grids, assign
from qdialect.quantizer.operands import ValueRun, float_operands
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.quantized_copy import quantized_copy, stages
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.selection import Selection, select
from qdialect.quantizer.sequential import curve_behind, paired, shifted_rows
from qdialect.quantizer.shared_weights import shared_weights
from qdialect.quantizer.values import Values
from qdialect.quantizer.weight_rounding import Method, WeightRounding
from qdialect.targets.installed import get_target
from tests.generators.channel_networks import random_channels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

W4 = Recipe(weights="i4")
DEPTH = 6


def chain_of_convolutions(random: np.random.Generator) -> str:
    """Convolutions behind each other, with relus between and a hard sigmoid behind the last."""
    lines, kind = list[str](), "tensor<2x8x6x6xf32>"
    for n in range(DEPTH):
        w, b = random.normal(0, 0.2, (8, 8, 3, 3)), random.normal(0, 0.3, 8)
        lines += [
            f"%w{n} = nn.constant dense<{w.tolist()}> : tensor<8x8x3x3xf32> : tensor<8x8x3x3xf32>",
            f"%b{n} = nn.constant dense<{b.tolist()}> : tensor<8xf32> : tensor<8xf32>",
            f'%c{n} = nn.conv2d %x{n}, %w{n}, %b{n} pads [1, 1, 1, 1] {{nn.key = "conv{n}"}} '
            f": ({kind}, tensor<8x8x3x3xf32>, tensor<8xf32>) -> {kind}",
            f'%x{n + 1} = nn.relu %c{n} {{nn.key = "relu{n}"}} : ({kind}) -> {kind}',
        ]
    body = "\n  ".join(lines)
    return (
        f'func.func @main(%x0: {kind} {{nn.name = "x"}}) -> {kind} {{\n  {body}\n'
        f"  func.return %c{DEPTH - 1} : {kind}\n}}"
    )


Net = tuple[qd.Model, Profile, "list[Arrays]", "list[Arrays]"]


def net_of(text: str, shape: tuple[int, ...], folder: Path, count: int = 12) -> Net:
    """A network, its profile of half of some samples, these, and the others."""
    random, path, data = np.random.default_rng(1), folder / "net.mlir", folder / "data.npz"
    path.write_text(text)
    mixed = random.normal(size=(shape[1], shape[1]))
    samples = [
        {"x": np.einsum("ij,bj...->bi...", mixed, random.normal(size=shape)).astype("f4")}
        for _ in range(2 * count)
    ]
    np.savez(data, x=np.stack([sample["x"] for sample in samples[:count]]))
    model = qd.load(path)
    return model, qd.calibrate(model, data, engine="numpy"), samples[:count], samples[count:]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Net:
    return net_of(
        chain_of_convolutions(np.random.default_rng(5)),
        (2, 8, 6, 6),
        tmp_path_factory.mktemp("chain"),
    )


def chosen(net: Net, recipe: Recipe = W4) -> tuple[Selection, Grids]:
    """What is quantized of a copy of a model, and how."""
    model, profile, *_ = net
    copy = qd.Model(model.module.clone(), model.ctx.clone())
    copy.ctx.target = get_target("generic")
    selection = select(Values(copy.function(), copy.ctx, profile, recipe))
    return selection, assign(selection)


def noise(net: Net, rounding: WeightRounding | None, recipe: Recipe = W4) -> float:
    """The noise of results over their power, on samples that nothing was rounded by."""
    model, profile, seen, others = net
    copy = qd.Model(model.module.clone(), model.ctx.clone())
    copy.ctx.target = get_target("generic")
    correct = BiasCorrection(seen, "numpy")
    apply_profile(copy.module, copy.ctx, profile, recipe, rounding=rounding, correct=correct)
    wrong = power = 0.0
    for sample in others:
        results = zip(qd.run(model, sample).values(), qd.run(copy, sample).values(), strict=True)
        for expected, actual in results:
            wrong += float(np.square(actual.astype("f8") - expected).sum())
            power += float(np.square(expected, dtype="f8").sum())
    return wrong / power


@pytest.mark.parametrize("recipe", [W4, Recipe(weights="i3"), Recipe(weights="u3")])
def test_what_is_below_makes_up_for_what_is_above(chain: Net, recipe: Recipe) -> None:
    found = {
        method: noise(chain, WeightRounding(chain[2], "numpy", method), recipe)
        for method in ("gptq", "descent", "sequential", "adaround")
    }
    nearest = noise(chain, None, recipe)
    assert found["sequential"] < found["descent"]
    assert max(found.values()) < 0.8 * nearest


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(weights="u4", per_channel=False)])
def test_other_codes_and_no_channels(chain: Net, recipe: Recipe) -> None:
    assert noise(chain, WeightRounding(chain[2], "numpy", "sequential"), recipe) < noise(
        chain, None, recipe
    )


def test_means_of_results_are_those_of_the_float_model(chain: Net) -> None:
    model, profile, seen, _ = chain
    errors: dict[str, float] = {}
    for name, rounding in (
        ("plain", None),
        ("sequential", WeightRounding(seen, "numpy", "sequential")),
    ):
        copy = qd.Model(model.module.clone(), model.ctx.clone())
        copy.ctx.target = get_target("generic")
        apply_profile(copy.module, copy.ctx, profile, W4, rounding=rounding)
        means = [
            np.mean([next(iter(qd.run(m, s).values())) for s in seen], axis=(0, 1, 3, 4))
            for m in (model, copy)
        ]
        errors[name] = float(np.abs(means[1] - means[0]).max())
    assert errors["sequential"] < 0.3 * errors["plain"]


@pytest.mark.parametrize("seed", range(12))
def test_a_copy_is_what_is_written(seed: int, tmp_path: Path) -> None:
    text = random_channels(seed)
    shape = (1, 3, 5, 5) if "1x3x5x5" in text.split("->")[0] else (1, 4, 6)
    net = net_of(text, shape, tmp_path, 3)
    model, profile, seen, _ = net
    selection, grids = chosen(net)
    before = str(selection.values.function)
    copy = quantized_copy(selection, grids)
    assert str(selection.values.function) == before
    whole = qd.Model(model.module.clone(), model.ctx.clone())
    whole.ctx.target = get_target("generic")
    prepared = qd.Model(copy.module, copy.ctx)
    apply_profile(whole.module, whole.ctx, profile, W4)
    for sample in seen:
        for one, other in zip(
            qd.run(whole, sample).values(), qd.run(prepared, sample).values(), strict=True
        ):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("most", [1, 3, 100])
def test_nothing_is_above_an_earlier_stage(seed: int, most: int, tmp_path: Path) -> None:
    text = random_channels(seed)
    shape = (1, 3, 5, 5) if "1x3x5x5" in text.split("->")[0] else (1, 4, 6)
    selection, grids = chosen(net_of(text, shape, tmp_path, 2))
    groups = [[op] for each in shared_weights(selection, grids) for op in each.ops]
    found = stages(selection, groups, most)
    assert len(found) <= most
    assert sorted(n for first, others in found for n in (*first, *others)) == [*range(len(groups))]
    place = {
        groups[n][0]: (stage, side)
        for stage, parts in enumerate(found)
        for side, part in enumerate(parts)
        for n in part
    }
    above: dict[Any, set[Any]] = {}
    for op in selection.values.block.ops:
        above[op] = set()
        for operand in op.operands:
            if operand.owner in above:
                above[op] |= {operand.owner} | above[operand.owner]
        for other in above[op]:
            if op in place and other in place:
                stage, side = place[op]
                assert place[other][0] < stage or (place[other][0] == stage and side == 1)


@pytest.mark.parametrize("centered", [True, False])
def test_pairs_are_those_of_both_models(chain: Net, centered: bool) -> None:
    selection, grids = chosen(chain)
    shared = shared_weights(selection, grids)
    for each, (first, second) in paired(
        selection, grids, shared, shared[3:], chain[2], "numpy", keep=True
    ):
        both = first.joined(second)
        exact, made = (
            np.concatenate([pair[side] for pair in both.kept], axis=2).astype("f8")
            for side in (0, 1)
        )
        # Few enough that none was left out.
        assert exact.shape[2] == both.made.count
        if centered:
            exact, made = (x - x.mean(axis=2, keepdims=True) for x in (exact, made))
        hessian, cross = both.moments(centered)
        count = exact.shape[2]
        scale = np.abs(hessian).max()
        assert np.allclose(hessian, made @ made.swapaxes(1, 2) / count, atol=2e-5 * scale)
        assert np.allclose(cross, exact @ made.swapaxes(1, 2) / count, atol=2e-5 * scale)
        # The rows that are nearest with what is made do not lose more than those that are given.
        rows, _ = each.rows()
        near = shifted_rows(rows, (first, second), centered)
        lost = [float(np.square(rows @ exact - r @ made).mean()) for r in (rows, near)]
        assert lost[1] <= lost[0] * 1.0001


def test_the_curve_behind_is_what_the_grid_and_the_op_make(chain: Net) -> None:
    selection, grids = chosen(chain)
    for op in selection.ops:
        if op.name != "nn.conv2d":
            continue
        curve = curve_behind(op, selection, grids)
        assert curve is not None
        x = np.linspace(-50, 50, 11).astype("f4")
        values, slopes = curve(x)
        last = keys_of(op)[0] == f"conv{DEPTH - 1}"
        assert values.min() == (curve.low if last else 0) and values.max() < 50
        assert np.allclose(slopes, np.rint(slopes), atol=1e-6) and set(np.rint(slopes)) <= {0, 1}


@pytest.mark.parametrize("method", ["sequential", "adaround"])
def test_a_run_goes_on_from_its_state(
    chain: Net, method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = chain[2][:4]
    first, second, third = (chosen(chain) for _ in range(3))
    WeightRounding(seen, "numpy", method, state=tmp_path)(*first)
    asked: list[int] = []
    measure = weight_rounding.paired

    def counted(selection: Any, grids: Any, groups: Any, *rest: Any, **more: Any) -> Any:
        asked.append(len(groups))
        return measure(selection, grids, groups, *rest, **more)

    monkeypatch.setattr(weight_rounding, "paired", counted)
    WeightRounding(seen, "numpy", method, state=tmp_path)(*second)
    assert not asked

    def same(one: Grids, other: Grids) -> bool:
        constants = zip(one.constants.values(), other.constants.values(), strict=True)
        shifts = zip(one.shifts.values(), other.shifts.values(), strict=True)
        return all(np.array_equal(a.codes, b.codes) for a, b in constants) and all(
            np.array_equal(a, b) for a, b in shifts
        )

    assert first[1].shifts and same(first[1], second[1])
    sorted(tmp_path.iterdir())[0].write_bytes(b"no archive")
    WeightRounding(seen, "numpy", method, state=tmp_path)(*third)
    assert asked == [1] and same(first[1], third[1])


PERCEPTRON = """
!x = tensor<2x32xf32>
func.func @main(%x: !x {{nn.name = "x"}}) -> !x {{
  %w = nn.constant dense<{w}> : tensor<32x32xf32> : tensor<32x32xf32>
  %v = nn.constant dense<{v}> : tensor<32x32xf32> : tensor<32x32xf32>
  %0 = nn.matmul %x, %w {{nn.key = "first"}} : (!x, tensor<32x32xf32>) -> !x
  %1 = nn.relu %0 {{nn.key = "relu"}} : (!x) -> !x
  %2 = nn.matmul %1, %v {{nn.key = "second"}} : (!x, tensor<32x32xf32>) -> !x
  func.return %2 : !x
}}
"""


@pytest.mark.parametrize("weights", ["u2", "i2", "u3", "i3", "u4"])
def test_weights_that_alone_are_codes_make_up_for_what_is_above(
    weights: str, tmp_path: Path
) -> None:
    random, recipe = np.random.default_rng(3), Recipe(weights=weights, block=16)
    w, v = (random.normal(0, 0.3, (32, 32)).tolist() for _ in range(2))
    net = net_of(PERCEPTRON.format(w=w, v=v), (2, 32), tmp_path, 400)
    errors: dict[str, float] = {}
    for method in ("nearest", "none", "gptq", "sequential", "adaround"):
        selection, grids = chosen(net, recipe)
        if method != "nearest":
            BlockRounding(net[2], "numpy")(selection, grids)
        before = dict(grids.only_weights)
        if method not in ("nearest", "none"):
            WeightRounding(net[2], "numpy", method)(selection, grids)
        copy = quantized_copy(selection, grids)
        made = qd.Model(copy.module, copy.ctx)
        errors[method] = 0.0
        for sample in net[3]:
            (expected,), (actual,) = (qd.run(m, sample).values() for m in (net[0], made))
            errors[method] += float(np.square(actual - expected).sum())
        for op, (params, codes) in grids.only_weights.items():
            assert params == before[op][0] and codes.dtype == before[op][1].dtype
            assert params.storage.min <= codes.min() and codes.max() <= params.storage.max
    assert errors["none"] < 0.7 * errors["nearest"]
    assert errors["gptq"] == errors["none"]
    assert errors["sequential"] < 0.95 * errors["none"]
    assert errors["adaround"] < 0.95 * errors["none"]


def test_workers_round_the_same(chain: Net) -> None:
    pytest.importorskip("distributed")
    from qdialect.workflows.rounding_workers import on_workers

    seen = chain[2][:3]
    first, second = chosen(chain), chosen(chain)
    WeightRounding(seen, "numpy", "adaround", solve=on_workers("1"))(*first)
    WeightRounding(seen, "numpy", "adaround")(*second)
    for one, other in zip(first[1].constants.values(), second[1].constants.values(), strict=True):
        assert np.array_equal(one.codes, other.codes)


def test_operands_of_both_engines_are_alike(chain: Net) -> None:
    selection, grids = chosen(chain)
    ops = [op for each in shared_weights(selection, grids) for op in each.ops]
    found: list[list[NDArray[Any]]] = []
    for engine in ("numpy", "onnxruntime"):
        copy = quantized_copy(selection, grids)
        values = {op: copy.ops[op].operands[0] for op in ops}
        made = dict(ValueRun(copy.module, copy.ctx, values, engine).of(chain[2][0]))
        exact = dict(float_operands(selection.values, ops, engine).of(chain[2][0]))
        found.append([made[op] for op in ops] + [exact[op] for op in ops])
    for one, other in zip(*found, strict=True):
        assert np.abs(one - other).max() <= 0.02 * np.abs(one).max()
