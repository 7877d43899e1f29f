"""What could be written at the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from lsprotocol import types as lsp

from qdialect.algebra.contract import Numerics
from qdialect.plugins.mlir.lsp.document import Document
from qdialect.plugins.mlir.lsp.entities import Kind
from qdialect.plugins.mlir.lsp.index import Index
from qdialect.plugins.mlir.lsp.processes import Process
from qdialect.plugins.mlir.lsp.vocabulary import TYPES, pass_options, passes

MOST = 200
"""Suggestions at once; what is typed next asks again."""

_RUN = re.compile(r"(?:--?(?:pass-pipeline|passes|p)[= ]\s*)(['\"]?)([^'\"]*)$")
_NAME = re.compile(r"([%@^#!])((?:[\w$.-])*)$")
_WORD = re.compile(r"[\w$.-]*$")
_AT_OP = re.compile(r"^\s*(?:%[\w$.-]+(?::[0-9]+)?\s*,?\s*)*=?\s*\"?[\w$.]*$")
_AT_TYPE = re.compile(r"(?:[:,(<]|->|\bto|x)\s*[\w.]*$")
_OPEN_PASS = re.compile(r"([A-Za-z][\w-]*)\{([^{}]*)$")
_OPTION_VALUE = re.compile(r"([\w-]+)=([\w-]*)$")


class _Item(NamedTuple):
    label: str
    kind: lsp.CompletionItemKind
    detail: str = ""
    text: str = ""
    is_snippet: bool = False


_KINDS: dict[str, tuple[Kind, lsp.CompletionItemKind]] = {
    "%": ("value", lsp.CompletionItemKind.Variable),
    "@": ("symbol", lsp.CompletionItemKind.Function),
    "^": ("block", lsp.CompletionItemKind.Reference),
    "#": ("alias", lsp.CompletionItemKind.Constant),
    "!": ("alias", lsp.CompletionItemKind.TypeParameter),
}


async def complete(
    document: Document, position: lsp.Position, spare: Process
) -> lsp.CompletionList:
    """The suggestions at a position; incomplete where there are more than are shown."""
    offset = document.offset(position)
    start, _ = document.text.line(offset)
    before = document.text.content[start:offset]
    word, items = await _items(document, offset, before, spare)
    typed = before[len(before) - word :]
    chosen = [item for item in items if _matches(item.label, typed)]
    replaced = document.range(offset - word, offset)
    shown = [_as_item(item, replaced) for item in chosen[:MOST]]
    return lsp.CompletionList(len(chosen) > MOST, shown)


async def _items(
    document: Document, offset: int, before: str, spare: Process
) -> tuple[int, list[_Item]]:
    """How many characters in front of the cursor are replaced, and by what."""
    if re.match(r"\s*//", before):
        run = _RUN.search(before)
        return (0, []) if run is None else _of_pipeline(run[2])
    begin, index = await document.index_at(offset)
    named = _NAME.search(before)
    if named is not None:
        found = await _named(document, index, begin, offset, named[1])
        return len(named[0]), found
    length = len(_WORD.findall(before)[0])
    op = _dictionary_of(index, offset - begin)
    if op is not None:
        if not re.search(r"[{,]\s*[\w$.-]*$", before):
            return length, []
        rows = await spare.request("attributes", name=op)
        kind = lsp.CompletionItemKind.Property
        every = [*rows, ("nn.key", "the stable name of the op")]
        return length, [_Item(name, kind, text, f"{name} = ") for name, text in every]
    if _AT_OP.match(before):
        rows = await spare.request("ops")
        kind = lsp.CompletionItemKind.Function
        return length, [_Item(name, kind, text) for name, text in rows]
    if _AT_TYPE.search(before):
        length = len(re.findall(r"[A-Za-z]*$", before)[0])
        return length, _types(index, offset - begin)
    return length, []


async def _named(
    document: Document, index: Index, begin: int, offset: int, sigil: str
) -> list[_Item]:
    kind, shown = _KINDS[sigil]
    found = [e for e in index.visible(offset - begin, kind) if e.name.startswith(sigil)]
    found.sort(key=lambda each: each.definition or (0, 0), reverse=True)
    details: dict[str, str] = {}
    if kind == "value":
        places = [begin + each.definition.start for each in found[:MOST] if each.definition]
        kinds = await document.about("types", places)
        details = {e.name: text for e, text in zip(found, kinds, strict=False)}
    items = [_Item(e.name, shown, details.get(e.name, e.op)) for e in found]
    return [*items, *_types(index, offset - begin)] if sigil == "!" else items


def _types(index: Index, offset: int) -> list[_Item]:
    aliases = [e.name for e in index.visible(offset, "alias") if e.name.startswith("!")]
    kind = lsp.CompletionItemKind.TypeParameter
    shown = [_Item(name, kind, "alias") for name in aliases]
    return shown + [_Item(label, kind, text, snippet, True) for label, snippet, text in TYPES]


def _dictionary_of(index: Index, offset: int) -> str | None:
    """The op in whose dictionary of attributes `offset` is."""
    op = index.op_before(offset)
    if op is None:
        return None
    depth, bare = 0, re.sub(r'"(?:[^"\\\n]|\\.)*"', "", index.text[op.span.end : offset])
    for letter in bare:
        depth += (letter == "{") - (letter == "}")
    opened = re.search(r"(?:^|[^(\s]\s*|\s)<?\{[^{}\n]*$", bare)
    return op.name.strip('"') if depth > 0 and opened else None


def _of_pipeline(text: str) -> tuple[int, list[_Item]]:
    """Passes, or options of the pass whose brace is open."""
    opened = _OPEN_PASS.search(text)
    if opened is None:
        length = len(re.findall(r"[\w-]*$", text)[0])
        kind = lsp.CompletionItemKind.Module
        return length, [_Item(name, kind, summary) for name, summary in passes()]
    options = pass_options(opened[1])
    value = _OPTION_VALUE.search(opened[2])
    if value is not None:
        listed = next((values for name, values, _ in options if name == value[1]), "")
        choices: Iterable[str] = listed.split("|") if "|" in listed else ()
        if listed == "bool":
            choices = ("true", "false")
        if value[1] == "numerics":
            choices = [str(level) for level in Numerics]
        kind = lsp.CompletionItemKind.EnumMember
        return len(value[2]), [_Item(each, kind) for each in choices]
    length = len(re.findall(r"[\w-]*$", opened[2])[0])
    kind = lsp.CompletionItemKind.Property
    return length, [_Item(name, kind, text, f"{name}=") for name, _, text in options]


def _matches(label: str, typed: str) -> bool:
    letters = iter(label.lower())
    return all(letter in letters for letter in typed.lower())


def _as_item(item: _Item, replaced: lsp.Range) -> lsp.CompletionItem:
    plain = lsp.InsertTextFormat.PlainText
    edit: Any = lsp.TextEdit(replaced, item.text or item.label)
    return lsp.CompletionItem(
        item.label,
        kind=item.kind,
        detail=item.detail or None,
        filter_text=item.label,
        insert_text_format=lsp.InsertTextFormat.Snippet if item.is_snippet else plain,
        text_edit=edit,
    )
