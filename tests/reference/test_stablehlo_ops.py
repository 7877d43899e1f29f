"""The ops of StableHLO in the interpreter, checked by `check` ops as its own tests are written."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.errors import InputError, UnsupportedError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module

HELD = """
func.func @reduced() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.reduce(%x init: %0) applies stablehlo.add across dimensions = [0]
      : (tensor<2x3xi32>, tensor<i32>) -> tensor<3xi32>
  check.expect_eq_const %1, dense<[5, 7, 9]> : tensor<3xi32>
  %2:2 = stablehlo.reduce(%x init: %0), (%x init: %0) across dimensions = [1]
      : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<i32>, tensor<i32>)
      -> (tensor<2xi32>, tensor<2xi32>)
      reducer(%a: tensor<i32>, %b: tensor<i32>) (%c: tensor<i32>, %d: tensor<i32>) {
    %3 = stablehlo.add %a, %b : tensor<i32>
    %4 = stablehlo.maximum %c, %d : tensor<i32>
    stablehlo.return %3, %4 : tensor<i32>, tensor<i32>
  }
  check.expect_eq_const %2#0, dense<[6, 15]> : tensor<2xi32>
  check.expect_eq_const %2#1, dense<[3, 6]> : tensor<2xi32>
  return
}
func.func @looped() {
  %0 = stablehlo.constant dense<1> : tensor<i64>
  %1 = stablehlo.constant dense<10> : tensor<i64>
  %2:2 = stablehlo.while(%i = %0, %p = %0) : tensor<i64>, tensor<i64> cond {
    %3 = stablehlo.compare LT, %i, %1, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  } do {
    %3 = stablehlo.multiply %p, %i : tensor<i64>
    %4 = stablehlo.add %i, %0 : tensor<i64>
    stablehlo.return %4, %3 : tensor<i64>, tensor<i64>
  }
  check.expect_eq_const %2#1, dense<362880> : tensor<i64>
  return
}
func.func @wrapping() {
  %x = stablehlo.constant dense<[7, -8, 3]> : tensor<3xi4>
  %y = stablehlo.constant dense<[1, -1, -5]> : tensor<3xi4>
  %0 = stablehlo.add %x, %y : tensor<3xi4>
  check.expect_eq_const %0, dense<[-8, 7, -2]> : tensor<3xi4>
  %1 = stablehlo.divide %x, %y : tensor<3xi4>
  check.expect_eq_const %1, dense<[7, -8, 0]> : tensor<3xi4>
  %2 = stablehlo.convert %x : (tensor<3xi4>) -> tensor<3xui4>
  check.expect_eq_const %2, dense<[7, 8, 3]> : tensor<3xui4>
  return
}
func.func @convolved() {
  %x = stablehlo.constant dense<1.0> : tensor<1x3x3x1xf32>
  %w = stablehlo.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {stride = [2, 2], pad = [[0, 1], [0, 1]], reverse = [true, true]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x3x3x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x1xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x2x2x1xf32>) -> tensor<4xf32>
  check.expect_eq_const %1, dense<[10.0, 6.0, 7.0, 4.0]> : tensor<4xf32>
  return
}
func.func @scattered() {
  %x = stablehlo.constant dense<0> : tensor<4xi32>
  %i = stablehlo.constant dense<[[1], [3], [1], [9]]> : tensor<4x1xi64>
  %u = stablehlo.constant dense<[5, 6, 7, 8]> : tensor<4xi32>
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %1 = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) : (tensor<4xi32>, tensor<4x1xi64>, tensor<4xi32>) -> tensor<4xi32>
  check.expect_eq_const %0, dense<[0, 12, 0, 6]> : tensor<4xi32>
  return
}
func.func @sorted() {
  %x = stablehlo.constant dense<[3, 1, 2]> : tensor<3xi32>
  %y = stablehlo.constant dense<[30, 10, 20]> : tensor<3xi32>
  %0:2 = "stablehlo.sort"(%x, %y) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.compare GT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3xi32>, tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>)
  check.expect_eq_const %0#1, dense<[30, 20, 10]> : tensor<3xi32>
  return
}
func.func @quantized() {
  %x = stablehlo.constant dense<[1.0, 2.0, 0.025]> : tensor<3xf32>
  %0 = stablehlo.uniform_quantize %x : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 0.05:-30>>
  %1 = stablehlo.add %0, %0 : (tensor<3x!quant.uniform<i8:f32, 0.05:-30>>,
      tensor<3x!quant.uniform<i8:f32, 0.05:-30>>) -> tensor<3x!quant.uniform<i8:f32, 0.5:-20>>
  %2 = stablehlo.bitcast_convert %1
      : (tensor<3x!quant.uniform<i8:f32, 0.5:-20>>) -> tensor<3xi8>
  check.expect_eq_const %2, dense<[-16, -12, -20]> : tensor<3xi8>
  return
}
func.func @small_floats() {
  %x = stablehlo.constant dense<[1.0, 3.3, 1000.0]> : tensor<3xf32>
  %0 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xf8E4M3FN>
  %1 = stablehlo.bitcast_convert %0 : (tensor<3xf8E4M3FN>) -> tensor<3xi8>
  check.expect_eq_const %1, dense<[56, 69, 127]> : tensor<3xi8>
  %2 = chlo.erf_inv %x : tensor<3xf32> -> tensor<3xf32>
  check.expect_almost_eq_const %2, dense<[0x7F800000, 0x7FC00000, 0x7FC00000]> : tensor<3xf32>
  return
}
"""


def runs(text: str) -> int:
    """Run all functions without arguments; how many there are. `check.eq` gives true."""
    ctx = new_context()
    module = read_module(text, ctx)
    found = [f for f in module.walk() if isinstance(f, FuncOp) and not f.function_type.inputs.data]
    for function in found:
        Interpreter(ctx, module, listeners=[_equal]).run([], function.sym_name.data)
    return len(found)


def _equal(op: Operation, values: Sequence[np.ndarray]) -> None:
    if op.name == "stablehlo.custom_call" and values:
        assert values[0].all(), op


def test_what_the_specification_says() -> None:
    assert runs(HELD) == 8


def test_a_check_that_does_not_hold_is_an_error() -> None:
    with pytest.raises(InputError, match=r"1 of 3 elements differ, at \[1\] 7 is not 8"):
        runs(HELD.replace("dense<[5, 7, 9]>", "dense<[5, 8, 9]>"))


def test_a_call_of_who_knows_what_is_refused() -> None:
    text = """
    func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.custom_call @foo(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    """
    ctx = new_context()
    module = read_module(text, ctx)
    with pytest.raises(UnsupportedError, match="calls foo, which only its target knows"):
        Interpreter(ctx, module).run([np.zeros((), np.float32)])


CHECKOUT = os.environ.get("STABLEHLO_CHECKOUT", "")
PARALLEL = ("interpreter.run_parallel", "interpreter.probe", "interpreter.print")


@pytest.mark.skipif(not CHECKOUT, reason="STABLEHLO_CHECKOUT names no checkout of StableHLO")
@pytest.mark.parametrize("folder", ["tests/interpret", "testdata/quantized"])
def test_its_own_tests(folder: str) -> None:
    """All that StableHLO's interpreter is tested with, but for what runs several processes."""
    count = 0
    for path in sorted((Path(CHECKOUT) / "stablehlo" / folder).glob("*.mlir")):
        for chunk in re.split(r"^// -----.*$", path.read_text(), flags=re.M):
            if re.search(r"^\s*[^/\s]", chunk, re.M) and not any(n in chunk for n in PARALLEL):
                count += runs(chunk)
    assert count > 200
