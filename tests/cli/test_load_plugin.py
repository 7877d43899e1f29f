"""`--load-plugin`: every command that reads .mlir has the dialects, kernels and passes it names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from qdialect.cli.command_new_target import TEMPLATE
from qdialect.pipeline.plugins import VARIABLE
from qdialect.plugins.mlir.lsp.main import main as qopt_lsp
from tests.support.commands import Main, call, qopt, qopt_opt, qopt_translate

NET = """
func.func @main(%x: tensor<1x1x2x2x{0}>) -> tensor<1x1x2x2x{0}> {{
  %w = nn.constant dense<2> : tensor<1x1x1x1x{1}> : tensor<1x1x1x1x{0}>
  %0 = acme.conv_relu %x, %w strides [1, 1] pads [0, 0, 0, 0]
    : (tensor<1x1x2x2x{0}>, tensor<1x1x1x1x{0}>) -> tensor<1x1x2x2x{0}>
{2}  return %0 : tensor<1x1x2x2x{0}>
}}
"""
CODES = NET.format("!quant.uniform<i8:f32, 0.5>", "i8", "")
RELU = '  %1 = nn.relu %x {nn.key = "relu"} : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>\n'
FLOATS = NET.format("f32", "f32", RELU).replace("<2>", "<2.0>").replace("return %0", "return %1")
READ = [
    (qopt, ["inspect", "net.mlir"]),
    (qopt, ["explain", "net.mlir", "--target=generic"]),
    (qopt, ["optimize", "net.mlir", "-o=out.mlir", "--target=generic"]),
    (qopt, ["run", "net.mlir", "-i=x.npz", "-o=y.npz"]),
    (qopt, ["diff", "net.mlir", "net.mlir", "--samples=1"]),
    (qopt, ["profile", "floats.mlir", "-d=floats.npz", "-o=p.json"]),
    (qopt, ["quantize", "floats.mlir", "-d=floats.npz", "-o=q.mlir", "--target=tosa", "--time=0"]),
    (qopt_opt, ["net.mlir", "-p", "acme-fuse"]),
    (qopt_translate, ["--import-tosa", "net.mlir"]),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "net.mlir").write_text(CODES)
    (tmp_path / "floats.mlir").write_text(FLOATS)
    np.savez(tmp_path / "x.npz", allow_pickle=False, arg0=np.full((1, 1, 2, 2), 3, "i1"))
    np.savez(tmp_path / "floats.npz", allow_pickle=False, arg0=np.ones((2, 1, 2, 2), "f4"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(TEMPLATE))
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if name.partition(".")[0] == "acme":
            del sys.modules[name]


@pytest.mark.parametrize(("main", "arguments"), READ, ids=[each[1][0] for each in READ])
def test_a_command_has_what_it_names(main: Main, arguments: list[str]) -> None:
    without = call(main, *arguments)
    assert without.code != 0 and "acme" in without.err
    done = call(main, *arguments, "--load-plugin=acme.plugin")
    if arguments[0] == "quantize":  # it runs the float model in ONNX Runtime
        assert "'acme.conv_relu' has no ONNX form" in done.err
    else:
        assert done.code == 0, done.err
    assert not os.environ[VARIABLE]
    assert call(main, *arguments).code != 0  # the next command does not


def test_its_kernels_run(tmp_path: Path) -> None:
    assert call(qopt, *READ[3][1], "--load-plugin=acme.plugin").code == 0
    (result,) = np.load(tmp_path / "y.npz").values()
    np.testing.assert_array_equal(result, np.full((1, 1, 2, 2), 3, "i1"))  # 1.5 * 1.0 / 0.5


@pytest.mark.parametrize("main", [qopt, qopt_opt, qopt_translate, qopt_lsp])
def test_what_is_no_plug_in_is_an_error(main: Main) -> None:
    if main is qopt_lsp:
        pytest.importorskip("pygls")
    arguments = ["inspect", "net.mlir"] if main is qopt else []
    arguments = ["--import-tosa"] if main is qopt_translate else arguments
    done = call(main, *arguments, "--load-plugin=no_such")
    assert done.code == 2 and "cannot load plug-in 'no_such'" in done.err


def test_the_language_server_reads_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes are children, and get what it was started with by the environment."""
    code = (
        "from qdialect.plugins.mlir.lsp.checks import Options, session_for\n"
        "ctx = session_for('', Options())\n"
        "print(ctx.get_optional_op('acme.conv_relu') is not None)"
    )
    for named, found in (("", "False\n"), ("acme.plugin", "True\n")):
        paths = os.pathsep.join([str(TEMPLATE), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, VARIABLE: named, "PYTHONPATH": paths}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == found
