"""Files as NNCF, ModelOpt, AIMET, Quark, tf2onnx and ONNX Runtime's tools write them: optimized,
they mean the same, run with and without the runtime's own rewriting, and keep their integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import ModelBuilder, export, load, ops, roundtrip
from quantizer_files import FILES, Builder, feeds, integers, nncf_groups, quark_blocks

import qdialect as qd
from qdialect.errors import InputError, QError
from qdialect.interpreter import Interpreter
from qdialect.interpreter.kernels import KEPT_NODES
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.targets.installed import get_target
from qdialect.workflows.optimize import Optimization
from qdialect.workflows.optimize_file import FileOptimization


def optimized(model: onnx.ModelProto, folder: Path) -> tuple[onnx.ModelProto, FileOptimization]:
    """What `qopt optimize` writes, and its work."""
    source, path = folder / "source.onnx", folder / "out.onnx"
    onnx.save(model, source)
    work = FileOptimization(source, path, get_target("onnxruntime"), "exact", samples=1)
    work.run()
    return onnx.load(path), work


@pytest.mark.parametrize("name", FILES)
def test_optimized_files_mean_the_same_and_run(name: str, tmp_path: Path) -> None:
    file = FILES[name]()
    written, work = optimized(file.model, tmp_path)
    assert not work.dropped
    onnx.checker.check_model(written)
    meant = OrtEngine(file.meant or file.model, optimize=False)
    plain, rewritten = OrtEngine(written, optimize=False), OrtEngine(written, optimize=True)
    for seed in range(2):
        x = feeds(file.model, seed)
        (expected,) = meant.run(x).values()
        np.testing.assert_array_equal(*plain.run(x).values(), expected)
        (got,) = rewritten.run(x).values()
        largest = float(np.abs(expected.astype(np.float64)).max())
        np.testing.assert_allclose(got, expected, atol=0.02 * largest)
    assert integers(written) >= integers(file.meant or file.model)


@pytest.mark.parametrize("name", [name for name in FILES if name != "control flow"])
def test_the_interpreter_gives_what_the_runtime_gives(name: str) -> None:
    file = FILES[name]()
    ctx, module = load(file.model)
    runs = Interpreter(ctx, module, functions=KEPT_NODES)
    meant = OrtEngine(file.meant or file.model, optimize=False)
    for seed in range(2):
        x = feeds(file.model, seed)
        expected = np.asarray(*meant.run(x).values(), np.float64)
        got = np.asarray(runs.run(x)[0], np.float64)
        np.testing.assert_allclose(got, expected, rtol=0, atol=5e-5 * np.abs(expected).max())


def test_what_was_read_otherwise_is_said(tmp_path: Path) -> None:
    _, work = optimized(nncf_groups("i4").model, tmp_path)
    assert any("'f_node' do not fit its axis" in note for note in work.notes)
    assert work.model is not None and work.model.source is None
    ctx = new_context()
    import_model(nncf_groups("i4").meant, ctx)
    assert not ctx.corrections


def test_what_no_runtime_runs_is_never_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no pass works, the model is written as it was read."""

    def fail(*_: Any) -> Any:
        raise QError("nothing works", code="broken")

    monkeypatch.setattr(Optimization, "checked", fail)
    # What fails is ours, though it is written here.
    monkeypatch.setattr("qdialect.workflows.optimize_file.foreign_frame", lambda _: None)
    file = nncf_groups("u4")
    written, work = optimized(file.model, tmp_path)
    assert work.result is not None and not work.result.model.ctx.remarks.fired()
    assert len(work.dropped) == 1
    x = feeds(file.model, 0)
    assert file.meant is not None
    expected = OrtEngine(file.meant, optimize=False).run(x)["y"]
    np.testing.assert_array_equal(OrtEngine(written, optimize=False).run(x)["y"], expected)


# -- where scales lie ---------------------------------------------------------------------


def cast(shape: tuple[int, ...], scales: tuple[int, ...], **attributes: int) -> onnx.ModelProto:
    b = ModelBuilder(21)
    random = np.random.default_rng(0)
    b.const("w", random.integers(-128, 128, shape), np.int8)
    b.const("s", random.uniform(0.1, 0.2, scales), np.float32)
    b.const("z", random.integers(-5, 5, scales), np.int8)
    b.node("DequantizeLinear", ["w", "s", "z"], "f", **attributes)
    b.node("Add", [b.input("x", shape), "f"], "y")
    b.output("y", shape=shape)
    return b.model(check=False, ir_version=10)


