"""What the names in a text stand for: an index of one chunk of a file.

It is made by `scan`, from tokens alone, and answers for text that does not parse as for any other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from qdialect.plugins.mlir.lsp.entities import Entity, Kind, Op, Span
from qdialect.plugins.mlir.lsp.scan import scan


class Index:
    """The entities of a chunk. `goes_on` is asked now and then; Stopped when it says no."""

    def __init__(self, text: str, goes_on: Callable[[], bool] = lambda: True) -> None:
        found = scan(text, goes_on)
        self.text = text
        self.scopes, self.entities = found.scopes, found.entities
        self.ops, self.outline, self.comments = found.ops, found.outline, found.comments
        occurrences = sorted(
            (span, number) for number, each in enumerate(self.entities) for span in each.spans()
        )
        self._starts = [span.start for span, _ in occurrences]
        self._occurrences = occurrences
        self._op_starts = [op.span.start for op in self.ops]

    def at(self, offset: int) -> tuple[Entity, Span] | None:
        """The entity whose name is at `offset`, and that occurrence of it."""
        place = bisect_right(self._starts, offset) - 1
        if place < 0:
            return None
        span, number = self._occurrences[place]
        return (self.entities[number], span) if offset <= span.end else None

    def op_at(self, offset: int) -> Op | None:
        """The op whose name is at `offset`."""
        place = bisect_right(self._op_starts, offset) - 1
        found = self.ops[place] if place >= 0 else None
        return found if found is not None and offset <= found.span.end else None

    def op_before(self, offset: int) -> Op | None:
        """The last op whose name starts before `offset`."""
        place = bisect_right(self._op_starts, offset) - 1
        return self.ops[place] if place >= 0 else None

    def scope_at(self, offset: int) -> int:
        """The number of the innermost scope around `offset`."""
        best = 0
        for number in range(1, len(self.scopes)):
            span = self.scopes[number].span
            if span.start > offset:
                break
            if span.end >= offset:
                best = number
        return best

    def visible(self, offset: int, kind: Kind) -> Iterator[Entity]:
        """The entities of a kind that can be named at `offset`: of values those that are defined
        on a line before."""
        number, seen = self.scope_at(offset), set[str]()
        line = self.text.rfind("\n", 0, offset) + 1
        while number >= 0:
            scope = self.scopes[number]
            for name, group in scope.names.items():
                for each in group:
                    at = each.definition
                    before = at is not None and (kind != "value" or at.end < line)
                    if each.kind == kind and before and name not in seen:
                        seen.add(name)
                        yield each
            number = scope.parent
