"""One open file: its text, the indices of its chunks, and the process that read it last."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from lsprotocol import types as lsp

from qdialect.plugins.mlir.lsp.checks import split
from qdialect.plugins.mlir.lsp.entities import Entity, Span, Stopped
from qdialect.plugins.mlir.lsp.index import Index
from qdialect.plugins.mlir.lsp.processes import Process
from qdialect.plugins.mlir.lsp.text import Place, Text, carried

INDEXED_AT_ONCE = 200_000
"""Characters of a chunk whose index is made without a thread: a twentieth of a second."""

SOON = 1.0
"""Seconds that what can do without types waits for them."""


class Document:
    """An open file."""

    def __init__(self, uri: str, text: Text, version: int) -> None:
        self.uri = uri
        self.text = text
        self.version = version
        #: the check that waits or runs
        self.check: asyncio.Task[None] | None = None
        #: the process that read the text last, and the text it read
        self.holder: Process | None = None
        self.checked_text = ""
        self.checked_version = -1
        #: the chunks as they were when they last parsed
        self.parsed: list[str] = []
        #: what was published, as the worker had it
        self.problems: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.is_open = True
        self._chunks: list[tuple[int, str]] | None = None
        self._indices: dict[str, Index] = {}
        #: those that threads are at
        self._made: dict[str, asyncio.Task[Index]] = {}

    @property
    def path(self) -> Path | None:
        """The file, if it is one."""
        parts = urlsplit(self.uri)
        return Path(url2pathname(unquote(parts.path))) if parts.scheme == "file" else None

    def change(self, changes: Iterable[lsp.TextDocumentContentChangeEvent], version: int) -> None:
        """Apply edits of the client."""
        for change in changes:
            if isinstance(change, lsp.TextDocumentContentChangePartial):
                start, end = change.range.start, change.range.end
                self.text = self.text.edited(
                    Place(start.line, start.character), Place(end.line, end.character), change.text
                )
            else:
                self.text = Text(change.text, self.text.unit)
        self.version = version
        self._chunks = None

    # -- places ------------------------------------------------------------------

    def offset(self, position: lsp.Position) -> int:
        """The offset of a position of the protocol."""
        return self.text.offset(position.line, position.character)

    def range(self, start: int, end: int) -> lsp.Range:
        """The range of the protocol between two offsets."""
        first, last = self.text.place(start), self.text.place(end)
        return lsp.Range(lsp.Position(*first), lsp.Position(*last))

    def location(self, start: int, end: int) -> lsp.Location:
        """The same, in this file."""
        return lsp.Location(self.uri, self.range(start, end))

    # -- chunks and their indices --------------------------------------------------

    def chunks(self) -> list[tuple[int, str]]:
        """The chunks of the text, each with its offset."""
        if self._chunks is None:
            self._chunks = split(self.text.content)
        return self._chunks

    def chunk_at(self, offset: int) -> int:
        """The number of the chunk around `offset`."""
        return max(0, bisect_right(self.chunks(), offset, key=lambda each: each[0]) - 1)

    async def index(self, number: int) -> Index:
        """The index of a chunk; Stopped if the text changes meanwhile."""
        text = self.chunks()[number][1]
        found = self._indices.get(text)
        if found is None and len(text) <= INDEXED_AT_ONCE:
            found = self._indices[text] = Index(text)
        if found is not None:
            return found
        made = self._made.get(text)
        if made is None:
            made = self._made[text] = asyncio.create_task(self._index(text, self.version))
            # That it was stopped is news for those who wait for it, if there are any.
            made.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(made)

    async def _index(self, text: str, version: int) -> Index:
        try:
            found = await asyncio.to_thread(Index, text, lambda: self.version == version)
            self._indices[text] = found
            return found
        finally:
            del self._made[text]

    def _forget(self) -> None:
        """Drop the indices of chunks that are not there any more."""
        now = {text for _, text in self.chunks()}
        self._indices = {text: each for text, each in self._indices.items() if text in now}

    async def prepare(self) -> None:
        """Make the indices before somebody asks for them."""
        self._forget()
        with suppress(Stopped):
            await self.indices()

    async def indices(self) -> list[tuple[int, Index]]:
        """The indices of all chunks, each with its offset."""
        version, found = self.version, list[tuple[int, Index]]()
        for number, (start, _) in enumerate(self.chunks()):
            found.append((start, await self.index(number)))
            if self.version != version:
                raise Stopped
        return found

    async def index_at(self, offset: int) -> tuple[int, Index]:
        """The index of the chunk around `offset`, and where the chunk starts."""
        number = self.chunk_at(offset)
        start = self.chunks()[number][0]
        return start, await self.index(number)

    async def entity_at(self, position: lsp.Position) -> tuple[int, Entity, Span] | None:
        """What the name at a position stands for: where its chunk starts, the entity, and this
        occurrence of it, from the start of the chunk."""
        offset = self.offset(position)
        start, index = await self.index_at(offset)
        found = index.at(offset - start)
        return None if found is None else (start, *found)

    def moved(self, start: int, end: int) -> tuple[int, int] | None:
        """Where what stood between two offsets of the text that was read last stands now; None
        if it is not there any more."""
        if self.checked_version == self.version:
            return start, end
        first = carried(start, self.checked_text, self.text.content)
        last = carried(max(start, end - 1), self.checked_text, self.text.content)
        return None if first is None or last is None else (first, max(first, last + 1))

    # -- the process -----------------------------------------------------------------

    async def ask(self, method: str, offset: int, **arguments: Any) -> Any:
        """The answer of the process that read the text last about what is at `offset`; None if
        there is no such process, or the text there is new to it."""
        await self.settled()
        place = (
            None if self.holder is None else carried(offset, self.text.content, self.checked_text)
        )
        if self.holder is None or place is None:
            return None
        return await self.holder.request(method, offset=place, **arguments)

    async def about(self, method: str, offsets: Sequence[int]) -> list[str]:
        """What the process says of the values whose names are at `offsets` (`types`, `hints`);
        empty where it knows nothing, or does not say so soon."""
        nothing = [""] * len(offsets)
        if self.holder is None:
            return nothing
        places = [carried(offset, self.text.content, self.checked_text) for offset in offsets]
        answer = self.holder.request(method, offsets=[-1 if p is None else p for p in places])
        try:
            return await asyncio.wait_for(answer, SOON)
        except asyncio.TimeoutError:
            return nothing

    async def settled(self, seconds: float = 2.0) -> None:
        """Wait until the text has been read, but not for long."""
        if self.check is not None and self.checked_version != self.version:
            await asyncio.wait({self.check}, timeout=seconds)

    def earlier(self) -> list[str]:
        """For each chunk what it was when it last parsed, as far as that can be told."""
        now = [text for _, text in self.chunks()]
        if len(now) == len(self.parsed):
            return self.parsed
        first = _common(now, self.parsed)
        last = _common(now[first:][::-1], self.parsed[first:][::-1])
        between = len(now) - first - last
        inner = self.parsed[first : len(self.parsed) - last][:between]
        inner += [""] * (between - len(inner))
        return [*now[:first], *inner, *now[len(now) - last :]]

    def keep(self, parses: Sequence[bool], chunks: Sequence[tuple[int, str]]) -> None:
        """Remember the chunks that parse."""
        before = self.earlier()
        self.parsed = [
            text if good else (before[number] if number < len(before) else "")
            for number, ((_, text), good) in enumerate(zip(chunks, parses, strict=True))
        ]


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