@pytest.mark.parametrize(
    ("shape", "scales", "attributes", "meant", "fitting"),
    [
        ((8, 3, 2, 2), (8, 1, 1), {"axis": 0}, (8,), {"axis": 0}),
        ((8, 3, 2, 2), (8, 1, 1, 1), {}, (8,), {"axis": 0}),
        ((8, 3, 2, 2), (1, 3, 1, 1), {}, (3,), {"axis": 1}),
        ((4, 6), (1, 6), {"axis": 0}, (6,), {"axis": 1}),
        ((1, 6), (6,), {"axis": 0}, (6,), {"axis": 1}),
        ((4, 6), (1, 1), {}, (), {}),
        ((8, 6), (8, 2), {"axis": 0, "block_size": 3}, (8, 2), {"axis": 1, "block_size": 3}),
        ((8, 6), (2, 6), {}, (2, 6), {"axis": 0, "block_size": 4}),
        ((1, 6), (1, 2), {"axis": 0}, (1, 2), {"axis": 1, "block_size": 3}),
    ],
)
def test_scales_lie_where_their_shape_says(
    shape: Any, scales: Any, attributes: Any, meant: Any, fitting: Any
) -> None:
    ctx, module = load(cast(shape, scales, **attributes))
    written = export(ctx, module)
    x = {"x": np.zeros(shape, np.float32)}
    expected = OrtEngine(cast(shape, meant, **fitting), optimize=False).run(x)["y"]
    np.testing.assert_array_equal(OrtEngine(written, optimize=False).run(x)["y"], expected)
    np.testing.assert_array_equal(Interpreter(ctx, module).run(x)[0], expected)


@pytest.mark.parametrize(
    ("shape", "scales", "attributes"),
    [
        ((6, 6), (3, 3), {}),  # coarser along both
        ((6, 6), (6, 6), {}),  # along either, in blocks of one
        ((6, 4), (4,), {"axis": 0}),  # a number of scales is no place
        ((6, 6), (6, 4), {"axis": 0, "block_size": 3}),
        ((5, 6), (2, 6), {}),  # the last block would not be full
    ],
)
def test_scales_that_fit_nowhere_are_refused(shape: Any, scales: Any, attributes: Any) -> None:
    with pytest.raises(InputError) as caught:
        import_model(cast(shape, scales, **attributes), new_context())
    assert caught.value.code == "bad-qparams"
    assert "node 'f_node'" in str(caught.value)


# -- Quark --------------------------------------------------------------------------------


@pytest.mark.parametrize(("storage", "dtype"), [("i8", np.int8), ("u16", np.uint16)])
def test_casts_of_quark_at_every_code_and_tie(storage: str, dtype: Any) -> None:
    info = np.iinfo(dtype)
    zero, scale = (7, 0.125) if info.min else (40000, 0.5)
    halves = np.arange(2 * (info.min - 3), 2 * (info.max + 3)) / 2 - zero
    x = (halves * scale).astype(np.float32)
    b = Builder(21, 0)
    b.const("s", scale, np.float32)
    b.codes("z", storage, zero)
    b.input("x", x.shape)
    b.node("ExtendedQuantizeLinear", ["x", "s", "z"], "q", domain="com.amd.quark")
    b.node("ExtendedDequantizeLinear", ["q", "s", "z"], "y", domain="com.amd.quark")
    b.output("y", shape=x.shape)
    ctx, module = load(b.model(check=False, ir_version=10))
    assert ops(module) == ["quant.qcast", "quant.dcast"]
    codes = np.clip(np.rint(x.astype(np.float64) / scale) + zero, info.min, info.max)
    expected = (codes - zero) * scale
    np.testing.assert_array_equal(Interpreter(ctx, module).run({"x": x})[0], expected)
    got = OrtEngine(export(ctx, module), optimize=False).run({"x": x})["y"]
    np.testing.assert_array_equal(got, expected)


def test_casts_of_quark_to_floats_with_a_scale_are_kept() -> None:
    b = Builder(17, 0)
    b.const("s", 2.0, np.float32)
    b.initializers.append(helper.make_tensor("z", TensorProto.FLOAT16, (), [0.0]))
    b.node("ExtendedQuantizeLinear", [b.input("x", (3,)), "s", "z"], "q", domain="com.amd.quark")
    b.node("ExtendedDequantizeLinear", ["q", "s", "z"], "y", domain="com.amd.quark")
    b.output("y", shape=(3,))
    assert ops(load(b.model(check=False))[1]) == ["onnx.node", "onnx.node"]


@pytest.mark.parametrize("op", ["MXQuantizeDequantize", "BFPQuantizeDequantize"])
def test_blocks_with_an_exponent_are_kept(op: str) -> None:
    ctx, module = load(quark_blocks(op))
    assert ops(module)[0] == "onnx.node"
    node = export(ctx, module).graph.node[0]
    assert node == quark_blocks(op).graph.node[0]


# -- what the runtime does by itself --------------------------------------------------------


