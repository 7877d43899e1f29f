"""The same bytes come out: in every process, under every hash seed, in every Python."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import onnx

from tests.generators.networks import random_model

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
