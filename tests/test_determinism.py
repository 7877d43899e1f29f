"""The same bytes come out: in every process, under every hash seed, in every Python; and what a
change to the code changes is told."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.generators.networks import random_model
from tools import replay

OTHERS = [name for name in os.environ.get("QDIALECT_PYTHONS", "").split(os.pathsep) if name]
"""Interpreters of other versions, with what qdialect needs."""

OUTPUTS = """
import sys
from qdialect.cli import qopt, opt, translate
model, out = sys.argv[1:]
for argv in (
    [qopt.main, "optimize", model, "-o", f"{out}/a.mlir", "--check=0", f"--remarks={out}/r.json"],
    [qopt.main, "optimize", model, "-o", f"{out}/a.onnx", "--check=0", "--numerics=relaxed"],
    [qopt.main, "optimize", model, "-o", f"{out}/q.onnx", "--check=0", "--form=qoperator"],
    [qopt.main, "optimize", model, "-o", f"{out}/t.mlir", "--check=0", "--target=integer"],
    [translate.main, "--import-onnx", model, "-o", f"{out}/i.mlir"],
    [opt.main, f"{out}/i.mlir", "--pass-pipeline=integerize,place-rescales", "-o", f"{out}/p.mlir"],
    [translate.main, "--export-onnx", f"{out}/i.mlir", "-o", f"{out}/e.onnx"],
):
    assert argv[0](argv[1:]) == 0, argv
"""


def digests(python: str, model: Path, folder: Path, salt: str) -> dict[str, str]:
    folder.mkdir()
    subprocess.run(
        [python, "-c", OUTPUTS, str(model), str(folder)],
        env={**os.environ, "PYTHONHASHSEED": salt},
        check=True,
        capture_output=True,
    )
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def test_bytes_do_not_depend_on_the_process(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(random_model(5, 14), model)
    wanted = digests(sys.executable, model, tmp_path / "first", "0")
    assert len(wanted) >= 8
    for number, (python, salt) in enumerate([(sys.executable, "1"), *((p, "2") for p in OTHERS)]):
        assert digests(python, model, tmp_path / f"other{number}", salt) == wanted, python


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
