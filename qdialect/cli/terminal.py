"""What people see on a terminal: diagnostics, colours, progress, tables.

What a terminal gets is drawn by `rich`; a pipe gets plain lines, and `rich` is not imported.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import IO, TYPE_CHECKING, TypeVar

from qdialect.errors import (
    Block,
    Note,
    PassFailure,
    QError,
    UsageError,
    Where,
    crash_report,
    culprit,
    foreign_frame,
    printable,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

OK, WRONG_INPUT, WRONG_USAGE, OUR_BUG = 0, 1, 2, 70

_COLOURS = {"error": "31", "remark": "34", "note": "90", "warning": "33", "good": "32", "bold": "1"}
T = TypeVar("T")
_NOT_OURS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO}
"""What is wrong with a disk, and not with us."""


def coloured(stream: IO[str]) -> bool:
    """Colour only on a terminal that has it, and never with NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and stream.isatty()


def columns(stream: IO[str]) -> int | None:
    """How many characters fit into a line; None where lines have no end, or nobody says."""
    if not stream.isatty():
        return None
    try:
        found = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(stream.fileno()).columns
    except (ValueError, OSError):
        return None
    return found if found > 0 else None


def paint(text: str, colour: str, stream: IO[str]) -> str:
    """`text` on one line, in a colour if `stream` shows colours."""
    text = printable(text)
    return f"\033[{_COLOURS[colour]}m{text}\033[0m" if coloured(stream) else text


def line(text: object) -> str:
    """A line of text for people: names in it cannot end it, nor do anything to a terminal."""
    return f"{printable(str(text))}\n"


def say(text: object, kind: str = "") -> None:
    """A line to standard error, after its kind in colour."""
    begin = f"{paint(kind, kind, sys.stderr)}: " if kind else ""
    sys.stderr.write(begin + line(text))


class Sources:
    """The texts diagnostics point into, by file name: those added, and files of MLIR."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, name: str, text: str) -> None:
        """Keep the text of a file."""
        self._lines[name] = text.split("\n")

    def line(self, name: str | None, number: int) -> str | None:
        """Line `number`, from 1, of a file; None where that is not known."""
        lines = self._lines.get(name or "")
        if lines is None and name is not None and name.endswith(".mlir"):
            from linecache import getlines

            lines = self._lines[name] = [line.rstrip("\n") for line in getlines(name)]
        return lines[number - 1] if lines and 0 < number <= len(lines) else None


def report(error: QError, sources: Sources | None = None) -> None:
    """Print an error: one line, the place in the text, the notes."""
    sources = sources or Sources()
    _report_line(error.where, "error", error.message, sources)
    for note in error.notes:
        place = note.where if isinstance(note, Note) else None
        _report_line(place, "note", note, sources, quote=place != error.where)
    for other in error.also:
        report(other, sources)


def _report_line(
    where: Where | None, kind: str, message: str, sources: Sources, *, quote: bool = True
) -> None:
    stream = sys.stderr
    place = f"{printable(str(where))}: " if where and str(where) else ""
    lines = message.split("\n") if isinstance(message, Block) else [message]
    stream.write(f"{place}{paint(kind, kind, stream)}: {''.join(map(line, lines))}")
    if where is None or where.line is None or not quote:
        return
    quoted = sources.line(where.file, where.line)
    if quoted is not None and len(quoted) < 1000:
        # A tab is as wide below.
        whole, before = (
            "\t".join(map(printable, text.split("\t")))
            for text in (quoted, quoted[: (where.column or 1) - 1])
        )
        blank = "".join("\t" if c == "\t" else " " for c in before)
        stream.write(f"{whole}\n{blank}{paint('^', 'good', stream)}\n")


def guarded(run: Callable[[Sequence[str]], int], argv: Sequence[str] | None) -> int:
    """Run a command; errors become messages and exit codes, never tracebacks."""
    if argv is None:
        # A command ends soon: collecting its cyclic IR again and again is lost time.
        gc.set_threshold(200_000, 20, 100)
        signal.signal(signal.SIGTERM, _terminated)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
            reconfigure(errors="backslashreplace")  # as standard error does
    try:
        code = run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except UsageError as error:
        report(error)
        return WRONG_USAGE
    except PassFailure as error:
        return crashed(error)
    except QError as error:
        report(error)
        return WRONG_INPUT
    except BrokenPipeError:
        # The reader of our output has gone; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        say("interrupted")
        return interrupted()
    except Exception as error:
        place = foreign_frame(error)
        if place is None and isinstance(error, OSError) and error.errno in _NOT_OURS:
            return _unwritable(error)
        if place is None:
            return crashed(error)
        report(QError(f"plug-in code failed in {place}: {culprit(error)}", code="bad-plugin"))
        return WRONG_INPUT
    finally:
        if argv is None:
            # Cycles end with the process; Python would look at each object for them once more.
            gc.freeze()


def _unwritable(error: OSError) -> int:
    """The disk is full, or what else one can do nothing about: no defect of ours."""
    if error.filename is None:
        # It is our output; what is left of it cannot be written at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    place = Where(str(error.filename or "<stdout>"))
    report(QError(f"cannot write: {error.strerror}", where=place, code="unwritable-file"))
    return WRONG_INPUT


_stopped_by: list[int] = []


def _terminated(number: int, frame: FrameType | None) -> None:
    _stopped_by.append(number)
    raise KeyboardInterrupt


def interrupted() -> int:
    """The exit code of a command that was stopped: by Ctrl-C, or asked to end."""
    exec("")  # Python ends itself by SIGINT where the last code from a text was interrupted
    return 128 + (_stopped_by[-1] if _stopped_by else signal.SIGINT)


def crashed(error: BaseException) -> int:
    """Report a defect of ours: one line, and the traceback in a file."""
    name = crash_report(error)
    say(f"internal error: {culprit(error)}")
    say(f"note: this is a defect of qdialect; details are in {name}")
    return OUR_BUG


def moving(stream: IO[str]) -> bool:
    """Whether a line of a stream can be written again and again."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def progress(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """The items; on a terminal with a bar and the time left, elsewhere silently."""
    if not moving(sys.stderr) or total <= 1:
        yield from items
        return
    with bar(sys.stderr) as shown:
        task = shown.add_task(label, total=total)
        for item in items:
            yield item
            shown.advance(task)


def bar(stream: IO[str]) -> Progress:
    """A bar for `with`, gone at the end: what is done, how much of all, the time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    texts = TextColumn("{task.description}", markup=False)
    drawn = BarColumn(bar_width=30)
    return Progress(
        texts, drawn, MofNCompleteColumn(), TimeLeft(), console=_console(stream), transient=True
    )


