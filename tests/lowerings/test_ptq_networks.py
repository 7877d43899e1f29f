"""Networks as ONNX Runtime quantizes them, end to end: from the file to codes in an engine."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from engine_support import compare
from ptq_networks import NETWORKS, quantized

import qdialect as qd
from qdialect.engines.installed import missing
from qdialect.interpreter import Interpreter, random_inputs
from qdialect.workflows.lower import integer_model, ready_model
from qdialect.workflows.run_program import InEngine
from tests.support.commands import call, qopt_translate

WAYS = [("s8", False, False), ("u8", True, False), ("s8", True, True), ("u8", False, True)]
"""Activations; per channel; whether few ops are quantized, so that more is left in floats."""


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger().setLevel(logging.ERROR)


def _id(way: tuple[str, bool, bool]) -> str:
    return f"{way[0]}{'-channels' if way[1] else ''}{'-few' if way[2] else ''}"


CASES = [(name, way) for name in NETWORKS for way in WAYS if not (name == "attention" and way[2])]


@pytest.mark.parametrize(("name", "way"), CASES, ids=[f"{name}-{_id(way)}" for name, way in CASES])
def test_it_is_integers_to_the_bit(name: str, way: tuple[str, bool, bool], tmp_path: Path) -> None:
    if missing("mlir-runner"):
        pytest.skip("mlir-runner is not installed (qopt engines install)")
    path = quantized(name, tmp_path, *way)
    ready = ready_model(integer_model(qd.load(path)))
    running = InEngine(ready, "mlir-runner")
    interpreter = Interpreter(ready.ctx, ready.module)
    drawn = [random_inputs(interpreter.function(), n, boundary=n == 1) for n in range(2)]
    wanted = [interpreter.run(codes) for codes in drawn]
    assert compare(wanted, running.engine.run(running.program, drawn), name)
    _is_close(path, running)


def _is_close(path: Path, running: InEngine) -> None:
    """What comes out is what the model means, up to where 8-bit codes in between tie."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    drawn = np.random.default_rng(7)
    samples = [{given.name: drawn.normal(size=given.shape).astype(np.float32)} for _ in range(3)]
    for sample, found in zip(samples, running.all(samples), strict=True):
        wanted = session.run(None, sample)[0]
        (values,) = found.values()
        spread = float(np.ptp(wanted))
        assert np.abs(values - wanted).max() <= 0.03 * spread


def test_a_float_argument_is_refused_by_name_if_integers_are_required(tmp_path: Path) -> None:
    """A layer norm of the input: nobody said on what range its codes would be."""
    path = quantized("attention", tmp_path, "s8", False, True)
    out = tmp_path / "t.mlir"
    strict = call(qopt_translate, "--export-tosa", "--strict-integer", str(path), "-o", str(out))
    assert strict.code == 1 and not out.exists()
    assert "'ReduceMean0'" in strict.err and "quantize" in strict.err
    result = call(qopt_translate, "--export-tosa", str(path), "-o", str(out))
    assert result.code == 0, result.err
