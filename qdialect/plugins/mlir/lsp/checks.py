"""One chunk of a file, read and verified: its module, and what is wrong with it and where.

A file is split at lines that begin with `// -----`, whatever its RUN line says: each chunk is a
module of its own. Offsets here are from the start of the chunk.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from typing_extensions import override
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.lexer import Span

from qdialect import errors
from qdialect.errors import QError, Where
from qdialect.ir.context import QContext
from qdialect.pipeline.plugins import Plugins
from qdialect.plugins.mlir.read import parse_text
from qdialect.plugins.mlir.read.parser import MLIRParser, Positions

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from qdialect.rewrite.remarks import Remark

Severity = Literal["error", "warning", "information"]

SEPARATOR = re.compile(r"^// -----[^\n]*(?:\n|\Z)", re.MULTILINE)
_TOKEN = re.compile(r'[%^@#!]?[\w$.-]*[\w$]|"(?:[^"\\\n]|\\.)*"?|->|::|\S')
_PLACE = re.compile(r"(?:^|:)([0-9]+):([0-9]+)(?:: (?P<text>.*))?$")
_UNREGISTERED = re.compile(r"^// RUN:[^\n]*--?(?:mlir-)?allow-unregistered-dialect", re.MULTILINE)
_OURS = ("foreign-dialect", "rescale")
"""Codes of `preflight` that any module in our own ops has."""

NAME = "<editor>"
"""What the text is called in locations, which no message shows."""

MOST_FINDINGS = 500
"""Warnings of one chunk; what is more would only slow the editor down."""


class Note(NamedTuple):
    """What a message adds: with its place, if it has one."""

    text: str
    start: int
    end: int


@dataclass
class Problem:
    """A message about the characters from `start` to `end`."""

    start: int
    end: int
    severity: Severity
    message: str
    code: str = ""
    notes: list[Note] = field(default_factory=list[Note])


class Options(NamedTuple):
    """What the user set that decides what a text means."""

    folder: str = ""
    unregistered: bool = False


class Chunk:
    """A chunk as read. `module` is None if it does not parse; `valid` says that it verifies."""

    def __init__(self, text: str, options: Options) -> None:
        self.text = text
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.ctx = session_for(text, options)
        self.places = Places()
        self.problems: list[Problem] = []
        self._read(options)

    @property
    def valid(self) -> bool:
        """Whether passes may run on the module."""
        return self.places.module is not None and not self.problems

    def _read(self, options: Options) -> None:
        from qdialect.ir.verify.verifier import verification_errors

        try:
            self.places = read(self.text, self.ctx, NAME)
            module = self.places.module
            assert module is not None
            if options.folder:
                from qdialect.plugins.mlir.read import open_weights

                open_weights(module, self.ctx, Path(options.folder))
        except QError as error:
            self.problems += self._problems(error)
            return
        store = self.ctx.blobs if options.folder else None
        for error in verification_errors(module, store, behaviors=self.ctx.declared):
            self.problems += self._problems(error)

    def findings(self, tool: str, boundary: bool, most_ops: int) -> Iterable[Problem]:
        """What `preflight` says for a tool (`all`; `off`: nothing; `auto`: for all, if the module
        is in ops that upstream has); where integers become floats, if it has at most `most_ops`."""
        module = self.places.module
        if module is None or not self.valid:
            return
        if tool != "off":
            from qdialect.plugins.mlir.passes.preflight import TOOLS, Preflight

            chosen = next((each for each in TOOLS if each == tool), "all")
            remarks = self._remarks(Preflight(cast("Any", chosen)))
            # What is written in our own ops is not handed over as it is.
            if tool != "auto" or not any(remark.code in _OURS for remark in remarks):
                for remark in remarks[:MOST_FINDINGS]:
                    changes = "changes the result" in remark.reason
                    yield self._finding(remark, "information" if changes else "warning")
        if boundary and len(self.places.spans) <= most_ops:
            from qdialect.passes.casts.quantization_boundary import QuantizationBoundary

            for remark in self._remarks(QuantizationBoundary())[:MOST_FINDINGS]:
                yield self._finding(remark, "information")

    def _remarks(self, instance: ModulePass) -> list[Remark]:
        from qdialect.rewrite.remarks import RemarkLog

        module, self.ctx.remarks = self.places.module, RemarkLog()
        self.ctx.analyses.clear()
        assert module is not None
        instance.apply(self.ctx, module)
        self.ctx.analyses.clear()
        return self.ctx.remarks.remarks

    def _finding(self, remark: Remark, severity: Severity) -> Problem:
        start = self._offset(remark.location)
        named = remark.reason.startswith("'")
        return Problem(
            start,
            self.token_end(start),
            severity,
            remark.reason if named else f"'{remark.op}': {remark.reason}",
            remark.code,
        )

    # -- places ------------------------------------------------------------------

    def _offset(self, place: str) -> int:
        found = _PLACE.search(place)
        return self.offset(int(found[1]), int(found[2])) if found else 0

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and a column, both from 1."""
        if not 0 < line <= len(self.starts):
            return 0
        return min(self.starts[line - 1] + column - 1, len(self.text))

    def token_end(self, start: int) -> int:
        """Where the token at `start` ends."""
        found = _TOKEN.match(self.text, start)
        return found.end() if found else min(start + 1, len(self.text))

    def _at(self, where: Where | None) -> int:
        if where is None or where.line is None:
            return _first_word(self.text)
        return self.offset(where.line, where.column or 1)

    def _problems(self, error: QError) -> Iterator[Problem]:
        for each in (error, *error.also):
            start, end = self._span(self._at(each.where))
            notes = [self._note(text, (start, end)) for text in each.notes]
            yield Problem(start, end, "error", each.message, each.code, notes)

    def _note(self, text: str, span: tuple[int, int]) -> Note:
        where = text.where if isinstance(text, errors.Note) else None
        return Note(str(text), *(span if where is None else self._span(self._at(where))))

    def _span(self, start: int) -> tuple[int, int]:
        """The token at `start`; of an error behind a token, its last character."""
        if self.text[start : start + 1].strip():
            return start, self.token_end(start)
        return max(0, start - 1), min(max(start, 1), len(self.text))