@pytest.mark.parametrize("op", ["Relu", "Clip"])
def test_bounds_before_small_floats_stay(op: str) -> None:
    b = Builder(19, 0)
    b.input("x", (2, 64))
    more = [b.const("l", 0.0, np.float32), b.const("h", 1.0, np.float32)] if op == "Clip" else []
    b.cast_pair(b.node(op, ["x", *more], "r"), "f8", 0.1, 0)
    model = b.finish("r_dq", ir=9)
    _, written = roundtrip(model)
    x = {"x": np.random.default_rng(0).normal(0, 2, (2, 64)).astype(np.float32)}
    expected = OrtEngine(model, optimize=False).run(x)["r_dq"]
    np.testing.assert_array_equal(OrtEngine(written, optimize=True).run(x)["r_dq"], expected)


@pytest.mark.parametrize("op", ["ArgMax", "MaxPool", "Relu"])
def test_negative_scales_turn_the_order(op: str) -> None:
    b = Builder(17, 0)
    d = b.cast_pair(b.input("x", (1, 2, 4, 4)), "i8", -0.02, 0)
    more: Any = {"ArgMax": {"axis": 1}, "MaxPool": {"kernel_shape": [2, 2]}}.get(op, {})
    y = b.node(op, [d], "o", **more)
    if op == "ArgMax":
        b.output(y, np.int64)
        model = b.model(check=False)
    else:
        b.node("QuantizeLinear", [y, "x_s", "x_z"], "oq")
        model = b.finish(b.node("DequantizeLinear", ["oq", "x_s", "x_z"], "y"))
    _, written = roundtrip(model)
    x = {"x": np.random.default_rng(0).normal(0, 1, (1, 2, 4, 4)).astype(np.float32)}
    (expected,) = OrtEngine(model, optimize=False).run(x).values()
    (got,) = OrtEngine(written, optimize=True).run(x).values()
    np.testing.assert_array_equal(got, expected)


# -- parameters that nodes compute ----------------------------------------------------------


def with_computed_scale(how: str, x: str = "") -> onnx.ModelProto:
    """Weights whose scale is computed from constants, or from a tensor `x` too."""
    b = Builder(21, 0)
    b.input("x", (2, 8))
    if x:
        b.node("ReduceMean", ["x"], x, keepdims=0)
    values = b.random.uniform(0.01, 0.02, 6)
    if how == "DequantizeLinear":
        b.codes("s", "u8", b.random.integers(1, 99, 6))
        b.node(how, ["s", b.const("t", 1e-4, np.float32)], "scale")
    elif how == "Cast":
        b.node(how, [b.const("s", values, np.float16)], "scale", to=TensorProto.FLOAT)
    elif how == "Reshape":
        b.const("s", values.reshape(6, 1), np.float32)
        b.node(how, ["s", b.const("t", [6], np.int64)], "scale")
    else:
        b.const("s", values, np.float32)
        b.const("t", 0.5, np.float32)
        b.node("Mul", ["s", b.node("Neg", [x or "t"], "n")], "m")
        b.node("ReduceMax", [b.node("Abs", ["m"], "a")], "h", keepdims=0)
        b.node("Max", ["a", "h"], "scale")
    b.weight_codes("w", "i8", (8, 6))
    b.node("MatMul", ["x", b.node("DequantizeLinear", ["w", "scale"], "f", axis=1)], "y")
    b.output("y", shape=(2, 6))
    return b.model(check=False, ir_version=10)


@pytest.mark.parametrize("how", ["DequantizeLinear", "Cast", "Reshape", "several"])
def test_scales_computed_from_constants_are_known(how: str) -> None:
    module, written = roundtrip(with_computed_scale(how))
    assert ops(module)[-2:] == ["quant.dcast", "nn.matmul"]
    (cast,) = (n for n in written.graph.node if "f" in n.output)
    assert cast.input[1] in {t.name for t in written.graph.initializer}


def test_scales_computed_from_the_input_stay() -> None:
    module, _ = roundtrip(with_computed_scale("several", x="x1"))
    assert "onnx.node" in ops(module)


def test_many_scales_of_something_computed(tmp_path: Path) -> None:
    """They are not in the message of their initializer."""
    from onnx import TensorProto, helper, numpy_helper

    scales = np.linspace(0.01, 0.02, 400, dtype=np.float32)
    zeros = np.zeros(400, np.int8)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
        helper.make_node("Reshape", ["q", "shape"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["d"], axis=1),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    values = [
        numpy_helper.from_array(a, n)
        for a, n in ((scales, "s"), (zeros, "z"), (np.array([2, 400, 1]), "shape"))
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 400])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 400, 1])],
        values,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    ctx = new_context()
    x = np.random.default_rng(0).standard_normal((2, 400)).astype(np.float32)
    qd.save(qd.load(tmp_path / "m.onnx", ctx), tmp_path / "again.onnx")
    source, again = (
        OrtEngine((tmp_path / name).read_bytes(), optimize=False).run({"x": x})["y"]
        for name in ("m.onnx", "again.onnx")
    )
    np.testing.assert_array_equal(source, again)
