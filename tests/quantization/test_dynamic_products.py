"""Float products that are made to quantize their input as they run (`Recipe.dynamic`)."""

# pyright: basic

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.ir.ops import DynamicOp, constant_array, constant_of
from qdialect.ir.quant import quant_element
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.quantizer.recipe import Recipe
from tests.support.processor import skip_where_pairs_saturate

pytest.importorskip("onnxruntime")


def network(rng: np.random.Generator, rows: int | str) -> onnx.ModelProto:
    """A convolution, products that share their input, with and without bias, and a softmax."""
    arrays = {
        "k": rng.normal(size=(6, 3, 3)), "kb": rng.normal(size=6),
        "q": rng.normal(size=(6, 8)) / 2, "v": rng.normal(size=(6, 8)) / 2,
        "vb": rng.normal(size=8), "g": rng.normal(size=(5, 8)) / 3, "gb": rng.normal(size=5),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "k", "kb"], ["c"], "conv", pads=[1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Transpose", ["r"], ["t"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "q"], ["m1"], "queries"),
        helper.make_node("MatMul", ["t", "v"], ["m2"], "values"),
        helper.make_node("Add", ["m2", "vb"], ["b2"], "values_bias"),
        helper.make_node("Mul", ["m1", "b2"], ["p"], "gate"),
        helper.make_node("ReduceMean", ["p"], ["mean"], "mean", axes=[1], keepdims=0),
        helper.make_node("Gemm", ["mean", "g", "gb"], ["y"], "head", transB=1),
    ]
    ends = [
        helper.make_tensor_value_info("x", 1, [rows, 3, 10]),
        helper.make_tensor_value_info("y", 1, [rows, 5]),
    ]
    held = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def files(folder: Path, rows: int | str = 2) -> tuple[Path, Path]:
    rng = np.random.default_rng(11)
    model, data = folder / "f.onnx", folder / "data.npz"
    onnx.save(network(rng, rows), model)
    np.savez(data, x=(rng.normal(size=(8, 2, 3, 10)) + 0.5).astype(np.float32))
    return model, data


def sqnr(want: list[Any], got: list[Any]) -> float:
    signal = sum(float((a.astype("f8") ** 2).sum()) for a in want)
    noise = sum(float(((a.astype("f8") - b) ** 2).sum()) for a, b in zip(want, got, strict=True))
    return 10 * np.log10(signal / noise)


