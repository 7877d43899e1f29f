"""Weights in blocks of few bits: what is written is what ONNX Runtime computes, and reads back."""

# pyright: basic

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.errors import UsageError
from qdialect.formats.onnx.write import OrtEngine
from qdialect.quantization.block_formats import block_format
from qdialect.quantization.blocks import in_blocks
from qdialect.quantization.recipe import Recipe
from qdialect.reference import Interpreter

pytest.importorskip("onnxruntime")

ROWS, DEPTH, WIDTH = 300, 32, 64


def files(folder: Path) -> tuple[Path, Path]:
    """Rows of a table through two products; the channels that they take go together."""
    random = np.random.default_rng(5)
    arrays = {
        "e": random.normal(size=(ROWS, 4)) @ random.normal(size=(4, DEPTH)),
        "w": random.normal(size=(DEPTH, WIDTH)) * 0.2,
        "v": random.normal(size=(WIDTH, 16)) * 0.2,
    }
    nodes = [
        helper.make_node("Gather", ["e", "i"], ["x"], "embed"),
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Tanh", ["a"], ["t"], "bend"),
        helper.make_node("MatMul", ["t", "v"], ["y"], "last"),
    ]
    ends = [
        helper.make_tensor_value_info("i", 7, ["n", 6]),
        helper.make_tensor_value_info("y", 1, ["n", 6, 16]),
    ]
    named = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], named)
    model, data = folder / "f.onnx", folder / "data.npz"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), model)
    np.savez(data, i=random.integers(-ROWS, ROWS, (24, 2, 6)))
    return model, data


def sqnr(want: np.ndarray, got: np.ndarray) -> float:
    return float(10 * np.log10(np.square(want).sum() / max(np.square(got - want).sum(), 1e-30)))


CASES = [
    (Recipe(weights="u4", block=16), "MatMulNBits", 17, 17),
    (Recipe(weights="i4", block=32, scale_type="f16"), "MatMulNBits", 17, 15),
    (Recipe(weights="u4", block=32, scale_type="f8E4M3FN", tables="u4"), "MatMulNBits", 19, 13),
    (Recipe(weights="u2", block=16, tables="i4"), "MatMulNBits", 17, 3),
    (Recipe(weights="nf4"), "MatMulBnb4", 17, 15),
    (Recipe(weights="mxint8"), "MatMulNBits", 24, 30),
]


@pytest.mark.parametrize(("recipe", "node", "opset", "least"), CASES)
def test_the_runtime_computes_what_the_module_says(
    tmp_path: Path, recipe: Recipe, node: str, opset: int, least: float
) -> None:
    """Within float rounding, with optimizations and without; another reader sees the same."""
    path, data = files(tmp_path)
    result = qd.quantize(qd.load(path), data, target="onnxruntime", recipe=recipe)
    out, again = tmp_path / "q.onnx", tmp_path / "again.onnx"
    qd.save(result.model, out)
    written = onnx.load(out)
    kinds = [n.op_type for n in written.graph.node]
    assert kinds.count(node) == 2
    assert ("GatherBlockQuantized" in kinds) == (recipe.tables != "i8")
    assert next(o.version for o in written.opset_import if not o.domain) == opset
    qd.save(qd.load(out), again)
    assert [n.op_type for n in onnx.load(again).graph.node] == kinds
    feeds = {"i": np.load(data)["i"][0]}
    want = next(iter(OrtEngine(onnx.load(path), optimize=False).run(feeds).values()))
    exact = Interpreter(result.model.ctx, result.model.module).run(feeds)[0]
    assert sqnr(want, exact) > least
    text = tmp_path / "q.mlir"
    qd.save(result.model, text)
    same = qd.load(text)
    np.testing.assert_array_equal(Interpreter(same.ctx, same.module).run(feeds)[0], exact)
    for model, optimize in ((out, True), (out, False), (again, True)):
        got = next(iter(OrtEngine(onnx.load(model), optimize=optimize).run(feeds).values()))
        np.testing.assert_allclose(got, exact, atol=2e-5 * np.abs(exact).max())


