"""The quantization tests among ONNX's node tests all pass; the tool tells verdicts apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.support import node_conformance as tool


@pytest.mark.parametrize("part", ["quantizelinear", "qlinear", "convinteger", "matmulinteger"])
def test_every_quantization_test_passes(part: str) -> None:
    rows = list(tool.run(tool.cases(part)))
    assert rows
    assert {row.family for row in rows} <= tool.QUANTIZATION
    assert [row for row in rows if not row.verdicts[0].is_pass] == []


@pytest.mark.parametrize("name", ["attention_bidirectional_window", "spacetodepth_crd"])
def test_attributes_of_later_opsets_are_not_ignored(name: str) -> None:
    rows = list(tool.run(tool.cases(name)))
    assert rows
    assert all(row.verdicts[0].is_pass for row in rows)


def model(op: str, code: int = TensorProto.FLOAT) -> onnx.ModelProto:
    info = [helper.make_tensor_value_info(name, code, [3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "g", info[:1], info[1:])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


class Case:
    """A test as the `onnx` package gives it."""

    rtol = atol = 1e-6

    def __init__(self, op: str, x: Any, y: Any, code: int = TensorProto.FLOAT) -> None:
        self.model, self.name = model(op, code), f"test_{op}"
        self.data_sets = [([x], [y])]


X = np.array([1, 4, 9], np.float32)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case("Sqrt", X, np.sqrt(X)), ("native", "passed", "passed")),
        (Case("Selu", X, 1.0507009873554805 * X), ("kept", "passed", "passed")),
        (Case("Sqrt", X, X), ("failed", "failed", "failed")),
        (Case("Sqrt", X[:2], X[:2]), ("unsupported", "unsupported", "failed")),
    ],
)
def test_verdicts(case: Case, words: tuple[str, ...]) -> None:
    (row,) = tool.run([case])
    assert tuple(verdict.word for verdict in row.verdicts)[:2] == words[:2]
    assert tool.family_of(case) in ("Sqrt", "Selu")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("bfloat16", TensorProto.BFLOAT16),
        ("int4", TensorProto.INT4),
        ("uint2", TensorProto.UINT2),
        ("float8_e4m3fnuz", TensorProto.FLOAT8E4M3FNUZ),
        ("str", TensorProto.STRING),
    ],
)
def test_types_that_numpy_lacks_pass_kept_nodes(name: str, code: int) -> None:
    dtype: Any = object if name == "str" else helper.tensor_dtype_to_np_dtype(code)
    x = np.array(["a", "b", "c"]) if name == "str" else np.array([0, 1, 1])
    array = x.astype(dtype)
    info = [helper.make_tensor_value_info(n, code, [3]) for n in "xy"]
    shape = helper.make_tensor("axes", TensorProto.INT64, [1], [0])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["x", "i"], ["y"])],
        "g",
        info[:1],
        info[1:],
        [helper.make_tensor("i", TensorProto.INT64, [3], [2, 1, 0]), shape],
    )
    case = Case("Sqrt", array, array[::-1], code)
    opsets = [helper.make_opsetid("", 25)]
    case.model = helper.make_model(graph, opset_imports=opsets, ir_version=13)
    assert tool.on_ours(case).is_pass, tool.on_ours(case)


def test_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "deep" / "page.md"
    assert tool.main(["--only", "matmulinteger", "--list", "--output", str(page)]) == 0
    text = page.read_text()
    assert "| test_matmulinteger |" in text
    assert f"onnx {onnx.__version__}" in text
    assert "qdialect" in capsys.readouterr().out
    assert tool.main(["--only", "no such test"]) == 2
