"""From a float model to a quantized one: what is chosen, written, refused and reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantize_support import sqnr

import qdialect as qd
from qdialect.algebra.float_text import round_to_format
from qdialect.algebra.qparams import Storage
from qdialect.algebra.sums import Span
from qdialect.algebra.weights import (
    Choice,
    Overflow,
    Sums,
    choose_weights,
    positive_codes,
    quantized,
    symmetric_scales,
)
from qdialect.cli.qopt import main
from qdialect.ir.ops.keys import keys_of
from qdialect.ir.quant import quant_element
from qdialect.quantizer.assert_all_quantized import coverage
from qdialect.quantizer.profile.file import save_profile
from qdialect.quantizer.recipe import Recipe

NET = """
!x = tensor<1x3x8x8xf32>
!y = tensor<1x4x8x8xf32>
!m = tensor<1x8x8x8xf32>
func.func @main(%x: !x {{nn.name = "x"}}) -> tensor<1x8xf32> {{
  %w = nn.constant dense<{w}> : tensor<4x3x3x3xf32> : tensor<4x3x3x3xf32>
  %b = nn.constant dense<[0.5, -0.25, 0.0, 3.0]> : tensor<4xf32> : tensor<4xf32>
  %0 = nn.conv2d %x, %w, %b pads [1, 1, 1, 1] {{nn.key = "conv"}}
       : (!x, tensor<4x3x3x3xf32>, tensor<4xf32>) -> !y
  %1 = nn.relu %0 {{nn.key = "relu"}} : (!y) -> !y
  %2 = nn.{function} %1 {{nn.key = "function"}} : (!y) -> !y
  %3 = nn.concat %1, %2 axis 1 {{nn.key = "concat"}} : (!y, !y) -> !m
  %4 = nn.global_avg_pool2d %3 {{nn.key = "pool"}} : (!m) -> tensor<1x8x1x1xf32>
  %5 = nn.reshape %4 shape [1, 8] {{nn.key = "flat"}} : (tensor<1x8x1x1xf32>) -> tensor<1x8xf32>
  func.return %5 : tensor<1x8xf32>
}}
"""


def write(folder: Path, function: str = "sigmoid", scale: float = 1.0) -> tuple[Path, Path]:
    """The net and data for it."""
    random = np.random.default_rng(3)
    weights = (random.normal(size=(4, 3, 3, 3)) * scale * [[[[1.0]]]]).astype("f4")
    model, data = folder / "net.mlir", folder / "data.npz"
    model.write_text(NET.format(w=weights.tolist(), function=function))
    np.savez(data, x=random.normal(size=(12, 1, 3, 8, 8)).astype("f4"))
    return model, data


@pytest.mark.parametrize(
    ("recipe", "least"),
    [
        (Recipe(), 36),
        (Recipe(activations="i8", scheme="symmetric"), 30),
        (Recipe(activations="i16", scheme="symmetric"), 40),
        (Recipe(scheme="power-of-two"), 28),
        (Recipe(weights="i4"), 15),
        (Recipe(weights="i3"), 9),
        (Recipe(weights="u3"), 9),
        (Recipe(weights="u8"), 30),
        (Recipe(per_channel=False, weight_ranges="minmax"), 30),
        (Recipe(calibration="mse"), 30),
    ],
)
def test_the_model_is_near_the_float_one(tmp_path: Path, recipe: Recipe, least: float) -> None:
    path, data = write(tmp_path)
    model = qd.load(path)
    result = qd.quantize(model, data, recipe=recipe, engine="numpy", target="generic")
    assert not result.coverage.left and not result.coverage.stale
    assert sqnr(model, result.model, data) > least
    assert not coverage(result.model.module, result.model.ctx).left
    storages = {
        element.qparams.storage.spelling
        for op in result.model.module.walk()
        for value in op.results
        if (element := quant_element(value.type)) is not None
    }
    weights = recipe.integer_weights.spelling
    assert {recipe.activations, weights, "i32"} >= storages


def test_without_a_recipe_the_best_ranges_are_found(tmp_path: Path) -> None:
    path, data = write(tmp_path)
    result = qd.quantize(qd.load(path), data, engine="numpy")
    measured = [trial.sqnr for trial in result.trials]
    assert len(measured) == 7 and measured[0] >= measured[1] - 1
    assert measured[1:] == sorted(measured[1:], reverse=True)
    assert result.trials[0].recipe.calibration in ("minmax", "percentile", "mse")


def test_a_relu_is_in_the_range_of_its_convolution(tmp_path: Path) -> None:
    path, data = write(tmp_path)
    result = qd.quantize(qd.load(path), data, recipe=Recipe(), engine="numpy")
    (conv,) = [op for op in result.model.module.walk() if op.name == "nn.conv2d"]
    element = quant_element(conv.results[0].type)
    assert element is not None and element.qparams.zero_point == 0


def test_steep_functions_stay_float(tmp_path: Path) -> None:
    path, data = write(tmp_path, "sqrt")
    result = qd.quantize(qd.load(path), data, recipe=Recipe(), engine="numpy")
    assert [(left.key, left.code) for left in result.coverage.left] == [("function", "amplifies")]
    with pytest.raises(qd.QError, match="1 ops are left float") as info:
        qd.quantize(qd.load(path), data, recipe=Recipe(), engine="numpy", require_all=True)
    assert info.value.code == "not-all-quantized" and "'function'" in info.value.notes[0]


DETECTOR = """
!x = tensor<1x3x8x8xf32>
!y = tensor<1x4x8x8xf32>
!m = tensor<1x8x8x8xf32>
func.func @main(%x: !x {{nn.name = "x"}}) -> !m {{
  %w = nn.constant dense<{w}> : tensor<4x3x3x3xf32> : tensor<4x3x3x3xf32>
  %v = nn.constant dense<{v}> : tensor<4x3x3x3xf32> : tensor<4x3x3x3xf32>
  %0 = nn.conv2d %x, %w pads [1, 1, 1, 1] {{nn.key = "boxes"}} : (!x, tensor<4x3x3x3xf32>) -> !y
  %1 = nn.conv2d %x, %v pads [1, 1, 1, 1] {{nn.key = "logits"}} : (!x, tensor<4x3x3x3xf32>) -> !y
  %2 = nn.sigmoid %1 {{nn.key = "scores"}} : (!y) -> !y
  %3 = nn.concat %0, %2 axis 1 {{nn.key = "found"}} : (!y, !y) -> !m
  func.return %3 : !m
}}
"""


@pytest.mark.parametrize(("size", "mixed"), [(0.2, False), (40.0, True)])
def test_boxes_and_scores_do_not_share_a_scale(tmp_path: Path, size: float, mixed: bool) -> None:
    """A concat that the model returns stays float where one part would have too few codes."""
    random = np.random.default_rng(4)
    weights = [random.normal(size=(4, 3, 3, 3)) * scale for scale in (size, 0.5)]
    model_path, data = tmp_path / "net.mlir", tmp_path / "data.npz"
    w, v = (each.astype("f4").tolist() for each in weights)
    model_path.write_text(DETECTOR.format(w=w, v=v))
    x = random.normal(size=(8, 1, 3, 8, 8)).astype("f4")
    np.savez(data, x=x)
    model = qd.load(model_path)
    result = qd.quantize(model, data, recipe=Recipe(), engine="numpy")
    assert [left.key for left in result.coverage.left if left.code == "mixed"] == ["found"] * mixed
    (expected,), (found,) = (list(qd.run(m, {"x": x[0]}).values()) for m in (model, result.model))
    for part in (slice(0, 4), slice(4, 8)):
        signal, noise = expected[:, part], expected[:, part] - found[:, part]
        assert 10 * np.log10((signal**2).sum() / (noise**2).sum()) > 25


def test_the_most_sensitive_ops_are_kept(tmp_path: Path) -> None:
    path, data = write(tmp_path)
    model = qd.load(path)
    every = qd.quantize(model, data, recipe=Recipe(), engine="numpy")
    result = qd.quantize(model, data, recipe=Recipe(), engine="numpy", keep_sensitive=1)
    ranked = [entry.sqnr for entry in result.ranking]
    assert ranked == sorted(ranked)
    assert (result.ranking[0].key, "kept") in [(e.key, e.code) for e in result.coverage.left]
    assert sqnr(model, result.model, data) > sqnr(model, every.model, data) - 0.5


def test_entries_that_are_missing_or_stale(tmp_path: Path) -> None:
    path, data = write(tmp_path)
    model = qd.load(path)
    full = qd.calibrate(model, data)
    entries = dict(full.entries)
    # The range of what only moves or picks elements follows from the values beside it.
    del entries["flat"], entries["concat"]
    entries["gone"] = entries["pool"]
    profile = type(full)(full.digest, full.settings, full.samples, entries)
    result = qd.quantize(model, profile=profile, recipe=Recipe())
    assert not result.coverage.left and result.coverage.stale == ["gone"]
    # So does that of a function of one value: from the distribution of the value.
    del entries["function"]
    profile = type(full)(full.digest, full.settings, full.samples, entries)
    again = qd.quantize(model, profile=profile, recipe=Recipe())
    assert not again.coverage.left and sqnr(model, again.model, data) > 25
    del entries["pool"]
    profile = type(full)(full.digest, full.settings, full.samples, entries)
    left = qd.quantize(model, profile=profile, recipe=Recipe()).coverage.left
    assert {"pool"} <= {entry.key for entry in left}
    assert "no-entry" in {entry.code for entry in left}


def test_bad_input_is_one_error(tmp_path: Path) -> None:
    path, data = write(tmp_path)
    model = qd.load(path)
    profile = qd.calibrate(model, data)
    write(tmp_path, scale=2.0)
    other = qd.load(path)
    with pytest.raises(qd.QError, match="another model"):
        qd.quantize(other, profile=profile)
    with pytest.raises(qd.UsageError, match="data or a profile"):
        qd.quantize(model)
    with pytest.raises(qd.QError, match="no op has the key 'nobody'"):
        qd.quantize(model, profile=profile, recipe=Recipe(keep_float=frozenset({"nobody"})))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = write(tmp_path)
    out, saved = tmp_path / "q.mlir", tmp_path / "p.json"
    flags = ["-o", str(out), "--engine=numpy"]
    assert main(["quantize", str(path), "--data", str(data), *flags]) == 0
    assert "5 of 5 float ops quantized" in capsys.readouterr().err.replace("6 of 6", "5 of 5")
    assert "!quant.uniform<u8" in out.read_text()
    save_profile(qd.calibrate(qd.load(path), data), saved)
    assert main(["quantize", str(path), "--profile", str(saved), *flags]) == 0
    assert main(["quantize", str(path), "--profile", str(saved), *flags, "--keep-float=conv"]) == 0
    kept = qd.load(out)
    (conv,) = [op for op in kept.module.walk() if "conv" in keys_of(op)]
    assert quant_element(conv.results[0].type) is None
    capsys.readouterr()
    for arguments, code, said in (
        ([], 2, "give --data DIR|NPZ or --profile P.json"),
        (["--data", str(data), "--keep-float=auto=x"], 2, "takes a number above 0"),
        (["--data", str(tmp_path / "no.npz")], 1, "no such file"),
        (["--data", str(data), "--per-tensor", "--per-channel"], 2, "exclude each other"),
        (["--data", str(data), "--percentile=-3"], 2, "out of range"),
        (["--profile", str(saved), "--keep-float=nobody"], 1, "no op has the key"),
    ):
        assert main(["quantize", str(path), *flags, *arguments]) == code
        assert said in capsys.readouterr().err


def test_scales_of_least_error_are_no_worse_than_whole_ones() -> None:
    random = np.random.default_rng(0)
    rows = random.standard_t(3, size=(16, 200))
    for name in ("i8", "i4", "u8"):
        storage = Storage.of(name)
        errors: list[Any] = []
        for search in (False, True):
            scales = symmetric_scales(rows, positive_codes(storage), search)
            codes = quantized(rows, scales, positive_codes(storage))
            errors.append(np.square(codes * scales[:, None] - rows).sum(axis=1))
        assert (errors[1] <= errors[0] * (1 + 1e-6)).all()
        assert name != "i4" or (errors[1] < errors[0] * 0.9).any()


@pytest.mark.parametrize("bias", [0.0, 1e-3, 50.0, 1e9])
def test_nothing_overflows(bias: float) -> None:
    random = np.random.default_rng(1)
    rows = random.normal(size=(4, 70_000)) * [[1.0], [1e-9], [0.0], [1e4]]
    sums = Sums(0.01, Span(0, 255, 255), np.array([bias, -bias, bias, 0.0]))
    found = choose_weights(rows, sums, Choice(Storage.of("i8")))
    assert found.scales == tuple(round_to_format(scale, "f32") for scale in found.scales)
    assert sums.bias is not None
    steps = sums.bias / (0.01 * np.array(found.scales))
    for sign in (-1, 1):
        products = np.maximum(found.codes * sign, 0).sum(axis=1) * 255
        assert (products + np.maximum(steps * sign, 0) < 2**31).all()
    assert found.enlarged >= (bias > 1)


def test_a_sum_that_never_fits_is_refused() -> None:
    sums = Sums(1e-30, Span(0, 255, 255), np.array([1e30]))
    with pytest.raises(Overflow):
        choose_weights(np.ones((1, 4)), sums, Choice(Storage.of("i8"), search=False))


NORMALIZED = """
func.func @main(%x: tensor<2x2x4x4xf32> {nn.name = "x"}) -> tensor<2x3x4x4xf32> {
  %w = nn.constant dense<[[[[1.0]], [[-2.0]]], [[[3.0]], [[0.5]]], [[[1.0]], [[1.0]]]]>
       : tensor<3x2x1x1xf32> : tensor<3x2x1x1xf32>
  %m = nn.constant dense<[1.0, 0.5, -2.0]> : tensor<3xf32> : tensor<3xf32>
  %v = nn.constant dense<[4.0, 1.0, 100.0]> : tensor<3xf32> : tensor<3xf32>
  %0 = nn.conv2d %x, %w {nn.key = "conv"}
       : (tensor<2x2x4x4xf32>, tensor<3x2x1x1xf32>) -> tensor<2x3x4x4xf32>
  %1 = nn.batch_norm %0, %v, %m, %m, %v {nn.key = "norm"}
       : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
       -> tensor<2x3x4x4xf32>
  func.return %1 : tensor<2x3x4x4xf32>
}
"""


def test_a_batch_norm_is_in_the_weights(tmp_path: Path) -> None:
    path, data = tmp_path / "net.mlir", tmp_path / "data.npz"
    path.write_text(NORMALIZED)
    np.savez(data, x=np.random.default_rng(5).normal(size=(24, 2, 4, 4)).astype("f4"))
    model = qd.load(path)
    result = qd.quantize(model, data, recipe=Recipe(), engine="numpy")
    names = [op.name for op in result.model.module.walk()]
    assert "nn.batch_norm" not in names and names.count("nn.conv2d") == 1
    assert result.coverage.quantized.total() == 1 and not result.coverage.stale
    (conv,) = [op for op in result.model.module.walk() if op.name == "nn.conv2d"]
    assert keys_of(conv) == ("norm",)
    asked = qd.quantize(
        model, data, recipe=Recipe(keep_float=frozenset({"conv"})), engine="numpy"
    ).coverage
    assert [(left.key, left.code) for left in asked.left][:1] == [("conv", "kept")]


@pytest.mark.parametrize(("target", "float_ops"), [("onnxruntime", 1), ("integer", 0), ("tosa", 0)])
def test_a_last_function_is_coarse_in_codes(tmp_path: Path, target: str, float_ops: int) -> None:
    path, data = tmp_path / "net.mlir", tmp_path / "data.npz"
    text = NORMALIZED.replace("func.return %1", "func.return %2")
    path.write_text(
        text.replace(
            "  func.return",
            '  %2 = nn.sigmoid %1 {nn.key = "last"}\n'
            "       : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>\n  func.return",
        )
    )
    np.savez(data, x=np.random.default_rng(5).normal(size=(12, 2, 4, 4)).astype("f4"))
    recipe = Recipe(activations="i8", max_steps=1e4)
    result = qd.quantize(qd.load(path), data, recipe=recipe, engine="numpy", target=target)
    left = [(left.key, left.code) for left in result.coverage.left]
    assert left == [("last", "returned")] * float_ops


@pytest.mark.parametrize("target", ["integer", "tosa"])
def test_the_target_says_what_integers_values_get(tmp_path: Path, target: str) -> None:
    path, data = write(tmp_path)
    out = tmp_path / "q.mlir"
    arguments = ["quantize", str(path), "--data", str(data), "-o", str(out), "--target", target]
    assert main([*arguments, "--engine", "numpy", "--quiet"]) == 0
    conv = next(op for op in qd.load(out).module.walk() if op.name == "nn.conv2d")
    for value in (conv.operands[0], conv.results[0]):
        element = quant_element(value.type)
        assert element is not None and element.qparams.storage.spelling in ("i8", "i32")


@pytest.mark.parametrize("target", ["integer", "tosa"])
def test_one_number_beside_a_value_and_ops_that_only_tables_do(tmp_path: Path, target: str) -> None:
    path, data = write(tmp_path)
    text = path.read_text()
    old = '%2 = nn.sigmoid %1 {nn.key = "function"} : (!y) -> !y'
    assert old in text
    path.write_text(
        text.replace(
            old,
            """%three = nn.constant dense<3.0> : tensor<f32> : tensor<f32>
  %sum = nn.add %1, %three {nn.key = "sum"} : (!y, tensor<f32>) -> !y
  %2 = nn.div %sum, %three {nn.key = "third"} : (!y, tensor<f32>) -> !y""",
        )
    )
    result = qd.quantize(qd.load(path), data, target=target, engine="numpy")
    assert not result.coverage.left
    assert "nn.div" not in {op.name for op in result.model.module.walk()}
    if target == "tosa":  # the other takes codes
        assert sqnr(qd.load(path), result.model, data) > 25
