"""`qopt-opt` takes the flags of mlir-opt, and does with them what mlir-opt does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qdialect.plugins.common.tools import find
from tests.support.commands import Result, call, qopt_opt

TEXT = """#name = loc("xx"(unknown))
module @m {
  func.func @f(%x: i32 loc("yy")) -> i32 {
    %0:2 = "foo.a"() : () -> (i32, i32) loc(#name)
    %1 = arith.addi %x, %x : i32 loc("xx"("a.py":1:2))
    %2 = arith.addi %x, %x : i32
    %c = "foo.r"(%1, %2) ({
    ^bb0(%z: i32):
      "foo.t"(%z, %0#1) : (i32, i32) -> ()
    }) : (i32, i32) -> i32 loc(fused["a", "b"])
    %d = arith.constant dense<[1, 2, 3]> : tensor<3xi32>
    "foo.use"(%d) : (tensor<3xi32>) -> ()
    cf.br ^bb1(%1 : i32)
  ^bb1(%p: i32):
    return %p : i32
  }
  func.func @g() {
    return
  }
}
"""

SAME = (
    "--cse",
    "-cse",
    "--mlir-print-value-users",
    "--mlir-print-value-users --mlir-print-op-generic",
    "--mlir-use-nameloc-as-prefix",
    "--mlir-print-unique-ssa-ids",
    "--mlir-print-skip-regions",
    "--mlir-elide-elementsattrs-if-larger=2",
    "--mlir-print-elementsattrs-with-hex-if-larger=2",
    "--verify-roundtrip",
    "--no-implicit-module",
    "--split-input-file",
    "--split-input-file=//:::: --output-split-marker=//y",
    "--cse --dump-pass-pipeline",
    "--pass-pipeline=builtin.module(func.func(cse),any(cse))",
    "--pass-pipeline=builtin.module(builtin.module(cse))",
)
"""Flags with which the output is that of mlir-opt."""


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    path = tmp_path / "x.mlir"
    path.write_text(f"{TEXT}//::::\n{TEXT}", encoding="utf-8")
    return path


def ours(path: Path, flags: str) -> Result:
    return call(qopt_opt, "--allow-unregistered-dialect", *flags.split(), str(path))


@pytest.mark.parametrize("flags", SAME)
def test_flags_do_what_they_do_in_mlir_opt(flags: str, path: Path) -> None:
    tool = find("mlir-opt", "mlir")
    if tool is None:
        pytest.skip("mlir-opt is not installed")
    if "//::::" not in flags:
        path.write_text(TEXT, encoding="utf-8")
    done = subprocess.run(
        [tool, "--allow-unregistered-dialect", *flags.split(), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    result = ours(path, flags)
    assert result.code == 0, result.err
    assert result.out == done.stdout


def test_passes_run_in_their_order_with_their_options(path: Path) -> None:
    flags = "--dce --canonicalize=max-num-rewrites=3 --cse --dump-pass-pipeline"
    path.write_text(TEXT, encoding="utf-8")
    passes = "dce,canonicalize{max-num-rewrites=3},cse"
    assert passes in "".join(ours(path, flags).err.split())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--canonicalise", "unknown flag '--canonicalise'; did you mean '--canonicalize'?"),
        ("--mlir-print-value-user", "did you mean '--mlir-print-value-users'?"),
        ("--cse -p dce", "'-pass-pipeline' option can't be used with individual pass options"),
        ("--canonicalize=top-down=false", "'top-down=false' is not supported"),
        ("--canonicalize=region-simplify=aggressive", "not supported"),
        ("--canonicalize=max-iterations=2", "'max-iterations' is not supported"),
        ("--canonicalize=disable-patterns=foo", "has no pattern 'foo'"),
        ("--verify-diagnostics=some", "--verify-diagnostics is all or only-expected"),
        ("--mlir-elide-elementsattrs-if-larger=x", "takes an integer of at least 0"),
    ],
)
def test_what_is_not_done_is_refused(flags: str, message: str, path: Path) -> None:
    path.write_text(TEXT, encoding="utf-8")
    result = ours(path, flags)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("error: ") == 1


def test_ir_goes_to_files_of_a_tree(path: Path, tmp_path: Path) -> None:
    path.write_text(TEXT, encoding="utf-8")
    tree = tmp_path / "tree"
    flags = "--cse --dce --mlir-print-ir-before=cse --mlir-print-ir-after-all"
    assert ours(path, f"{flags} --mlir-print-ir-tree-dir={tree}").err == ""
    written = sorted(file.relative_to(tree) for file in tree.rglob("*.mlir"))
    names = [f"builtin_module_m/{name}.mlir" for name in ("0_cse", "1_cse", "2_dce")]
    assert [str(name) for name in written] == names
    assert "IR Dump Before cse" in (tree / names[0]).read_text(encoding="utf-8")


def test_what_passes_did_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.mlir"
    path.write_text(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  %1 = nn.relu %0 : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  return %1 : tensor<4xf32>\n}\n",
        encoding="utf-8",
    )
    said = ours(path, "--canonicalize --debug-only=repeated-clamp").err
    assert "[canonicalize]" in said and "repeated-clamp fired" in said
    assert ours(path, "--canonicalize --debug-only=fold-rescale").err == ""


def test_reproducers_can_be_made_without_a_failure(path: Path, tmp_path: Path) -> None:
    path.write_text(TEXT, encoding="utf-8")
    reproducer = tmp_path / "again.mlir"
    first = ours(path, f"--cse --mlir-generate-reproducer={reproducer}")
    assert ours(reproducer, "--run-reproducer").out == first.out


def test_notes_below_errors_can_be_chosen(path: Path) -> None:
    path.write_text(
        'func.func @f() {\n  "foo.use"(%0) : (i32) -> ()\n'
        '  %0 = "foo.def"() : () -> i32\n  return\n}\n',
        encoding="utf-8",
    )
    everything = ours(path, "").err
    assert f"{path}:2:3: error: 'foo.use' op operand #0 does not dominate this use" in everything
    assert f"{path}:3:8: note: operand #0 is defined here" in everything
    assert ours(path, "--mlir-print-op-on-diagnostic=false").err == everything
    assert "note:" not in ours(path, "--mlir-disable-diagnostic-notes").err
    assert (
        "diagnostic emitted with trace" in ours(path, "--mlir-print-stacktrace-on-diagnostic").err
    )
