"""Weights in blocks of few bits: what is written is what ONNX Runtime computes, and reads back."""

# pyright: basic

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.errors import UsageError
from qdialect.interpreter import Interpreter
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.quantizer.block_formats import block_format
from qdialect.quantizer.block_rounding import BlockRounding
from qdialect.quantizer.blocks import in_blocks, in_columns
from qdialect.quantizer.preparation import prepare
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.installed import get_target
from qdialect.workflows.candidates import Builder
from tests.support.processor import skip_where_pairs_saturate

pytest.importorskip("onnxruntime")

ROWS, DEPTH, WIDTH = 300, 32, 64


def saved(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    ends: Sequence[onnx.ValueInfoProto],
    arrays: Mapping[str, np.ndarray],
    opset: int = 17,
) -> Path:
    """The file of a network with one input and one output, with f32 weights."""
    named = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], named)
    path = folder / "f.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), path)
    return path


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
    model, data = saved(folder, nodes, ends, arrays), folder / "data.npz"
    np.savez(data, i=random.integers(-ROWS, ROWS, (24, 2, 6)))
    return model, data


def sqnr(want: np.ndarray, got: np.ndarray) -> float:
    return float(10 * np.log10(np.square(want).sum() / max(np.square(got - want).sum(), 1e-30)))


