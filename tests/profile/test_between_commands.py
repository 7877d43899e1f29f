"""A profile holds between commands: for the model it is of, lowered, raised or cleaned since, in
both directions, for every composite of the registry."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from qdialect.api import load, save
from qdialect.cli.opt import main as opt
from qdialect.cli.qopt import main as qopt
from tests.support.composites import CASES, data, function

LOWER = "--lower-composites=numerics=ties"
CLEAN = ["--fold-constants=numerics=ties", "--canonicalize", "--cse", "--dce"]
RAISE = "--raise-composites=numerics=ties"
FORMS: Mapping[str, list[list[str]]] = {
    "lowered": [[LOWER]],
    "cleaned": [[LOWER], CLEAN],
    "raised": [[LOWER], [CLEAN[0]], [RAISE, "--dce"]],
    "lowered onnx": [[LOWER], []],
}
"""The commands, each with its passes, after which a model has another form."""


def formed(path: Path, form: str) -> Path:
    """The file at `path` after the commands of a form, each of which reads what the last wrote."""
    for number, passes in enumerate(FORMS[form]):
        after = path.with_name(f"{form}{number}.{'mlir' if passes else 'onnx'}")
        if passes:
            assert opt([str(path), *passes, "-o", str(after)]) == 0
        else:
            save(load(path), after)
        path = after
    return path


def profiled(path: Path) -> Path:
    profile = path.with_suffix(".json")
    flags = ["--data", str(path.parent / "data.npz"), "--engine=numpy", "-q"]
    assert qopt(["profile", str(path), *flags, "-o", str(profile)]) == 0
    return profile


def quantized(path: Path, profile: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict]:
    """What `qopt quantize` writes of a model by a profile, and what it says of both."""
    out = path.with_name("q.mlir")
    capsys.readouterr()
    command = ["quantize", str(path), "--profile", str(profile), "--json", "--force"]
    code = qopt([*command, "--race=0", "--target=generic", "-o", str(out)])
    said = capsys.readouterr()
    assert code == 0, said.err
    return out.read_text("utf-8"), json.loads(said.out)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_a_profile_holds(
    name: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    whole = tmp_path / "whole.mlir"
    whole.write_text(function(case))
    np.savez(tmp_path / "data.npz", arg0=data(case)[None])
    other = formed(whole, form)
    profiles = {path: profiled(path) for path in (whole, other)}
    for path in (whole, other):
        texts = []
        for profile in profiles.values():
            text, report = quantized(path, profile, capsys)
            # The reader of ONNX gives a key to an op that has none in the other form.
            assert report["stale"] == [] or (form == "lowered onnx" and path == whole)
            texts.append(text)
        assert texts[0] == texts[1]


@pytest.mark.parametrize("form", [form for form in FORMS if "onnx" not in form])
def test_another_model_is_one_error(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the other model is an edit of the file that a command wrote."""
    case = CASES["layer_norm"]
    whole = tmp_path / "whole.mlir"
    whole.write_text(function(case))
    np.savez(tmp_path / "data.npz", arg0=data(case)[None])
    other = formed(whole, form)
    text = other.read_text("utf-8")
    # What is raised is the model as it was.
    assert ("nn.model = {" in text) == (form != "raised")
    edited = re.sub(r"dense<\[\S+,", "dense<[0.5,", text, count=1)
    assert edited != text
    other.write_text(edited)
    for model, profile in ((whole, profiled(other)), (other, profiled(whole))):
        capsys.readouterr()
        command = ["quantize", str(model), "--profile", str(profile), "--race=0", "--force"]
        assert qopt([*command, "-o", str(tmp_path / "q.mlir")]) == 1
        said = capsys.readouterr().err
        assert said.count("error:") == 1 and "of another model: " in said and "'op" in said


def test_equalized_channels_have_other_ranges(tmp_path: Path) -> None:
    path, other = tmp_path / "net.mlir", tmp_path / "other.mlir"
    path.write_text(NET)
    assert opt([str(path), "--equalize-channels", "-o", str(other)]) == 0
    assert "1.0" not in other.read_text("utf-8") and "nn.model" not in other.read_text("utf-8")


NET = """
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = nn.constant dense<[[1.0, 2.0], [400.0, 500.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %1 = nn.fully_connected %x, %0 {nn.key = "fc"}
    : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = nn.relu %1 {nn.key = "act"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = nn.fully_connected %2, %0 {nn.key = "last"}
    : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}"""
