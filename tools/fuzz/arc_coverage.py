"""Which steps from line to line the code of some folders has taken, cheap enough to fuzz with.

Python 3.12 and later tell lines through `sys.monitoring`, older ones through `sys.settrace`;
code outside the folders costs one look per call.
"""

# pyright: basic
from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

MONITORING = sys.version_info >= (3, 12)


class Arcs:
    """The arcs (code, line before, line) of code in files that start with one of `prefixes`."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._prefixes = tuple(prefixes)
        self._codes: dict[CodeType, int] = {}
        self.seen: set[int] = set()
        self.new = 0

    def _number(self, code: CodeType) -> int:
        """A number for code that is watched, -1 for other code."""
        number = self._codes.get(code)
        if number is None:
            watched = code.co_filename.startswith(self._prefixes)
            number = self._codes[code] = len(self._codes) if watched else -1
        return number

    @contextmanager
    def watched(self) -> Generator[None]:
        """Count arcs here; `new` is how many were not seen before."""
        before = len(self.seen)
        try:
            with self._monitored() if MONITORING else self._traced():
                yield
        finally:
            self.new = len(self.seen) - before

    @contextmanager
    def _traced(self) -> Generator[None]:
        outer = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(outer)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        number = self._number(frame.f_code)
        if number < 0:
            return None
        base, last, add = number << 40, 0, self.seen.add

        def line(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            nonlocal last
            if event == "line":
                here = frame.f_lineno
                add(base | last << 20 | here)
                last = here
            return line

        return line

    @contextmanager
    def _monitored(self) -> Generator[None]:
        watch: Any = sys.monitoring  # pyright: ignore
        tool, lines = watch.COVERAGE_ID, watch.events.LINE
        last: dict[int, int] = {}

        def line(code: CodeType, here: int) -> Any:
            number = self._number(code)
            if number < 0:
                return watch.DISABLE
            self.seen.add(number << 40 | last.get(number, 0) << 20 | here)
            last[number] = here
            return None

        watch.use_tool_id(tool, "arcs")
        watch.register_callback(tool, lines, line)
        watch.set_events(tool, lines)
        try:
            yield
        finally:
            watch.set_events(tool, 0)
            watch.register_callback(tool, lines, None)
            watch.free_tool_id(tool)