CASES = [
    (Recipe(weights="u4", block=16), "MatMulNBits", 17, 17),
    (Recipe(weights="i4", block=32, scale_type="f16"), "MatMulNBits", 17, 15),
    (Recipe(weights="u4", block=32, scale_type="f8E4M3FN", tables="u4"), "MatMulNBits", 19, 13),
    (Recipe(weights="u3", block=16), "MatMulNBits", 17, 9),
    (Recipe(weights="i3", block=32, scale_type="f16"), "MatMulNBits", 17, 7),
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


@pytest.mark.parametrize("with_data", [False, True])
@pytest.mark.parametrize(("weights", "zeros"), [("u3", range(8)), ("i3", [0])])
def test_every_code_of_three_bits(
    tmp_path: Path, weights: str, zeros: Sequence[int], with_data: bool
) -> None:
    """Around every zero point, as what ONNX Runtime reads from four bits."""
    low = -4 if weights == "i3" else 0
    codes = np.tile(np.arange(low, low + 8), (len(zeros), 4)).T
    weight = ((codes - np.array(zeros)) * 2.0 ** -np.arange(len(zeros))).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    widths = {"x": DEPTH, "y": len(zeros)}
    ends = [helper.make_tensor_value_info(n, 1, [DEPTH, width]) for n, width in widths.items()]
    path, data = saved(tmp_path, [node], ends, {"w": weight}), tmp_path / "data.npz"
    out = tmp_path / "q.onnx"
    np.savez(data, x=np.random.default_rng(1).normal(size=(8, DEPTH, DEPTH)).astype(np.float32))
    recipe, given = Recipe(weights=weights, block=16), data if with_data else None
    made = qd.quantize(qd.load(path), given, target="onnxruntime", recipe=recipe).model
    bounds = "i4<-4:3>" if low else "u4<0:7>"
    assert f"!quant.uniform<{bounds}:f32:{{0:16, 1:1}}" in str(made.module)
    qd.save(made, out)
    feeds = {"x": np.eye(DEPTH, dtype=np.float32)}
    np.testing.assert_array_equal(Interpreter(made.ctx, made.module).run(feeds)[0], weight)
    (written,) = (n for n in onnx.load(out).graph.node if n.op_type == "MatMulNBits")
    assert next(a.i for a in written.attribute if a.name == "bits") == 4
    again = qd.load(out)
    np.testing.assert_array_equal(Interpreter(again.ctx, again.module).run(feeds)[0], weight)
    for optimize in (True, False):
        got = OrtEngine(onnx.load(out), optimize=optimize).run(feeds)["y"]
        np.testing.assert_array_equal(got, weight)


@pytest.mark.parametrize("weights", ["u4", "u3", "i3"])
def test_codes_are_of_least_error_of_the_product(weights: str) -> None:
    """Of operands that go together, by their second moments."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(800, 8)) @ random.normal(size=(8, 64)) + 0.05
    x, others = rows[:400], rows[400:]
    weight = random.normal(size=(64, 24))
    errors = []
    for hessians in ((), (x.T @ x / len(x),)):
        params, codes = in_blocks(weight, 0, 32, block_format(weights), "f32", hessians)
        steps, zeros = (
            np.repeat(a, 32, 0) for a in (params.scale_array(), params.zero_point_array())
        )
        storage = params.storage
        assert storage.min <= codes.min() and codes.max() <= storage.max
        # On other operands of the same kind.
        errors.append(np.square(others @ ((codes - zeros) * steps - weight)).sum())
    assert errors[1] < 0.4 * errors[0]


def test_what_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = files(tmp_path)
    model, recipe = qd.load(path), Recipe(weights="mxfp4")
    with pytest.raises(UsageError, match="'onnxruntime' has no products with weights of mxfp4"):
        qd.quantize(model, data, target="onnxruntime", recipe=recipe)
    for asked, text in (
        ({"weights": "mxfp4", "block": 16}, "mxfp4 has blocks of 32, not of 16"),
        ({"weights": "mxint8", "scale_type": "f16"}, "mxint8 has scales of f8E8M0FNU, not f16"),
        ({"weights": "i5"}, "weights: one of .* not 'i5'"),
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


@pytest.mark.parametrize(
    ("effort", "rows"), [(0, [8]), (2, [8]), (0, ["n", "m"]), (0, ["n", 8]), (2, ["n", "m"])]
)
def test_a_bias_makes_up_for_the_mean_error(
    tmp_path: Path, effort: int, rows: list[int | str]
) -> None:
    """Where the operands of a product have a mean; of a product without a bias nothing does. With
    two unknown extents the bias is that of the sum behind the product."""
    random = np.random.default_rng(7)
    shape = (64, *(1 if row == "n" else 8 for row in rows), DEPTH)
    x = (random.normal(size=shape) * 0.3 + 2 * random.normal(size=DEPTH)).astype("f4")
    w = (random.normal(size=(DEPTH, WIDTH)) * 0.2).astype("f4")
    arrays = {"w": w, "b": random.normal(size=WIDTH).astype("f4")}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
        helper.make_node("Add", ["p", "b"], ["y"], "sum"),
    ]
    ends = [
        helper.make_tensor_value_info("x", 1, [*rows, DEPTH]),
        helper.make_tensor_value_info("y", 1, [*rows, WIDTH]),
    ]
    path, data = saved(tmp_path, nodes, ends, arrays), tmp_path / "data.npz"
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
        means.append(float(np.abs(np.mean(np.reshape(errors, (-1, WIDTH)), axis=0)).mean()))
        losses.append(float(np.square(errors).mean()))
    assert means[1] < means[0] / 2
    assert losses[1] < losses[0]


def test_a_sum_on_codes_makes_up_for_nothing(tmp_path: Path) -> None:
    """What was found for a candidate whose sum behind the product is on floats is not taken for
    one whose sum is on codes."""
    random = np.random.default_rng(7)
    x = (random.normal(size=(24, 1, 4, DEPTH)) + 2 * random.normal(size=DEPTH)).astype("f4")
    arrays = {"w": random.normal(size=(DEPTH, WIDTH)) * 0.2, "b": random.normal(size=WIDTH)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
        helper.make_node("Add", ["p", "b"], ["s"], "sum"),
        helper.make_node("Relu", ["s"], ["y"], "relu"),
    ]
    ends = [
        helper.make_tensor_value_info("x", 1, ["n", "m", DEPTH]),
        helper.make_tensor_value_info("y", 1, ["n", "m", WIDTH]),
    ]
    path, data = saved(tmp_path, nodes, ends, arrays), tmp_path / "data.npz"
    np.savez(data, x=x)
    model, target = qd.load(path), get_target("onnxruntime")
    profile = qd.calibrate(model, data)
    model.ctx.target = target
    prepare(model.module, model.ctx, frozenset())
    rounding = BlockRounding([{"x": sample} for sample in x], "onnxruntime")
    recipe = Recipe(weights="u4", block=16)
    builder = Builder(model, profile, recipe, target, "exact", rounding=rounding)
    want = np.maximum(x[0] @ arrays["w"].astype("f4") + arrays["b"].astype("f4"), 0)
    losses = []
    for plan, on_codes in ((None, 0), ({}, 1), (None, 0)):
        made = builder.quantized("a candidate", plan)
        assert made.coverage.quantized["nn.add"] == on_codes
        (got,) = Interpreter(made.model.ctx, made.model.module).run({"x": x[0]})
        losses.append(sqnr(want, got))
    assert losses[0] == losses[2]
    assert min(losses) > 15


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("weights", ["i8", "u8", "u4"])
def test_a_product_may_take_what_is_on_codes(
    tmp_path: Path, weights: str, per_channel: bool
) -> None:
    """ONNX Runtime makes a product of integers of two dequantized operands, and takes scales of
    blocks for those of columns: so the product is written as MatMulNBits."""
    random = np.random.default_rng(11)
    arrays = {
        "k": random.normal(size=(8, 4, 3, 3)) / 6,
        "w": random.normal(size=(512, WIDTH)) * 0.1,
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Flatten", ["r"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "w"], ["y"], "product"),
    ]
    ends = [
        helper.make_tensor_value_info("x", 1, [1, 4, 8, 8]),
        helper.make_tensor_value_info("y", 1, [1, WIDTH]),
    ]
    path, data = saved(tmp_path, nodes, ends, arrays, opset=21), tmp_path / "data.npz"
    out = tmp_path / "q.onnx"
    x = random.normal(size=(24, 1, 4, 8, 8)).astype("f4")
    np.savez(data, x=x)
    recipe = Recipe(weights=weights, weights_only=frozenset({"product"}), per_channel=per_channel)
    made = qd.quantize(qd.load(path), data, target="onnxruntime", recipe=recipe)
    assert made.coverage.quantized["nn.conv2d"] == 1
    qd.save(made.model, out)
    (want,) = Interpreter(made.model.ctx, made.model.module).run({"x": x[0]})
    if per_channel and weights != "u4":
        skip_where_pairs_saturate()
    for optimize in (False, True):
        got = next(iter(OrtEngine(onnx.load(out), optimize=optimize).run({"x": x[0]}).values()))
        assert sqnr(want, got) > 35


def test_one_scale_of_a_large_weight_takes_no_matrix_of_its_size() -> None:
    """Of 4 million weights in one block such a matrix would have 128 TB."""
    weight = np.random.default_rng(3).normal(size=(2048, 2048))
    params, codes = in_columns(weight, None, block_format("i8"), "f32")
    assert params.is_per_tensor
    assert np.square(codes * params.scale - weight).mean() < params.scale**2 / 8