def _console(stream: IO[str], width: int | None = None) -> Console:
    """What draws on a stream: in colour where that has some."""
    from rich.console import Console

    return Console(
        file=stream,
        width=width or columns(stream),
        force_terminal=True,
        color_system="standard" if coloured(stream) else None,
        highlight=False,
        legacy_windows=False,
    )


def duration(seconds: float) -> str:
    """A time for people: `7 s`, `3:05`, `1:02:03`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = f"{whole // 60 % 60}:{whole % 60:02}"
    return minutes if whole < 3600 else f"{whole // 3600}:{minutes:0>5}"


def table(
    rows: Sequence[Sequence[str]],
    right: Mapping[int, bool] | None = None,
    *,
    stream: IO[str] | None = None,
    heading: bool = False,
) -> str:
    """Rows as aligned columns; the columns in `right` are right-aligned.

    For a `stream` that is a terminal, text goes on below in its column where a line is full,
    and the first row of a table with a `heading` is bold. Elsewhere a row is a line.
    """
    if not rows:
        return ""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    if stream is not None and stream.isatty():
        return _drawn(rows, widths, right or {}, stream, heading)
    lines = [
        "  ".join(
            cell.rjust(width) if (right or {}).get(i) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def indented(text: str) -> str:
    """Every line two characters to the right."""
    return "".join(f"  {line}".rstrip() + "\n" for line in text.splitlines())


_NARROWEST = 16
_INDENT = 4
"""Characters that those who print a table may put before it."""


def _drawn(
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    right: Mapping[int, bool],
    stream: IO[str],
    heading: bool,
) -> str:
    """The table as a terminal shows it: numbers whole, text in lines that fit; where there is
    no room for its columns, each row as a table of its own."""
    from io import StringIO

    from rich.table import Table
    from rich.text import Text

    least = [w if right.get(i) else min(w, _NARROWEST) for i, w in enumerate(widths)]
    between = 2 * (len(widths) - 1)
    most = (columns(stream) or sum(widths) + between + _INDENT) - _INDENT
    if heading and sum(least) + between > most:
        sides = (list(zip(rows[0], row, strict=True)) for row in rows[1:])
        return "\n".join(table(side, stream=stream) for side in sides)
    shown = Table(
        box=None, pad_edge=False, padding=(0, 1), show_header=heading, header_style="bold"
    )
    for index in range(len(widths)):
        shown.add_column(
            Text(rows[0][index]) if heading else "",
            justify="right" if right.get(index) else "left",
            no_wrap=bool(right.get(index)),
            overflow="fold",
        )
    for row in rows[1:] if heading else rows:
        shown.add_row(*map(Text, row))
    console = _console(stream, max(most, sum(least) + between))
    console.file = StringIO()
    console.print(shown)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())
