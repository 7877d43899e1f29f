"""Running functions: inputs, calls, liveness, extension, errors."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.parser import Parser

from qdialect.errors import InputError, QError, UnsupportedError
from qdialect.interpreter import Interpreter, argument_names
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops import AddOp

Q = "!quant.uniform<i8:f32, 0.5:3>"
T = f"tensor<1x4x{Q}>"
CHAIN = f"""
func.func @main(%x: {T} {{nn.name = "image"}}, %y: {T}) -> ({T}, {T}) {{
  %0 = nn.add %x, %y {{nn.key = "first"}} : ({T}, {T}) -> {T}
  %1 = nn.relu %0 : ({T}) -> {T}
  func.return %1, %0 : {T}, {T}
}}
"""


def parse(text: str, unregistered: bool = False) -> tuple[QContext, ModuleOp]:
    ctx = new_context(allow_unregistered=unregistered)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return ctx, module


def int8(*values: int) -> np.ndarray:
    return np.array([values], np.int8)


def test_a_function_from_stored_integers_to_stored_integers() -> None:
    ctx, module = parse(CHAIN)
    one, two = Interpreter(ctx, module).run([int8(3, 4, -100, 127), int8(3, 3, -100, 127)])
    assert two.tolist() == [[3, 4, -128, 127]]
    assert one.tolist() == [[3, 4, 3, 127]]


def test_inputs_by_name() -> None:
    ctx, module = parse(CHAIN)
    interpreter = Interpreter(ctx, module)
    assert argument_names(interpreter.function()) == ["image", "arg1"]
    x, y = int8(1, 2, 3, 4), int8(9, 9, 9, 9)
    by_name = interpreter.run({"arg1": y, "image": x})
    assert all(np.array_equal(a, b) for a, b in zip(by_name, interpreter.run([x, y]), strict=True))
    with pytest.raises(InputError, match="missing: image"):
        interpreter.run({"arg1": y})
    with pytest.raises(InputError, match="unknown: arg2"):
        interpreter.run({"arg1": y, "image": x, "arg2": x})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([int8(1, 2, 3, 4)], "takes 2 inputs, but got 1"),
        ([int8(1, 2, 3), int8(1, 2, 3, 4)], r"input 'image' has shape \[1, 3\]"),
        ([np.zeros(4, np.int8), int8(1, 2, 3, 4)], r"has shape \[4\]"),
        ([np.zeros((1, 4), np.float32), int8(1, 2, 3, 4)], "takes stored integers"),
        ([np.full((1, 4), 200), int8(1, 2, 3, 4)], r"outside the storage bounds \[-128, 127\]"),
    ],
)
def test_inputs_that_do_not_fit(inputs: list[np.ndarray], message: str) -> None:
    ctx, module = parse(CHAIN)
    with pytest.raises(InputError, match=message):
        Interpreter(ctx, module).run(inputs)


def test_float_and_integer_inputs_come_in_their_dtype() -> None:
    text = """
    func.func @f(%x: tensor<?xf32>, %i: i32) -> tensor<?xf32> {
      func.return %x : tensor<?xf32>
    }"""
    ctx, module = parse(text)
    x, i = np.float32([1, 2, 3]), np.array(1, np.int32)
    assert Interpreter(ctx, module).run([x, i])[0].tolist() == [1, 2, 3]
    with pytest.raises(InputError, match="dtype float64"):
        Interpreter(ctx, module).run([x.astype(np.float64), i])
    with pytest.raises(InputError, match="dtype int64"):
        Interpreter(ctx, module).run([x, np.array(1)])
    (real,) = Interpreter(ctx, module, floats="real").run([x, i])
    assert real.dtype == np.float64
    with pytest.raises(InputError, match="dtype int32"):
        Interpreter(ctx, module, floats="real").run([i.reshape(1), i])


def test_float_mode_real_keeps_doubles_between_casts() -> None:
    text = f"""
    func.func @f(%q: tensor<1x{Q}>) -> tensor<1x!quant.uniform<i8:f32, 0.1>> {{
      %x = quant.dcast %q : tensor<1x{Q}> to tensor<1xf32>
      %y = nn.mul %x, %x : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
      %r = quant.qcast %y : tensor<1xf32> to tensor<1x!quant.uniform<i8:f32, 0.1>>
      func.return %r : tensor<1x!quant.uniform<i8:f32, 0.1>>
    }}"""
    ctx, module = parse(text)
    dtypes: list[Any] = []
    interpreter = Interpreter(
        ctx, module, floats="real", listeners=[lambda op, r: dtypes.append(r[0].dtype)]
    )
    assert interpreter.run([np.array([5], np.int8)])[0].tolist() == [10]
    assert dtypes == [np.float64, np.float64, np.int8]


def test_calls_and_the_choice_of_a_function() -> None:
    text = """
    func.func @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = nn.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      func.return %y : tensor<2xf32>
    }
    func.func @four(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = func.call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %z = func.call @twice(%y) : (tensor<2xf32>) -> tensor<2xf32>
      func.return %z : tensor<2xf32>
    }
    func.func @forever(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = func.call @forever(%x) : (tensor<2xf32>) -> tensor<2xf32>
      func.return %y : tensor<2xf32>
    }"""
    ctx, module = parse(text)
    interpreter = Interpreter(ctx, module)
    assert interpreter.run([np.float32([1, 2])], "four")[0].tolist() == [4, 8]
    with pytest.raises(InputError, match="no function 'main'"):
        interpreter.run([np.float32([1, 2])])
    with pytest.raises(UnsupportedError, match="calls itself"):
        interpreter.run([np.float32([1, 2])], "forever")
    assert interpreter.run([np.float32([1, 2])], "twice")[0].tolist() == [2, 4]


VENDOR = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = "vendor.negate"(%x) {nn.key = "layer7"} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}"""


