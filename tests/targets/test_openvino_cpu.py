"""What the target `openvino-cpu` says of single ops between casts, against OpenVINO itself.

Needs `openvino` of the package index on x86 without AMX, installed beside qdialect, or for the
Python interpreter that `QDIALECT_OPENVINO` is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx import helper as oh

import qdialect as qd
from qdialect.targets.zoo.openvino import TARGET
from tests.support import openvino_precisions

PYTHON = os.environ.get("QDIALECT_OPENVINO") or (sys.executable if find_spec("openvino") else None)


class Case(NamedTuple):
    """An ONNX op on quantized operands and the layer of OpenVINO that it becomes."""

    op: str
    layer: str
    activations: str = "u8"
    zero: int = 3
    weights: str = ""
    weights_zero: int = 0
    attributes: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        return f"{self.op} {self.activations} zero {self.zero} {self.weights} {self.weights_zero}"


CASES = [
    *(Case("Conv", "Convolution", a, z, "i8") for a in ("u8", "i8") for z in (0, 3)),
    *(Case("ConvTranspose", "Deconvolution", a, z, "i8") for a in ("u8", "i8") for z in (0, 3)),
    Case("ConvTranspose", "Deconvolution", "u8", 0, "i8", 1),
    *(Case("MatMul", "FullyConnected", a, z, "i8") for a in ("u8", "i8") for z in (0, 3)),
    *(Case("MaxPool", "Pooling", a, 3, attributes={"kernel_shape": [2, 2]}) for a in ("u8", "i8")),
    *(
        Case("AveragePool", "Pooling", a, 3, attributes={"kernel_shape": [2, 2]})
        for a in ("u8", "i8")
    ),
]
SHAPES = {"Conv": (4, 3, 3, 3), "ConvTranspose": (3, 4, 3, 3), "MatMul": (8, 8)}


def cast_pair(name: str, storage: str, zero: int) -> list[onnx.NodeProto]:
    parameters = [f"{name}_s", f"{name}_z"]
    return [
        oh.make_node("QuantizeLinear", [name, *parameters], [f"{name}_q"]),
        oh.make_node("DequantizeLinear", [f"{name}_q", *parameters], [f"{name}_d"]),
    ]


def file_of(case: Case, path: Path) -> None:
    """Input, casts, the op, casts."""
    kinds = {"u8": np.uint8, "i8": np.int8}
    numbers: dict[str, Any] = {"x_s": np.float32(0.1), "y_s": np.float32(0.2)}
    numbers |= {f"{n}_z": kinds[case.activations](case.zero) for n in "xy"}
    nodes, inputs = cast_pair("x", case.activations, case.zero), ["x_d"]
    if case.weights:
        shape = SHAPES[case.op]
        codes = np.random.default_rng(1).integers(-100, 100, shape)
        numbers |= {
            "w_q": codes.astype(kinds[case.weights]),
            "w_s": np.float32(0.01),
            "w_z": kinds[case.weights](case.weights_zero),
        }
        nodes.append(oh.make_node("DequantizeLinear", ["w_q", "w_s", "w_z"], ["w_d"]))
        inputs.append("w_d")
    nodes.append(oh.make_node(case.op, inputs, ["y"], name=case.op, **case.attributes))
    nodes += cast_pair("y", case.activations, case.zero)
    graph = oh.make_graph(
        nodes,
        "g",
        [oh.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [oh.make_tensor_value_info("y_d", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in numbers.items()],
    )
    made = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 13)])
    made.ir_version = 8
    onnx.save(onnx.shape_inference.infer_shapes(made), path)


def verdict(path: Path) -> bool:
    found = qd.inspect(qd.load(path), target=TARGET).taken
    assert found is not None
    (kind,) = (k for k in found.kinds if k.op != "quant.rescale")
    return kind.taken == 1


def test_openvino_executes_on_codes_what_the_target_takes(tmp_path: Path) -> None:
    if PYTHON is None:
        pytest.skip("OpenVINO is not installed (openvino; or QDIALECT_OPENVINO=its python)")
    paths = [tmp_path / f"{number}.onnx" for number in range(len(CASES))]
    for case, path in zip(CASES, paths, strict=True):
        file_of(case, path)
    done = subprocess.run(
        [PYTHON, str(Path(openvino_precisions.__file__)), *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=300,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr
    differ: dict[str, list[str]] = {}
    for case, path, layers in zip(CASES, paths, json.loads(done.stdout), strict=True):
        found = [precision.lower() for layer, precision in layers if layer == case.layer]
        assert len(found) == 1, (case, layers)
        if (found[0] in ("u8", "i8")) != verdict(path):
            differ[case.name] = found
    assert differ == {}


def test_both_verdicts_occur(tmp_path: Path) -> None:
    verdicts: list[bool] = []
    for case in CASES:
        file_of(case, tmp_path / "m.onnx")
        verdicts.append(verdict(tmp_path / "m.onnx"))
    assert {True, False} == set(verdicts)
