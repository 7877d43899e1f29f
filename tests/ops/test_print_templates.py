"""Printing with templates gives what the printer gives, byte by byte."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects import test as other
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr
from xdsl.printer import Printer

from qdialect.context import QContext, new_context
from qdialect.errors import QError
from qdialect.formats.mlir.read import read_module
from qdialect.formats.mlir.write import module_text
from qdialect.formats.mlir.write import printer as mlir_printer
from qdialect.formats.mlir.write.line_templates import LineTemplates
from qdialect.formats.mlir.write.printer import MLIRPrinter
from tests.generators.programs import random_program
from tests.generators.sized import FORMS, GRAPHS

ROOT = Path(__file__).parents[2]
WAYS: list[dict[str, Any]] = [
    {"generic": generic, "debuginfo": debuginfo, "keep_names": names}
    for generic in (False, True)
    for debuginfo in (False, True)
    for names in (False, True)
]


@pytest.fixture(autouse=True)
def _few_ops_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir_printer, "TEMPLATES_AFTER", 0)


def _text(module: ModuleOp, ctx: QContext, **options: Any) -> object:
    """The text, or all that is told of the error."""
    try:
        return module_text(module, ctx, **options)
    except QError as error:
        return type(error), error.message, error.code, error.where, error.notes


def _plain_text(module: ModuleOp, ctx: QContext, **options: Any) -> object:
    """The same without templates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LineTemplates, "pattern", lambda self, op: None)  # type: ignore[misc]
        return _text(module, ctx, **options)


def _compare(module: ModuleOp, ctx: QContext, **options: Any) -> None:
    for way in WAYS:
        assert _text(module, ctx, **way, **options) == _plain_text(module, ctx, **way, **options)


def _texts() -> list[Path]:
    return sorted([*ROOT.glob("lit_tests/**/*.mlir"), *ROOT.glob("tests/**/*.mlir")])


@pytest.mark.parametrize("part", range(4))
def test_files_of_the_tests(part: int) -> None:
    compared = 0
    for path in _texts()[part::4]:
        for piece in path.read_text(encoding="utf-8", errors="replace").split("// -----\n"):
            ctx = new_context(allow_unregistered=True)
            try:
                module = read_module(piece, ctx, "in.mlir")
            except QError:
                continue
            compared += 1
            _compare(module, ctx)
            v22 = {"text_version": "v22"}
            assert _text(module, ctx, **v22) == _plain_text(module, ctx, **v22)
            for op in module.walk():
                for value in (*op.operands, *op.results):
                    if isinstance(value.type, TensorType):
                        _as_stock(value.type)
    assert compared > 20


def _as_stock(kind: TensorType[Any]) -> None:
    ours, theirs = StringIO(), StringIO()
    MLIRPrinter(stream=ours).print_attribute(kind)
    Printer(stream=theirs).print_attribute(kind)
    assert ours.getvalue() == theirs.getvalue()


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int) -> None:
    for seed in range(part * 25, part * 25 + 25):
        module, ctx = random_program(seed, 8)
        _compare(module, ctx)
        _compare(module, ctx, inline_weights=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_networks_are_printed_with_templates(
    graph: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, ctx = GRAPHS[graph](200, form), new_context()
    _compare(module, ctx)
    made = 0
    plain = LineTemplates.text

    def text(self: LineTemplates, *arguments: Any) -> str | None:
        nonlocal made
        found = plain(self, *arguments)
        made += found is not None
        return found

    monkeypatch.setattr(LineTemplates, "text", text)
    module_text(module, ctx)
    assert made > 0.8 * sum(1 for _ in module.walk())


LINES = """
func.func @f(%x: tensor<4xf32>, %y: tensor<?xf32>) -> () {
  %0 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.relu %x {nn.key = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.relu %y {nn.key = ["a", "b"]} : (tensor<?xf32>) -> tensor<?xf32>
  %3 = nn.relu %y {nn.key = ["a", "b"]} : (tensor<?xf32>) -> tensor<?xf32>
  %4 = nn.relu %0 {nn.key = "\\22\\0A", z} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = nn.relu %0 {nn.key = "\\22\\0A", z} : (tensor<4xf32>) -> tensor<4xf32>
  %6 = nn.relu %0 {a = "nn.key = \\22k\\22", nn.key = "k"} : (tensor<4xf32>) -> tensor<4xf32>
  %7 = nn.relu %0 {a = "nn.key = \\22k\\22", nn.key = "l"} : (tensor<4xf32>) -> tensor<4xf32>
  %8 = nn.relu %0 {a = "\\0A", nn.key = "k"} : (tensor<4xf32>) -> tensor<4xf32>
  %9 = nn.relu %0 {a = "\\0A", nn.key = "l"} : (tensor<4xf32>) -> tensor<4xf32>
  %10 = nn.constant dense<7> : tensor<i8> {nn.key = "k"} : tensor<i8>
  %11 = nn.constant dense<8> : tensor<i8> {nn.key = "k"} : tensor<i8>
  %12 = nn.constant dense<7> : tensor<i8> {v = dense<7> : tensor<i8>} : tensor<i8>
  %13 = nn.constant dense<8> : tensor<i8> {v = dense<7> : tensor<i8>} : tensor<i8>
  %14:2 = nn.split %x sizes [2, 2] : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %15:2 = nn.split %x sizes [2, 2] : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %a, %b = nn.split %x sizes [2, 2] : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  "x.y"(%x) {k = 1 : i64} : (tensor<4xf32>) -> ()
  "x.y"(%x) {k = 1 : i64} : (tensor<4xf32>) -> ()
  return
}
"""


@pytest.mark.parametrize("names", ["%", "%n"])
def test_lines_that_are_nearly_usual(names: str) -> None:
    ctx = new_context(allow_unregistered=True)
    _compare(read_module(LINES.replace("%", names), ctx), ctx)


def test_function_types_among_the_results() -> None:
    ctx = new_context(allow_unregistered=True)
    lines = "".join(
        f'  "test.op"() {{k}} : () -> {kind}\n'
        for kind in ("i32", "i32", "(() -> i32)", "(() -> i32)", "(i32, () -> i32)")
    )
    _compare(read_module(f"func.func @f() {{\n{lines}  return\n}}\n", ctx), ctx)


def test_ops_of_which_the_printer_knows_nothing() -> None:
    ops = [
        other.TestOp(result_types=[other.TestType("a")], attributes={"k": UnitAttr()})
        for _ in range(3)
    ]
    _compare(ModuleOp(list(ops)), new_context())
