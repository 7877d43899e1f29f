"""Definition, references, rename, symbols and folding, from the index alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lsprotocol import types as lsp

from qdialect.lsp.document import Document
from qdialect.lsp.entities import Entity, Outline, Span
from qdialect.lsp.index import Index

NAME = re.compile(r"[A-Za-z_$.-][\w$.-]*|[0-9]+")
SIGILS = {"value": "%", "block": "^", "symbol": "@"}

MOST_KEYS = 2000
"""Ops with keys that the list of symbols of a file shows."""


class CannotRename(Exception):
    """Why a name cannot be changed, for people."""


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


async def rename_range(document: Document, position: lsp.Position) -> lsp.Range | None:
    """The name at a position, if it can be changed."""
    found = await document.entity_at(position)
    if found is None or found[1].kind not in SIGILS:
        return None
    start, _, span = found
    return document.range(start + span.start, start + span.end)


async def rename(document: Document, position: lsp.Position, name: str) -> lsp.WorkspaceEdit:
    """The edits that give a value, block or symbol another name. Raises CannotRename if there
    is none to be changed, or the new one is wrong or taken."""
    found = await document.entity_at(position)
    sigil = None if found is None else SIGILS.get(found[1].kind)
    if found is None or sigil is None:
        raise CannotRename("only values, blocks and symbols can be renamed")
    start, entity, _ = found
    bare = name.removeprefix(sigil)
    if NAME.fullmatch(bare) is None:
        raise CannotRename(f"'{name}' is not a name of MLIR")
    _, index = await document.index_at(start)
    if sigil + bare != entity.name and _is_taken(index, entity, sigil + bare):
        raise CannotRename(f"'{sigil}{bare}' is already there")
    edits = [
        lsp.TextEdit(
            document.range(start + span.start, start + span.end),
            sigil + bare if index.text[span.start] == sigil else bare,
        )
        for span in entity.spans()
    ]
    versioned = lsp.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(versioned, list(edits))])


def _is_taken(index: Index, entity: Entity, name: str) -> bool:
    """Whether `name` is defined or used where `entity` is."""
    mine = {index.scope_at(span.start) for span in entity.spans()}
    around = set[int]()
    for number in mine:
        while number >= 0 and number not in around:
            around.add(number)
            number = index.scopes[number].parent
    for other in index.entities:
        if other.kind != entity.kind or other.name != name:
            continue
        theirs = {index.scope_at(span.start) for span in other.spans()}
        if theirs & around or _inside(index, theirs, mine):
            return True
    return False


def _inside(index: Index, inner: set[int], outer: set[int]) -> bool:
    """Whether one of the scopes `inner` is in one of `outer`."""
    for number in inner:
        while number >= 0:
            if number in outer:
                return True
            number = index.scopes[number].parent
    return False


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
