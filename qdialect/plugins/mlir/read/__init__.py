"""Reads MLIR, text or bytecode, into a module, and opens the file of weights that text names.

Every error in the text is an InputError with line and column: xDSL's exceptions do not leave
this room.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.utils.exceptions import DiagnosticException, MultipleSpansParseError, ParseError

from qdialect.errors import InputError, Note, QError, Where
from qdialect.ir.context import QContext
from qdialect.ir.ops.locations import op_where
from qdialect.ir.verify import verifier
from qdialect.ir.verify.verifier import BLOBS
from qdialect.plugins.mlir.bytecode.layout import MAGIC
from qdialect.plugins.mlir.read.parser import MLIRParser, Positions

if TYPE_CHECKING:
    from qdialect.plugins.mlir.bytecode.cursor import Data

__all__ = [
    "BLOBS",
    "Parsed",
    "bytecode_module",
    "decode",
    "is_bytecode",
    "load_module",
    "open_weights",
    "parse_text",
    "read_module",
    "read_text",
    "verify_module",
]

_OLD_MAGIC = b"\x89QMOD\r\n\x1a"


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
    is text or bytecode, whatever it is called.

    The module is not verified.  Its weight store, if it names one, is opened from
    `folder`, which is that of the file.  Without a folder the store stays closed.

    Raises InputError with the position in the text.
    """
    if isinstance(source, str):
        text = source
    else:
        path = Path(source)
        if is_bytecode(path):
            from qdialect.plugins.mlir.bytecode.read import mapped

            return bytecode_module(mapped(path), ctx, str(path))
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


def is_bytecode(path: Path) -> bool:
    """Whether a file begins like MLIR bytecode; False for one that cannot be read.

    InputError (`old-module-file`) for a `.qmod` file, which versions before 1.1 wrote.
    """
    try:
        with path.open("rb") as file:
            start = file.read(len(_OLD_MAGIC))
    except OSError:
        return False
    if start == _OLD_MAGIC:
        raise InputError(
            "a .qmod file, which is read no more",
            where=Where(str(path)),
            code="old-module-file",
            notes=(
                "let the version of qdialect that wrote it write text (qopt-opt x.qmod -o x.mlir); "
                "MLIR bytecode, .mlirbc, is in its place",
            ),
        )
    return start.startswith(MAGIC)


def bytecode_module(data: Data, ctx: QContext, name: str) -> ModuleOp:
    """The module of MLIR bytecode; InputError (`bad-bytecode`). It is not verified."""
    from qdialect.plugins.mlir.bytecode.read import module_of
    from qdialect.plugins.mlir.read.named_weights import take_weights

    module = module_of(data, ctx, name)
    take_weights(module, ctx)
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
        raise _parse_error(error, parser, positions) from None
    except RecursionError:
        raise _unreadable("nested too deeply", parser, positions) from None
    except Exception as error:
        # Of verifiers of types and attributes, or one that xDSL's parser does not expect.
        message = str(error).strip() or type(error).__name__
        if isinstance(error, ValueError) and "digits" in message:
            message = "integer value too large"  # of more digits than Python reads
        elif not isinstance(error, DiagnosticException):
            message = f"invalid syntax ({message})"
        raise _unreadable(message, parser, positions) from None
    if module.location is UNKNOWN_LOC:
        # The text has no `module`: as in mlir-opt it is at line 0.
        module.location = FileLineColLoc(StringAttr(name), IntAttr(0), IntAttr(0))
    ctx.external_resources.update(parser.external_resources)
    if "dense_resource" in text:
        from qdialect.plugins.mlir.read.named_weights import take_weights

        take_weights(module, ctx)
    if folder is not None:
        open_weights(module, ctx, folder)
    return Parsed(module, parser.external_resources)


def _parse_error(error: ParseError, parser: MLIRParser | None, positions: Positions) -> InputError:
    first = error.msg.strip("\n")
    undefined = parser.undefined() if parser and "values used but not defined" in first else []
    if undefined:
        wrong, *others = (_syntax_error(UNDECLARED, positions.where(at)) for at in undefined)
        wrong.also = tuple(others)
        return wrong
    dangling = re.match(r"region ends with missing block", first)
    if dangling and isinstance(error, MultipleSpansParseError):
        where = positions.where(error.refs[0][0].start)
        return _syntax_error("reference to an undefined block", where)
    return _faulty(error.msg, error.span.input.content, error.span.start, positions)


UNDECLARED = "use of undeclared SSA value name"
_OP = "expected an operation"

_CLEARER = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"^(?:Could not parse entire input|\s*in block definition).*", _OP),
        (r"^.*operation name expected", _OP),
        (r"^Expected ':'function.*", "expected ':' and the type of the op"),
        (r"^SSA value used before assignment", UNDECLARED),
        (r"^('.+?'|(?:function |string |block |@ |block-)?\w+) expected\b", r"expected \1"),
        (r"^Expected\b", "expected"),
        (r"[!.]$", ""),
    )
)
"""Parts of messages of xDSL's parser that say too little, and what is said in their place."""

_UNEXPECTED = re.compile(
    r"expected (?:'\W|(?:shape |vector element |argument or )?type|an operation|attribute|block|"
    r"successor|SSA value tuple size|result SSA value|string literal|region|(?:an )?operand)"
)
"""Messages about a token that cannot stand where it is."""


def _faulty(message: str, text: str, position: int, positions: Positions) -> InputError:
    """The error at a place of a text; an unexpected token is reported behind the one before it, so
    that an error at the end of a line does not point into the next."""
    first, *rest = message.strip("\n").split("\n")
    for pattern, words in _CLEARER:
        first = pattern.sub(words, first, count=1)
    if _UNEXPECTED.match(first):
        position = _behind_token(text, position)
    where = positions.where(position)
    wrong = _syntax_error(first, where)
    wrong.notes = tuple(Note(line.strip(), where) for line in rest if line.strip())
    return wrong


def _behind_token(text: str, position: int) -> int:
    """The end of the token before `position`: above blank lines and comments, too."""
    start = min(position, len(text))
    while True:
        while start and text[start - 1] in " \t":
            start -= 1
        if not start:
            return position
        if text[start - 1] not in "\n\r":
            return start
        start -= 1
        line = text.rfind("\n", 0, start) + 1
        comment = text.find("//", line, start)
        if comment >= 0:
            start = comment


def _syntax_error(message: str, where: Where) -> InputError:
    return InputError(message, where=where, code="syntax-error")


def _unreadable(message: str, parser: MLIRParser | None, positions: Positions) -> InputError:
    text, position = (parser.lexer.input.content, parser.pos) if parser else ("", 0)
    return _faulty(message, text, position, positions)


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
