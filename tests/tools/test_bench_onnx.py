"""Networks in ONNX Runtime, and models from file to file, on one small network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("PIL")
pytest.importorskip("matplotlib")
corpus = pytest.importorskip("tools.bench.corpus")  # needs ONNX Runtime's quantizer
from tools.bench import compiler, figures  # noqa: E402
from tools.bench import models as bench_models  # noqa: E402
from tools.bench import onnx as bench_onnx  # noqa: E402
from tools.bench.rows import Rounds  # noqa: E402


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
    written = tmp_path / "b.json"
    options = ["--configs", "s8s8", "u8s8_qop", "--calibration", "2", "--samples", "2"]
    options += ["--models", "small", "--seconds", "0.01", "--json", str(written)]
    assert bench_onnx.main(options) in (0, 1)  # 1: noise
    rows = json.loads(written.read_text())["rows"]
    assert [row["config"] for row in rows] == ["s8s8", "u8s8_qop"]
    for row in rows:
        assert row["same"] == 1 and not row["held_out"]
        assert row["runs"]["exact qdq"]["ratio"] > 0 and row["runs"]["exact qdq"]["floats"] == ""
        assert row["runs"]["float"]["floats"] and row["runs"]["alone"]["nodes"] > 1
    text = capsys.readouterr().out
    assert "| small s8s8" in text and "of the corpus, s8 activations at `exact`" in text
    again = [*options, "--known", str(written)]
    assert bench_onnx.main(again) in (0, 1) and json.loads(written.read_text())["rows"] == rows


def test_what_misses_a_goal_is_told() -> None:
    def runs(ratio: float, quality: float) -> bench_onnx.Runs:
        return bench_onnx.Runs(1.0, ratio, ratio - 0.1, ratio + 0.1, 9, "Conv 1", 1, 4, quality)

    names = [f"{level} {form}" for level in bench_onnx.LEVELS for form in bench_onnx.FORMS]
    of = {"alone": runs(1.0, 20.0), "float": runs(0.7, 99.0)}
    of |= {name: runs(1.5, 19.0) for name in names}
    row = bench_onnx.Row("net", "u8s8", True, of, "qdq", 0.1, 0.5, 20.0)
    text = "\n".join(bench_onnx.summary([row]))
    assert "held out, u8 activations at `exact`: geometric mean 1.50 (goal 0.85)" in text
    assert "slower than the runtime alone, beyond the quartiles: net u8s8 1.50" in text
    assert "the float network is faster: net u8s8" in text
    assert "not the same bits as written: net u8s8" in text
    assert "executed or written: net u8s8 exact, net u8s8 ties" in text
    assert bench_onnx.cells(row)[4] == "1.50!, 1.50! ± 0.10" and "input" in bench_onnx.cells(row)


@pytest.mark.filterwarnings("ignore")
def test_models_from_file_to_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrite(python: Path, tool: str, source: Path, target: Path) -> float:
        """Every tool copies, but one that fails."""
        if tool == "onnxsim":
            raise RuntimeError("Segmentation fault")
        target.write_bytes(source.read_bytes())
        return 0.5

    source = corpus.Source("small", small_net, {"x": (1, 3, 8, 8)}, images)
    monkeypatch.setattr(corpus, "CACHE", tmp_path)
    monkeypatch.setattr(corpus, "SOURCES", {"small": source})
    monkeypatch.setattr(bench_models, "environment", lambda folder: folder)
    monkeypatch.setattr(bench_models, "rewrite", rewrite)
    onnx.save(small_net(), tmp_path / "mine.onnx")
    written = tmp_path / "b.json"
    options = ["--models", "small", str(tmp_path / "mine.onnx"), "--repeat", "2"]
    assert compiler.main(["models", *options, "--json", str(written)]) == 0
    rows = {row.key: row for row in figures.load(written)["rows"]}
    assert {row.case for row in rows.values()} == {"small s8s8", "mine"}
    whole = rows["models/small s8s8/0/from file to file"]
    assert {bench_models.RUNTIME, "onnxslim"} <= whole.ratios.keys()
    assert "onnxsim" not in whole.ratios and "onnxsim: Segmentation fault" in whole.note
    assert "ours" in whole.note
    text = figures.tables(list(rows.values()))
    assert "| models: small s8s8" in text and "as it is 2/0" in text


def test_models_without_other_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(folder: Path) -> Path:
        raise RuntimeError("no environment for other tools: offline")

    monkeypatch.setattr(bench_models, "environment", fails)
    onnx.save(small_net(), tmp_path / "mine.onnx")
    rows = list(bench_models.rows([str(tmp_path / "mine.onnx")], [], Rounds(1, 1)))
    whole = next(row for row in rows if row.name == "from file to file")
    assert whole.ratios.keys() == {bench_models.RUNTIME}
    assert whole.note.endswith("; no environment for other tools: offline")