def test_ops_of_others() -> None:
    ctx, module = parse(VENDOR, unregistered=True)
    x = np.float32([1, -2])
    with pytest.raises(UnsupportedError, match=r"no function for 'vendor\.negate'") as caught:
        Interpreter(ctx, module).run([x])
    assert caught.value.where is not None
    assert "layer7" in str(caught.value.where)

    def negate(op: Operation, operands: Any, evaluation: Any) -> list[np.ndarray]:
        assert evaluation.ctx is ctx
        return [-operands[0]]

    functions = {"vendor.negate": negate}
    assert Interpreter(ctx, module, functions=functions).run([x])[0].tolist() == [-1, 2]
    for bad in ([x, x], [x[:1]], [x.astype(np.float64)]):
        functions = {"vendor.negate": lambda op, operands, evaluation, bad=bad: bad}
        with pytest.raises(QError, match=r"vendor\.negate") as caught_bad:
            Interpreter(ctx, module, functions=functions).run([x])
        assert caught_bad.value.code == "bad-kernel"


def test_shapes_that_meet_only_at_run_time() -> None:
    text = """
    func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
      %z = nn.add %x, %y {nn.key = "sum"} : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      func.return %z : tensor<?xf32>
    }"""
    ctx, module = parse(text)
    ones = np.ones(3, np.float32)
    assert Interpreter(ctx, module).run([ones, ones])[0].tolist() == [2, 2, 2]
    with pytest.raises(InputError, match="cannot broadcast") as caught:
        Interpreter(ctx, module).run([ones, np.ones(2, np.float32)])
    assert "sum" in str(caught.value.where)