@pytest.mark.parametrize("rows", [2, "n"])
@pytest.mark.parametrize("weights", ["i8", "u8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_all_products(tmp_path: Path, rows: int | str, weights: str, per_channel: bool) -> None:
    """Ours and ONNX Runtime agree, as it stands and as it fuses it, and the file reads back as
    the same ops and goes out the same."""
    path, data = files(tmp_path, rows)
    kept = frozenset({"conv"})
    recipe = Recipe(
        weights=weights, per_channel=per_channel, dynamic=frozenset({"all"}), keep_float=kept
    )
    result = qd.quantize(qd.load(path), data, target="onnxruntime", recipe=recipe)
    left = {entry.key for entry in result.coverage.left if entry.code == "dynamic"}
    assert left == {"queries", "values_bias", "head"}
    module, ctx = result.model.module, result.model.ctx
    made = [op for op in module.walk() if op.name.startswith("nn.dynamic")]
    assert len(made) == 3
    for op in made:
        element = quant_element(op.operands[1].type)
        assert element is not None and element.qparams.is_per_tensor != per_channel
    out, again = tmp_path / "q.onnx", tmp_path / "again.onnx"
    qd.save(result.model, out)
    written = onnx.load(out)
    kinds = [node.op_type for node in written.graph.node]
    assert kinds.count("MatMulInteger") == 3
    # What two products take is quantized once.
    assert kinds.count("DynamicQuantizeLinear") == 2
    qd.save(qd.load(out), again)
    assert [n.op_type for n in onnx.load(again).graph.node] == kinds
    if weights == "i8":
        skip_where_pairs_saturate()
    plain = OrtEngine(written, optimize=False)
    engines = [OrtEngine(onnx.load(again), optimize=False), OrtEngine(written, optimize=True)]
    floats = OrtEngine(onnx.load(path), optimize=True)
    reference = Interpreter(ctx, module)
    floats_gave, answers = [], []
    for sample in np.load(data)["x"]:
        (want,) = plain.run({"x": sample}).values()
        np.testing.assert_array_equal(next(iter(engines[0].run({"x": sample}).values())), want)
        fused = next(iter(engines[1].run({"x": sample}).values()))
        np.testing.assert_allclose(fused, want, rtol=1e-4, atol=1e-4)
        (ours,) = reference.run({"x": sample})
        np.testing.assert_allclose(ours, want, rtol=1e-5, atol=1e-5)
        floats_gave.append(next(iter(floats.run({"x": sample}).values())))
        answers.append(want)
    assert sqnr(floats_gave, answers) > 28


def test_named_products_and_what_they_cannot_be(tmp_path: Path) -> None:
    """The others are quantized by ranges; a name that is no product of weights is said."""
    path, data = files(tmp_path)
    recipe = Recipe(dynamic=frozenset({"values_bias", "gate"}))
    result = qd.quantize(qd.load(path), data, target="onnxruntime", recipe=recipe)
    left = {entry.key for entry in result.coverage.left if entry.code == "dynamic"}
    assert left == {"values_bias"}
    remarks = [r for r in result.model.ctx.remarks.remarks if r.code == "dynamic-kind"]
    assert [(r.key, r.kind) for r in remarks] == [("gate", "note")]
    unknown = Recipe(dynamic=frozenset({"nothing"}))
    with pytest.raises(InputError, match=r"'nothing' .* quantize its input as it runs"):
        qd.quantize(qd.load(path), data, target="onnxruntime", recipe=unknown)


def test_from_the_command_line(tmp_path: Path) -> None:
    path, data = files(tmp_path)
    out = tmp_path / "q.onnx"
    given = ["quantize", str(path), "--data", str(data), "-o", str(out), "--dynamic", "all", "-q"]
    assert main(given) == 0
    assert "DynamicQuantizeLinear" in {node.op_type for node in onnx.load(out).graph.node}


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("weights", ["QInt8", "QUInt8"])
def test_a_dynamic_model_stays_as_it_is(tmp_path: Path, weights: str, per_channel: bool) -> None:
    """Codes and scales of a model that ONNX Runtime's tool wrote are kept: the same answers."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path, data = files(tmp_path)
    given, out = tmp_path / "given.onnx", tmp_path / "q.onnx"
    kind = getattr(QuantType, weights)
    products = ["MatMul", "Gemm"]
    quantize_dynamic(
        path, given, weight_type=kind, per_channel=per_channel, op_types_to_quantize=products
    )
    recipe = Recipe(dynamic=frozenset({"all"}), keep_float=frozenset({"conv"}))
    result = qd.quantize(qd.load(given), data, target="onnxruntime", recipe=recipe)
    qd.save(result.model, out)
    engines = [OrtEngine(onnx.load(p), optimize=False) for p in (given, out)]
    for sample in np.load(data)["x"]:
        want, got = (next(iter(engine.run({"x": sample}).values())) for engine in engines)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_sums_of_pairs_do_not_saturate(tmp_path: Path) -> None:
    """On x86 before VNNI two products of bytes are added in 16 bits."""
    path, data = files(tmp_path)
    recipe = Recipe(dynamic=frozenset({"all"}))
    result = qd.quantize(qd.load(path), data, target="x86-without-vnni", recipe=recipe)
    found = [op for op in result.model.module.walk() if isinstance(op, DynamicOp)]
    assert found
    for op in found:
        constant = constant_of(op.weight)
        assert constant is not None
        codes = constant_array(constant, result.model.ctx.blobs).astype(int)
        two = np.sort(codes.T, axis=1)
        assert (two[:, -2:].sum(axis=1) * 255 <= 32767).all()
        assert (two[:, :2].sum(axis=1) * 255 >= -32768).all()
