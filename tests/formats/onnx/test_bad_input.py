"""Broken models: one InputError that names the file, the node and the reason."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import ModelBuilder, load, ops, unary

from qdialect.errors import InputError, QError, UnsupportedError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import parse_text
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine, save_model, write_model
from tests.support.commands import call, qopt


def refused(source: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        import_model(source, new_context())
    return caught.value


def test_file_that_is_not_there(tmp_path: Path) -> None:
    error = refused(tmp_path / "none.onnx")
    assert "cannot read the model: No such file" in str(error)


@pytest.mark.parametrize("keep", [0, 1, 50, 300, -1])
def test_truncated_file(tmp_path: Path, keep: int) -> None:
    b = ModelBuilder()
    b.const("w", np.ones((20, 20)), np.float32)
    b.node("MatMul", [b.input("x", [3, 20]), "w"], "y")
    b.output("y")
    path = tmp_path / "cut.onnx"
    path.write_bytes(b.model().SerializeToString()[:keep])
    error = refused(path)
    assert error.code == "invalid-onnx"
    assert str(error).startswith(f"{path}: error: ")


@pytest.mark.parametrize("data", [b"not a model at all", b"\x00" * 64, b"\xff" * 1000, b"\x08\x07"])
def test_not_a_model(data: bytes) -> None:
    assert refused(data).code == "invalid-onnx"


def one_node(change: Callable[[ModelBuilder], None]) -> onnx.ModelProto:
    b = ModelBuilder()
    b.node("Relu", [b.input("x", [3])], "y")
    b.output("y")
    change(b)
    return b.model(check=False)


def test_missing_tensor_names_node_and_tensor() -> None:
    model = unary("Relu", [3])
    model.graph.node[0].input[0] = "nowhere"
    error = refused(model)
    assert error.code == "undefined-tensor"
    assert "node 'y_node'" in str(error)
    assert "'nowhere'" in str(error)


def test_missing_initializer() -> None:
    b = ModelBuilder()
    b.const("w", np.ones((3, 4)), np.float32)
    b.node("MatMul", [b.input("x", [2, 3]), "w"], "y")
    b.output("y")
    model = b.model()
    del model.graph.initializer[:]
    assert "reads tensor 'w', which is no graph input" in str(refused(model))


def test_cycle_and_unsorted_nodes() -> None:
    b = ModelBuilder()
    b.input("x", [3])
    b.node("Add", ["x", "b"], "a")
    b.node("Relu", ["a"], "b")
    b.output("b", shape=[3])
    error = refused(b.model(check=False))
    assert error.code == "not-sorted"
    assert "node 'a_node'" in str(error)


def test_duplicate_names() -> None:
    def twice(b: ModelBuilder) -> None:
        b.node("Tanh", ["x"], "y", name="again")

    error = refused(one_node(twice))
    assert error.code == "duplicate-name"
    assert "node 'again'" in str(error)
    model = unary("Relu", [3])
    model.graph.input.append(model.graph.input[0])
    assert "two graph inputs are named 'x'" in str(refused(model))


def test_name_that_is_no_text() -> None:
    data = unary("Relu", [3]).SerializeToString().replace(b"y_node", b"y_no\xffe")
    assert "not UTF-8" in str(refused(data))


@pytest.mark.parametrize("seed", range(60))
def test_damaged_files_are_refused_or_read(seed: int) -> None:
    """Nothing but our own errors comes out, whatever bytes come in."""
    b = ModelBuilder()
    b.weight("w", np.ones((6, 3), np.int8), [0.1] * 6)
    b.node("Gemm", [b.qdq(b.input("x", [2, 3]), 0.1, 3), "w"], "g", transB=1)
    b.node("Softmax", [b.qdq("g", 0.2, 0)], "y")
    b.output("y")
    data = bytearray(b.model().SerializeToString())
    rng = np.random.default_rng(seed)
    for position in rng.integers(0, len(data), 1 + seed % 5):
        data[position] = rng.integers(0, 256)
    ctx = new_context()
    try:
        write_model(import_model(bytes(data), ctx), ctx).whole()
    except QError:
        return


def test_attribute_of_a_function_that_there_is_none() -> None:
    model = unary("Softmax", [3], axis=0)
    model.graph.node[0].attribute[0].ref_attr_name = "outer"
    error = refused(model)
    assert "node 'y_node': error: attribute 'axis' has no value" in str(error)


def test_shape_of_no_elements_that_no_array_can_have() -> None:
    def huge(tensor: TensorProto) -> None:
        tensor.dims[:] = [0, 2**62, 2**62]
        tensor.raw_data = b""

    assert "which no array has" in str(bad_tensor(huge))


def test_missing_graph_output() -> None:
    model = unary("Relu", [3])
    model.graph.output[0].name = "other"
    assert "graph output 'other' is never computed" in str(refused(model))


def test_two_graph_outputs_of_one_name_and_none() -> None:
    model = unary("Relu", [3])
    model.graph.output.append(model.graph.output[0])
    assert "two graph outputs are named 'y'" in str(refused(model))
    del model.graph.output[:]
    assert "the graph has no output" in str(refused(model))


def test_graph_output_declared_with_another_element_type() -> None:
    model = unary("Relu", [3])
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8
    assert "'y' is declared i8, but is computed as f32" in str(refused(model))


@pytest.mark.parametrize("version", [99, 0, -(2**63)])
def test_opset_that_there_is_not(version: int) -> None:
    model = unary("Relu", [3])
    model.opset_import[0].version = version
    assert f"opset {version}" in str(refused(model))


def test_unknown_automatic_padding() -> None:
    b = ModelBuilder()
    b.const("w", np.ones((1, 1, 1, 1)), np.float32)
    b.node("Conv", [b.input("x", [1, 1, 3, 3]), "w"], "y", auto_pad="SOMEHOW")
    b.output("y", shape=[1, 1, 3, 3])
    error = refused(b.model(check=False))
    assert "node 'y_node'" in str(error)
    assert "auto_pad is 'SOMEHOW'" in str(error)


def test_window_wider_than_the_input_counts_with_ceil_mode() -> None:
    b = ModelBuilder()
    x = b.input("x", [1, 1, 1, 4])
    b.node("MaxPool", [x], "y", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    b.output("y", shape=[1, 1, 1, 2])
    model = b.model()
    ctx = new_context()
    module = import_model(model, ctx)
    array = np.array([[[[1.0, 3.0, 2.0, -5.0]]]], np.float32)
    expected = OrtEngine(model, optimize=False).run({"x": array})["y"]
    np.testing.assert_array_equal(Interpreter(ctx, module).run([array])[0], expected)


def test_attributes_too_large_to_compute_with() -> None:
    b = ModelBuilder()
    b.const("w", np.ones((1, 1, 1, 1)), np.float32)
    b.node("Conv", [b.input("x", [1, 1, 3, 3]), "w"], "y", dilations=[2**62, 2**62])
    b.output("y", shape=[1, 1, 3, 3])
    ctx = new_context()
    module = import_model(b.model(), ctx)
    with pytest.raises(QError, match="too large to be computed"):
        Interpreter(ctx, module).run([np.ones((1, 1, 3, 3), np.float32)])


def test_checker_failures_name_the_node() -> None:
    model = unary("Relu", [3])
    model.graph.node[0].attribute.append(helper.make_attribute("alpha", 1.0))
    error = refused(model)
    assert error.code == "invalid-onnx"
    assert "node 'y_node'" in str(error)
    assert "Unrecognized attribute: alpha" in str(error)


def test_per_channel_parameters_before_opset_13() -> None:
    """A popular quantizer writes such files."""
    b = ModelBuilder(opset=11)
    b.weight("w", np.ones((4, 3), np.int8), [0.1] * 4)
    b.node("Add", [b.input("x", [4, 3]), "w"], "y")
    b.output("y", shape=[4, 3])
    assert "Unrecognized attribute: axis" in str(refused(b.model(check=False)))


def test_shapes_that_do_not_fit() -> None:
    b = ModelBuilder()
    b.const("w", np.ones((4, 5, 3, 3)), np.float32)
    b.node("Conv", [b.input("x", [1, 3, 8, 8]), "w"], "y")
    b.output("y", shape=[1, 4, 6, 6])
    error = refused(b.model())
    assert error.code == "invalid-node"
    assert "input has 3 channels, but the weight takes 5" in str(error)


# -- tensors --------------------------------------------------------------------------


def bad_tensor(change: Callable[[TensorProto], None]) -> InputError:
    b = ModelBuilder()
    b.const("w", np.ones((3, 4)), np.float32)
    b.node("MatMul", [b.input("x", [2, 3]), "w"], "y")
    b.output("y")
    model = b.model()
    change(model.graph.initializer[0])
    return refused(model)


def test_initializer_with_too_few_bytes() -> None:
    def shorten(tensor: TensorProto) -> None:
        tensor.raw_data = tensor.raw_data[:-4]

    error = bad_tensor(shorten)
    assert error.code == "bad-initializer"
    assert "'w' holds 44 bytes, but its shape needs 48" in str(error)


def test_absurd_extents_cost_no_memory() -> None:
    def blow_up(tensor: TensorProto) -> None:
        tensor.dims[:] = [2**40, 2**40]

    assert "holds 48 bytes" in str(bad_tensor(blow_up))


@pytest.mark.parametrize("shape", [[2, 2**62, 7], [0, 2**62, 7]])
def test_inputs_of_absurd_extents_cost_no_memory(shape: list[int], tmp_path: Path) -> None:
    """Neither where a node is tried alone, nor where the model is."""
    b = ModelBuilder()
    b.node("Concat", [b.input("x", shape)] * 3, "c", axis=-1)
    b.output(b.quantize("c", np.full(20, 0.5), np.zeros(20), "i8", axis=2), np.int8)
    onnx.save(b.model(check=False), tmp_path / "m.onnx")
    done = call(qopt, "optimize", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "o.onnx"))
    assert done.code == 1 and "20 scales for dimension 2" in done.err


def test_split_into_absurdly_many_costs_no_memory() -> None:
    b = ModelBuilder()
    b.node("Split", [b.input("x", [2, 3])], "y", num_outputs=1 << 40, name="s")
    b.output("y")
    error = refused(b.model(check=False))
    assert "is to have 1099511627776 outputs, but has 1" in str(error)
    assert "node 's'" in str(error)


def test_negative_extent_and_unknown_type() -> None:
    def negative(tensor: TensorProto) -> None:
        tensor.dims[:] = [-3, -4]

    def unknown(tensor: TensorProto) -> None:
        tensor.data_type = 99

    assert "negative extent" in str(bad_tensor(negative))
    assert "unknown data type 99" in str(bad_tensor(unknown))


def test_unknown_type_in_a_body() -> None:
    bodies: dict[str, onnx.GraphProto] = {}
    for name in ("then_branch", "else_branch"):
        relu = helper.make_node("Relu", ["x"], [name])
        result = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
        bodies[name] = helper.make_graph([relu], name, [], [result])
    b = ModelBuilder()
    b.input("x", [2])
    b.node("If", [b.input("c", [], np.bool_)], "y", **bodies)
    b.output("y", shape=[2])
    model = b.model()
    body = model.graph.node[0].attribute[0].g
    body.output[0].type.tensor_type.elem_type = 2**31 - 1
    assert "Invalid tensor data type 2147483647" in str(refused(model))


def test_huge_constant_of_shape_is_not_folded() -> None:
    b = ModelBuilder()
    b.node("ConstantOfShape", [b.const("n", [2**30, 2**20], np.int64)], "c")
    b.node("ReduceSum", ["c"], "y")
    b.output("y", shape=[1, 1])
    ctx, _ = load(b.model())
    assert len(ctx.blobs) == 0


def external(tmp_path: Path, **entries: str) -> InputError:
    b = ModelBuilder()
    b.const("w", np.ones((3, 4)), np.float32)
    b.node("MatMul", [b.input("x", [2, 3]), "w"], "y")
    b.output("y")
    model = b.model()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "short.bin").write_bytes(b"\0" * 40)
    (tmp_path / "outside.bin").write_bytes(b"\0" * 48)
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    os.mkfifo(folder / "pipe")
    (folder / "circle").symlink_to(folder / "circle")
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return refused(path)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"location": "../outside.bin"}, "outside the folder of the model"),
        ({"location": "/etc/hostname"}, "outside the folder of the model"),
        ({"location": "link.bin"}, "outside the folder of the model"),
        ({"location": "a\0b"}, "outside the folder of the model"),
        ({"location": "pipe"}, "which is no file"),
        ({"location": "."}, "which is no file"),
        ({"location": "a" * 5000}, "cannot be read: File name too long"),
        ({"location": "circle/w.bin"}, "initializer 'w' is in 'circle"),
        ({}, "outside the folder of the model"),
        ({"location": "none.bin"}, "cannot be read: No such file"),
        ({"location": "short.bin"}, "holds 40 bytes, but its shape needs 48"),
        ({"location": "short.bin", "offset": "8", "length": "48"}, "lies outside its external"),
        ({"location": "short.bin", "offset": "x"}, "no number"),
        ({"location": "short.bin", "offset": "-8"}, "lies outside its external"),
    ],
)
def test_external_data(tmp_path: Path, entries: dict[str, str], reason: str) -> None:
    error = external(tmp_path, **entries)
    assert error.code == "bad-initializer"
    assert reason in str(error)
    assert "initializer 'w'" in str(error)


def test_external_data_without_a_folder() -> None:
    def outside(tensor: TensorProto) -> None:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")

    assert "came without a folder" in str(bad_tensor(outside))


# -- quantization parameters ------------------------------------------------------------


def quantized(scale: Any, zero: Any, axis: int | None = None, **more: Any) -> onnx.ModelProto:
    b = ModelBuilder()
    b.const("s", scale, more.get("scale_type", np.float32))
    b.const("z", zero, more.get("zero_type", np.uint8))
    attributes = {} if axis is None else {"axis": axis}
    b.node("QuantizeLinear", [b.input("x", [2, 3]), "s", "z"], "q", **attributes)
    b.node("DequantizeLinear", ["q", "s", more.get("other", "z")], "y", name="dq", **attributes)
    if "other" in more:
        b.const(more["other"], 0, np.int8)
    b.output("y", shape=[2, 3])
    return b.model(check=False)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (quantized([0.1, 0.1], [0, 0], 1), "2 scales for dimension 1, which has 3"),
        (quantized([0.1, 0.1, 0.1], [0, 0], 1), "3 scales but 2 zero points"),
        (quantized([0.1, 0.1, 0.1], [0, 0, 0], 5), "axis 5 is outside rank 2"),
        (quantized([0.1, 0.1, 0.1], [0, 0, 0], -4), "axis -4 is outside rank 2"),
        (quantized([[0.1] * 3] * 2, [[0] * 3] * 2, 1), "need a block size"),
    ],
)
def test_qparams_that_cannot_be(model: onnx.ModelProto, reason: str) -> None:
    error = refused(model)
    assert error.code == "bad-qparams"
    assert "node 'q_node'" in str(error)
    assert reason in str(error)


@pytest.mark.parametrize(
    ("opset", "scale", "zero", "reason"),
    [
        (21, np.float32, np.int64, "y_zero_point 'z' is int64, which QuantizeLinear of opset 21"),
        (21, np.float32, np.int32, "y_zero_point 'z' is int32, which"),
        (21, np.float32, np.float32, "y_zero_point 'z' is float, which"),
        (21, np.int32, np.uint8, "x_scale 's' is int32, which DequantizeLinear"),
        (21, np.float64, np.uint8, "y_scale 's' is double, which"),
        (19, np.float32, np.uint16, "y_zero_point 'z' is uint16, which QuantizeLinear of opset 19"),
    ],
)
def test_operands_of_types_that_no_runtime_takes(
    opset: int, scale: Any, zero: Any, reason: str
) -> None:
    model = quantized(1, 1, scale_type=scale, zero_type=zero)
    model.opset_import[0].version = opset
    error = refused(model)
    assert error.code == "invalid-node" and reason in str(error)
    assert error.where is not None and error.where.node


def test_floats_that_are_read_as_codes() -> None:
    b = ModelBuilder()
    b.const("s", 1, np.float32)
    b.node("DequantizeLinear", [b.input("x", [2, 3]), "s"], "y", name="dq")
    b.output("y", shape=[2, 3])
    error = refused(b.model(check=False))
    assert "x 'x' is float, which DequantizeLinear" in str(error) and "node 'dq'" in str(error)


def test_zero_point_of_another_type() -> None:
    error = refused(quantized(0.1, 0, other="z8"))
    assert error.code == "bad-qparams"
    assert "node 'dq': error: the zero point's type i8 is not the tensor's type u8" in str(error)


# -- export and engine --------------------------------------------------------------------


def test_export_errors() -> None:
    ctx, module = load(unary("Relu", [3]))
    with pytest.raises(QError, match="no ONNX form 'other'"):
        write_model(module, ctx, "other").whole()  # type: ignore[arg-type]
    function = next(iter(module.ops))
    module.body.block.add_op(function.clone())
    with pytest.raises(InputError, match="one function, but the module has 2"):
        write_model(module, ctx).whole()
    ctx, module = load(clip_model())
    with pytest.raises(UnsupportedError, match="needs opset 11, but 7 was asked for"):
        write_model(module, ctx, opset=7).whole()


@pytest.mark.parametrize("element", ["!quant.calibrated<f32<-1.0:1.0>>", "!quant.any<i8>", "i7"])
def test_a_type_that_onnx_lacks_is_named(element: str) -> None:
    ctx = new_context()
    module = parse_text(f"func.func @f(%x: tensor<4x{element}>) {{\n  return\n}}\n", ctx).module
    with pytest.raises(UnsupportedError, match="has a value of type tensor<4x") as caught:
        write_model(module, ctx)
    assert caught.value.where is not None and caught.value.where.line == 1


def clip_model() -> onnx.ModelProto:
    b = ModelBuilder()
    b.node("Clip", [b.input("x", [3]), b.const("lo", 0.0, np.float32)], "y")
    b.output("y")
    return b.model()


def test_save_is_whole_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save_model(unary("Relu", [3]), path)
    onnx.checker.check_model(str(path))
    with pytest.raises(InputError, match="cannot write: No such file"):
        save_model(unary("Relu", [3]), tmp_path / "none" / "net.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]


def test_engine_errors() -> None:
    with pytest.raises(InputError, match="does not load the model") as caught:
        OrtEngine(b"junk", optimize=False)
    assert caught.value.code == "runtime-refuses"
    engine = OrtEngine(unary("Relu", [3]), optimize=True)
    with pytest.raises(InputError, match="cannot run the model"):
        engine.run({"x": np.zeros(4, np.float32)})


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(QError, match=r'pip install "qdialect\[onnx\]"') as caught:
        import_model("net.onnx", new_context())
    assert caught.value.code == "missing-package"


def then_sliced(b: ModelBuilder) -> onnx.ModelProto:
    """The model, its last node now a slice of dimension 2; shape inference of the onnx
    package ends the process on it, so the builder must not see it."""
    for name, value in (("start", 0), ("end", 5), ("axis", 2)):
        b.const(name, [value], np.int64)
    b.node("Identity", ["c"], "y")
    b.output("y", shape=["a", "b", "c", "d"])
    model = b.model(check=False)
    model.graph.node[-1].op_type = "Slice"
    model.graph.node[-1].input.extend(["start", "end", "axis"])
    return model


@pytest.mark.parametrize(
    ("kind", "attributes", "more"),
    [("MaxPool", {"kernel_shape": [9, 9]}, []), ("Conv", {}, ["w"]), ("Pad", {}, ["pads"])],
)
def test_negative_extents_before_a_slice(
    kind: str, attributes: dict[str, Any], more: list[str]
) -> None:
    b = ModelBuilder()
    b.const("w", np.ones((1, 1, 5, 5)), np.float32)
    b.const("pads", [0, 0, -9, -9, 0, 0, 0, 0], np.int64)
    b.node(kind, [b.input("x", [1, 1, 3, 3]), *more], "c", **attributes)
    error = refused(then_sliced(b))
    assert "node 'c_node'" in str(error)
    assert "negative extent" in str(error)


def test_negative_extent_of_an_input_is_unknown() -> None:
    b = ModelBuilder()
    b.node("Relu", [b.input("x", [2, 1, -1, 3])], "c")
    import_model(then_sliced(b), new_context())


@pytest.mark.parametrize("strides", [[0, 1], [1]])
def test_strides_that_no_automatic_padding_fits(strides: list[int]) -> None:
    b = ModelBuilder()
    b.const("w", np.ones((1, 1, 1, 1)), np.float32)
    x = b.input("x", [1, 1, 3, 3])
    b.node("Conv", [x, "w"], "y", auto_pad="SAME_UPPER", strides=strides)
    b.output("y", shape=[1, 1, 3, 3])
    assert "node 'y_node'" in str(refused(b.model(check=False)))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"output_shape": [4, 4]}, r"output_shape \[4, 4\] and output_padding \[0\] fit no 1 dim"),
        ({"output_padding": [1, 2], "auto_pad": "SAME_UPPER"}, "fit no 1 dimensions"),
        ({"output_padding": [-1]}, "output_padding must be at least 0"),
        ({"kernel_shape": [2]}, r"kernel_shape \[2\] is not the weight's \[3\]"),
        ({"strides": [1, 1]}, "strides must list 1 integers"),
        ({"strides": [0], "auto_pad": "SAME_LOWER"}, "fit no 1 dimensions"),
        ({"auto_pad": "SOMEHOW"}, "auto_pad is 'SOMEHOW'"),
        ({"group": 3}, "4 input channels do not divide into 3 groups"),
        ({"pads": [9, 9]}, "pads 9 and 9 leave nothing of an extent of 5"),
        ({"dilations": [2**62]}, "needs more than 64 bits"),
    ],
)
def test_transposed_convolution_that_fits_nothing(attributes: dict[str, Any], message: str) -> None:
    b = ModelBuilder()
    b.const("w", np.ones((4, 2, 3)), np.float32)
    b.node("ConvTranspose", [b.input("x", [1, 4, 5]), "w"], "y", **attributes)
    b.output("y", shape=["a", "b", "c"])
    error = refused(b.model(check=False))
    assert "node 'y_node'" in str(error)
    assert re.search(message, str(error)), str(error)


def test_transposed_convolution_too_large_to_compute() -> None:
    b = ModelBuilder()
    b.const("w", np.ones((1, 1, 1)), np.float32)
    b.node("ConvTranspose", [b.input("x", [1, 1, 5]), "w"], "y", strides=[2**50])
    b.output("y", shape=["a", "b", "c"])
    ctx = new_context()
    module = import_model(b.model(), ctx)
    with pytest.raises(QError, match="too large to be computed"):
        Interpreter(ctx, module).run([np.ones((1, 1, 5), np.float32)])


def test_graph_input_of_no_type() -> None:
    model = unary("Relu", [3])
    model.graph.input[0].type.tensor_type.elem_type = 0
    assert refused(model).code == "invalid-onnx"


def test_slice_of_axes_that_are_not_there() -> None:
    b = ModelBuilder()
    for name, value in (("start", 0), ("end", 5), ("axis", 0)):
        b.const(name, [value], np.int64)
    b.node("Slice", [b.input("x", []), "start", "end", "axis"], "y")
    b.output("y", shape=[])
    assert refused(b.model(check=False)).where is not None


def test_resize_to_more_than_can_be_listed() -> None:
    b = ModelBuilder()
    b.const("scales", [1.0, 1.0, 2.0**31, 1.0], np.float32)
    b.node(
        "Resize",
        [b.input("x", [1, 1, 2, 2]), "", "scales"],
        "y",
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    b.output("y", shape=["a", "b", "c", "d"])
    error = refused(b.model(check=False))
    assert "node 'y_node'" in str(error)
    assert "16777216" in str(error)


def test_a_vector_of_absurd_length_takes_no_time() -> None:
    """Shape inference makes as many elements as an input claims to have."""
    b = ModelBuilder(17)
    b.node("Cast", [b.input("x", [1 << 33], np.int8)], "r", to=TensorProto.FLOAT)
    b.node("Mul", ["r", b.const("s", [[0.1], [0.2]], np.float32)], "y")
    b.output("y", shape=[2, 1 << 33])
    _, module = load(b.model(check=False))
    assert "nn.mul" in ops(module)


def with_functions(calls: list[list[str]]) -> onnx.ModelProto:
    """A model that calls local function F0; function Fi calls those of `calls[i]` in a row."""
    b = ModelBuilder()
    b.node("F0", [b.input("x", [3])], "y", domain="local")
    b.output("y", shape=[3])
    model = b.model(check=False)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    for index, names in enumerate(calls):
        nodes = [
            helper.make_node(
                name, [f"t{i}"], [f"t{i + 1}"], domain="local" if name != "Relu" else ""
            )
            for i, name in enumerate(names)
        ]
        made = helper.make_function("local", f"F{index}", ["t0"], [f"t{len(names)}"], nodes, opsets)
        model.functions.append(made)
    return model


def test_local_functions_that_stand_for_too_many_nodes() -> None:
    def doubled(levels: int) -> onnx.ModelProto:
        return with_functions([[f"F{i + 1}"] * 2 for i in range(levels)] + [["Relu"]])

    assert "local functions stand for 536870912 nodes" in str(refused(doubled(29)))
    assert ops(import_model(doubled(5), new_context())) == ["nn.relu"] * 32


@pytest.mark.parametrize("cycle", [[["F0"]], [["Relu", "F1"], ["F2"], ["F1", "Relu"]]])
def test_local_functions_that_call_themselves(cycle: list[list[str]]) -> None:
    assert "calls itself" in str(refused(with_functions(cycle)))


def test_local_functions_nested_too_deeply() -> None:
    chain = [[f"F{i + 1}"] for i in range(3000)] + [["Relu"]]
    assert "nested too deeply" in str(refused(with_functions(chain)))


def test_extent_that_is_no_64_bit_number() -> None:
    model = unary("MaxPool", [1, 1, 4, 4], kernel_shape=[2, 2], pads=[0] * 4)
    pads = next(a for a in model.graph.node[0].attribute if a.name == "pads")
    pads.ints[:] = [2**62] * 4
    assert "is no 64-bit integer" in str(refused(model))
