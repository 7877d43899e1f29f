"""The custom form of upstream's ops: what mlir-opt writes comes back as the same module."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from xdsl.irdl import IRDLOperation

from qdialect.cli.opt import main
from qdialect.errors import InputError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import parse_text, verify_module
from qdialect.plugins.mlir.upstream.names import DIALECTS_WITH_ROWS
from qdialect.plugins.mlir.upstream.syntax import format_of
from qdialect.plugins.mlir.upstream.table import dialects, find_row, names
from qdialect.plugins.mlir.write import module_text

needs_mlir_opt = pytest.mark.skipif(shutil.which("mlir-opt") is None, reason="no mlir-opt")
OTHER = Path(__file__).parent / "other_dialects.mlir"
TEXTS = sorted((Path(__file__).parent / "texts").glob("*.mlir"))


def written(text: str, *, generic: bool) -> str:
    """`text`, read and written here."""
    context = new_context(allow_unregistered=True)
    module = parse_text(text, context).module
    verify_module(module, context)
    return module_text(module, context, keep_names=False, generic=generic)


def mlir_opt(text: str, *options: str) -> str:
    """What mlir-opt prints for `text`."""
    command = ["mlir-opt", "-", "--allow-unregistered-dialect", *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_mlir_opt
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_the_module_is_the_same_in_both_forms(path: Path) -> None:
    custom = mlir_opt(path.read_text())
    expected = mlir_opt(custom, "--mlir-print-op-generic")
    for generic in (False, True):
        assert mlir_opt(written(custom, generic=generic), "--mlir-print-op-generic") == expected


@pytest.mark.parametrize("dialect", sorted(dialects()))
def test_every_row_is_read(dialect: str) -> None:
    """A format names what the row has; the types it leaves out have a known rule."""
    assert dialect in DIALECTS_WITH_ROWS
    for name in names(dialect):
        row = find_row(name)
        assert row is not None
        format_of(name)
        values = {value.name for value in (*row.operands, *row.results)}
        for value, (rule, source) in row.types.items():
            assert value in values, name
            assert rule in ("is", "attribute") or {*source.split(",")} <= values, name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%0 = arith.addi %x, %x", "expected ':'"),
        ("%0 = arith.cmpi nearly, %x, %x : i32", "expected one of: eq, ne"),
        (
            "%0 = tensor.dim %x, %x : i32",
            "type index, but has been .* with type i32",
        ),
        ("%0 = arith.frobnicate %x : i32", "frobnicate"),
        ("scf.for %i = %x to %x step %x : i32 { ", "expected"),
    ],
)
def test_wrong_text_is_an_error_with_a_place(text: str, message: str) -> None:

    source = f"func.func @f(%x: i32) {{\n  {text}\n  return\n}}"
    with pytest.raises(InputError) as error:
        written(source, generic=False)
    assert error.value.where is not None
    assert re.search(message, error.value.message), error.value.message


def test_classes_are_those_of_xdsl_where_it_has_one() -> None:
    from xdsl.dialects.scf import ForOp

    context = new_context()
    kind = context.get_op("scf.for")
    assert issubclass(kind, ForOp)
    assert context.get_op("scf.for") is kind
    made = context.get_op("tosa.conv2d")
    assert issubclass(made, IRDLOperation)
    assert {"input", "weight", "bias"} <= {name for name, _ in made.get_irdl_definition().operands}


@pytest.mark.parametrize("generic", [False, True])
def test_other_dialects_come_back_in_generic_form(generic: bool) -> None:
    text = OTHER.read_text()
    again = written(text, generic=generic)
    assert written(again, generic=True) == written(text, generic=True)
    of_others = r'"((?:affine|async|gpu|llvm|nvgpu|transform|vector)[.][^"]+)"\('
    assert re.findall(of_others, again) == re.findall(of_others, text)
    if generic and shutil.which("mlir-opt"):
        options = ("--mlir-print-op-generic", "--mlir-print-local-scope")
        assert mlir_opt(again, *options) == text


def test_other_dialects_make_round_trips() -> None:
    flags = ("--verify-roundtrip", "--canonicalize", "--cse", "-o", os.devnull)
    assert main([str(OTHER), *flags]) == 0


@pytest.mark.parametrize(
    "text",
    [
        "%0 = affine.apply affine_map<(d0) -> (d0 + 1)>(%x)",
        "affine.for %i = 0 to 4 { }",
        "%0 = async.execute { async.yield }",
        "%0 = gpu.block_id x",
        "llvm.br ^bb0",
        "memref.prefetch %x[%x], read, locality<3>, data : memref<4xf32>",
        "nvgpu.device_async_wait %x",
        'transform.structured.match ops{["a.b"]} in %x : (!transform.any_op) -> !transform.any_op',
        "%0 = vector.broadcast %x : index to vector<4xindex>",
        "%0 = unheard.of %x : index",
    ],
)
def test_an_unknown_custom_form_is_one_error(text: str) -> None:
    name = re.sub("%0 = ", "", text).split()[0]
    with pytest.raises(InputError) as error:
        written(f"func.func @f(%x: index) {{\n  {text}\n  return\n}}", generic=False)
    assert error.value.message == (
        f"no custom form of '{name}' is known here: write the file in generic form, with mlir-opt "
        "--mlir-print-op-generic"
    )
    where = error.value.where
    assert where is not None and (where.line, where.column) == (2, 3 + text.index(name))
