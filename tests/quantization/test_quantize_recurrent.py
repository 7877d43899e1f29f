"""LSTM and GRU: float where there are floats, else in pieces with ranges of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantize_support import sqnr

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.quant import quant_element
from qdialect.quantization.recipe import Recipe

STEPS, GIVEN, HIDDEN = 5, 4, 6


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
