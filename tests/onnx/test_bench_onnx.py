"""`bench.py onnx` on one small network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("PIL")
pytest.importorskip("matplotlib")
corpus = pytest.importorskip("corpus")  # needs ONNX Runtime's quantizer
import bench  # noqa: E402
import bench_onnx  # noqa: E402


def small_net() -> onnx.ModelProto:
    weight = np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 6, 6])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def images(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


@pytest.mark.filterwarnings("ignore")
def test_a_line_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = corpus.Source("small", small_net, {"x": (1, 3, 8, 8)}, images)
    monkeypatch.setattr(corpus, "CACHE", tmp_path)
    monkeypatch.setattr(corpus, "SOURCES", {"small": source})
    figures, picture = tmp_path / "b.json", tmp_path / "b.png"
    options = ["--configs", "s8s8", "u8s8_qop", "--calibration", "2", "--samples", "2"]
    options += ["--seconds", "0.01", "--repeat", "1", "--json", str(figures)]
    assert bench.main(["onnx", *options, "--plot", str(picture)]) in (0, 1)  # 1: noise
    rows = json.loads(figures.read_text())["rows"]
    assert [row["config"] for row in rows] == ["s8s8", "u8s8_qop"]
    assert all(row["same"] == 1 and row["latency"]["ours"] > 0 for row in rows)
    text = capsys.readouterr().out
    assert "| small s8s8" in text and "s8 activations: geometric mean" in text
    assert picture.stat().st_size > 1000


def test_what_misses_a_goal_is_told() -> None:
    two = bench_onnx.Sides
    row = bench_onnx.Row(
        "net", "u8s8", 1.0, two(1, 1.5), 0.0, two(1, 1), two(4, 0), two(1, 0), 9, 0.1, 0.01, 0.5,
        20.0, two(19, 19),
    )  # fmt: skip
    text = "\n".join(bench_onnx.summary([row]))
    assert "geometric mean 1.50 (goal 0.8)" in text
    assert "slower than the runtime alone: net u8s8 1.50" in text
    assert "not the same bits as written: net u8s8" in text
    assert "further from float than as written: net u8s8" in text
