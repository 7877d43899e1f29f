"""Inlay hints: behind the name of a quantized value, what it can hold and its step."""

from __future__ import annotations

from lsprotocol import types as lsp

from qdialect.lsp.document import Document

MOST = 300
"""Values of one request that get a hint; a screen has fewer."""


async def hints(document: Document, shown: lsp.Range) -> list[lsp.InlayHint]:
    """The hints in a range; none while the text is being read."""
    first, last = document.offset(shown.start), document.offset(shown.end)
    starts: list[int] = []
    ends: list[int] = []
    for number in range(document.chunk_at(first), document.chunk_at(last) + 1):
        start = document.chunks()[number][0]
        index = await document.index(number)
        for span in index.value_definitions(first - start, last - start):
            starts.append(start + span.start)
            ends.append(start + span.end)
    texts = await document.about("hints", starts[:MOST])
    return [
        lsp.InlayHint(
            lsp.Position(*document.text.place(end)),
            f": {text}",
            kind=lsp.InlayHintKind.Type,
            padding_right=True,
        )
        for end, text in zip(ends, texts, strict=False)
        if text
    ]
