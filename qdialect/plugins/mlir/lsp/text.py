"""The text of a document: offsets to the positions of the protocol and back, and edits.

Positions are a line and a number of code units of UTF-16, unless the client and the server agreed
on UTF-8 or UTF-32. Lines end at LF, CR LF or CR, and at nothing else.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal, NamedTuple

Unit = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END = re.compile(r"\r\n|\n|\r")


class Place(NamedTuple):
    """A position of the protocol: a line and a column in code units, both from 0."""

    line: int
    character: int


class Text:
    """One version of a document."""

    def __init__(
        self, content: str, unit: Unit = "utf-16", starts: list[int] | None = None
    ) -> None:
        self.content = content
        self.unit: Unit = unit
        #: where each line starts
        self.starts = [0, *_starts(content, 0)] if starts is None else starts

    def place(self, offset: int) -> Place:
        """The position of the character at `offset`."""
        offset = max(0, min(offset, len(self.content)))
        line = bisect_right(self.starts, offset) - 1
        return Place(line, self._units(self.content[self.starts[line] : offset]))

    def offset(self, line: int, character: int) -> int:
        """The offset of a position; a column behind the end of its line is that end."""
        if line < 0:
            return 0
        if line >= len(self.starts):
            return len(self.content)
        start, end = self.starts[line], self._end(line)
        row = self.content[start:end]
        if row.isascii() or self.unit == "utf-32":
            return start + max(0, min(character, len(row)))
        passed = 0
        for index, letter in enumerate(row):
            passed += self._units(letter)
            if passed > character:
                return start + index
        return end

    def edited(self, start: Place, end: Place, replacement: str) -> Text:
        """The text with `replacement` for what is between two positions."""
        first = self.offset(start.line, start.character)
        last = max(first, self.offset(end.line, end.character))
        content = self.content[:first] + replacement + self.content[last:]
        # A line end may be put together or taken apart at either side of the edit.
        keep = bisect_right(self.starts, max(0, first - 1))
        resume = bisect_right(self.starts, last + 1)
        shift = len(content) - len(self.content)
        tail = [at + shift for at in self.starts[resume:]]
        begin = self.starts[keep - 1]
        stop = tail[0] if tail else len(content)
        between = [at for at in _starts(content[begin:stop], begin) if not tail or at < stop]
        return Text(content, self.unit, [*self.starts[:keep], *between, *tail])

    def line(self, offset: int) -> tuple[int, int]:
        """Start and end of the line around `offset`, without its line end."""
        row = bisect_right(self.starts, offset) - 1
        return self.starts[row], self._end(row)

    def _end(self, line: int) -> int:
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.content)
        for mark in ("\n", "\r"):
            if end > self.starts[line] and self.content[end - 1] == mark:
                end -= 1
        return end

    def _units(self, part: str) -> int:
        if part.isascii() or self.unit == "utf-32":
            return len(part)
        if self.unit == "utf-8":
            return len(part.encode())
        return len(part) + sum(letter > "\uffff" for letter in part)


def _starts(content: str, shift: int) -> list[int]:
    if "\r" not in content:
        return [shift + found.end() for found in re.finditer("\n", content)]
    return [shift + found.end() for found in _LINE_END.finditer(content)]


def carried(offset: int, now: str, then: str) -> int | None:
    """Where in the text `then` the character at `offset` of `now` was; None if it is new.

    What both begin with and what both end with alike is the same; in between, a line that is
    once in each.
    """
    if now == then:
        return offset
    most = min(len(now), len(then))
    same = _common(most, lambda low, high: now[low:high] == then[low:high])
    if offset < same:
        return offset
    ends = len(now), len(then)
    tail = _common(
        most - same,
        lambda low, high: (
            now[ends[0] - high : ends[0] - low] == then[ends[1] - high : ends[1] - low]
        ),
    )
    if offset >= ends[0] - tail:
        return offset + ends[1] - ends[0]
    start = now.rfind("\n", 0, offset) + 1
    end = now.find("\n", offset)
    line = now[start : None if end < 0 else end]
    here, there = (
        _only(line, text, max(0, same - len(line)), min(length - tail + len(line), length))
        for text, length in zip((now, then), ends, strict=True)
    )
    return None if here < 0 or there < 0 else there + offset - here


def _only(line: str, text: str, low: int, high: int) -> int:
    """Where a line is in a part of a text; -1 unless it is there once."""
    if not line.strip():
        return -1
    places = [found.start() for found in islice(_whole_lines(line, text, low, high), 2)]
    return places[0] if len(places) == 1 else -1


def _whole_lines(line: str, text: str, low: int, high: int) -> Iterator[re.Match[str]]:
    return re.compile(rf"^{re.escape(line)}$", re.MULTILINE).finditer(text, low, high)


def _common(most: int, same: Callable[[int, int], bool]) -> int:
    """How many characters are the same, where `same` compares those between two numbers."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low
