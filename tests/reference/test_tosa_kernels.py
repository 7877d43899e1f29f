"""The interpreter's kernels of TOSA against Arm's reference model, and what it lacks."""

from __future__ import annotations

import numpy as np
import pytest

from qdialect.engines.installed import engine_named
from qdialect.errors import InputError, QError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.plugins.common.program import Program
from qdialect.plugins.mlir.read import read_module, verify_module
from tests.generators.tosa_programs import inputs, program


@pytest.mark.parametrize("seed", range(4))
def test_integers_are_those_of_the_reference_model(seed: int) -> None:
    engine = engine_named("tosa-reference")
    if engine.missing():
        pytest.skip("tosa-reference is not installed (qopt engines install)")
    drawn = program(seed)
    ctx = new_context()
    module = read_module(drawn.text, ctx)
    verify_module(module, ctx)
    arrays = inputs(drawn)
    found = Interpreter(ctx, module).run(arrays)
    (expected,) = engine.run(Program.of(module, ctx), [arrays])
    lines = {line.partition(" = ")[0]: line for line in drawn.lines}
    for (name, _), ours, theirs in zip(drawn.results, found, expected, strict=True):
        assert np.array_equal(ours, theirs.astype(ours.dtype)), lines[name]
    assert len(found) > 60


LOOP = """
"tosa.variable"() <{sym_name = "calls", type = i32, var_shape = dense<1> : tensor<1xindex>,
                    initial_value = dense<5> : tensor<1xi32>}> : () -> ()
func.func @main(%n: tensor<i32>, %x: tensor<3xi32>) -> (tensor<3xi32>, tensor<1xi32>) {
  %zero = "tosa.const"() <{values = dense<0> : tensor<i32>}> : () -> tensor<i32>
  %one = "tosa.const"() <{values = dense<1> : tensor<i32>}> : () -> tensor<i32>
  %r:2 = "tosa.while_loop"(%n, %x) ({
  ^bb0(%i: tensor<i32>, %y: tensor<3xi32>):
    %c = "tosa.greater"(%i, %zero) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "tosa.yield"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %y: tensor<3xi32>):
    %j = "tosa.sub"(%i, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %z = "tosa.add"(%y, %x) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    "tosa.yield"(%j, %z) : (tensor<i32>, tensor<3xi32>) -> ()
  }) : (tensor<i32>, tensor<3xi32>) -> (tensor<i32>, tensor<3xi32>)
  %v = "tosa.variable_read"() <{name = "calls"}> : () -> tensor<1xi32>
  %w = "tosa.add"(%v, %v) : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>
  "tosa.variable_write"(%w) <{name = "calls"}> : (tensor<1xi32>) -> ()
  %u = "tosa.variable_read"() <{name = "calls"}> : () -> tensor<1xi32>
  func.return %r#1, %u : tensor<3xi32>, tensor<1xi32>
}
"""


def test_loops_and_variables() -> None:
    """Regions use values from outside; each run begins with the initial values."""
    ctx = new_context(allow_unregistered=True)
    interpreter = Interpreter(ctx, read_module(LOOP, ctx))
    x = np.array([1, -2, 3], np.int32)
    for n in (0, 4):
        total, calls = interpreter.run([np.array(n, np.int32), x])
        assert total.tolist() == ((n + 1) * x).tolist()
        assert calls.tolist() == [10]


def test_an_op_without_its_attribute_is_one_error_with_its_place() -> None:
    text = """func.func @main(%x: tensor<2xi8>) -> tensor<2xi8> {
  %0 = "acme.op"(%x) : (tensor<2xi8>) -> tensor<2xi8>
  func.return %0 : tensor<2xi8>\n}"""
    ctx = new_context(allow_unregistered=True)
    module = read_module(text.replace('"acme.op"', '"tosa.variable_read"'), ctx)
    with pytest.raises(QError) as raised:
        Interpreter(ctx, module).run([np.zeros(2, np.int8)])
    assert "has no attribute 'name'" in str(raised.value) and ":2:" in str(raised.value)


def test_a_variable_that_is_not_there() -> None:
    ctx = new_context(allow_unregistered=True)
    module = read_module(LOOP.replace('sym_name = "calls"', 'sym_name = "other"'), ctx)
    with pytest.raises(InputError, match="no variable 'calls'"):
        Interpreter(ctx, module).run([np.array(1, np.int32), np.zeros(3, np.int32)])
