"""TOSA and back: functions of ours, lowered and raised, give the same bits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from engine_support import converted, model, prepared
from op_configurations import GROUPS, Program
from random_networks import network

import qdialect as qd
from qdialect.api import Model, run_passes
from qdialect.interpreter import Interpreter, random_inputs
from qdialect.ir.quant import quant_element
from qdialect.plugins.common.exports import imports
from qdialect.plugins.mlir.write import module_text
from tests.generators.tosa_programs import inputs, program
from tests.support.commands import call, qopt, qopt_opt, qopt_translate

STAYS = {
    "regions": {"tosa.gather", "tosa.intdiv", "tosa.arithmetic_right_shift"},
    "softmaxes": {"tosa.intdiv"},
    "places": {"tosa.argmax", "tosa.bitwise_not"},
    "runtime_indices": {
        "tosa.argmax",
        "tosa.gather",
        "tosa.bitwise_and",
        "tosa.arithmetic_right_shift",
    },
}
"""What is left of each group of configurations, besides constants."""


def _as_laid_out(array: np.ndarray, kind: object) -> np.ndarray:
    element = quant_element(kind)  # pyright: ignore[reportArgumentType]
    unsigned = element is not None and not element.qparams.storage.signed
    return array.view(f"u{array.dtype.itemsize}") if unsigned else array


def _signless(array: np.ndarray) -> np.ndarray:
    return array.view(f"i{array.dtype.itemsize}") if array.dtype.kind == "u" else array


def there_and_back(given: Model, samples: int = 1) -> Model:
    """What comes back, which gives the same codes as `given` and as the TOSA between them."""
    lowered = converted(given)
    text = module_text(lowered.module, lowered.ctx, generic=True, inline_weights=True)
    between = model(text)
    back = run_passes(between, imports()["tosa"], verify_each=False)
    runs = [Interpreter(m.ctx, m.module) for m in (given, between, back)]
    for seed in range(samples):
        codes = [_signless(x) for x in random_inputs(runs[0].function(), seed, seed % 2 == 1)]
        results: list[list[np.ndarray]] = []
        for run in runs:
            kinds = run.function().function_type.inputs
            arrays = [_as_laid_out(x, kind) for x, kind in zip(codes, kinds, strict=True)]
            results.append([_signless(x) for x in run.run(arrays)])
        for expected, tosa, ours in zip(*results, strict=True):
            assert np.array_equal(expected.astype(tosa.dtype), tosa)
            assert np.array_equal(tosa, ours.astype(tosa.dtype))
    return back


def _left(back: Model) -> set[str]:
    names = {op.name for op in back.module.walk() if op.name.startswith("tosa.")}
    return names - {"tosa.const", "tosa.const_shape"}


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.__name__)
def test_every_op(group: Callable[[Program], None]) -> None:
    program = Program()
    group(program)
    back = there_and_back(prepared(program.text, target="generic"))
    left = _left(back)
    assert left <= STAYS.get(group.__name__, set())
    refused = {r.op for r in back.ctx.remarks.remarks if r.pass_name == "raise-tosa"}
    assert left <= refused


@pytest.mark.parametrize("seed", [1, 5, 17])
def test_random_networks_come_back_without_tosa(seed: int) -> None:
    assert not _left(there_and_back(prepared(network(seed), target="generic"), 2))


CONV = """func.func @main(%x: tensor<1x6x6x3xi8>) -> tensor<1x4x4x4xi8> {
  %w = "tosa.const"() <{values = dense<WEIGHT> : tensor<4x3x3x3xi8>}> : () -> tensor<4x3x3x3xi8>
  %b = "tosa.const"() <{values = dense<[5, -7, 0, 900]> : tensor<4xi32>}> : () -> tensor<4xi32>
  %zx = "tosa.const"() <{values = dense<-3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %zw = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.conv2d"(%x, %w, %b, %zx, %zw) <{acc_type = i32, dilation = array<i64: 1, 1>,
    pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x6x6x3xi8>,
    tensor<4x3x3x3xi8>, tensor<4xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x4xi32>
  %m = "tosa.const"() <{values = dense<[1249445033, 1874167547, 1249445031, 1561806289]>
    : tensor<4xi32>}> : () -> tensor<4xi32>
  %k = "tosa.const"() <{values = dense<[37, 37, 38, 36]> : tensor<4xi8>}> : () -> tensor<4xi8>
  %zi = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %zo = "tosa.const"() <{values = dense<9> : tensor<1xi8>}> : () -> tensor<1xi8>
  %1 = "tosa.rescale"(%0, %m, %k, %zi, %zo) <{input_unsigned = false, output_unsigned = false,
    per_channel = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}>
    : (tensor<1x4x4x4xi32>, tensor<4xi32>, tensor<4xi8>, tensor<1xi32>, tensor<1xi8>)
    -> tensor<1x4x4x4xi8>
  func.return %1 : tensor<1x4x4x4xi8>
}"""


def _others() -> str:
    """A convolution as an importer of others writes it: no word about scales."""
    weights = np.random.default_rng(3).integers(-128, 128, (4, 3, 3, 3))
    return CONV.replace("WEIGHT", str(weights.tolist()))


def test_a_convolution_of_others_is_one_quantized_op() -> None:
    given = model(_others())
    back = run_passes(given, imports()["tosa"])
    names = Counter(op.name for op in back.module.walk())
    assert names["nn.conv2d"] == 1 and names["quant.rescale"] == 0
    assert names["quant.scast"] == 0 and not _left(back)
    x = random_inputs(Interpreter(given.ctx, given.module).function(), 0)
    x = [np.random.default_rng(1).integers(-128, 128, x[0].shape).astype(np.int8)]
    (one,), (other,) = (Interpreter(m.ctx, m.module).run(x) for m in (given, back))
    assert np.array_equal(one, other) and len(set(one.reshape(-1).tolist())) > 9


def test_loading_raises_and_running_does_not(tmp_path: Path) -> None:
    path, codes = tmp_path / "net.tosa.mlir", tmp_path / "x.npz"
    path.write_text(_others())
    loaded = qd.load(path)
    assert any(op.name == "nn.conv2d" for op in loaded.module.walk())
    x = np.random.default_rng(2).integers(-128, 128, (1, 6, 6, 3)).astype(np.int8)
    np.savez(codes, arg0=x)
    out = tmp_path / "y.npz"
    result = call(qopt, "run", str(path), "--input", str(codes), "--output", str(out))
    assert result.code == 0, result.err
    (expected,) = Interpreter(loaded.ctx, loaded.module).run([x])
    with np.load(out) as found:
        assert np.array_equal(found["result0"], expected)


def test_the_command_says_what_stays(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<2x4xi32>) -> tensor<2x4xi32> {
  %0 = "tosa.clz"(%x) : (tensor<2x4xi32>) -> tensor<2x4xi32>
  func.return %0 : tensor<2x4xi32>\n}"""
    result = call(qopt_translate, "--import-tosa", stdin=text)
    assert result.code == 0 and "tosa.clz" in result.out
    assert re.search(r":2:8: remark: 'tosa.clz' raise-tosa refused \[no-counterpart\]", result.err)


def test_scales_that_the_arithmetic_denies_are_not_believed() -> None:
    """Sums on 1 times 0.009 are no codes on 0.125."""
    sums = "scale = array<f64: 1.0, 1.0, 1.0, 1.0>, zero_point = array<i64: 0, 0, 0, 0>"
    codes = "scale = array<f64: 0.125>, zero_point = array<i64: 9>"
    text = _others().replace(
        "stride = array<i64: 1, 1>}>", "stride = array<i64: 1, 1>}> {axis = 3 : i64, " + sums + "}"
    )
    text = text.replace("scale32 = true}>", f"scale32 = true}}> {{{codes}}}")
    result = call(qopt_opt, "-p", "raise-tosa", "--remarks", stdin=text)
    assert result.code == 0, result.err
    assert "raise-tosa refused [marks]" in result.err and "0.125" not in result.out


def test_bad_input_is_one_error_with_its_place() -> None:
    result = call(qopt_translate, "--import-tosa", stdin=_others().replace("dense<9>", "dense<9"))
    assert result.code == 1 and result.err.count("error:") == 1 and ":1" in result.err


def test_a_cast_and_its_factor_are_a_dequantize() -> None:
    text = """func.func @main(%x: tensor<2x4xi32>) -> tensor<2x4xf32> {
  %0 = "tosa.cast"(%x) : (tensor<2x4xi32>) -> tensor<2x4xf32>
  %s = "tosa.const"() <{values = dense<0.1> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %1 = "tosa.mul"(%0, %s, %z) : (tensor<2x4xf32>, tensor<1x1xf32>, tensor<1xi8>) -> tensor<2x4xf32>
  func.return %1 : tensor<2x4xf32>\n}"""
    given = model(text)
    back = run_passes(given, imports()["tosa"])
    assert [op.name for op in back.module.walk()].count("quant.dcast") == 1 and not _left(back)
    x = np.random.default_rng(4).integers(-(1 << 30), 1 << 30, (2, 4)).astype(np.int32)
    (one,), (other,) = (Interpreter(m.ctx, m.module).run([x]) for m in (given, back))
    assert np.array_equal(one, other)


def test_random_integer_ops_are_the_same_raised() -> None:
    """Ops in configurations that nobody chose for raising; what stays runs beside the rest."""
    drawn = program(11)
    given = model(drawn.text)
    back = run_passes(given, imports()["tosa"])
    arrays = inputs(drawn)
    sides = (Interpreter(m.ctx, m.module).run(arrays) for m in (given, back))
    for (name, _), one, other in zip(drawn.results, *sides, strict=True):
        assert np.array_equal(one, other.astype(one.dtype)), name
