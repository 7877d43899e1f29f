"""What a command imports: nothing heavy before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TINY = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""

HEAVY = (
    "numpy",
    "flint",
    "onnx",
    "onnxruntime",
    "google.protobuf",
    "dask",
    "qdialect.plugins.stablehlo.engine",
)


def _imported(arguments: list[str], module: str = "opt") -> set[str]:
    """The modules that are there when a command is done."""
    code = (
        "import sys, io\n"
        f"from qdialect.cli.{module} import main\n"
        "out, sys.stdout = sys.stdout, io.StringIO()\n"
        f"assert main({arguments!r}) == 0\n"
        "sys.stdout = out\n"
        "print(*sys.modules, sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split("\n"))


@pytest.fixture(name="tiny")
def _tiny(tmp_path: Path) -> str:
    path = tmp_path / "tiny.mlir"
    path.write_text(TINY, encoding="utf-8")
    return str(path)


def test_a_file_without_passes_needs_the_dialects_only(tiny: str) -> None:
    found = _imported([tiny])
    assert found.isdisjoint(HEAVY)
    ours = {name for name in found if name.startswith("qdialect.")}
    passes = ("analysis", "interpreter", "lowerings", "placement", "rewrite", "targets")
    assert [name for name in ours if name.split(".")[1] in passes] == []
    assert "xdsl.dialects.linalg" not in found


def test_a_tiny_file_needs_few_modules(tiny: str) -> None:
    """What is imported is what a start costs (1.1 times xDSL's core, measured)."""
    found = _imported([tiny])
    assert found.isdisjoint(
        (
            "difflib",
            "hashlib",
            "importlib.metadata",
            "json",
            "mmap",
            "qdialect.ir.behaviors.declaration",
            "qdialect.ir.ops.constants",
            "qdialect.ir.ops.contraction",
            "qdialect.ir.ops.elementwise",
            "qdialect.ir.ops.movement",
            "qdialect.ir.quant.types",
            "qdialect.plugins.mlir.read.line_templates",
            "qdialect.pipeline.registry",
            "qdialect.qparams",
            "uuid",
        )
    )
    assert sum(name.startswith("qdialect") for name in found) < 70


@pytest.mark.parametrize("passes", ["canonicalize", "cse,dce", "integerize", "fold-rescale"])
def test_a_pass_with_nothing_to_compute_needs_no_numpy(tiny: str, passes: str) -> None:
    assert _imported([tiny, "-p", passes]).isdisjoint(HEAVY)


@pytest.mark.parametrize("arguments", [["--list-passes"], ["--help"], ["--version"]])
def test_lists_need_no_xdsl(arguments: list[str]) -> None:
    found = _imported(arguments)
    assert found.isdisjoint((*HEAVY, "xdsl", "argparse", "importlib.metadata"))


@pytest.mark.parametrize(
    "command",
    ["optimize", "quantize", "run", "diff", "inspect", "profile", "engines install"],
)
def test_help_of_a_command_needs_no_xdsl(command: str) -> None:
    found = _imported([*command.split(), "--help"], "qopt")
    assert found.isdisjoint((*HEAVY, "xdsl", "argparse"))


def test_inspecting_a_text_needs_no_onnx(tiny: str) -> None:
    assert _imported(["inspect", tiny], "qopt").isdisjoint({"onnx", "onnxruntime"})
