"""`qd.run` on arrays of `ml_dtypes`: 4-bit integers, bf16 and smaller floats."""

# pyright: basic
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qdialect as qd

types = pytest.importorskip("ml_dtypes")
pytest.importorskip("onnxruntime")


def _load(folder: Path, kind: int, result: int, *nodes: onnx.NodeProto, shape: Any = (5,)) -> Any:
    graph = helper.make_graph(
        nodes,
        "narrow",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", result, shape)],
    )
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "m.onnx")
    return qd.load(folder / "m.onnx")


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("name", ["int4", "uint4", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_they_are_taken(tmp_path: Path, name: str, engine: Any) -> None:
    dtype = getattr(types, name)
    x = np.array([1, 2, 3, 7, 0 if name[0] == "u" else -4]).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    model = _load(tmp_path, kind, TensorProto.FLOAT, cast)
    given = qd.run(model, {"x": x}, engine)["y"]
    assert given.dtype == np.float32
    assert given.tolist() == x.astype(np.float32).tolist()


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("name", ["int4", "uint4", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("shape", [(5,), (), (2, 0), (2, 3)])
def test_they_are_given(tmp_path: Path, name: str, engine: Any, shape: Any) -> None:
    dtype = np.dtype(getattr(types, name))
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["f"], ["y"], to=kind),
    ]
    model = _load(tmp_path, kind, kind, *nodes, shape=shape)
    x = (np.arange(np.prod(shape, dtype=int)) % 8).reshape(shape).astype(dtype)
    given = qd.run(model, {"x": x}, engine)["y"]
    assert given.dtype == dtype and given.shape == shape
    assert given.tobytes() == x.tobytes()


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_who_does_not_use_them_gets_types_of_numpy(tmp_path: Path, engine: Any) -> None:
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)
    model = _load(tmp_path, TensorProto.FLOAT, TensorProto.BFLOAT16, cast)
    given = qd.run(model, {"x": np.array([1, 2, 3, 4, 1 + 2**-9], np.float32)}, engine)["y"]
    assert given.dtype == np.float32 and given.tolist() == [1, 2, 3, 4, 1]


def test_codes_of_a_quantized_input(tmp_path: Path) -> None:
    constants = [
        helper.make_node("Constant", [], ["s"], value_float=0.5),
        helper.make_node("DequantizeLinear", ["x", "s"], ["y"]),
    ]
    model = _load(tmp_path, TensorProto.INT4, TensorProto.FLOAT, *constants)
    x = np.array([-8, -1, 0, 1, 7]).astype(types.int4)
    for engine in ("numpy", "onnxruntime"):
        assert qd.run(model, {"x": x}, engine)["y"].tolist() == [-4, -0.5, 0, 0.5, 3.5]
