"""The choices of `qopt quantize`, each by the types it writes and what ONNX Runtime makes of it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.algebra.qparams import Layout
from qdialect.cli.qopt import main
from qdialect.errors import InputError
from qdialect.ir.quant import quant_element
from qdialect.quantizer.block_formats import block_format
from qdialect.quantizer.blocks import in_blocks
from qdialect.quantizer.recipe import Recipe

DEPTH = 32


def write(folder: Path) -> tuple[Path, Path]:
    """Two products with a gelu between them; the inputs have a mean."""
    random = np.random.default_rng(6)
    weights = {
        "w1": random.normal(size=(DEPTH, 64)) / 6, "b1": random.normal(size=64),
        "w2": random.normal(size=(64, 8)) / 8, "b2": random.normal(size=8),
    }  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m1"], "m1"),
        helper.make_node("Add", ["m1", "b1"], ["first_sum"], "first_sum"),
        helper.make_node("Sigmoid", ["first_sum"], ["gate"], "gate"),
        helper.make_node("MatMul", ["gate", "w2"], ["m2"], "m2"),
        helper.make_node("Add", ["m2", "b2"], ["y"], "y_sum"),
    ]
    graph = helper.make_graph(
        nodes,
        "choices",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, DEPTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [numpy_helper.from_array(array.astype("f4"), name) for name, array in weights.items()],
    )
    path, data = folder / "net.onnx", folder / "data.npz"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    np.savez(data, x=(random.normal(size=(16, 4, DEPTH)) + 0.7).astype("f4"))
    return path, data


def sqnr(float_model: Path, quantized: Path, data: Path) -> float:
    """In ONNX Runtime."""
    sessions = [
        ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        for path in (float_model, quantized)
    ]
    signal = noise = 0.0
    for sample in np.load(data)["x"]:
        a, b = (session.run(None, {"x": sample})[0].astype("f8") for session in sessions)
        signal, noise = signal + float((a**2).sum()), noise + float(((a - b) ** 2).sum())
    return 10 * np.log10(signal / noise)


def quantized(folder: Path, *flags: str) -> tuple[qd.Model, float]:
    path, data = write(folder)
    out = folder / "out.onnx"
    given = ["quantize", str(path), "--data", str(data), "-o", str(out), "--calibration", "minmax"]
    given += ["--target", "generic"]
    assert main([*given, *flags, "-q"]) == 0
    return qd.load(out), sqnr(path, out, data)


def elements(model: qd.Model) -> list[Any]:
    found = [quant_element(v.type) for op in model.module.walk() for v in op.results]
    return [element.qparams for element in found if element is not None]


#: SQNR at 3, at 4 and at 8 bits or more
LEAST = {"i3": 9, "u3": 9, "i4": 15, "u4": 15, "i8": 30, "u8": 30, "i16": 30}


@pytest.mark.parametrize(
    ("weights", "activations"), list(product(LEAST, ("u8", "i8", "u16", "i16")))
)
def test_storages(tmp_path: Path, weights: str, activations: str) -> None:
    model, found = quantized(tmp_path, "--weights", weights, "--activations", activations)
    storages = {params.storage.spelling for params in elements(model)}
    stored = Recipe(weights=weights).integer_weights.spelling
    assert activations in storages and storages <= {stored, activations, "i32"}
    assert found > LEAST[weights]


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("scheme", ["asymmetric", "symmetric", "power-of-two"])
def test_schemes(tmp_path: Path, scheme: str, form: str) -> None:
    flags = ("--scheme", scheme, "--activations", "i8", "--form", form)
    model, found = quantized(tmp_path, *flags)
    values = [params for params in elements(model) if params.is_per_tensor]
    zeros = {params.zero_point for params in values if params.storage.spelling == "i8"}
    assert (zeros == {0}) == (scheme != "asymmetric")
    if scheme == "power-of-two":
        scales = [p.scale for p in values if p.storage.spelling == "i8"]
        assert all(np.frexp(scale)[0] == 0.5 for scale in scales)
    assert found > 25


LEAST_IN_BLOCKS = {"i3": 9, "u3": 9, "i4": 15, "u4": 15, "i8": 35, "u8": 35}


@pytest.mark.parametrize("flag", ["--per-channel", "--per-tensor"])
def test_scales_of_weights(tmp_path: Path, flag: str) -> None:
    model, found = quantized(tmp_path, flag)
    layouts = {params.layout for params in elements(model)}
    assert (Layout.AXIS in layouts) == (flag == "--per-channel")
    assert found > 30


@pytest.mark.parametrize(("weights", "least"), LEAST_IN_BLOCKS.items())
def test_blocks(tmp_path: Path, weights: str, least: float) -> None:
    """The products are float, and only their weights are codes, in the file too."""
    model, found = quantized(tmp_path, "--block", "8", "--weights", weights)
    blocks = [params for params in elements(model) if params.layout is Layout.BLOCK]
    stored = Recipe(weights=weights).integer_weights.spelling
    assert [params.storage.spelling for params in blocks] == [stored] * 2
    assert sorted(sorted(params.grid) for params in blocks) == [[4, 64], [8, 8]]
    assert found > least
    (_, data), plain = write(tmp_path), qd.load(tmp_path / "net.onnx")
    left = qd.quantize(plain, data, recipe=Recipe(block=8)).coverage.left
    assert {entry.key for entry in left if entry.code == "weights-only"} == {"first_sum", "y_sum"}


@pytest.mark.parametrize("per_channel", [False, True])
def test_weights_only_by_name(tmp_path: Path, per_channel: bool) -> None:
    """In blocks, which the runtime has a kernel for, or with one scale, and dequantized when it
    loads the file; the other product is static."""
    path, data = write(tmp_path)
    recipe = Recipe(weights_only=frozenset({"y_sum"}), per_channel=per_channel)
    result = qd.quantize(qd.load(path), data, target="onnxruntime", recipe=recipe)
    assert {e.key for e in result.coverage.left if e.code == "weights-only"} == {"y_sum"}
    assert result.coverage.quantized["nn.fully_connected"] == 1
    out = tmp_path / "out.onnx"
    qd.save(result.model, out)
    blocks = [q for q in elements(qd.load(out)) if q.layout is Layout.BLOCK]
    assert [q.grid for q in blocks] == ([(1, 8)] if per_channel else [])
    assert sqnr(path, out, data) > 30
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "executed.onnx")
    ort.InferenceSession(str(out), options, providers=["CPUExecutionProvider"])
    kinds = [node.op_type for node in onnx.load(tmp_path / "executed.onnx").graph.node]
    assert ("MatMulNBits" in kinds) == per_channel


def test_a_block_rounds_to_its_own_scale() -> None:
    """No block is worse than one scale for the column, and an uneven column is far better."""
    random = np.random.default_rng(0)
    array = random.normal(size=(16, 3)) * np.repeat([[1.0], [100.0]], 8, axis=0)
    for size in (8, 16):
        params, codes = in_blocks(array, 0, size, block_format("i8"), "f32")
        assert params.grid == (16 // size, 3) and codes.shape == array.shape
        scales = np.repeat(params.scale_array().reshape(params.grid), size, axis=0)
        error = np.abs(array - codes * scales)
        assert (error <= scales * (0.5 + 1e-6) + np.abs(array) / 3).all()
        if size == 8:
            assert error[:8].max() < 0.02


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        ("first", {"first_sum"}),
        ("last", {"y_sum"}),
        ("first,last", {"first_sum", "y_sum"}),
        ("m2", {"y_sum"}),
        ("sigmoid", {"gate"}),
        ("nn.sigmoid,gate", {"gate"}),
    ],
)
def test_what_is_kept_by_place_kind_and_name(tmp_path: Path, names: str, kept: set[str]) -> None:
    path, data = write(tmp_path)
    recipe = Recipe(keep_float=frozenset(names.split(",")))
    left = qd.quantize(qd.load(path), data, recipe=recipe).coverage.left
    assert {entry.key for entry in left if entry.code == "kept"} == kept


def test_what_cannot_be_is_said_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = write(tmp_path)
    out = tmp_path / "out.onnx"
    given = ["quantize", str(path), "--data", str(data), "-o", str(out)]
    for flags, text in (
        (["--target", "tosa"], "'tosa' rounds half_up, and ONNX half even"),
        (["--block", "1"], "--block takes a number above 1, not '1'"),
        (["--block", "8", "--target", "integer"], "'integer' has no products of weights in blocks"),
        (["--weights", "i5"], "i5"),
    ):
        assert main([*given, *flags]) == 2
        assert text in capsys.readouterr().err and not out.exists()
    with pytest.raises(InputError, match="no op has the key 'middle'"):
        qd.quantize(qd.load(path), data, recipe=Recipe(keep_float=frozenset({"middle"})))


@pytest.mark.parametrize("words", ["words", 8])
def test_a_sum_over_an_unknown_extent_has_no_range(tmp_path: Path, words: str | int) -> None:
    """A mean over words as encoders write it: what is calibrated on short sentences would clip the
    sums of long ones."""
    random = np.random.default_rng(3)
    weights = {
        "w": random.normal(size=(DEPTH, 16)) / 6, "least": np.float32(1e-9),
        "v": random.normal(size=(16, 8)) / 4,
    }  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["states"], "states"),
        helper.make_node("ReduceSum", ["states", "axes"], ["total"], "total", keepdims=0),
        helper.make_node("Max", ["total", "least"], ["clipped"], "clipped"),
        helper.make_node("Mul", ["clipped", "share"], ["mean"], "mean"),
        helper.make_node("MatMul", ["mean", "v"], ["y"], "y"),
    ]
    graph = helper.make_graph(
        nodes,
        "mean",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, words, DEPTH]),
            helper.make_tensor_value_info("share", TensorProto.FLOAT, [1, 1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [
            *(numpy_helper.from_array(np.asarray(a, "f4"), name) for name, a in weights.items()),
            numpy_helper.from_array(np.array([1]), "axes"),
        ],
    )
    path, data = tmp_path / "net.onnx", tmp_path / "data.npz"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    x = random.normal(size=(16, 1, 8, DEPTH)).astype("f4")
    np.savez(data, x=x, share=np.full((16, 1, 1), 1 / 8, "f4"))
    quantized = qd.quantize(qd.load(path), data, recipe=Recipe())
    found = {entry.key for entry in quantized.coverage.left if entry.code == "open-range"}
    assert found == ({"clipped", "mean"} if words == "words" else set())
    left = {entry.key for entry in quantized.coverage.left}
    assert ("total" in left) == (words == "words")  # a step of so many words has no bound
    if words == "words":
        many = {"x": np.concatenate([x[0]] * 16, 1), "share": np.full((1, 1), 1 / 128, "f4")}
        (wanted,) = qd.run(qd.load(path), many).values()
        (got,) = qd.run(quantized.model, many).values()
        assert np.abs(got - wanted).max() < 0.1 * np.abs(wanted).max()
