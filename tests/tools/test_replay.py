"""What a change to the code changes in what comes out is recorded and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import replay


def test_a_record_is_the_same_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "before.json"
    common = ["--inputs", "lit", "random", "--limit", "5", "--targets", "onnxruntime", "tosa"]
    assert replay.main(["--record", str(path), *common]) == 0
    assert "10 inputs, 2 targets" in capsys.readouterr().out
    assert replay.main(["--compare", str(path), *common]) == 0
    assert capsys.readouterr().out == "0 differences\n"
    data = json.loads(path.read_text())
    entry = data["random#3"]["onnxruntime"]
    entry["fired"]["fold-something"] = 2
    entry["ops"]["nn.relu"] = entry["ops"].get("nn.relu", 0) + 1
    data["random#4"]["tosa"]["exports"]["qdq"] = "0"
    path.write_text(json.dumps(data))
    assert replay.main(["--compare", str(path), *common]) == 1
    told = capsys.readouterr().out
    assert "random#3 for onnxruntime: " in told
    assert "fired fold-something 2 -> 0" in told and "ops nn.relu" in told
    assert "random#4 for tosa: other export as qdq" in told
    assert told.endswith("2 differences\n")


def test_what_differences_are_told() -> None:
    old = {"a": {"t": {"error": "x: y"}}, "b": {}}
    new = {"a": {"t": replay.recorded(next(replay.random_inputs())[1], "generic")}, "c": {}}
    told = replay.differences(old, new)
    assert told == ["a for t: x: y -> no error", "b: gone", "c: new"]
    same = json.loads(json.dumps(new["a"]["t"]))
    same["text"] = "0"
    assert replay.differences(new, {**new, "a": {"t": same}}) == [
        "a for t: other text, of the same ops"
    ]
