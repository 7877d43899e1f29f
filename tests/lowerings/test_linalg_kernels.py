"""What is exported to linalg, run in the interpreter: the numbers that the source gives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_operators import GROUPS, FloatProgram
from test_float_ops import check
from test_linalg_ops import FAMILIES, batch

from qdialect.api import Model, run_passes
from qdialect.errors import QError
from qdialect.interpreter import Interpreter, random_inputs
from qdialect.ir.context import new_context
from qdialect.plugins.common.exports import exports
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.mlir.write import module_text
from qdialect.workflows.lower import integer_model, ready_model
from tests.generators.sized import FORMS, GRAPHS

Array = np.ndarray[Any, Any]


def _model(text: str) -> Model:
    ctx = new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    return Model(module, ctx)


def _exported(given: Model, to: str) -> Model:
    """The module in what it is exported to, as its text is read again."""
    lowered = run_passes(given, exports()[to].convert)
    return _model(module_text(lowered.module, lowered.ctx, generic=True, inline_weights=True))


def _agree(text: str, to: str, codes: bool) -> int:
    """Run both; the number of results' elements, which must be equal."""
    export = exports()[to]
    given = run_passes(_model(text), export.passes(codes=codes), target=export.target)
    interpreter = Interpreter(given.ctx, given.module)
    inputs = random_inputs(interpreter.function(), 1)
    wanted = interpreter.run(inputs)
    lowered = _exported(given, to)
    runner = Interpreter(lowered.ctx, lowered.module)
    kinds = runner.function().function_type.inputs.data
    found = runner.run(
        [
            x.view(runner.evaluation.dtype(kind))
            for x, kind in zip(map(np.asarray, inputs), kinds, strict=True)
        ]
    )
    for one, other in zip(wanted, found, strict=True):
        mine = np.ascontiguousarray(one)
        assert np.array_equal(mine.view(other.dtype), other)
    return sum(one.size for one in wanted)


