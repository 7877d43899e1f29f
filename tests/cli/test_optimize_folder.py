"""`qopt optimize FOLDER`: all models, once, whatever one of them is like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qdialect.cli.qopt import main

HALF, QUARTER = (f"tensor<1x4x!quant.uniform<i8:f32, {scale}>>" for scale in (0.5, 0.25))
MODEL = f"""func.func @f(%x: {HALF}) -> {QUARTER} {{
  %0 = nn.relu %x {{nn.key = "r"}} : ({HALF}) -> {HALF}
  %1 = quant.rescale %0 {{nn.key = "s"}} : {HALF} to {QUARTER}
  return %1 : {QUARTER}
}}
"""


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.mlir").write_text(MODEL, encoding="utf-8")
    (folder / "deep" / "b.mlir").write_text(MODEL.replace("0.5", "0.125"), encoding="utf-8")
    return folder


def _run(folder: Path, out: Path, *flags: str) -> int:
    return main(["optimize", str(folder), "-o", str(out), "--check=0", *flags])


def test_all_models_and_only_once(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert _run(folder, out) == 0
    assert "2 optimized, 0 as they were, 0 failed" in capsys.readouterr().err
    first = (out / "deep" / "b.mlir").read_text(encoding="utf-8")
    assert "nn.relu" in first

    assert _run(folder, out) == 0
    assert "0 optimized, 2 as they were, 0 failed" in capsys.readouterr().err

    # Other bytes, other options, a result that is gone or another: each is done again.
    (folder / "a.mlir").write_text(MODEL.replace('"r"', '"q"'), encoding="utf-8")
    (out / "deep" / "b.mlir").write_text("", encoding="utf-8")
    assert _run(folder, out, "--jobs=1") == 0
    assert "2 optimized, 0 as they were" in capsys.readouterr().err
    assert (out / "deep" / "b.mlir").read_text(encoding="utf-8") == first
    (out / "a.mlir").unlink()
    assert _run(folder, out) == 0
    assert "1 optimized, 1 as they were" in capsys.readouterr().err
    for record in (out / ".qopt").iterdir():
        record.write_text(json.dumps(["what is this"]), encoding="utf-8")
    assert _run(folder, out, "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_one_bad_model_stops_no_other(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.mlir").write_text("module {\n  nn.oops\n}\n", encoding="utf-8")
    out = tmp_path / "out"
    assert _run(folder, out) == 1
    told = capsys.readouterr().err
    assert "bad.mlir: failed" in told
    assert "bad.mlir:2:3: error" in told
    assert "2 optimized, 0 as they were, 1 failed" in told
    assert (out / "a.mlir").exists()
    assert not (out / "bad.mlir").exists()
    assert _run(folder, out, "--json") == 1
    told = capsys.readouterr()
    assert "0 optimized, 2 as they were, 1 failed" in told.err
    assert [(one["name"], one["code"]) for one in json.loads(told.out)] == [
        ("a.mlir", 0),
        ("bad.mlir", 1),
        ("deep/b.mlir", 0),
    ]


def test_what_cannot_be(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(folder, folder) == 2
    assert _run(folder, tmp_path / "out", "--target=nothing") == 2
    assert _run(folder, tmp_path / "out", "--remarks=r.json") == 2
    assert main(["optimize", str(folder / "a.mlir"), "-o", "x.mlir", "--jobs=2"]) == 2
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert _run(folder, tmp_path / "file") == 1
    (tmp_path / "empty").mkdir()
    assert _run(tmp_path / "empty", tmp_path / "out") == 1
    assert "no model in this folder" in capsys.readouterr().err
    (folder / "a.mlirbc").write_bytes(b"")
    assert _run(folder, tmp_path / "out") == 1
    assert "weights in one file" in capsys.readouterr().err


def test_results_inside_the_folder_are_no_models(folder: Path) -> None:
    assert _run(folder, folder / "out") == 0
    assert _run(folder, folder / "out", "--no-cache") == 0
    assert not (folder / "out" / "out").exists()
