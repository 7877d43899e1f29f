"""StableHLO raised to `nn` and `quant`: what our export writes, and what others write."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from qdialect.api import Model, run_passes
from qdialect.interpreter import Interpreter, random_inputs
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.workflows.model import raised

sys.path.append(str(Path(__file__).parents[1] / "lowerings"))

from engine_support import converted, prepared
from test_linalg_ops import TYPES, batch
from test_stablehlo import CONFIGURATIONS, EXACT, ROUNDED, USUAL


def model(text: str) -> Model:
    ctx = new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    return Model(module, ctx)


def names(given: Model) -> Counter[str]:
    return Counter(op.name for op in given.module.walk())


def left(given: Model) -> list[str]:
    return sorted(name for name in names(given) if name.startswith(("stablehlo.", "chlo.")))


def results(given: Model, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return Interpreter(given.ctx, given.module).run(inputs)


@pytest.mark.parametrize("kinds", [EXACT, USUAL], ids=["exact", "usual"])
def test_there_and_back_is_the_same_function(
    kinds: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every op that we export, also where half of the results are ties: the same codes from
    `nn`, from the StableHLO it is written in, and from what that is raised to."""
    for name, kind in kinds.items():
        monkeypatch.setitem(TYPES, name, kind)
    ours = prepared(batch(CONFIGURATIONS), "stablehlo")
    written = converted(ours, "stablehlo")
    inputs = random_inputs(Interpreter(ours.ctx, ours.module).function(), 3)
    again = raised(written)
    expected = results(ours, inputs)
    # Windows that count different numbers of elements are sums times factors there.
    assert set(left(again)) <= {"stablehlo.add", "stablehlo.reduce_window", "stablehlo.return"}
    for a, b, c in zip(expected, results(written, inputs), results(again, inputs), strict=True):
        assert np.array_equal(a, b) and np.array_equal(a, c)


def test_ties_there_and_back() -> None:
    """Every pair of codes, half of them ties."""
    ours = prepared(ROUNDED, "stablehlo")
    again = run_passes(converted(ours, "stablehlo"), "raise-stablehlo")
    codes = np.arange(-128, 128, dtype=np.int8)
    inputs = [codes.reshape(-1, 1), codes.reshape(1, -1)]
    assert left(again) == []
    for a, b in zip(results(ours, inputs), results(again, inputs), strict=True):
        assert np.array_equal(a, b)


ODD = """
!q = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
func.func @main(%x: tensor<4xf32>) -> !q {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> !q
  return %0 : !q
}
"""


def test_which_way_ties_round() -> None:
    """With an odd zero point StableHLO rounds ties to odd steps: exact is to leave that op."""
    given = model(ODD)
    x = np.array([0.25, 0.75, -0.25, 1.0], np.float32)
    assert results(given, [x])[0].tolist() == [4, 4, 2, 5]
    exact = run_passes(given, "raise-stablehlo")
    assert left(exact) == ["stablehlo.uniform_quantize"]
    (remark,) = exact.ctx.remarks.remarks
    assert remark.code == "ties" and "odd" in (remark.reason or "")
    close = run_passes(given, "raise-stablehlo{numerics=ties}")
    assert left(close) == []
    assert results(close, [x])[0].tolist() == [3, 5, 3, 5]


