"""LiteRT in a child process: three sets of kernels, names, shapes, refusals, crashes and hangs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from qdialect.engines.installed import local_engine, missing
from qdialect.errors import InputError, QError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.tflite.engine import InChild, new_child
from tests.support.model_inputs import random_arrays
from tests.support.tflite_models import model, op, run_litert, tensor

ENGINES = ("litert-xnn", "litert-opt", "litert-ref")
POINT = {"padding": "SAME", "stride_w": 1, "stride_h": 1}


def convolution(result_scale: float = 0.0371, side: int = 9) -> bytes:
    rng = np.random.default_rng(0)
    x = tensor("x", (1, side, side, 8), "INT8", 0.05, 3)
    y = tensor("y", (1, side, side, 16), "INT8", result_scale, -3)
    weights = rng.integers(-127, 128, (16, 3, 3, 8)).astype(np.int8)
    scales = rng.uniform(0.005, 0.01, 16)
    w = tensor("w", weights.shape, "INT8", scales, np.zeros(16, int), data=weights)
    bias = rng.integers(-500, 500, 16).astype(np.int32)
    b = tensor("b", (16,), "INT32", 0.05 * scales, np.zeros(16, int), data=bias)
    return model([x], [y], [op("CONV_2D", ["x", "w", "b"], ["y"], POINT)], [w, b])


def two_results(dynamic: bool = False) -> bytes:
    """a - b and a + b, in that order, of floats."""
    open_shape = (-1, 4) if dynamic else None
    a, b, s, d = (tensor(n, (1, 4), signature=open_shape) for n in "absd")
    ops = [op("ADD", ["a", "b"], ["s"]), op("SUB", ["a", "b"], ["d"])]
    names = ({"first": "a", "second": "b"}, {"sum": "s", "difference": "d"})
    return model([a, b], [d, s], ops, signatures={"serving_default": names})


def codes(file: InChild, seed: int = 1) -> list[np.ndarray]:
    return random_arrays(file.inputs, seed)


@pytest.mark.parametrize("engine", ENGINES)
def test_one_child_runs_many_samples_as_the_package_does(engine: str) -> None:
    data = convolution()
    file = InChild(data, engine)
    for seed in range(3):
        (x,) = codes(file, seed)
        (found,) = file.run([x])
        (expected,) = run_litert(data, [x], resolver=engine.removeprefix("litert-"))
        assert found.dtype == np.int8 and np.array_equal(found, expected)
    times = file.nanoseconds(runs=3)
    assert len(times) == 3 and min(times) > 0
    nodes = file.nodes()
    assert nodes is not None and [node.op for node in nodes] == ["CONV_2D"]
    assert nodes[0].delegated == (engine == "litert-xnn")


def test_the_engines_are_different_functions() -> None:
    data = convolution(0.0371, side=40)
    runs = {engine: InChild(data, engine) for engine in ENGINES}
    (x,) = codes(runs["litert-xnn"])
    found = {engine: file.run([x])[0].astype(int) for engine, file in runs.items()}
    for one, other in (("litert-xnn", "litert-opt"), ("litert-ref", "litert-opt")):
        apart = np.abs(found[one] - found[other])
        assert 0 < np.count_nonzero(apart) < apart.size / 20 and apart.max() == 1


def test_two_models_share_a_child() -> None:
    child = new_child("litert-xnn")
    one = InChild(convolution(), child=child)
    other = InChild(two_results(), child=child)
    a, b = np.float32([[1, 2, 3, 4]]), np.float32([[1, 1, 1, 2]])
    difference, total = other.run([a, b])
    assert difference.tolist() == [[0, 1, 2, 2]] and total.tolist() == [[2, 3, 4, 6]]
    assert one.run(codes(one))[0].shape == (1, 9, 9, 16)
    one.close()
    with pytest.raises(InputError, match="failed running the model"):
        one.run(codes(one))
    assert other.run([a, b])[0].tolist() == difference.tolist()


def test_extents_that_only_a_run_tells() -> None:
    file = InChild(two_results(dynamic=True))
    for rows in (3, 1, 5):
        a = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
        difference, total = file.run([a, a])
        assert not difference.any() and np.array_equal(total, 2 * a)
    with pytest.raises(InputError, match=r"input 'a' has shape \[3, 5\], not \[\?, 4\]"):
        file.run([np.zeros((3, 5), np.float32)] * 2)


def test_inputs_that_do_not_fit() -> None:
    file = InChild(convolution())
    with pytest.raises(InputError, match="input 'x' is uint8, not int8") as error:
        file.run([np.zeros((1, 9, 9, 8), np.uint8)])
    assert error.value.code == "bad-input"
    with pytest.raises(InputError, match="takes 1 inputs, not 0"):
        file.run([])
    with pytest.raises(InputError, match="no such file"):
        InChild(Path("nowhere.tflite"))


MODULE = """
func.func @main(%a: tensor<1x4xf32> {nn.name = "a"}, %b: tensor<1x4xf32> {nn.name = "b"})
    -> (tensor<1x4xf32>, tensor<1x4xf32>) attributes {nn.result_names = ["d", "s"]} {
  %s = tflite.node "ADD" (%a, %b) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %d = tflite.node "SUB" (%a, %b) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  func.return %d, %s : tensor<1x4xf32>, tensor<1x4xf32>
}
"""


@pytest.mark.parametrize("names", [("a", "b"), ("first", "second"), ("second", "a")])
def test_inputs_go_by_every_name_they_have(names: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(two_results())
    ctx = new_context()
    engine = local_engine("litert-ref")
    assert engine is not None and missing("litert") is None
    run = engine.open(read_module(MODULE, ctx), ctx, source=path, optimize=False)
    arrays = {"a": np.float32([[5, 6, 7, 8]]), "b": np.float32([[1, 1, 1, 1]])}
    arrays |= {"first": arrays["a"], "second": arrays["b"]}
    outputs = run({name: arrays[name] for name in names})
    assert [array.tolist() for array in outputs.values()] == [[[4, 5, 6, 7]], [[6, 7, 8, 9]]]
    with pytest.raises(InputError, match=r"no input 'c' \(inputs: a, b\)"):
        run({"c": arrays["a"]})
    with pytest.raises(InputError, match=r"input 'b' is missing \(inputs: a, b\)"):
        run({"a": arrays["a"]})


def test_a_file_that_litert_refuses(tmp_path: Path) -> None:
    """It says why, in its own words, and the child stays."""
    x, y = tensor("x", (1, 4), "INT8", 0.5, 0), tensor("y", (1, 4), "INT8", 0.5, 0)
    child, path = new_child("litert-ref"), tmp_path / "m.tflite"
    path.write_bytes(model([x], [y], [op("NoSuchOp", ["x"], ["y"], custom=b"")]))
    with pytest.raises(
        InputError, match=r"failed loading 'm.tflite'.*custom op: NoSuchOp"
    ) as error:
        InChild(path, "litert-ref", child=child)
    assert error.value.code == "engine-failed" and str(error.value.where) == str(path)
    with pytest.raises(InputError, match="not a valid Flatbuffer"):
        InChild(b"abcd" * 20, "litert-ref", child=child)
    assert child.alive and InChild(convolution(), "litert-ref", child=child).nodes()


def test_a_crash_is_an_error() -> None:
    file = InChild(convolution())
    process = file.child._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    os.kill(process.pid, signal.SIGABRT)
    with pytest.raises(InputError, match=r"aborts on this model \(SIGABRT, running") as error:
        file.run(codes(file))
    assert "try --engine litert-ref" in error.value.notes
    # The next model gets a new process.
    again = InChild(convolution(), child=file.child)
    assert again.run(codes(again))[0].shape == (1, 9, 9, 16)


def test_a_hang_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    file = InChild(convolution())
    monkeypatch.setenv("QDIALECT_ENGINE_TIMEOUT", "1")
    with pytest.raises(InputError, match="no end after 1 s, timing the model") as error:
        file.nanoseconds(codes(file), runs=10**9)
    assert "QDIALECT_ENGINE_TIMEOUT=SECONDS gives it more time" in error.value.notes
    assert not file.child.alive


NODES = """
module attributes {tflite.kernels = "%s"} {
func.func @main(%%x: tensor<1x7x!quant.uniform<i8:f32, 0.05:3>> {nn.name = "x"})
    -> (tensor<1x7x!quant.uniform<i8:f32, 0.0371:-9>>) attributes {nn.result_names = ["y"]} {
  %%c = nn.constant dense<[[1, -3, 5, 7, 9, -100, 127]]> : tensor<1x7xi8>
    : tensor<1x7x!quant.uniform<i8:f32, 0.07:1>>
  %%0 = tflite.node "MUL" (%%x, %%c) options {fused_activation_function = "NONE"}
    : (tensor<1x7x!quant.uniform<i8:f32, 0.05:3>>, tensor<1x7x!quant.uniform<i8:f32, 0.07:1>>)
    -> tensor<1x7x!quant.uniform<i8:f32, 0.0371:-9>>
  func.return %%0 : tensor<1x7x!quant.uniform<i8:f32, 0.0371:-9>>
}
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_ops_without_a_counterpart_are_run_by_litert(engine: str) -> None:
    """With the kernels of the module, and the same as the module's file."""
    ctx = new_context()
    module = read_module(NODES % engine, ctx)
    interpreter, litert = local_engine("numpy"), local_engine(engine)
    assert interpreter is not None and litert is not None
    runs = [e.open(module, ctx, source=None, optimize=False) for e in (interpreter, litert)]
    for seed in range(3):
        x = np.random.default_rng(seed).integers(-128, 128, (1, 7)).astype(np.int8)
        one, other = (run({"x": x})["y"] for run in runs)
        assert one.dtype == np.int8 and np.array_equal(one, other)


def test_ops_that_litert_does_not_run() -> None:
    ctx = new_context()
    text = NODES % "litert-xnn"
    for name, why in (
        ("NoSuchOp", "cannot be evaluated"),
        ("WHILE", "no function of its operands"),
    ):
        module = read_module(text.replace('"MUL"', f'"{name}"'), ctx)
        engine = local_engine("numpy")
        assert engine is not None
        run = engine.open(module, ctx, source=None, optimize=False)
        with pytest.raises(QError, match=why):
            run({"x": np.zeros((1, 7), np.int8)})