@pytest.mark.parametrize("to", ["linalg", "quant", "iree"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_networks(graph: str, to: str) -> None:
    for form in FORMS if to == "linalg" else ("qdq",):
        text = module_text(GRAPHS[graph](5, form), new_context(), inline_weights=True)
        assert _agree(text, to, codes=False) > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_ops_on_codes(family: str) -> None:
    assert _agree(batch(FAMILIES[family]), "linalg", codes=True) > 0


def test_ops_on_floats_keep_their_bounds() -> None:
    program = FloatProgram()
    for group in GROUPS:
        group(program)
    inputs = program.inputs(seed=1)
    lowered = _exported(_model(program.text("f32")), "linalg")
    check(program, inputs, Interpreter(lowered.ctx, lowered.module).run(inputs))


def test_a_file_is_run_where_nothing_else_is(tmp_path: Path) -> None:
    source, exported = tmp_path / "x.mlir", tmp_path / "x.linalg.mlir"
    text = module_text(GRAPHS["attention"](8, "quantized"), new_context(), inline_weights=True)
    source.write_text(text)
    codes = np.arange(256, dtype=np.uint8).view(np.int8).reshape(1, 4, 8, 8)
    np.savez(tmp_path / "x.npz", arg0=codes)
    _command(tmp_path, "translate", "--export-linalg", source.name, "-o", exported.name)
    assert "nn." not in exported.read_text().replace("nn.scale", "").replace("nn.zero_point", "")
    _command(tmp_path, "qopt", "run", exported.name, "-i", "x.npz", "-o", "y.npz")
    given = ready_model(integer_model(_model(text), to="linalg"), "linalg")
    (wanted,) = Interpreter(given.ctx, given.module).run([codes])
    (found,) = np.load(tmp_path / "y.npz").values()
    assert np.array_equal(found, wanted)


def _command(folder: Path, name: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"qdialect.cli.{name}", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


# -- scalars, against Python's integers and what upstream says ------------------------------

I8 = "tensor<6xi8>"
A = [-128, -7, -1, 5, 100, 127]
B = [-1, 2, -3, 3, 100, 2]


def _wrap(number: int) -> int:
    return (number + 128) % 256 - 128


INTEGERS: Mapping[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "remsi": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "divui": lambda a, b: (a % 256) // (b % 256),
    "remui": lambda a, b: (a % 256) % (b % 256),
    "maxui": lambda a, b: max(a % 256, b % 256),
    "minui": lambda a, b: min(a % 256, b % 256),
    "maxsi": max,
    "minsi": min,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
}


def _run(text: str, *inputs: Array) -> list[Array]:
    given = _model(text)
    return Interpreter(given.ctx, given.module).run(inputs)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_around(name: str) -> None:
    (found,) = _run(
        f"func.func @main(%a: {I8}, %b: {I8}) -> {I8} {{\n"
        f"  %0 = arith.{name} %a, %b : {I8}\n  func.return %0 : {I8}\n}}",
        *(np.array(x, np.int8) for x in (A, B)),
    )
    assert found.tolist() == [_wrap(INTEGERS[name](a, b)) for a, b in zip(A, B, strict=True)]


def test_division_by_zero_is_an_error() -> None:
    text = (
        f"func.func @main(%a: {I8}) -> {I8} {{\n  %0 = arith.divsi %a, %a : {I8}\n"
        f"  func.return %0 : {I8}\n}}"
    )
    with pytest.raises(QError, match="divided by zero"):
        _run(text, np.zeros(6, np.int8))


ORDERED = {"eq": [0, 0, 0], "gt": [0, 0, 1], "ge": [0, 0, 1], "lt": [1, 0, 0], "le": [1, 0, 0]}


@pytest.mark.parametrize("unordered", [False, True])
@pytest.mark.parametrize("name", ORDERED)
def test_comparisons_of_nan(name: str, unordered: bool) -> None:
    predicate = ("u" if unordered else "o") + name
    (found,) = _run(
        "func.func @main(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xi1> {\n"
        f"  %0 = arith.cmpf {predicate}, %a, %b : tensor<3xf32>\n"
        "  func.return %0 : tensor<3xi1>\n}",
        np.array([1, np.nan, 2], np.float32),
        np.array([2, 1, 1], np.float32),
    )
    wanted = list(map(bool, ORDERED[name]))
    wanted[1] = unordered
    assert found.tolist() == wanted


def test_numbers_change_their_type() -> None:
    """A true i1 is -1 with its sign; floats beyond an integer type become its ends."""
    found = _run(
        """func.func @main(%b: tensor<2xi1>, %x: tensor<4xf32>)
    -> (tensor<2xi8>, tensor<2xi8>, tensor<2xf32>, tensor<4xi8>, tensor<4xi8>) {
  %0 = arith.extsi %b : tensor<2xi1> to tensor<2xi8>
  %1 = arith.extui %b : tensor<2xi1> to tensor<2xi8>
  %2 = arith.sitofp %b : tensor<2xi1> to tensor<2xf32>
  %3 = arith.fptosi %x : tensor<4xf32> to tensor<4xi8>
  %4 = arith.fptoui %x : tensor<4xf32> to tensor<4xi8>
  func.return %0, %1, %2, %3, %4
    : tensor<2xi8>, tensor<2xi8>, tensor<2xf32>, tensor<4xi8>, tensor<4xi8>
}""",
        np.array([False, True]),
        np.array([-2.7, 300.0, 100.9, np.nan], np.float32),
    )
    assert [x.tolist() for x in found] == [
        [0, -1],
        [0, 1],
        [0.0, -1.0],
        [-2, 127, 100, 0],
        [0, -1, 100, 0],
    ]


def test_an_index_outside_is_an_error() -> None:
    text = """func.func @main(%x: tensor<3xf32>, %i: index) -> f32 {
  %0 = tensor.extract %x[%i] : tensor<3xf32>
  func.return %0 : f32
}"""
    x = np.array([1, 2, 3], np.float32)
    assert _run(text, x, np.array(2))[0] == 3
    with pytest.raises(QError, match="outside a tensor of shape"):
        _run(text, x, np.array(3))
