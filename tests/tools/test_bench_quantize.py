"""Our quantizer against those of others: the parts that need no network of others."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("PIL")
corpus = pytest.importorskip("tools.bench.corpus")  # needs ONNX Runtime's quantizer
from tools.bench import others, quantize, real_samples, samples, trained_nets, unseen  # noqa: E402


def boxes_and_scores() -> onnx.ModelProto:
    """Pixels and shares in one output, beside each other, then turned."""
    weights = np.random.default_rng(0).normal(size=(2, 4, 3, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "b"], ["small"]),
        helper.make_node("Mul", ["small", "wide"], ["boxes"]),
        helper.make_node("Conv", ["x", "s"], ["raw"]),
        helper.make_node("Sigmoid", ["raw"], ["scores"]),
        helper.make_node("Concat", ["boxes", "scores"], ["both"], axis=1),
        helper.make_node("Transpose", ["both"], ["y"], perm=[0, 2, 3, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])],
        [
            numpy_helper.from_array(weights[0], "b"),
            numpy_helper.from_array(weights[1], "s"),
            numpy_helper.from_array(np.array(300, dtype=np.float32), "wide"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def images(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(count)]


@pytest.mark.exact_sums
@pytest.mark.filterwarnings("ignore")
def test_a_line_for_each_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = corpus.Source("detector", boxes_and_scores, {"x": (1, 3, 8, 8)}, images)
    monkeypatch.setattr(corpus, "CACHE", tmp_path)
    monkeypatch.setattr(corpus, "SOURCES", {"detector": source})
    written = tmp_path / "b.json"
    tools = ["--tools", "runtime static", "runtime dynamic", "ours"]
    options = [*tools, "--calibration", "4", "--tests", "4", "--seconds", "0.01"]
    options += ["--models", "detector", "--json", str(written), "--keep", str(tmp_path / "kept")]
    assert quantize.main(options) in (0, 1)  # 1: noise
    (row,) = quantize.read_figures(written)
    assert list(row.files) == ["runtime static", "runtime dynamic", "ours"]
    for file in row.files.values():
        assert file.failed == "" and file.ratio > 0 and file.megabytes > 0
        assert file.channel is not None and file.channel <= file.worst
    # One scale for pixels and shares.
    assert row.files["runtime static"].part == "y[:, :, :, 4:8]"
    assert row.files["runtime static"].worst < 10 < row.files["ours"].worst
    assert "| detector" in capsys.readouterr().out
    # Files that are there are used: only their name says which tool wrote them.
    ours, static = (tmp_path / "kept" / f"detector.{t}.onnx" for t in ("ours", "runtime-static"))
    ours.write_bytes(static.read_bytes())
    assert quantize.main(options) in (0, 1)
    (again,) = quantize.read_figures(written)
    assert again.files["ours"].worst == again.files["runtime static"].worst
    assert quantize.main([*options, "--known", str(written)]) in (0, 1)
    assert json.loads(written.read_text()) == json.loads(json.dumps([asdict(again)]))


def asdict(row: quantize.Row) -> dict[str, object]:
    return {**vars(row), "files": {name: vars(file) for name, file in row.files.items()}}


def test_metrics_of_tasks() -> None:
    a = [{"y": np.array([[1.0, 3.0, 2.0]])}, {"y": np.array([[5.0, 1.0, 0.0]])}]
    b = [{"y": np.array([[1.0, 2.0, 3.0]])}, a[1]]
    task = quantize.task_of("classify", [{}, {}], a)
    assert task is not None and task.judge(a) == 1 and 0 < task.judge(b) < 1
    assert quantize.task_of("detect", [{}, {}], a) is None


def test_what_is_behind_is_told() -> None:
    fast = quantize.File(0.5, 0.45, 0.55, 1.0, 30.0, "y", 29.0, 0, 1.0, 3.0)
    good = quantize.File(0.6, 0.55, 0.65, 1.0, 40.0, "y", 39.0, 0, 1.0, 3.0)
    slow = quantize.File(1.5, 1.2, 1.6, 2.0, 25.0, "y", 24.0, 2, 1.0, 3.0)
    row = quantize.Row("net", "", 1.0, 4.0, 8, {"fast": fast, "good": good, "ours": slow})
    text = "\n".join(quantize.behind(row))
    assert "slower than float, 1.50" in text and "slower than fast, 1.50 to 0.50" in text
    assert "25.0 dB, good 40.0 dB, no slower" in text and "2 MB, fast 1 MB" in text
    assert quantize.behind(row, "good") == []  # what overlaps is as fast
    assert "40.0 dB" in "".join(quantize.behind(row, "fast"))
    broken = quantize.Row("net", "", 1.0, 4.0, 8, {"ours": quantize.File(failed="no")})
    assert quantize.behind(broken) == ["net: no"]
    assert " fails |" in quantize.tables([broken])


def test_places_among_others() -> None:
    ours = quantize.File(0.5, 0.45, 0.55, 1.0, 30.0, "y", 20.0, 0, 0.99, 3.0)
    slow = quantize.File(4.0, 3.5, 4.5, 1.0, 40.0, "y", 10.0, 0, 0.991, 3.0)
    near = quantize.File(0.5, 0.45, 0.55, 1.0, 30.2, "y", 15.0, 0, 0.5, 3.0)
    row = quantize.Row("net", "", 1.0, 4.0, 8, {"slow": slow, "near": near, "ours": ours})
    assert quantize.place(row, "ours", "worst part") == (2, 2)
    assert quantize.place(row, "ours", "worst part", as_fast=True) == (1, 1)
    assert quantize.place(row, "ours", "worst channel") == (1, 3)
    assert quantize.place(row, "ours", "metric") == (1, 2)
    assert quantize.place(row, "ours 1", "metric") is None
    as_it_was = quantize.Row(
        "net", "", 1.0, 4.0, 8, {"ours": quantize.File(worst=np.inf), "a": slow}
    )
    assert quantize.place(as_it_was, "ours", "worst part") is None
    assert "0 of 1 (0 %) | 1 of 1 (100 %)" in " ".join(quantize.ranks([row]).split())
    assert "40.0 | slow" in " ".join(quantize.summary([row]).split())


def test_each_file_of_others_is_matched_or_not() -> None:
    """By any of ours that is as good and no slower; one whose time is not known is no slower."""
    files = {
        "ours": quantize.File(0.5, 0.48, 0.52, worst=20.0, metric=0.9),
        "ours as good": quantize.File(0.8, 0.78, 0.82, worst=30.0, metric=0.9),
        "fast": quantize.File(0.5, 0.49, 0.51, worst=19.0, metric=0.8),
        "good": quantize.File(1.5, 1.4, 1.6, worst=30.1, metric=0.902),
    }
    row = quantize.Row("net", "classify", 1.0, 1.0, 8, files)
    assert quantize.matched(row, "worst part") is True
    assert quantize.matched(row, "metric") is True
    assert quantize.matched(row, "worst channel") is None
    faster = replace(row, files=files | {"good": quantize.File(0.6, 0.58, 0.62, worst=30.1)})
    assert quantize.matched(faster, "worst part") is False
    elsewhere = replace(row, files=files | {"runtime": quantize.File(worst=30.2)})
    assert quantize.matched(elsewhere, "worst part") is True


def test_real_samples_are_those_of_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    pictures = [Image.new("RGB", (64, 64), (shade, shade, shade)) for shade in (40, 200)]
    monkeypatch.setattr(real_samples, "photographs", lambda: pictures)
    source = corpus.Source("net", boxes_and_scores, {}, samples.images("x", 16, 16))
    dark, light = (real_samples.real(source, part)(3, 0) for part in (0, 1))
    assert max(feeds["x"].max() for feeds in dark) < min(feeds["x"].min() for feeds in light)
    assert not np.array_equal(source.samples(1, 0)[0]["x"], dark[0]["x"])  # made ones again


def test_real_files_and_faces_are_those_of_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [{".txt": [byte * 99]} for byte in (b"a", b"b")]
    monkeypatch.setattr(real_samples, "_files", contents.__getitem__)
    files = corpus.Source("net", boxes_and_scores, {}, samples.files)
    for part, byte in ((0, ord("a")), (1, ord("b"))):
        (feeds,) = real_samples.real(files, part)(1, 0)
        assert set(feeds["bytes"][0, :99]) == {byte}
    shades = np.linspace(0, 0.5, 100)[:, None, None] * np.ones((1, 25, 25))
    monkeypatch.setattr(trained_nets, "_lfw", shades.copy)
    net = corpus.Source("net", boxes_and_scores, {}, trained_nets.portraits(24))
    seen = [
        {float(each["x"].max()) for each in real_samples.real(net, part)(40, 0)[::2]}
        for part in (0, 1)
    ]
    assert all(seen) and not seen[0] & seen[1]


def test_word_pieces() -> None:
    pieces = ["[UNK]", "[CLS]", "[SEP]", "un", "##hash", "##able", "thing", "##s", "."]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    assert unseen.words("Unhashable things. Ω", numbers) == [1, 3, 4, 5, 6, 7, 8, 0, 2]
    assert unseen.words("things " * 9, numbers, 4) == [1, 6, 7, 2]


def test_sentences_are_those_of_the_seed() -> None:
    found = unseen.sentences(20, 3)
    assert found == unseen.sentences(20, 3) != unseen.sentences(20, 4)
    assert len(set(found)) == 20 and all(30 <= len(text) <= 300 for text in found)


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever needs it meanwhile waits; one that could not be made is tried again."""
    made: list[str] = []
    fails = ["pip"]

    def run(command: Sequence[str]) -> str:
        made.append(command[2])
        time.sleep(0.05)
        made.append(command[2])
        if command[2] in fails:
            fails.remove(command[2])
            raise RuntimeError("no such package")
        return ""

    def ask(_: int) -> str:
        try:
            return str(others.environment(folder, {"a": "a==1"}))
        except RuntimeError as error:
            return str(error)

    monkeypatch.setattr(others, "run", run)
    folder = tmp_path / "cache" / "env"
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    steps = ["venv", "venv", "pip", "pip"]
    assert made == steps * 2
    python = str(folder / "bin" / "python")
    failed = "no environment for other tools: no such package"
    assert sorted(found) == sorted([failed, python, python, python])
    others.environment(folder, {"a": "a==2"})
    assert made == steps * 3


def test_a_command_that_fails_says_why() -> None:
    assert others.run([sys.executable, "-c", "import os; print(os.environ['A'])"], A="5") == "5\n"
    with pytest.raises(RuntimeError, match="no such"):
        others.run([sys.executable, "-c", "import sys; sys.exit('no such')"])
    with pytest.raises(RuntimeError, match=r"given up after 0\.2 s"):
        others.run([sys.executable, "-c", "import time; time.sleep(9)"], limit=0.2)