CNN = """
func.func public @main(%x: tensor<2x8x8x3xf32>, %k: tensor<3x3x3x4xf32>, %v: tensor<3x3x4x6xf32>)
    -> tensor<2x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %four = stablehlo.constant dense<4.0> : tensor<f32>
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<2x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x8x8x4xf32>
  %1 = call @relu(%0) : (tensor<2x8x8x4xf32>) -> tensor<2x8x8x4xf32>
  %2 = "stablehlo.reduce_window"(%1, %lowest) <{window_dimensions = array<i64: 1, 2, 2, 1>,
      window_strides = array<i64: 1, 2, 2, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x8x8x4xf32>, tensor<f32>) -> tensor<2x4x4x4xf32>
  %3 = stablehlo.convolution(%2, %v) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {stride = [1, 1], pad = [[1, 1], [1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<2x4x4x4xf32>, tensor<3x3x4x6xf32>) -> tensor<2x4x4x6xf32>
  %4 = "stablehlo.reduce_window"(%3, %zero) <{window_dimensions = array<i64: 1, 2, 2, 1>,
      window_strides = array<i64: 1, 2, 2, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x4x4x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
  %5 = stablehlo.broadcast_in_dim %four, dims = [] : (tensor<f32>) -> tensor<2x2x2x6xf32>
  %6 = stablehlo.divide %4, %5 : tensor<2x2x2x6xf32>
  %7 = stablehlo.reduce(%6 init: %lowest) applies stablehlo.maximum across dimensions = [1, 2]
      : (tensor<2x2x2x6xf32>, tensor<f32>) -> tensor<2x6xf32>
  %8 = stablehlo.reduce(%7 init: %lowest) applies stablehlo.maximum across dimensions = [1]
      : (tensor<2x6xf32>, tensor<f32>) -> tensor<2xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<2xf32>) -> tensor<2x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x6xf32>
  %11 = stablehlo.subtract %7, %10 : tensor<2x6xf32>
  %12 = stablehlo.exponential %11 : tensor<2x6xf32>
  %13 = stablehlo.reduce(%12 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<2x6xf32>, tensor<f32>) -> tensor<2xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<2xf32>) -> tensor<2x1xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x6xf32>
  %16 = stablehlo.divide %12, %15 : tensor<2x6xf32>
  return %16 : tensor<2x6xf32>
}
func.func private @relu(%x: tensor<2x8x8x4xf32>) -> tensor<2x8x8x4xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x8x8x4xf32>
  %2 = stablehlo.maximum %x, %1 : tensor<2x8x8x4xf32>
  return %2 : tensor<2x8x8x4xf32>
}
"""


def test_channels_last_needs_no_transposes_between_ops() -> None:
    """A network as JAX writes it: one transpose in front, composites whole, calls inlined."""
    given = model(CNN)
    again = raised(given)
    found = names(again)
    assert left(again) == [] and found["func.func"] == 1 and found["func.call"] == 0
    expected = {"conv2d": 2, "relu": 1, "max_pool2d": 1, "avg_pool2d": 1, "softmax": 1}
    assert {name: found[f"nn.{name}"] for name in expected} == expected
    # The input and the two kernels, which are arguments here.
    assert found["nn.transpose"] == 3
    rng = np.random.default_rng(0)
    shapes = [(2, 8, 8, 3), (3, 3, 3, 4), (3, 3, 4, 6)]
    inputs = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    (a,), (b,) = results(given, inputs), results(again, inputs)
    assert np.allclose(a, b, rtol=0, atol=1e-6) and np.allclose(a.sum(1), 1)


PARTS = """
!q = tensor<2x3x!quant.uniform<i8:f32, 0.25>>
!w = tensor<3x4x!quant.uniform<i8:f32, 0.5>>
func.func @main(%x: tensor<2x3xf32>, %w: !w, %n: tensor<i32>) -> (tensor<2x4xf32>, tensor<i32>) {
  %0 = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> !q
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
      : (!q, !w) -> tensor<2x4x!quant.uniform<i32:f32, 0.125>>
  %2 = stablehlo.uniform_dequantize %1
      : (tensor<2x4x!quant.uniform<i32:f32, 0.125>>) -> tensor<2x4xf32>
  %3 = stablehlo.constant dense<1> : tensor<i32>
  %4 = stablehlo.while(%i = %n) : tensor<i32> cond {
    %5 = stablehlo.constant dense<10> : tensor<i32>
    %6 = stablehlo.compare LT, %i, %5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %6 : tensor<i1>
  } do {
    %5 = stablehlo.add %i, %3 : tensor<i32>
    stablehlo.return %5 : tensor<i32>
  }
  return %2, %4 : tensor<2x4xf32>, tensor<i32>
}
"""


def test_what_has_no_counterpart_stays_and_runs() -> None:
    given = model(PARTS)
    again = raised(given)
    found = names(again)
    assert found["nn.matmul"] == 1 and found["stablehlo.while"] == 1
    remarks = [r for r in again.ctx.remarks.remarks if r.pass_name == "raise-stablehlo"]
    assert [r.op for r in remarks] == ["stablehlo.while"]
    x = np.array([[0.5, -1.0, 3.25], [0.1, 7.0, -100.0]], np.float32)
    w = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    inputs = [x, w, np.array(4, np.int32)]
    for a, b in zip(results(given, inputs), results(again, inputs), strict=True):
        assert np.array_equal(a, b)
    assert results(again, inputs)[1] == 10


