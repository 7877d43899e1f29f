"""`qopt run` and `qopt diff` of TFLite files in LiteRT."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from tests.support.commands import call, qopt
from tests.support.tflite_models import model, op, tensor


def network(path: Path, x: str = "x", zero: int = 3) -> Path:
    """Two convolutions that LiteRT's kernels round in different ways."""
    rng = np.random.default_rng(0)
    shape = (1, 12, 12, 8)
    values = [
        tensor(name, shape, "INT8", scale, zero_point)
        for name, scale, zero_point in ((x, 0.05, zero), ("c", 0.0371, -3), ("y", 0.0213, 7))
    ]
    others, ops = [values[1]], []
    for n, (source, result, step) in enumerate(((x, "c", 0.05), ("c", "y", 0.0371))):
        weights = rng.integers(-127, 128, (8, 3, 3, 8)).astype(np.int8)
        scales = rng.uniform(0.001, 0.004, 8)
        others.append(
            tensor(f"w{n}", weights.shape, "INT8", scales, np.zeros(8, int), data=weights)
        )
        bias = rng.integers(-500, 500, 8).astype(np.int32)
        others.append(tensor(f"b{n}", (8,), "INT32", step * scales, np.zeros(8, int), data=bias))
        options = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
        ops.append(op("CONV_2D", [source, f"w{n}", f"b{n}"], [result], options))
    path.write_bytes(model([values[0]], [values[2]], ops, others))
    return path


def test_a_file_runs_in_every_engine_of_litert(tmp_path: Path) -> None:
    path, x, y = network(tmp_path / "m.tflite"), tmp_path / "x.npz", tmp_path / "y.npz"
    np.savez(x, x=np.random.default_rng(1).integers(-128, 128, (1, 12, 12, 8)).astype(np.int8))
    found: dict[str, np.ndarray] = {}
    for engine in ("litert", "litert-xnn", "litert-opt", "litert-ref"):
        result = call(qopt, "run", str(path), "-i", str(x), "-o", str(y), f"--engine={engine}")
        assert result.code == 0, result.err
        found[engine] = np.load(y)["y"]
    assert np.array_equal(found["litert"], found["litert-xnn"])
    assert not np.array_equal(found["litert-xnn"], found["litert-opt"])
    # As it is read by default, the interpreter computes what LiteRT computes by default.
    engines = ("--engine=numpy", "--engine=litert-xnn")
    result = call(qopt, "run", str(path), "-i", str(x), "-o", str(y), *engines)
    assert result.code == 0 and "0.0000%" in result.err
    engines = ("--engine=litert-xnn", "--engine=litert-opt")
    result = call(qopt, "run", str(path), "-i", str(x), "-o", str(y), *engines)
    assert result.code == 1 and "they part at 'c', by up to 1 steps" in result.err


def test_values_inside_are_compared_with_the_interpreter(tmp_path: Path) -> None:
    path = network(tmp_path / "m.tflite")
    flags = ("--engine=numpy", "--engine=litert-xnn", "--layers", "--json", "-n", "2")
    result = call(qopt, "diff", str(path), *flags)
    assert result.code == 0, result.err
    layers = {layer["key"]: layer["max_steps"] for layer in json.loads(result.out)["layers"]}
    assert layers == {"c": 0, "y": 0}


def test_files_with_inputs_of_other_names_are_compared(tmp_path: Path) -> None:
    one, other = network(tmp_path / "a.tflite"), network(tmp_path / "b.tflite", "serving_x:0")
    result = call(qopt, "diff", str(one), str(other), "--engine=litert-ref", "-n", "2")
    assert result.code == 0, result.err
    third = network(tmp_path / "c.tflite", "serving_x:0", zero=4)
    result = call(qopt, "diff", str(one), str(third), "--engine=litert-ref", "-n", "2")
    assert result.code == 1


def test_a_file_that_litert_refuses_is_one_error(tmp_path: Path) -> None:
    x, y = tensor("x", (1, 4), "INT8", 0.5, 0), tensor("y", (1, 4), "INT8", 0.5, 0)
    path = tmp_path / "m.tflite"
    path.write_bytes(model([x], [y], [op("NoSuchOp", ["x"], ["y"], custom=b"")]))
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 4), np.int8))
    words = ("-i", str(tmp_path / "x.npz"), "-o", str(tmp_path / "y.npz"), "--engine=litert")
    result = call(qopt, "run", str(path), *words)
    assert result.code == 1 and "unresolved custom op: NoSuchOp" in result.err
    assert "Traceback" not in result.err and not (tmp_path / "y.npz").exists()
