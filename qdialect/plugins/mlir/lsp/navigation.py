"""Definition, references, symbols and folding, from the index alone."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types as lsp

from qdialect.plugins.mlir.lsp.document import Document
from qdialect.plugins.mlir.lsp.entities import Outline, Span
from qdialect.plugins.mlir.lsp.index import Index

MOST_KEYS = 2000
"""Ops with keys that the list of symbols of a file shows."""


async def definition(document: Document, position: lsp.Position) -> lsp.Location | None:
    """Where the name at a position is defined."""
    found = await document.entity_at(position)
    if found is None or found[1].definition is None:
        return None
    start, entity, _ = found
    span = entity.definition
    assert span is not None
    return document.location(start + span.start, start + span.end)


async def references(
    document: Document, position: lsp.Position, declared: bool
) -> list[lsp.Location]:
    """Where the name at a position is used; with `declared` also where it is defined."""
    found = await document.entity_at(position)
    if found is None:
        return []
    start, entity, _ = found
    spans = entity.spans() if declared else sorted(entity.uses)
    return [document.location(start + span.start, start + span.end) for span in spans]


async def highlights(document: Document, position: lsp.Position) -> list[lsp.DocumentHighlight]:
    """All occurrences of the name at a position."""
    found = await document.entity_at(position)
    if found is None:
        return []
    start, entity, _ = found
    return [
        lsp.DocumentHighlight(
            document.range(start + span.start, start + span.end),
            lsp.DocumentHighlightKind.Write
            if span == entity.definition
            else lsp.DocumentHighlightKind.Read,
        )
        for span in entity.spans()
    ]


async def symbols(document: Document) -> list[lsp.DocumentSymbol]:
    """Functions, modules and ops with keys."""
    left = [MOST_KEYS]
    parts = await document.indices()
    found: list[lsp.DocumentSymbol] = []
    for number, (start, index) in enumerate(parts, 1):
        inner = list(_shown(document, start, index.outline, left))
        if len(parts) == 1:
            return inner
        end = start + len(index.text.rstrip())
        whole = document.range(start, max(start, end))
        kind, point = lsp.SymbolKind.Namespace, document.range(start, start)
        found.append(lsp.DocumentSymbol(f"chunk {number}", kind, whole, point, children=inner))
    return found


def _shown(
    document: Document, start: int, outlines: list[Outline], left: list[int]
) -> Iterator[lsp.DocumentSymbol]:
    for each in outlines:
        if each.kind == "key":
            if left[0] == 0:
                continue
            left[0] -= 1
        kind = lsp.SymbolKind.Field
        if each.kind == "symbol":
            is_module = each.detail.endswith("module")
            kind = lsp.SymbolKind.Module if is_module else lsp.SymbolKind.Function
        whole = Span(min(each.whole.start, each.span.start), max(each.whole.end, each.span.end))
        yield lsp.DocumentSymbol(
            each.name or "(no name)",
            kind,
            document.range(start + whole.start, start + whole.end),
            document.range(start + each.span.start, start + each.span.end),
            each.detail,
            children=list(_shown(document, start, each.children, left)),
        )


async def folds(document: Document) -> list[lsp.FoldingRange]:
    """Regions, chunks, and runs of comments that take more than one line."""
    found: list[lsp.FoldingRange] = []
    parts = await document.indices()
    for start, index in parts:
        spans = [scope.span for scope in index.scopes[1:]]
        if len(parts) > 1:
            spans.append(Span(0, len(index.text.rstrip())))
        for span in spans:
            first = document.text.place(start + span.start).line
            last = document.text.place(start + span.end).line
            if last > first + 1:
                found.append(lsp.FoldingRange(first, last - 1))
        found += _comment_folds(document, start, index)
    return found


def _comment_folds(document: Document, start: int, index: Index) -> Iterator[lsp.FoldingRange]:
    lines: list[int] = []
    for span in [*index.comments, None]:
        line = -1 if span is None else document.text.place(start + span.start).line
        if lines and line != lines[-1] + 1:
            if len(lines) > 1:
                kind = lsp.FoldingRangeKind.Comment
                yield lsp.FoldingRange(lines[0], lines[-1], kind=kind)
            lines = []
        lines.append(line)
