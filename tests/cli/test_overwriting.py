"""A file that a command reads is not replaced by what it writes, unless `--force` is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.generators.chains import chain
from tests.support.commands import call, qopt, qopt_opt, qopt_translate


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(chain("Relu", 2, "float"), path)
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 4, 4, 4), np.float32))
    return path


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("optimize m.onnx -o m.onnx", "m.onnx"),
        ("optimize m.onnx -o ../{here}/m.onnx", "../{here}/m.onnx"),
        ("optimize m.onnx -o link.onnx", "link.onnx"),
        ("optimize m.onnx -o o.onnx --remarks=m.onnx", "m.onnx"),
        ("optimize m.onnx -o o.onnx --report page.html --prices page.html", "page.html"),
        ("quantize m.onnx -d x.npz -o m.onnx", "m.onnx"),
        ("run m.onnx -i x.npz -o x.npz", "x.npz"),
        ("profile merge a.json b.json -o a.json", "a.json"),
    ],
)
def test_an_input_is_not_replaced(
    model: Path, command: str, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    for name in ("page.html", "a.json", "b.json"):
        Path(name).write_text("as it was")
    Path("link.onnx").symlink_to("m.onnx")
    before = {path.name: path.read_bytes() for path in model.parent.iterdir()}
    here = model.parent.name
    result = call(qopt, *command.format(here=here).split())
    assert result.code == 2
    assert result.err == (
        f"error: '{written.format(here=here)}' is read as well, and would be replaced: name "
        "another file to write, or use --force\n"
    )
    assert before == {path.name: path.read_bytes() for path in model.parent.iterdir()}


def test_an_input_is_replaced_by_force(model: Path) -> None:
    before = onnx.load(model)
    given = call(qopt, "optimize", str(model), "-o", str(model), "--race", "0", "--force")
    assert given.code == 0, given.err
    after = onnx.load(model)
    assert len(after.graph.node) < len(before.graph.node)


def test_other_tools_do_not_replace_their_input(model: Path) -> None:
    text = model.with_suffix(".mlir")
    assert call(qopt_translate, "--import-onnx", str(model), "-o", str(text)).code == 0
    before = text.read_bytes()
    result = call(qopt_opt, str(text), "-p", "canonicalize", "-o", str(text))
    assert result.code == 2 and "--force" in result.err
    assert text.read_bytes() == before
    assert call(qopt_opt, str(text), "-p", "canonicalize", "-o", str(text), "--force").code == 0
    assert "nn.relu" in text.read_text()