WRITTEN_OUT = """
func.func @main(%f: tensor<2x6xf32>, %w: tensor<6x4xi8>) -> tensor<2x4xf32> {
  %low = stablehlo.constant dense<-128.0> : tensor<f32>
  %high = stablehlo.constant dense<127.0> : tensor<f32>
  %s = stablehlo.constant dense<0.0517283> : tensor<2x6xf32>
  %z = stablehlo.constant dense<3.0> : tensor<2x6xf32>
  %0 = stablehlo.divide %f, %s : tensor<2x6xf32>
  %1 = stablehlo.add %0, %z : tensor<2x6xf32>
  %2 = stablehlo.clamp %low, %1, %high
      : (tensor<f32>, tensor<2x6xf32>, tensor<f32>) -> tensor<2x6xf32>
  %3 = stablehlo.round_nearest_even %2 : tensor<2x6xf32>
  %4 = stablehlo.convert %3 : (tensor<2x6xf32>) -> tensor<2x6xi8>
  %5 = stablehlo.dot_general %4, %w, contracting_dims = [1] x [0]
      : (tensor<2x6xi8>, tensor<6x4xi8>) -> tensor<2x4xi32>
  %6 = stablehlo.convert %w : (tensor<6x4xi8>) -> tensor<6x4xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %7 = stablehlo.reduce(%6 init: %none) applies stablehlo.add across dimensions = [0]
      : (tensor<6x4xi32>, tensor<i32>) -> tensor<4xi32>
  %three = stablehlo.constant dense<3> : tensor<4xi32>
  %8 = stablehlo.multiply %7, %three : tensor<4xi32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [1] : (tensor<4xi32>) -> tensor<2x4xi32>
  %10 = stablehlo.subtract %5, %9 : tensor<2x4xi32>
  %11 = stablehlo.convert %10 : (tensor<2x4xi32>) -> tensor<2x4xf32>
  %m = stablehlo.constant dense<0.00373231783> : tensor<2x4xf32>
  %12 = stablehlo.multiply %11, %m : tensor<2x4xf32>
  %y = stablehlo.constant dense<-6.0> : tensor<2x4xf32>
  %13 = stablehlo.add %12, %y : tensor<2x4xf32>
  %14 = stablehlo.clamp %low, %13, %high
      : (tensor<f32>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %15 = stablehlo.round_nearest_even %14 : tensor<2x4xf32>
  %16 = stablehlo.convert %15 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  %17 = stablehlo.convert %16 : (tensor<2x4xi8>) -> tensor<2x4xi32>
  %back = stablehlo.constant dense<-6> : tensor<2x4xi32>
  %18 = stablehlo.subtract %17, %back : tensor<2x4xi32>
  %19 = stablehlo.convert %18 : (tensor<2x4xi32>) -> tensor<2x4xf32>
  %t = stablehlo.constant dense<0.2117339> : tensor<2x4xf32>
  %20 = stablehlo.multiply %19, %t : tensor<2x4xf32>
  return %20 : tensor<2x4xf32>
}
"""


def test_arithmetic_that_was_written_out() -> None:
    """What `stablehlo-legalize-quant-to-math` makes of a product of quantized values."""
    given = model(WRITTEN_OUT)
    again = raised(given)
    found = names(again)
    assert left(again) == []
    assert found["quant.qcast"] == found["quant.dcast"] == found["nn.matmul"] == 1
    # One widens the weights, which are summed for the zero point; one quantizes again.
    assert found["quant.rescale"] == 2
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.normal(0, 3, (2, 6)).astype(np.float32)
        w = rng.integers(-128, 128, (6, 4)).astype(np.int8)
        assert np.array_equal(results(given, [x, w])[0], results(again, [x, w])[0])


JAX = pytest.mark.skipif("not __import__('importlib.util').util.find_spec('jax')")


@JAX
def test_what_jax_exports() -> None:
    """Attention with an embedding, a layer norm and a softmax."""
    import jax
    import jax.numpy as jnp
    from jax import export

    rng = np.random.default_rng(1)
    table, q, k, v = (
        jnp.asarray(rng.normal(0, 0.3, s).astype(np.float32)) for s in [(50, 16), *[(16, 16)] * 3]
    )

    def network(ids: jax.Array) -> jax.Array:
        x = table[ids]
        mean = x.mean(-1, keepdims=True)
        x = (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
        scores = jnp.einsum("bqd,bkd->bqk", x @ q, x @ k) / 4.0
        return jax.nn.softmax(scores, -1) @ (x @ v)

    ids = rng.integers(0, 50, (2, 6)).astype(np.int32)
    exported = export.export(jax.jit(network))(jax.ShapeDtypeStruct(ids.shape, ids.dtype))
    again = raised(model(str(exported.mlir_module())))
    assert left(again) == []
    assert np.allclose(results(again, [ids])[0], network(ids), atol=1e-5)
