"""Weights rounded with care: nets that are nearer to the float ones, on the same qparams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import qdialect as qd
from qdialect.errors import InputError
from qdialect.quantizer import shared_weights, weight_rounding
from qdialect.quantizer.bias_correction import BiasCorrection
from qdialect.quantizer.grids import Grids, assign
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.selection import Selection, select
from qdialect.quantizer.shared_weights import rows_fit
from qdialect.quantizer.values import Values, real_array
from qdialect.quantizer.weight_rounding import Method, WeightRounding
from qdialect.targets.installed import get_target

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

NET = """
!x = tensor<2x4x8x8xf32>
func.func @main(%x: !x {{nn.name = "x"}}) -> (tensor<2x6x8x8xf32>, tensor<2x6x8x8xf32>) {{
  %w = nn.constant dense<{w}> : tensor<6x4x3x3xf32> : tensor<6x4x3x3xf32>
  %d = nn.constant dense<{d}> : tensor<6x1x3x3xf32> : tensor<6x1x3x3xf32>
  %b = nn.constant dense<{b}> : tensor<6xf32> : tensor<6xf32>
  %0 = nn.conv2d %x, %w, %b pads [1, 1, 1, 1] {{nn.key = "first"}}
      : (!x, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<2x6x8x8xf32>
  %1 = nn.relu %0 {{nn.key = "relu"}} : (tensor<2x6x8x8xf32>) -> tensor<2x6x8x8xf32>
  %2 = nn.conv2d %1, %d pads [1, 1, 1, 1] groups 6 {{nn.key = "second"}}
      : (tensor<2x6x8x8xf32>, tensor<6x1x3x3xf32>) -> tensor<2x6x8x8xf32>
  %n = nn.neg %x {{nn.key = "neg"}} : (!x) -> !x
  %3 = nn.conv2d %n, %w, %b pads [1, 1, 1, 1] {{nn.key = "third"}}
      : (!x, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<2x6x8x8xf32>
  func.return %2, %3 : tensor<2x6x8x8xf32>, tensor<2x6x8x8xf32>
}}
"""


BIAS = np.linspace(-1, 1, 6)


def blurred(random: np.random.Generator) -> NDArray[np.float32]:
    """Images whose neighbours are alike."""
    x = random.normal(size=(2, 4, 10, 10))
    mixed = sum(x[:, :, i : i + 8, j : j + 8] for i in range(3) for j in range(3))
    return (np.asarray(mixed) / 3 + 1).astype("f4")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> tuple[qd.Model, Profile, list[Arrays]]:
    """A net of a convolution, a depthwise one, and one that shares the weights of the first."""
    random, folder = np.random.default_rng(2), tmp_path_factory.mktemp("net")
    shapes = {"w": (6, 4, 3, 3), "d": (6, 1, 3, 3)}
    values = {name: random.normal(size=shape).tolist() for name, shape in shapes.items()}
    values["b"] = BIAS.tolist()
    path, data = folder / "net.mlir", folder / "data.npz"
    path.write_text(NET.format(**values))
    samples: list[Arrays] = [{"x": blurred(random)} for _ in range(8)]
    np.savez(data, x=np.stack([sample["x"] for sample in samples]))
    model = qd.load(path)
    return model, qd.calibrate(model, data, engine="numpy"), samples


def chosen(
    model: qd.Model, profile: Profile, recipe: Recipe, target: str = "generic"
) -> tuple[Selection, Grids]:
    """What is quantized of a copy of a model, and how."""
    copy = qd.Model(model.module.clone(), model.ctx.clone())
    copy.ctx.target = get_target(target)
    selection = select(Values(copy.function(), copy.ctx, profile, recipe))
    return selection, assign(selection)


def errors(selection: Selection, grids: Grids, samples: list[Arrays]) -> dict[str, float]:
    """Mean squares of what the errors of weights make, by op; of means that are not corrected."""
    found: dict[str, float] = {}
    for op, behavior in selection.ops.items():
        if behavior.accumulator is None or behavior.arithmetic is None:
            continue
        real = real_array(op.operands[1], selection.values.ctx.blobs)
        assert real is not None
        error = grids.constants[op, 1].real() - real
        key = str(op.attributes["nn.key"])
        made: list[Any] = []
        for sample in samples:
            x = sample["x"].astype("f8")
            if "third" in key:
                x = -x
            if "second" in key:
                x = np.maximum(first_result(selection, x), 0)
            made.append(behavior.arithmetic(op, [x, error]))
        result = np.moveaxis(np.array(made), 2, 0).reshape(6, -1)
        found[key] = float(result.var(axis=1).mean())
    return found


def first_result(selection: Selection, x: NDArray[np.float64]) -> NDArray[np.float64]:
    for op, behavior in selection.ops.items():
        if "first" in str(op.attributes.get("nn.key")) and behavior.arithmetic is not None:
            blobs = selection.values.ctx.blobs
            constants = [real_array(operand, blobs) for operand in op.operands[1:]]
            return behavior.arithmetic(op, [x, *constants])
    raise AssertionError


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("weights", ["i8", "u8", "i4", "i3", "u3"])
@pytest.mark.parametrize("method", ["gptq", "descent"])
def test_results_are_nearer(
    net: tuple[qd.Model, Profile, list[Arrays]],
    method: Method,
    weights: str,
    per_channel: bool,
    engine: str,
) -> None:
    model, profile, samples = net
    recipe = Recipe(weights=weights, per_channel=per_channel)
    selection, grids = chosen(model, profile, recipe)
    before, params = errors(selection, grids, samples), dict(grids.constants)
    WeightRounding(samples, engine, method)(selection, grids)
    after = errors(selection, grids, samples)
    assert before.keys() == after.keys() and len(after) == 3
    # One rounding for both that share weights.
    shared = [grids.constants[op, 1].codes for op in selection.ops if op.name == "nn.conv2d"]
    assert len(shared) == 3 and (shared[0] == shared[2]).all()
    for key, loss in after.items():
        # Nine weights leave little to choose.
        assert loss < before[key] * (1.001 if "second" in key else 0.8), key
    for place, constant in grids.constants.items():
        assert constant.qparams == params[place].qparams
        assert constant.codes.dtype == params[place].codes.dtype
        assert constant.codes.min() >= constant.qparams.storage.min
        assert constant.codes.max() <= constant.qparams.storage.max


def test_rows_whose_sums_do_not_fit_keep_their_codes(
    net: tuple[qd.Model, Profile, list[Arrays]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, profile, samples = net
    selection, grids = chosen(model, profile, Recipe(weights="i4"))
    before = dict(grids.constants)
    fits = np.array([True, False, True, False, True, True])

    def some(*_: object) -> NDArray[np.bool_]:
        return fits

    monkeypatch.setattr(shared_weights, "rows_fit", some)
    WeightRounding(samples, "numpy")(selection, grids)
    moved = np.zeros(6, np.bool_)
    for place, constant in grids.constants.items():
        if place[1] == 1:
            differs = (constant.codes != before[place].codes).reshape(6, -1).any(axis=1)
            assert not differs[~fits].any()
            moved |= differs
    assert moved[fits].all()


def test_sums_of_a_narrow_target_still_fit(net: tuple[qd.Model, Profile, list[Arrays]]) -> None:
    model, profile, samples = net
    selection, grids = chosen(model, profile, Recipe(), "onnxruntime")
    WeightRounding(samples, "numpy")(selection, grids)
    for op, behavior in selection.ops.items():
        if behavior.accumulator is not None:
            constant = grids.constants[op, 1]
            assert rows_fit(op, constant, selection, grids).all()


def test_what_is_known_is_not_measured_again(
    net: tuple[qd.Model, Profile, list[Arrays]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, profile, samples = net
    recipe = Recipe(weights="i4")
    first, second = (chosen(model, profile, recipe) for _ in range(2))
    WeightRounding(samples, "numpy", state=tmp_path / "state")(*first)
    asked: list[int] = []
    measured = weight_rounding.moments

    def counted(values: Any, ops: Any, *rest: Any) -> Any:
        asked.append(len(ops))
        return measured(values, ops, *rest)

    monkeypatch.setattr(weight_rounding, "moments", counted)
    again = WeightRounding(samples, "numpy", state=tmp_path / "state")
    again(*second)
    assert not asked
    for one, other in zip(first[1].constants.values(), second[1].constants.values(), strict=True):
        assert (one.codes == other.codes).all()
    # A damaged file is made again, other samples and another method are other results.
    damaged = sorted((tmp_path / "state").iterdir())[0]
    damaged.write_bytes(b"no array")
    WeightRounding(samples, "numpy", state=tmp_path / "state")(*chosen(model, profile, recipe))
    assert len(asked) == 1
    for other in (
        WeightRounding(samples[:4], "numpy", state=tmp_path / "state"),
        WeightRounding(samples, "numpy", "descent", state=tmp_path / "state"),
    ):
        other(*chosen(model, profile, recipe))
    assert len(asked) == 3


def test_a_state_that_cannot_be_kept(
    net: tuple[qd.Model, Profile, list[Arrays]], tmp_path: Path
) -> None:
    model, profile, samples = net
    file = tmp_path / "file"
    file.write_text("")
    rounding = WeightRounding(samples, "numpy", state=file / "below")
    with pytest.raises(InputError, match="cannot keep state here"):
        rounding(*chosen(model, profile, Recipe(weights="i4")))


def test_bias_correction_goes_on_from_there(
    net: tuple[qd.Model, Profile, list[Arrays]],
) -> None:
    model, profile, samples = net
    selection, grids = chosen(model, profile, Recipe(weights="i4"))
    WeightRounding(samples, "numpy")(selection, grids)
    codes = {place: c.codes for place, c in grids.constants.items() if place[1] == 1}
    BiasCorrection(samples, "numpy")(selection, grids)
    assert all((grids.constants[place].codes == c).all() for place, c in codes.items())


def test_there_is_no_such_method() -> None:
    with pytest.raises(
        ValueError, match="method: one of gptq, descent, sequential, adaround, blocks, not 'other'"
    ):
        WeightRounding([], "numpy", "other")  # pyright: ignore[reportArgumentType]


def test_workers_round_the_same(net: tuple[qd.Model, Profile, list[Arrays]]) -> None:
    pytest.importorskip("distributed")
    from qdialect.workflows.rounding_workers import on_workers

    model, profile, samples = net
    first, second = (chosen(model, profile, Recipe(weights="i4")) for _ in range(2))
    rounding = WeightRounding(samples, "numpy", solve=on_workers("1"))
    rounding(*first)
    WeightRounding(samples, "numpy")(*second)
    for one, other in zip(first[1].constants.values(), second[1].constants.values(), strict=True):
        assert (one.codes == other.codes).all() and one.qparams == other.qparams
    # Everything is known now, so nobody starts any.
    rounding.solve = on_workers("nowhere:x")
    rounding(*chosen(model, profile, Recipe(weights="i4")))
