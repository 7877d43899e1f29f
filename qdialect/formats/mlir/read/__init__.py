"""Reads MLIR text into a module, and opens the file of weights that the module names.

Every error in the text is an InputError with line and column: xDSL's exceptions do not leave
this room.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.utils.exceptions import DiagnosticException, MultipleSpansParseError, ParseError
from xdsl.utils.lexer import Span

from qdialect.context import QContext
from qdialect.dialects.module_format import SUFFIX
from qdialect.errors import InputError, QError, Where
from qdialect.formats.mlir.read.parser import MLIRParser, Positions
from qdialect.ops.locations import op_where
from qdialect.verify import verifier
from qdialect.verify.verifier import BLOBS

__all__ = [
    "BLOBS",
    "Parsed",
    "load_module",
    "open_weights",
    "parse_text",
    "read_module",
    "read_text",
    "verify_module",
]


class Parsed(NamedTuple):
    """A module, and the entries of `{-# external_resources #-}` in its text."""

    module: ModuleOp
    external_resources: dict[str, dict[str, str | bool]]


def read_module(
    source: str | os.PathLike[str],
    ctx: QContext,
    name: str = "<stdin>",
    *,
    folder: Path | None = None,
    line_offset: int = 0,
) -> ModuleOp:
    """The module in `source`: MLIR text (a `str`) or the path of a file (a `Path`), which
    is text, or a `.qmod` file that `save_module` wrote.

    The module is not verified.  Its weight store, if it names one, is opened from
    `folder`, which is that of the file.  Without a folder the store stays closed.

    Raises InputError with the position in the text.
    """
    if isinstance(source, str):
        text = source
    else:
        path = Path(source)
        if path.suffix == SUFFIX:
            return _read_module_file(path, ctx)
        text, name, folder = read_text(path), str(path), path.parent
    return parse_text(text, ctx, name, folder=folder, line_offset=line_offset).module


def load_module(path: str | os.PathLike[str], ctx: QContext) -> ModuleOp:
    """The verified module in the file at `path`, with its weights."""
    module = read_module(Path(path), ctx)
    verify_module(module, ctx)
    return module


def verify_module(module: ModuleOp, ctx: QContext) -> None:
    """Raise InputError (`invalid-ir`) for the first op that breaks a rule, with its place."""
    verifier.verify_module(module, ctx.blobs, behaviors=ctx.declared)


def _read_module_file(path: Path, ctx: QContext) -> ModuleOp:
    from qdialect.formats.qmod.read import module_of

    module = module_of(_read_bytes(path), ctx, str(path))
    open_weights(module, ctx, path.parent)
    return module


def read_text(path: Path) -> str:
    """The contents of a file; InputError when it cannot be read or is not UTF-8."""
    return decode(_read_bytes(path), str(path))


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"cannot open input file: {reason}", where=Where(str(path)), code="unreadable-file"
        ) from None


def decode(data: bytes, name: str) -> str:
    """Bytes as text; InputError at the first byte that is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise InputError(
            "text is not valid UTF-8", where=Where(name, line, column), code="not-utf8"
        ) from None


def parse_text(
    text: str,
    ctx: QContext,
    name: str = "<stdin>",
    *,
    folder: Path | None = None,
    line_offset: int = 0,
    parser_class: type[MLIRParser] = MLIRParser,
) -> Parsed:
    """Like `read_module` on text, with the text's external resources."""
    positions = Positions(text, name, line_offset)
    parser: MLIRParser | None = None
    try:
        parser = parser_class(ctx, text, positions)
        module = parser.parse_module()
    except QError as error:
        error.where = error.where or positions.where(parser.pos if parser else 0)
        raise
    except ParseError as error:
        raise _parse_error(error, positions) from None
    except RecursionError:
        raise _unreadable("nested too deeply", parser, positions) from None
    except Exception as error:
        # Of verifiers of types and attributes, or one that xDSL's parser does not expect.
        message = str(error).strip() or type(error).__name__
        if not isinstance(error, DiagnosticException):
            message = f"invalid syntax ({message})"
        raise _unreadable(message, parser, positions) from None
    if module.location is UNKNOWN_LOC:
        # The text has no `module`: as in mlir-opt it is at line 0.
        module.location = FileLineColLoc(StringAttr(name), IntAttr(0), IntAttr(0))
    ctx.external_resources.update(parser.external_resources)
    if folder is not None:
        open_weights(module, ctx, folder)
    return Parsed(module, parser.external_resources)


def _parse_error(error: ParseError, positions: Positions) -> InputError:
    first, *rest = error.msg.strip().split("\n")
    notes = [line.strip() for line in rest if line.strip()]
    if isinstance(error, MultipleSpansParseError):
        if error.ref_text:
            notes.append(error.ref_text)
        notes += [f"{positions.where(span.start)}: {message or ''}" for span, message in error.refs]
    where = positions.where(_culprit(first, error.span))
    return InputError(first, where=where, code="syntax-error", notes=tuple(notes))


def _culprit(message: str, span: Span) -> int:
    """The position of the error: the first use of an undefined value, which the parser reports
    at the end of the function, else the span."""
    undefined = re.search(r"values used but not defined: \[(%[\w$.-]+)", message)
    found = undefined and re.search(rf"{re.escape(undefined[1])}(?![\w$.-])", span.input.content)
    return found.start() if found else span.start


def _unreadable(message: str, parser: MLIRParser | None, positions: Positions) -> InputError:
    first, *rest = message.split("\n")
    notes = tuple(line.strip() for line in rest if line.strip())
    where = positions.where(parser.pos if parser else 0)
    return InputError(first, where=where, code="syntax-error", notes=notes)


def open_weights(module: ModuleOp, ctx: QContext, folder: Path) -> None:
    """Open the weight store in `folder` that `module` names, if it names one; InputError if that
    cannot be."""
    name = module.attributes.get(BLOBS)
    if name is None:
        return
    where = op_where(module)
    if not isinstance(name, StringAttr) or not name.data:
        raise InputError(f"'{BLOBS}' must be a file name", where=where, code="bad-weight-store")
    ctx.blobs.open(weight_path(name.data, folder, where))


def weight_path(name: str, folder: Path, where: Where | None = None) -> Path:
    """The weight store `name` in `folder`; InputError when it would be outside."""
    relative = PurePosixPath(name.replace("\\", "/"))
    path, first = folder / relative, relative.parts[:1]
    escapes = relative.is_absolute() or ".." in relative.parts or ":" in "".join(first)
    try:
        outside = escapes or not path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # too long, no text, a circle of links
        first = ()
        outside = False
    if outside or not first:
        fault = "is outside the folder of the module" if outside else "is no name of a file"
        raise InputError(f"weight store {name!r} {fault}", where=where, code="bad-weight-store")
    return path
