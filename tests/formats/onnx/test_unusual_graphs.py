"""Graphs whose kept nodes have types nobody infers, and other rarities, end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx_models import ModelBuilder

import qdialect as qd
from qdialect.plugins.onnx.write import OrtEngine


def optimized(model: onnx.ModelProto, folder: Path, form: qd.api.Form = "qdq") -> Path:
    """The written result; the model is inspected before and after."""
    source, output = folder / "in.onnx", folder / "out.onnx"
    onnx.save(model, source)
    loaded = qd.load(source)
    result = qd.optimize(loaded)
    qd.inspect(loaded), qd.inspect(result)
    qd.save(result, output, form=form)
    onnx.checker.check_model(onnx.load(output))
    return output


def test_graph_input_given_back_under_its_name(tmp_path: Path) -> None:
    b = ModelBuilder()
    b.input("x", [2, 3])
    b.output("x", shape=[2, 3])
    b.output(b.qdq("x", 0.1, 3), shape=[2, 3])
    path = optimized(b.model(), tmp_path)
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    found = OrtEngine(path, optimize=False).run({"x": x})
    assert list(found) == ["x", "x_dq"]
    np.testing.assert_array_equal(found["x"], x)


def test_constant_of_narrow_integers_that_a_kept_node_reads(tmp_path: Path) -> None:
    b = ModelBuilder(opset=21)
    codes = np.arange(-8, 8).reshape(4, 4)
    packed = helper.make_tensor("w", TensorProto.INT4, [4, 4], codes.ravel().tolist())
    b.initializers.append(packed)
    b.const("s", np.full((2, 4), 0.5), np.float32)
    b.node("DequantizeLinear", ["w", "s"], "wd", axis=0, block_size=2)
    b.node("MatMul", [b.input("x", [1, 4]), "wd"], "y")
    b.output("y", shape=[1, 4])
    path = optimized(b.model(), tmp_path)
    x = np.ones((1, 4), np.float32)
    found = OrtEngine(path, optimize=False).run({"x": x})["y"]
    np.testing.assert_array_equal(found, x @ (codes * np.float32(0.5)))


def contrib() -> onnx.ModelProto:
    b = ModelBuilder()
    for name, value in (("s", 0.1), ("t", 0.2)):
        b.const(name, value, np.float32)
    b.const("z", 3, np.uint8)
    b.node("QuantizeLinear", [b.input("x", [1, 3, 4, 4]), "s", "z"], "q")
    inputs = ["q", "s", "z", "q", "s", "z", "t", "z"]
    b.node("QLinearAdd", inputs, "sum", domain="com.microsoft")
    b.node("MaxPool", ["sum"], "pool", kernel_shape=[2, 2])
    b.node("DequantizeLinear", ["pool", "t", "z"], "y")
    b.output("y", shape=[1, 3, 3, 3])
    model = b.model()
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def test_integer_kernels_of_unknown_type_run_and_are_inspected(tmp_path: Path) -> None:
    path = optimized(contrib(), tmp_path)
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 4)).astype(np.float32)
    expected = OrtEngine(path, optimize=False).run({"x": x})["y"]
    np.testing.assert_array_equal(qd.run(qd.load(path), {"x": x})["y"], expected)


def test_sequences_run(tmp_path: Path) -> None:
    b = ModelBuilder()
    b.const("one", 1, np.int64)
    b.node("SplitToSequence", [b.input("x", [3, 2])], "parts", axis=0, keepdims=0)
    b.node("SequenceAt", ["parts", "one"], "y")
    b.output("y", shape=[2])
    path = optimized(b.model(), tmp_path)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(qd.run(qd.load(path), {"x": x})["y"], x[1])


def test_our_own_integer_form_is_read_run_and_inspected(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.qdq(b.input("x", [1, 2, 5, 5]), 0.05, 128)
    b.node("Conv", [x, b.weight("w", np.ones((4, 2, 3, 3), np.int8), [0.1] * 4)], "c")
    b.node("Add", [b.qdq("c", 0.1, 128), "c_dq"], "a")
    b.node("Flatten", [b.qdq("a", 0.2, 128)], "f")
    b.node("MatMul", [b.qdq("f", 0.2, 128), b.weight("v", np.ones((36, 2), np.int8), 0.1)], "m")
    b.output(b.qdq("m", 0.3, 128), shape=[1, 2])
    path = optimized(b.model(), tmp_path, "qoperator")
    kinds = {node.op_type for node in onnx.load(path).graph.node}
    assert "QLinearAdd" in kinds
    array = np.random.default_rng(1).normal(size=(1, 2, 5, 5)).astype(np.float32)
    expected = OrtEngine(path, optimize=False).run({"x": array})
    found = qd.run(qd.load(path), {"x": array})
    np.testing.assert_array_equal(found["m_dq"], expected["m_dq"])
    again = optimized(onnx.load(path), tmp_path, "qoperator")
    found = OrtEngine(again, optimize=False).run({"x": array})
    np.testing.assert_array_equal(found["m_dq"], expected["m_dq"])
