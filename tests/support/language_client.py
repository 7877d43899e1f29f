"""A client of the language server for tests: pygls's own, over standard streams.

Positions are given by words of the text, with `^` in front of the character that is meant:
`client.at(uri, "nn.relu ^%x")`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from qdialect.plugins.mlir.lsp.text import Text

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds a test waits for an answer, on a machine that others use too."""


class Client:
    """One started server, and what it sent. Coroutines run to their end, one at a time."""

    def __init__(
        self, arguments: tuple[str, ...] = ("-m", "qdialect.plugins.mlir.lsp.main")
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.lsp = LanguageClient("tests", "1")
        self.texts: dict[str, Text] = {}
        self.versions: dict[str, int] = {}
        self.published: list[lsp.PublishDiagnosticsParams] = []
        self.messages: list[str] = []
        self._arrived = asyncio.Event()
        self._listen()
        start = cast("Any", self.lsp.start_io)  # pyright: ignore[reportUnknownMemberType]
        self.run(start(sys.executable, *arguments))

    def _listen(self) -> None:
        """Keep what the server sends."""

        def published(params: lsp.PublishDiagnosticsParams) -> None:
            self.published.append(params)
            self._arrived.set()

        def said(params: lsp.ShowMessageParams | lsp.LogMessageParams) -> None:
            self.messages.append(params.message)

        self.lsp.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(published)
        self.lsp.feature(lsp.WINDOW_SHOW_MESSAGE)(said)
        self.lsp.feature(lsp.WINDOW_LOG_MESSAGE)(said)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, PATIENCE))

    def initialize(self, options: dict[str, Any] | None = None) -> lsp.ServerCapabilities:
        """Start the session."""
        params = lsp.InitializeParams(lsp.ClientCapabilities(), initialization_options=options)
        result = self.run(self.lsp.initialize_async(params))
        self.lsp.initialized(lsp.InitializedParams())
        return result.capabilities

    def send(self, method: str, params: Any) -> Any:
        """The result of a request with any parameters, also wrong ones."""

        async def ask() -> Any:
            protocol: Any = self.lsp.protocol
            answer = Future[Any]()
            protocol._request_futures["raw"] = answer
            request = {"jsonrpc": "2.0", "id": "raw", "method": method, "params": params}
            self.write(json.dumps(request))
            return await asyncio.wrap_future(answer)

        return self.run(ask())

    def write(self, body: str) -> None:
        """Send a message as it is."""
        server = self.lsp._server  # pyright: ignore[reportPrivateUsage]
        assert server is not None
        assert server.stdin is not None
        server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body.encode()), body.encode()))

    # -- documents -----------------------------------------------------------------

    def open(self, uri: str, text: str) -> list[lsp.Diagnostic]:
        """Open a document; its first diagnostics. Versions go on from the last text with this URI,
        whose diagnostics may still arrive."""
        self.texts[uri], self.versions[uri] = Text(text), self.versions.get(uri, 0) + 1
        item = lsp.TextDocumentItem(uri, "mlir", self.versions[uri], text)
        self.lsp.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return self.diagnostics(uri)

    def replace(self, uri: str, old: str, new: str) -> None:
        """Type `new` in place of `old`, its first occurrence."""
        text = self.texts[uri]
        start = text.content.index(old)
        first, last = text.place(start), text.place(start + len(old))
        self.texts[uri] = text.edited(first, last, new)
        self.versions[uri] += 1
        where = lsp.Range(lsp.Position(*first), lsp.Position(*last))
        change = lsp.TextDocumentContentChangePartial(where, new)
        document = lsp.VersionedTextDocumentIdentifier(version=self.versions[uri], uri=uri)
        self.lsp.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    def diagnostics(self, uri: str) -> list[lsp.Diagnostic]:
        """The diagnostics of the text as it is now."""
        return self.run(self._diagnostics(uri))

    async def _diagnostics(self, uri: str) -> list[lsp.Diagnostic]:
        while True:
            for each in reversed(self.published):
                if each.uri == uri and each.version == self.versions[uri]:
                    return list(each.diagnostics)
            self._arrived.clear()
            await self._arrived.wait()

    def wait_for(self, uri: str, code: str) -> list[lsp.Diagnostic]:
        """The diagnostics with a code, when they have come."""

        async def wait() -> list[lsp.Diagnostic]:
            while True:
                found = [each for each in await self._diagnostics(uri) if each.code == code]
                if found:
                    return found
                self._arrived.clear()
                await self._arrived.wait()

        return self.run(wait())

    # -- places ----------------------------------------------------------------------

    def at(self, uri: str, words: str) -> dict[str, Any]:
        """The document and position that words with a `^` mean, as arguments of a request."""
        before, mark, after = words.partition("^")
        text = self.texts[uri]
        place = text.place(text.content.index(before + after) + (len(before) if mark else 0))
        return {
            "text_document": lsp.TextDocumentIdentifier(uri),
            "position": lsp.Position(*place),
        }

    def lines(self, uri: str, where: lsp.Range) -> str:
        """The text in a range."""
        text = self.texts[uri]
        start = text.offset(where.start.line, where.start.character)
        return text.content[start : text.offset(where.end.line, where.end.character)]

    def stop(self) -> int | None:
        """Shut the server down; its exit code."""

        async def leave() -> int | None:
            await self.lsp.shutdown_async(None)
            self.lsp.exit(None)
            process = self.lsp._server  # pyright: ignore[reportPrivateUsage]
            assert process is not None
            return await process.wait()

        code = self.run(leave())
        self.run(self.lsp.stop())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        return code
