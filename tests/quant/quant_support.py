"""Parsing, printing and comparing quant IR in tests."""

from __future__ import annotations

import glob
import os
import re
import shutil
import sysconfig
from io import StringIO
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from qdialect.ir.quant import Quant
from qdialect.ir.quant.strict import QuantChecker

CASES = Path(__file__).parent / "cases"


def context() -> Context:
    """Every stock dialect and ours, with unknown ops allowed (mlir-opt knows them)."""
    ctx = Context(allow_unregistered=True)
    for name, factory in get_all_dialects().items():
        ctx.register_dialect(name, factory)
    ctx.load_dialect(Quant)
    return ctx


def parse_module(text: str) -> ModuleOp:
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def parse_type(text: str) -> Attribute:
    return Parser(context(), text).parse_type()


def rejection(text: str) -> str | None:
    """The message with which `text` is rejected, None if it is accepted."""
    try:
        module = parse_module(text)
    except ParseError as error:
        return error.msg.partition("\n")[0]
    except VerifyException as error:
        cause = error.__cause__ if isinstance(error.__cause__, VerifyException) else error
        return str(cause).removeprefix("Operation does not verify: ")
    return structure_error(module)


def structure_error(module: ModuleOp) -> str | None:
    """The first of `QuantChecker`'s structure rules that a module breaks."""
    checker = QuantChecker(strict=False)
    errors = (checker.structure_error(op) for op in module.walk())
    return next((message for message in errors if message is not None), None)


def print_generic(module: ModuleOp) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    return stream.getvalue()


def normalized(text: str) -> list[str]:
    """MLIR text without what stock xDSL prints differently from mlir-opt: names of
    values, order of properties, `builtin.module`, `func.return`, the empty result list
    of a declaration and the type of i64 integers in lists."""
    text = text.replace("builtin.module", "module").replace('"module"', '"builtin.module"')
    text = text.replace(" func.return", " return")
    text = re.sub(r"^(  func\.func private @.*\)) -> \(\)", r"\1", text, flags=re.M)
    text = re.sub(r"(?<=[\[,] |.\[)(-?\d+) : i64", r"\1", text)
    text = re.sub(r"<\{(.*?)\}>( \(\{|$| :)", _sorted_properties, text, flags=re.M)
    lines: list[str] = []
    names: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        if "func.func" in line:
            names = {}
        for name in re.findall(r"%[\w$.-]+", line):
            names.setdefault(name, f"%{len(names)}")
        lines.append(re.sub(r"%[\w$.-]+", lambda m, names=names: names[m[0]], line))
    return lines


def _sorted_properties(match: re.Match[str]) -> str:
    parts = re.split(r", (?=\w+ = )", match[1])
    return f"<{{{', '.join(sorted(parts))}}}>{match[2]}"


def find_mlir_opt() -> str | None:
    """mlir-opt 22: $QDIALECT_MLIR_OPT, else the PATH, else this interpreter's site-packages."""
    chosen = os.environ.get("QDIALECT_MLIR_OPT")
    if chosen:
        return chosen
    bundled = glob.glob(f"{sysconfig.get_path('purelib')}/mlir/bin/mlir-opt")
    return shutil.which("mlir-opt") or (bundled[0] if bundled else None)


def find_iree_opt() -> str | None:
    """iree-opt: $QDIALECT_IREE_OPT, else the PATH, else beside this interpreter."""
    chosen = os.environ.get("QDIALECT_IREE_OPT")
    beside = Path(sysconfig.get_path("scripts"), "iree-opt")
    return chosen or shutil.which("iree-opt") or (str(beside) if beside.exists() else None)
