"""`qopt optimize --prices`, and the form by price."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from qdialect.targets.price_table import shipped_prices
from tests.support.commands import call, qopt
from tests.support.price_files import table_text


def kinds(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_a_table_of_prices_is_used(net: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "p.json", tmp_path / "o.onnx"
    path.write_text(table_text(shipped_prices("onnxruntime")))
    result = call(qopt, "optimize", str(net), "-o", str(out), f"--prices={path}")
    assert result.code == 0, result.err


@pytest.mark.parametrize(("pair", "kernel"), [([2, 1], True), ([1, 2], False)])
def test_auto_is_the_form_that_costs_less(
    net: Path, tmp_path: Path, pair: list[int], kernel: bool
) -> None:
    path, out = tmp_path / "p.json", tmp_path / "o.onnx"
    table = json.loads(table_text(shipped_prices("onnxruntime")))
    sizes = [each | {"forms": {"nn.conv2d": pair}} for each in table["sizes"]]
    path.write_text(json.dumps(table | {"sizes": sizes}))
    arguments = ["optimize", str(net), "-o", str(out), "--numerics=ties", f"--prices={path}"]
    assert call(qopt, *arguments).code == 0
    assert ("QLinearConv" in kinds(out)) == kernel


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("optimize", "IN", "-o", "o.mlir", "--float", "IN"), 2, "--float is for an .onnx result"),
        (("optimize", "IN", "-o", "o.onnx", "--race", "soon"), 2, "a race takes a time (3s, 500ms"),
        (("optimize", "IN", "-o", "o.onnx", "--prices=no.json"), 1, "cannot read prices"),
    ],
)
def test_errors(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...],
    code: int, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    result = call(qopt, *(str(net) if a == "IN" else a for a in arguments))
    assert result.code == code and message in result.err