def split(text: str) -> list[tuple[int, str]]:
    """The chunks of a file, each with the offset where it starts."""
    chunks: list[tuple[int, str]] = []
    start = 0
    for found in SEPARATOR.finditer(text):
        chunks.append((start, text[start : found.start()]))
        start = found.end()
    return [*chunks, (start, text[start:])]


def session_for(text: str, options: Options) -> QContext:
    """A session for a chunk: with ops of unknown dialects if the user or a RUN line says so."""
    unregistered = options.unregistered or _UNREGISTERED.search(text) is not None
    return plugins().session(allow_unregistered=unregistered)


@cache
def plugins() -> Plugins:
    """The plug-ins that are installed or in the environment."""
    return Plugins()


def _first_word(text: str) -> int:
    """The first character that is neither blank nor in a comment."""
    found = re.search(r"^[ \t]*(?!//)\S", text, re.MULTILINE)
    return found.end() - 1 if found else 0


# Reads MLIR text and keeps where its ops and values stand.
#
# The parser is that of `plugins.mlir.read`. For an editor an op is where its text is, whatever its
# `loc(...)` says, so the location of each op is its line and column here; `Places.stated` has those
# that the text states.

_BLANK = re.compile(r"\s*")
_RESULTS = re.compile(r"(?:%[\w$.-]+(?::[0-9]+)?\s*,?\s*)+=\s*")


@dataclass
class Places:
    """A module and the offsets of its ops (from the first result name to behind the last
    character) and of the names that define values."""

    module: ModuleOp | None = None
    spans: dict[Operation, tuple[int, int]] = field(
        default_factory=dict[Operation, "tuple[int, int]"]
    )
    #: by the offset of the percent sign, the values with this name
    values: dict[int, Sequence[SSAValue]] = field(default_factory=dict[int, "Sequence[SSAValue]"])
    stated: dict[Operation, LocationAttr] = field(default_factory=dict[Operation, LocationAttr])
    _order: list[tuple[int, int, Operation]] = field(
        default_factory=list["tuple[int, int, Operation]"]
    )

    def op_at(self, offset: int) -> Operation | None:
        """The innermost op around `offset`."""
        if not self._order:
            self._order = sorted(
                ((start, end, op) for op, (start, end) in self.spans.items()),
                key=lambda each: (each[0], -each[1]),
            )
        at = bisect_right(self._order, offset, key=lambda each: each[0]) - 1
        while at >= 0:
            start, end, op = self._order[at]
            if start <= offset <= end:
                return op
            around = op.parent_op()
            # What is before may hold it, and then so does an op around that.
            while around is not None and around not in self.spans:
                around = around.parent_op()
            if around is None:
                return None
            start, end = self.spans[around]
            if start <= offset <= end:
                return around
            at = bisect_right(self._order, start, key=lambda each: each[0]) - 1
        return None


def read(text: str, ctx: QContext, name: str) -> Places:
    """The module in `text` with its places. Raises InputError as `parse_text` does."""
    places = Places()

    class Placed(_PlacedParser):
        found = places

    places.module = parse_text(text, ctx, name, parser_class=Placed).module
    return places


class _PlacedParser(MLIRParser):
    """Notes where ops and names stand in `found`."""

    found: Places

    def __init__(
        self, ctx: QContext, text: str, positions: Positions, *, use_templates: bool = True
    ) -> None:
        super().__init__(ctx, text, positions, use_templates=use_templates)
        self._text = text

    @override
    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        end = self.pos
        while end > start and self._text[end - 1].isspace():
            end -= 1
        self._note(op, start, end)
        return op

    @override
    def _parse_block_body(self, block: Block) -> None:
        position = self.pos
        super()._parse_block_body(block)
        for op in block.ops:
            if op in self.found.spans:
                position = self.found.spans[op][1]
                continue
            # It was read with others, each on a line of its own.
            position = _BLANK.match(self._text, position).end()  # pyright: ignore[reportOptionalMemberAccess]
            end = self._text.find("\n", position)
            self._note(op, position, end)
            self.found.values[position] = tuple(op.results)
            position = end

    def _note(self, op: Operation, start: int, end: int) -> None:
        self.found.spans[op] = start, end
        results = _RESULTS.match(self._text, start)
        here = self._location(results.end() if results is not None else start)
        if op.location != here:
            self.found.stated[op] = op.location
            op.location = here

    @override
    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        # The header of a loop may name an argument of each of its regions.
        known = self.found.values.get(span.start, ())
        self.found.values[span.start] = (*known, *values)
