"""What is missing on a machine, and command lines that are wrong: one error with the way out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qdialect.ir.context import new_context
from qdialect.plugins.mlir.write import save_module
from tests.generators.sized import GRAPHS
from tests.support.commands import call, qopt

ROOT = Path(__file__).parents[2]
WITHOUT = """import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None
from qdialect.cli.qopt import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_module(GRAPHS["residual"](12, "qdq"), new_context(), tmp_path / "m.mlir")
    return tmp_path


def without(packages: str, *argv: str) -> tuple[int, str]:
    """The command where those packages are not installed: its exit code and errors."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, packages, *argv],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("packages", "line", "extra"),
    [
        ("onnx", "optimize m.mlir -o o.onnx", "onnx"),
        ("onnx", "inspect m.onnx", "onnx"),
        ("onnxruntime", "run m.mlir -i x.npz -o y.npz --engine onnxruntime", "onnx"),
        ("fast_sugiyama,grandalf", "inspect m.mlir --report r.html", "report"),
        ("fast_sugiyama,grandalf", "optimize m.mlir -o o.mlir --report r.html", "report"),
        ("fast_sugiyama,grandalf", "quantize m.mlir -o o.mlir -d x.npz --report r.html", "report"),
        ("dask,distributed", "profile m.mlir -d x.npz --engine dask", "dask"),
        ("iree,iree.compiler", "run m.mlir -i x.npz -o y.npz --engine iree", "iree"),
    ],
)
def test_a_missing_extra_is_told_with_what_to_install(
    folder: Path, packages: str, line: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("QDIALECT_ENGINES", str(folder / "none"))
    for name in [name for name in os.environ if name.startswith("QDIALECT_IREE")]:
        monkeypatch.delenv(name)
    if extra == "iree" and Path(sys.executable).with_name("iree-compile").exists():
        pytest.skip("iree-compile is installed beside this Python, and found there")
    (folder / "m.onnx").write_bytes(b"")
    np.savez(folder / "x.npz", arg0=np.zeros((1, 4, 8, 8), np.int8))
    before = sorted(folder.iterdir())
    code, told = without(packages, *line.split())
    assert code in (1, 2), told
    installs = rf"""pip install ["']qdialect\[{extra}\]["']|qopt engines install {extra}"""
    assert re.search(installs, told), told
    assert len(told.splitlines()) <= 3, told
    assert sorted(folder.iterdir()) == before


def test_what_is_only_for_looks_may_be_missing(folder: Path) -> None:
    """A pipe needs no `rich`."""
    assert without("rich", "inspect", "m.mlir") == (0, "")


@pytest.mark.parametrize(
    "line",
    [
        "optimize m.mlir -o {}/o.mlir",
        "optimize m.mlir -o o.mlir --report {}/r.html",
        "inspect m.mlir --report {}/r.html",
        "optimize m.mlir -o o.mlir --remarks={}/r.json",
        "run m.mlir -i x.npz -o {}/y.npz",
        "profile m.mlir -d x.npz -o {}/p.json",
        "quantize m.mlir -d x.npz -o {}/q.mlir",
        "quantize m.mlir -d x.npz -o q.mlir --report {}/r.html",
    ],
)
def test_where_one_may_not_write(folder: Path, line: str) -> None:
    place = folder / "locked"
    place.mkdir()
    place.chmod(0o500)
    if os.access(place, os.W_OK):
        # Root may write anywhere but where the kernel says no.
        place = Path("/sys")
        if not place.is_dir() or os.environ.get("QDIALECT_NO_SYS"):
            pytest.skip("nothing that root may not write")
    if "x.npz" in line:
        np.savez(folder / "x.npz", arg0=np.zeros((1, 4, 8, 8), np.int8))
    done = call(qopt, *line.format(place).split())
    assert done.code == 1
    first = done.err.splitlines()[-1]
    assert str(place) in first and "cannot write" in first, done.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "usage: qopt COMMAND"),
        ("optimize", "IN is missing"),
        ("optimize m.mlir", "-o OUT"),
        ("optimize m.mlir extra -o o.mlir", "unexpected argument 'extra'"),
        ("optimize m.mlir -o", "-o needs a value (OUT)"),
        ("optimize m.mlir -o o.txt", "must end in .onnx or .tflite or .circle or .mlir"),
        ("optimize m.mlir -o o.mlir --check=few", "takes an integer"),
        ("optimize m.mlir -o o.mlir --quiet=maybe", "true or false"),
        ("optimize m.mlir -o o.mlir --jobs=2", "is for a folder"),
        ("optimize m.mlir -o o.mlir --verbose", "unknown flag '--verbose'"),
        ("inspect m.txt", "cannot tell the kind"),
        ("inspect none.mlir", "No such file"),
        ("inspect m.mlir --report r.htm", "did you mean '.html'?"),
        ("diff m.mlir", "B is missing"),
        ("quantize m.mlir -o o.mlir", "--data DIR|NPZ or --profile P.json"),
        ("explain m.mlir --op a --rule b", "--rule and --code are for all ops"),
        ("explain m.mlir --rule integerise", "did you mean 'integerize'?"),
        ("explain m.mlir --code float-operands", "a condition 'float-operands'"),
        ("completion tcsh", "tcsh"),
    ],
)
def test_wrong_command_lines(folder: Path, line: str, said: str) -> None:
    done = call(qopt, *line.split())
    assert said in done.err + done.out
    assert done.code in (1, 2) or not line
    assert "Traceback" not in done.err and len(done.err.splitlines()) <= 3


def test_an_error_shows_the_line_and_where_in_it(folder: Path) -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = nn.relu %yy : "
    text += "(tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"
    (folder / "bad.mlir").write_text(text)
    done = call(qopt, "inspect", "bad.mlir")
    first, line, caret = done.err.splitlines()
    assert first == "bad.mlir:2:16: error: use of undeclared SSA value name"
    assert line[caret.index("^") :].startswith("%yy")
