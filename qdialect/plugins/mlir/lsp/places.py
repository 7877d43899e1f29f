"""Reads MLIR text and keeps where its ops and values stand.

The parser is that of `formats.mlir.read`. For an editor an op is where its text is, whatever its
`loc(...)` says, so the location of each op is its line and column here; `Places.stated` has those
that the text states.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.lexer import Span

from qdialect.ir.context import QContext
from qdialect.plugins.mlir.read import parse_text
from qdialect.plugins.mlir.read.parser import MLIRParser, Positions

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
