"""`--verify-diagnostics`: `expected-error {{text}}` comments against what was reported.

As in mlir-opt: `expected-KIND[-re] [@+N|@-N|@above|@below|@unknown] {{text}}`, where
KIND is error, warning, remark or note.  The text must occur in a diagnostic of that
kind on that line; with `-re`, `{{..}}` inside it is a regular expression.  Notes must be
expected if they have a place of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdialect.errors import InputError, Note, QError, Where

if TYPE_CHECKING:
    from qdialect.rewrite.remarks import Remark

_DESIGNATOR = re.compile(
    r"expected-(error|note|remark|warning)(-re)? *(@([+-][0-9]+|above|below|unknown))? *"
    r"\{\{(.*)\}\}\s*$"
)
_PLACE = re.compile(r"(.*):([0-9]+):([0-9]+)$")


@dataclass(frozen=True)
class Diagnostic:
    """One message on one line (None: nowhere in a text)."""

    kind: str
    line: int | None
    message: str
    where: Where | None = None
    notes: tuple[str, ...] = ()

    @staticmethod
    def of_error(error: QError) -> Diagnostic:
        """An error, with its notes."""
        line = error.where.line if error.where else None
        return Diagnostic("error", line, error.message, error.where, error.notes)

    @staticmethod
    def of_remark(remark: Remark) -> Diagnostic:
        """A remark, on the line of its op where that is known."""
        place = _PLACE.match(remark.location)
        line = int(place.group(2)) if place else None
        where = Where(place.group(1), line, int(place.group(3))) if place else None
        return Diagnostic("remark", line, str(remark).partition("remark: ")[2], where)


@dataclass
class _Expected:
    kind: str
    line: int | None
    pattern: re.Pattern[str]
    shown: str
    written: Where
    met: bool = False


class Expectations:
    """The designators of one text; `offset` lines stand before it in the file."""

    def __init__(self, text: str, name: str, offset: int = 0) -> None:
        self._expected: list[_Expected] = []
        below: list[_Expected] = []
        above = offset
        for number, line in enumerate(text.split("\n"), offset + 1):
            found = _DESIGNATOR.search(line)
            if found is None:
                above = number
                for expected in below:
                    expected.line = number
                below = []
                continue
            kind, is_regex, _, place, shown = found.groups()
            expected = _Expected(
                kind,
                _line(place, number, above),
                _pattern(shown, bool(is_regex)),
                shown,
                Where(name, number, found.start() + 1),
            )
            self._expected.append(expected)
            if place == "below":
                below.append(expected)

    def check(
        self, diagnostics: Iterable[Diagnostic], *, only_expected: bool = False
    ) -> list[InputError]:
        """What was reported and not expected (nothing, with `only_expected`), and what was
        expected and not reported."""
        complaints: list[InputError] = []
        for diagnostic in diagnostics:
            if not self._meet(diagnostic.kind, diagnostic.line, diagnostic.message):
                complaints.append(_unexpected(diagnostic.kind, diagnostic.message, diagnostic))
            for note in diagnostic.notes:
                is_placed = isinstance(note, Note)
                line = note.where.line if is_placed and note.where else diagnostic.line
                if not self._meet("note", line, note) and is_placed:
                    complaints.append(
                        _unexpected("note", note, Diagnostic("note", line, note, note.where))
                    )
        if only_expected:
            complaints.clear()
        complaints += [
            InputError(
                f'expected {expected.kind} "{expected.shown}" was not produced',
                where=expected.written,
                code="missing-diagnostic",
            )
            for expected in self._expected
            if not expected.met
        ]
        return complaints

    def _meet(self, kind: str, line: int | None, message: str) -> bool:
        for expected in self._expected:
            if (
                not expected.met
                and expected.kind == kind
                and expected.line == line
                and expected.pattern.search(message)
            ):
                expected.met = True
                return True
        return False


def _unexpected(kind: str, message: str, diagnostic: Diagnostic) -> InputError:
    return InputError(
        f"unexpected {kind}: {message}", where=diagnostic.where, code="unexpected-diagnostic"
    )


def _line(place: str | None, number: int, above: int) -> int | None:
    if place is None:
        return number
    if place == "unknown":
        return None
    if place == "above":
        return above
    return number if place == "below" else number + int(place)


def _pattern(shown: str, is_regex: bool) -> re.Pattern[str]:
    if not is_regex:
        return re.compile(re.escape(shown))
    pieces = re.split(r"\{\{(.*?)\}\}", shown)
    return re.compile(
        "".join(f"(?:{p})" if index % 2 else re.escape(p) for index, p in enumerate(pieces))
    )
