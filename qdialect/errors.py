"""The errors qdialect raises for bad input.

Every error a user can cause is a `QError`: one sentence, a code a program can
match, and where in the input it happened.  Command-line tools print it and exit
with code 1; the embedding API lets it propagate.  Anything else that escapes is
a defect of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

from typing_extensions import Self


class Where(NamedTuple):
    """A place in an input: a text position, or a named node, or just a file."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    node: str | None = None

    def __str__(self) -> str:
        if self.line is not None:
            return f"{self.file or '<input>'}:{self.line}:{self.column or 1}"
        if self.node is not None:
            return f"{self.file}: node '{self.node}'" if self.file else f"node '{self.node}'"
        return self.file or ""


class Note(str):
    """A note below an error that has a place of its own."""

    where: Where | None

    def __new__(cls, text: str, where: Where | None) -> Self:
        """The note `text` about what is at `where`."""
        note = super().__new__(cls, text)
        note.where = where
        return note


class Block(Note):
    """Lines that name nothing but what is escaped in them, such as a traceback."""


class QError(Exception):
    """Base of all errors caused by input, options or a plug-in.

    `code` is stable and machine-readable (kebab-case); `notes` are printed as
    `note:` lines below the error, those that are `Note` with their place.
    """

    code: str
    also: tuple[QError, ...] = ()
    """Further errors that were found with this one."""

    def __init__(
        self,
        message: str,
        *,
        where: Where | None = None,
        code: str = "invalid-input",
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.code = code
        self.notes = notes

    def __str__(self) -> str:
        place = str(self.where) if self.where else ""
        return f"{place}: error: {self.message}" if place else f"error: {self.message}"


class InputError(QError):
    """The input (a file, IR text, a model, data) is wrong."""


def unwritable(path: object, error: OSError) -> InputError:
    """The error of a file or folder that cannot be written."""
    reason = error.strerror or str(error)
    return InputError(f"cannot write: {reason}", where=Where(str(path)), code="unwritable-file")


class UnsupportedError(QError):
    """The input is valid but asks for something that is not implemented."""

    def __init__(
        self,
        message: str,
        *,
        where: Where | None = None,
        code: str = "unsupported",
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, where=where, code=code, notes=notes)


class UsageError(QError):
    """An option, pass, target or level that does not exist (exit code 2)."""


class PassFailure(QError):
    """A pass of ours did something it must not: a defect (exit code 70)."""


def printable(text: str) -> str:
    """`text` as one line that moves no cursor, sets no colour and hides nothing: escapes stand for
    control characters, line breaks, and marks that turn the direction of text."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def culprit(error: BaseException) -> str:
    """`ValueError: what it said`, on one line."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


_OURS = frozenset({"qdialect", "xdsl", "numpy", "onnx", "onnxruntime", "__main__"})


def foreign_module(name: str) -> bool:
    """Whether the module `name` is a plug-in's: neither ours nor what ours is built on."""
    package = name.partition(".")[0]
    return package not in _OURS and package not in sys.stdlib_module_names


def foreign_frame(error: BaseException) -> str | None:
    """Where a plug-in's code took part in raising `error` (`package.module.function,
    line n`), or None if only ours did."""
    frame = error.__traceback__
    while frame is not None:
        module = str(frame.tb_frame.f_globals.get("__name__", ""))
        if foreign_module(module):
            return f"{module}.{frame.tb_frame.f_code.co_name}, line {frame.tb_lineno}"
        frame = frame.tb_next
    return None


def crash_report(error: BaseException) -> str:
    """Write the command line and the traceback to a new temporary file; its name."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="qdialect-crash-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"command: {sys.argv}\n")
        for lines in traceback.format_exception(type(error), error, error.__traceback__):
            file.writelines(f"{printable(line)}\n" for line in lines.splitlines())
    return file.name


def did_you_mean(word: str, words: Iterable[str], dashes: str = "") -> str:
    """`; did you mean 'x'?` where one of `words` is close to `word`, else nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(words), 1)
    return f"; did you mean '{dashes}{close[0]}'?" if close else ""