def test_codes_are_of_least_error_of_the_product() -> None:
    """Of operands that go together, by their second moments."""
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 8)) @ random.normal(size=(8, 64)) + 0.05
    weight = random.normal(size=(64, 24))
    errors = []
    for hessians in ((), (x.T @ x / len(x),)):
        params, codes = in_blocks(weight, 0, 32, block_format("u4"), "f32", hessians)
        steps, zeros = (
            np.repeat(a, 32, 0) for a in (params.scale_array(), params.zero_point_array())
        )
        errors.append(np.square(x @ ((codes - zeros) * steps - weight)).sum())
    assert errors[1] < 0.3 * errors[0]


def test_what_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = files(tmp_path)
    model, recipe = qd.load(path), Recipe(weights="mxfp4")
    with pytest.raises(UsageError, match="'onnxruntime' has no products with weights of mxfp4"):
        qd.quantize(model, data, target="onnxruntime", recipe=recipe)
    for asked, text in (
        ({"weights": "mxfp4", "block": 16}, "mxfp4 has blocks of 32, not of 16"),
        ({"weights": "mxint8", "scale_type": "f16"}, "mxint8 has scales of f8E8M0FNU, not f16"),
        ({"weights": "i3"}, "weights: one of .* not 'i3'"),
        ({"scale_type": "f8"}, "scale type: one of"),
    ):
        with pytest.raises(ValueError, match=text):
            Recipe(**asked)
    given = ["quantize", str(path), "--data", str(data), "-o", str(tmp_path / "q.onnx")]
    for flags, text in (
        (["--weights", "mxfp4"], "--weights mxfp4: 'onnxruntime' has no products with weights"),
        (["--weights", "nf4", "--target", "integer"], "'integer' has no float products"),
        (["--weights", "mxint8", "--block", "64"], "mxint8 has blocks of 32, not of 64"),
        (["--tables", "u2"], "u2"),
    ):
        assert main([*given, *flags]) == 2
        assert text in capsys.readouterr().err


def test_a_target_that_takes_any_has_floats_of_four_bits(tmp_path: Path) -> None:
    path, data = files(tmp_path)
    result = qd.quantize(qd.load(path), data, target="generic", recipe=Recipe(weights="mxfp4"))
    feeds = {"i": np.load(data)["i"][0]}
    want = next(iter(OrtEngine(onnx.load(path), optimize=False).run(feeds).values()))
    got = Interpreter(result.model.ctx, result.model.module).run(feeds)[0]
    assert sqnr(want, got) > 12
    assert str(result.model.module).count("!quant.uniform<f4E2M1FN:f32:{0:32, 1:1}") == 4


@pytest.mark.parametrize("effort", [0, 2])
def test_a_bias_makes_up_for_the_mean_error(tmp_path: Path, effort: int) -> None:
    """Where the operands of a product have a mean; of a product without a bias nothing does."""
    random = np.random.default_rng(7)
    x = (random.normal(size=(64, 8, DEPTH)) * 0.3 + 2 * random.normal(size=DEPTH)).astype("f4")
    w = (random.normal(size=(DEPTH, WIDTH)) * 0.2).astype("f4")
    arrays = {"w": w, "b": random.normal(size=WIDTH).astype("f4")}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
        helper.make_node("Add", ["p", "b"], ["y"], "sum"),
    ]
    ends = [
        helper.make_tensor_value_info("x", 1, [8, DEPTH]),
        helper.make_tensor_value_info("y", 1, [8, WIDTH]),
    ]
    named = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], named)
    path, data = tmp_path / "f.onnx", tmp_path / "data.npz"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    np.savez(data, x=x[:48])
    means, losses = [], []
    for correct in (False, True):
        recipe = Recipe(weights="u2", block=16, correct_bias=correct)
        made = qd.quantize(
            qd.load(path), data, target="onnxruntime", recipe=recipe, effort=effort
        ).model
        errors = []
        for sample in x[48:]:
            (got,) = Interpreter(made.ctx, made.module).run({"x": sample})
            errors.append(got - (sample @ w + arrays["b"]))
        means.append(float(np.abs(np.mean(errors, axis=(0, 1))).mean()))
        losses.append(float(np.square(errors).mean()))
    assert means[1] < means[0] / 2
    assert losses[1] < losses[0]