def test_more_than_one_block_is_refused() -> None:
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      "cf.br"(%x)[^next] : (tensor<2xf32>) -> ()
    ^next(%y: tensor<2xf32>):
      func.return %y : tensor<2xf32>
    }"""
    ctx, module = parse(text)
    with pytest.raises(UnsupportedError, match="2 blocks"):
        Interpreter(ctx, module).run([np.float32([1, 2])])


# -- liveness ------------------------------------------------------------------


def chain(length: int) -> str:
    lines = ["%v0 = nn.add %x, %x : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>"]
    for i in range(1, length):
        lines.append(
            f"%v{i} = nn.add %v{i - 1}, %x : (tensor<1000xf32>, tensor<1000xf32>) "
            "-> tensor<1000xf32>"
        )
    body = "\n".join(lines)
    return f"""func.func @main(%x: tensor<1000xf32>) -> tensor<1000xf32> {{
      {body}
      func.return %v{length - 1} : tensor<1000xf32>
    }}"""


def test_values_are_dropped_after_their_last_use() -> None:
    ctx, module = parse(chain(50))
    alive: list[weakref.ref[np.ndarray]] = []
    counts: list[int] = []

    def watch(op: Operation, results: Any) -> None:
        alive.append(weakref.ref(results[0]))
        counts.append(sum(ref() is not None for ref in alive))

    (result,) = Interpreter(ctx, module, listeners=[watch]).run([np.ones(1000, np.float32)])
    assert result[0] == 51
    assert len(counts) == 50
    assert max(counts) <= 2, "the operand of an op, and its result"


def test_unused_results_and_arguments_are_not_kept() -> None:
    text = """
    func.func @main(%x: tensor<2xf32>, %u: tensor<2xf32>) -> tensor<2xf32> {
      %a = nn.relu %x : (tensor<2xf32>) -> tensor<2xf32>
      %b = nn.tanh %x : (tensor<2xf32>) -> tensor<2xf32>
      %c = nn.tanh %x : (tensor<2xf32>) -> tensor<2xf32>
      func.return %c : tensor<2xf32>
    }"""
    ctx, module = parse(text)
    refs: list[weakref.ref[np.ndarray]] = []

    def watch(op: Operation, results: Any) -> None:
        assert all(ref() is None for ref in refs)
        refs.append(weakref.ref(results[0]))

    x = np.float32([1, 2])
    Interpreter(ctx, module, listeners=[watch]).run([x, x])
    assert len(refs) == 3


def test_the_module_may_change_between_runs() -> None:
    ctx, module = parse(CHAIN)
    interpreter = Interpreter(ctx, module)
    inputs = [int8(9, 9, 9, 9), int8(9, 9, 9, 9)]
    before = interpreter.run(inputs)
    func = next(op for op in module.ops if isinstance(op, FuncOp))
    add = next(op for op in func.walk() if isinstance(op, AddOp))
    add.operands[1] = add.operands[0]
    add.properties["rounding"] = add.properties["rounding"]
    assert all(np.array_equal(a, b) for a, b in zip(before, interpreter.run(inputs), strict=True))
    assert isinstance(interpreter.evaluation.ctx, Context)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ValueError("negative dimensions"), "cannot-evaluate"),
        (IndexError("index 9 is out of bounds"), "cannot-evaluate"),
        (MemoryError(), "too-large"),
        (OverflowError(), "too-large"),
        (ValueError("array is too big; `arr.size * arr.dtype.itemsize`"), "too-large"),
    ],
)
def test_what_an_evaluator_raises_is_an_error_of_its_op(fault: Exception, code: str) -> None:
    def fails(op: Operation, operands: Any, evaluation: Any) -> Any:
        raise fault

    ctx, module = parse(CHAIN)
    x = int8(1, 2, 3, 4)
    with pytest.raises(QError) as error:
        Interpreter(ctx, module, functions={"nn.relu": fails}).run([x, x])
    assert error.value.code == code
    assert "'nn.relu' op" in error.value.message
    assert error.value.where is not None
    assert code == "too-large" or str(fault) in error.value.message


def test_an_index_outside_is_an_error_with_a_place() -> None:
    ctx, module = parse(
        "func.func @f(%x: tensor<4xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {\n"
        '  %0 = nn.gather %x, %i axis 0 {nn.key = "rows"} : (tensor<4xf32>, tensor<2xi64>) -> '
        "tensor<2xf32>\n  func.return %0 : tensor<2xf32>\n}\n"
    )
    with pytest.raises(QError, match=r"rows.*nn\.gather"):
        Interpreter(ctx, module).run([np.ones(4, np.float32), np.array([1, 9])])
