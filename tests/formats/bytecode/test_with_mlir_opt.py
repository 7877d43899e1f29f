"""What mlir-opt writes is read, what we write it reads, and nothing is lost on the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from qdialect.errors import QError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import bytecode_module
from qdialect.plugins.mlir.write import bytecode
from tests.formats.bytecode.test_module_bytes import ATTRIBUTES, TYPES
from tests.generators.generic_text import generic_text

OPS = """
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<2x4xf32>, %n: index,
             %d: memref<?xf32>) {
  %0 = linalg.matmul ins(%a, %b : tensor<2x3xf32>, tensor<3x4xf32>) outs(%c : tensor<2x4xf32>)
    -> tensor<2x4xf32>
  %1 = arith.addi %n, %n overflow<nsw> : index
  %2 = index.add %n, %1
  %3 = tosa.reduce_sum %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %4 = memref.alloca(%n) : memref<?xf32>
  %6 = arith.constant 1.0 : f32
  %5 = memref.load %d[%n] : memref<?xf32>
  scf.for %i = %n to %1 step %2 {
    memref.store %6, %4[%i] : memref<?xf32>
  }
  return
}
"""


_BUNDLED = f"{sysconfig.get_path('purelib')}/mlir/bin/mlir-opt"


def _mlir(data: bytes, *flags: str) -> bytes:
    command = os.environ.get("QDIALECT_MLIR_OPT") or shutil.which("mlir-opt") or _BUNDLED
    if not Path(command).exists():
        pytest.skip("no mlir-opt 22: set QDIALECT_MLIR_OPT, or install qdialect[mlir]")
    known = "--allow-unregistered-dialect"
    done = subprocess.run([command, known, *flags, "-"], input=data, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[:500]
    return done.stdout


def _generic(data: bytes) -> bytes:
    return _mlir(
        data, "--mlir-print-op-generic", "--mlir-print-debuginfo", "--mlir-print-local-scope"
    )


def _modules(texts: list[str]) -> bytes:
    """One module of modules."""
    inner = "\n".join(texts)
    return f'"builtin.module"() ({{\n{inner}\n}}) : () -> ()'.encode()


SOURCES = {
    "attributes": f"module {{ {ATTRIBUTES} }}".encode(),
    "types": TYPES.replace("0.1:-8", "0.1:8").encode(),
    "ops": OPS.encode(),
    "random": _modules([generic_text(seed) for seed in range(20)]),
}


@pytest.mark.parametrize("version", [0, 3, 4, 5, 6])
@pytest.mark.parametrize("source", SOURCES)
def test_there_and_back(source: str, version: int) -> None:
    theirs = _mlir(SOURCES[source], "--emit-bytecode", f"--emit-bytecode-version={version}")
    ctx = new_context(allow_unregistered=True)
    module = bytecode_module(theirs, ctx, "x.mlirbc")
    ours = b"".join(bytes(piece) for piece in bytecode(module, ctx))
    assert _generic(ours) == _generic(theirs)


def test_ops_of_other_dialects() -> None:
    """Version 4 keeps their properties; how later ones encode them nobody here knows."""
    text = (Path(__file__).parents[2] / "upstream/other_dialects.mlir").read_bytes()
    ctx = new_context(allow_unregistered=True)
    module = bytecode_module(_mlir(text, "--emit-bytecode", "--emit-bytecode-version=4"), ctx, "x")
    assert _generic(b"".join(bytes(piece) for piece in bytecode(module, ctx))) == _generic(text)
    for act in (
        lambda: bytecode_module(_mlir(text, "--emit-bytecode"), ctx, "x"),
        lambda: list(bytecode(module, ctx, version=6)),
    ):
        with pytest.raises(QError, match=r"properties of 'affine[.]apply' .* not known") as error:
            act()
        assert "--emit-bytecode-version=4" in error.value.notes[0]
