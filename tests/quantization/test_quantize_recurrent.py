"""LSTM and GRU: whole where the target has kernels for them, in pieces where it says so or has no
floats, and else float."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantize_support import sqnr

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.interpreter import Interpreter
from qdialect.ir.ops.component_qparams import component_types
from qdialect.ir.quant import quant_element
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.base import Target

STEPS, GIVEN, HIDDEN = 5, 4, 6
RECURRENT = frozenset({"nn.lstm", "nn.gru"})


def net(kind: str, steps: int | str = STEPS, both: bool = False, **attributes: Any) -> Any:
    """A recurrent op and a linear head."""
    random, count = np.random.default_rng(2), 1 + both
    rows = {"LSTM": 4, "GRU": 3}[kind] * HIDDEN

    def held(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((random.normal(size=shape) * 0.4).astype("f4"), name)

    weights = [
        held("w", count, rows, GIVEN),
        held("r", count, rows, HIDDEN),
        held("b", count, 2 * rows),
        held("head.w", HIDDEN * count, 3),
        numpy_helper.from_array(np.array([-1, HIDDEN * count]), "rows"),
    ]
    direction = "bidirectional" if both else "forward"
    nodes = [
        helper.make_node(
            kind, ["x", "w", "r", "b"], ["y"], "rnn", hidden_size=HIDDEN, direction=direction,
            **attributes,
        ),
        helper.make_node("Transpose", ["y"], ["turned"], "turned", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "rows"], ["flat"], "flat"),
        helper.make_node("MatMul", ["flat", "head.w"], ["out"], "head"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "recurrent",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, 1, GIVEN])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [steps, 3])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def write(folder: Path, model: Any) -> tuple[Path, Path]:
    path, data = folder / "net.onnx", folder / "data.npz"
    onnx.save(model, path)
    values = np.random.default_rng(1).normal(size=(12, STEPS, 1, GIVEN))
    np.savez(data, x=values.astype("f4"))
    return path, data


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("LSTM", {}),
        ("LSTM", {"both": True}),
        ("GRU", {"linear_before_reset": 0}),
        ("GRU", {"linear_before_reset": 1, "both": True}),
    ],
)
def test_pieces_where_there_are_no_floats(
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    path, data = write(tmp_path, net(kind, **options))
    model = qd.load(path)
    result = qd.quantize(model, data, target="tosa")
    assert not result.coverage.left and not result.coverage.stale
    for op in result.model.module.walk():
        if op.name.startswith("nn.") and op.results:
            assert quant_element(op.results[0].type) is not None, op.name
    assert sqnr(model, result.model, data) > 20


def test_float_where_there_are_floats_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = write(tmp_path, net("LSTM"))
    model = qd.load(path)
    (left,) = qd.quantize(model, data).coverage.left
    assert (left.op, left.key, left.code) == ("nn.lstm", "rnn", "target")
    out = tmp_path / "out.onnx"
    assert main(["quantize", str(path), "--data", str(data), "-o", str(out), "--lower"]) == 0
    assert "LSTM" not in {node.op_type for node in onnx.load(out).graph.node}
    assert sqnr(model, qd.load(out), data) > 20
    capsys.readouterr()


NPUS = {
    "floats": Target("npu", "runs recurrent layers whole", keep_whole=RECURRENT),
    "no floats": Target("npu", "", keep_whole=RECURRENT, floats=False, activations="i8"),
    "per tensor": Target("npu", "", keep_whole=RECURRENT, per_axis=False),
}


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("target", NPUS)
def test_whole_where_the_target_runs_it(tmp_path: Path, kind: str, target: str) -> None:
    path, data = write(tmp_path, net(kind, both=True))
    model = qd.load(path)
    result = qd.quantize(model, data, target=NPUS[target])
    assert not result.coverage.left
    (op,) = [op for op in result.model.module.walk() if op.name in RECURRENT]
    assert quant_element(op.results[0].type) is not None
    roles = result.model.ctx.components[op.name].roles_of(op)
    assert component_types(op).keys() == set(roles[:-1])
    for weight in op.operands[1:3]:
        element = quant_element(weight.type)
        assert element is not None and element.qparams.storage.spelling == "i8"
        assert element.qparams.is_per_tensor == (target == "per tensor")
    assert sqnr(model, result.model, data) > 28


def test_whole_of_unknown_length(tmp_path: Path) -> None:
    path, data = write(tmp_path, net("LSTM", steps="steps"))
    model = qd.load(path)
    result = qd.quantize(model, data, target=NPUS["no floats"])
    assert not result.coverage.left
    (op,) = [op for op in result.model.module.walk() if op.name == "nn.lstm"]
    assert not component_types(op)
    assert sqnr(model, result.model, data) > 28


def test_in_pieces_where_the_target_says_so(tmp_path: Path) -> None:
    path, data = write(tmp_path, net("LSTM"))
    model = qd.load(path)
    kernels = {"nn.lstm": (), "nn.gru": ()}
    target = Target("dsp", "", in_pieces=frozenset({"nn.lstm"}), kernels=kernels)
    result = qd.quantize(model, data, target=target)
    assert not result.coverage.left and result.coverage.quantized["nn.tanh"] == 10
    assert sqnr(model, result.model, data) > 20
    path, data = write(tmp_path, net("GRU"))
    (left,) = qd.quantize(qd.load(path), data, target=target).coverage.left
    assert (left.op, left.code) == ("nn.gru", "target")


def states(kind: str) -> Any:
    """Both directions with initial states and lengths that the model is given, and of an LSTM
    peepholes; all states are results."""
    random = np.random.default_rng(2)
    rows = {"LSTM": 4, "GRU": 3}[kind] * HIDDEN
    names = ["h", "c"][: 2 if kind == "LSTM" else 1]

    def held(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((random.normal(size=shape) * 0.4).astype("f4"), name)

    weights = [held("w", 2, rows, GIVEN), held("r", 2, rows, HIDDEN), held("b", 2, 2 * rows)]
    peepholes = ["p"] if kind == "LSTM" else []
    weights += [held("p", 2, 3 * HIDDEN) for _ in peepholes]
    inputs = ["x", "w", "r", "b", "lengths", *names, *peepholes]
    outputs = ["y", *(f"last_{name}" for name in names)]
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, 3, GIVEN]),
        helper.make_tensor_value_info("lengths", TensorProto.INT32, [3]),
        *(helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3, HIDDEN]) for n in names),
    ]
    results = [
        helper.make_tensor_value_info(
            name, TensorProto.FLOAT, [*([] if n else [STEPS]), 2, 3, HIDDEN]
        )
        for n, name in enumerate(outputs)
    ]
    node = helper.make_node(
        kind, inputs, outputs, "rnn", hidden_size=HIDDEN, direction="bidirectional"
    )
    graph = helper.make_graph([node], "states", given, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("target", ["generic", "tosa"])
def test_states_and_lengths(tmp_path: Path, kind: str, target: str) -> None:
    """Whole and in pieces: every output against the float model as ONNX Runtime runs it."""
    model, random = states(kind), np.random.default_rng(1)
    path, data = tmp_path / "net.onnx", tmp_path / "data.npz"
    onnx.save(model, path)
    arrays: dict[str, Any] = {
        value.name: random.normal(
            size=(12, *(d.dim_value for d in value.type.tensor_type.shape.dim))
        ).astype("f4")
        for value in model.graph.input
    }
    arrays["lengths"] = random.integers(1, STEPS + 1, size=(12, 3)).astype("i4")
    np.savez(data, **arrays)
    result = qd.quantize(qd.load(path), data, target=target)
    assert not result.coverage.left and not result.coverage.stale
    floats = onnxruntime.InferenceSession(model.SerializeToString())
    run = Interpreter(result.model.ctx, result.model.module)
    samples = [{name: array[n] for name, array in arrays.items()} for n in range(12)]
    expected: Any = [floats.run(None, sample) for sample in samples]
    found = [run.run(list(sample.values())) for sample in samples]
    for want, got in zip(zip(*expected, strict=True), zip(*found, strict=True), strict=True):
        signal, noise = np.square(want).sum(), np.square(np.subtract(want, got)).sum()
        assert 10 * np.log10(signal / noise) > (30 if target == "generic" else 20)
        past = np.asarray(want) == 0
        assert past.any() or want[0].ndim == 3
        assert not np.asarray(got)[past].any()


def test_what_has_no_pieces_is_said(tmp_path: Path) -> None:
    path, data = write(tmp_path, net("LSTM", steps="steps"))
    result = qd.quantize(qd.load(path), data, recipe=Recipe(lower=True))
    (left,) = [left for left in result.coverage.left if left.op == "nn.lstm"]
    assert "not in pieces" in left.reason and "when it runs" in left.reason


def test_assert_all_quantized_says_which_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = write(tmp_path, net("LSTM"))
    arguments = ["quantize", str(path), "--data", str(data), "-o", str(tmp_path / "q.onnx")]
    assert main([*arguments, "--require-all"]) == 1
    text = capsys.readouterr().err
    assert "'rnn' (nn.lstm) [target]" in text and not (tmp_path / "q.onnx").exists()
    arguments[-1] = str(tmp_path / "q.mlir")
    assert main([*arguments, "--require-all", "--target", "tosa", "-q"]) == 0
