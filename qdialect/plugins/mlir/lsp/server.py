"""The server: what it answers to which message of the protocol."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, cast

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method
from typing_extensions import override

import qdialect
from qdialect.errors import printable
from qdialect.plugins.mlir.lsp import completion, hovering, navigation
from qdialect.plugins.mlir.lsp.document import Document
from qdialect.plugins.mlir.lsp.entities import Stopped
from qdialect.plugins.mlir.lsp.processes import Process, Processes, WorkerError
from qdialect.plugins.mlir.lsp.text import Text, Unit

MOST_OPS_FOR_FINDINGS = 20_000
"""Larger modules are not searched for what could be warned of."""
MOST_OPS_FOR_BOUNDARIES = 1000
"""Larger ones are not searched for boundaries between integers and floats."""


class _Protocol(LanguageServerProtocol):
    """pygls's protocol. Texts are ours alone (its own would copy each again at every key), and a
    request with wrong parameters gets an answer."""

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    @override
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> Any:
        features = cast("dict[str, Any]", self.fm.features)  # pyright: ignore[reportUnknownMemberType]
        yield features[lsp.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @override
    def structure_message(self, data: dict[str, Any]) -> Any:
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "jsonrpc" in data and "id" in data and "method" in data:
                self._send_response(data["id"], None, error.to_response_error())
            raise


class Server(LanguageServer):
    """The documents of one client."""

    def __init__(self) -> None:
        name, version = "qopt-lsp", qdialect.__version__
        super().__init__(name, version, protocol_cls=_Protocol)  # pyright: ignore[reportUnknownMemberType]
        self.documents: dict[str, Document] = {}
        self.processes = Processes()
        self.settings = Settings()
        self._spare: Process | None = None

    def document(self, uri: str) -> Document:
        """The open file; an error for the client if it is not open."""
        found = self.documents.get(uri)
        if found is None:
            raise JsonRpcInvalidParams(f"{uri} is not open")
        return found

    @property
    def spare(self) -> Process:
        """The process for what no text has to be read for."""
        if self._spare is None or self._spare.is_dead:
            self._spare = self.processes.take()
        return self._spare

    @property
    def unit(self) -> Unit:
        """What columns count, as was agreed."""
        agreed = self.workspace.position_encoding
        if agreed == lsp.PositionEncodingKind.Utf8:
            return "utf-8"
        return "utf-32" if agreed == lsp.PositionEncodingKind.Utf32 else "utf-16"

    # -- reading -----------------------------------------------------------------

    def schedule(self, document: Document, delay: float | None = None) -> None:
        """Read the text of a document when it has not changed for a while."""
        if document.check is not None:
            document.check.cancel()
        # Large files are read less often.
        wait = max(self.settings.delay, min(document.seconds / 4, 1.0)) if delay is None else delay
        document.check = asyncio.create_task(self._check(document, wait))

    async def _check(self, document: Document, delay: float) -> None:
        await asyncio.sleep(delay)
        process = self.processes.take()
        kept = False
        try:
            version, text, chunks = document.version, document.text.content, document.chunks()
            path = document.path
            began = time.monotonic()
            report = await process.request(
                "check",
                text=text,
                earlier=document.earlier(),
                options={
                    "folder": str(path.parent) if path else "",
                    "unregistered": self.settings.unregistered,
                },
            )
            document.seconds = time.monotonic() - began
            old, document.holder, kept = document.holder, process, True
            self.processes.give(old)
            document.checked_text, document.checked_version = text, version
            document.keep([entry["parses"] for entry in report], chunks)
            document.problems = [problem for entry in report for problem in entry["problems"]]
            self.publish(document)
            if max(entry["ops"] for entry in report) <= MOST_OPS_FOR_FINDINGS:
                document.problems = document.problems + await process.request(
                    "findings",
                    tool=self.settings.preflight,
                    boundary=self.settings.boundary,
                    most_ops=MOST_OPS_FOR_BOUNDARIES,
                )
                self.publish(document)
        except WorkerError as error:
            self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Warning, str(error)))
        finally:
            if not kept:
                self.processes.give(process)
        await document.prepare()

    async def close(self) -> None:
        """End what was started."""
        for document in self.documents.values():
            document.is_open = False
            if document.check is not None:
                document.check.cancel()
        await self.processes.end()

    def publish(self, document: Document) -> None:
        """Send the problems of a document."""
        if document.is_open:
            self.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(
                    document.uri, diagnostics_of(document), document.checked_version
                )
            )


def make_server() -> Server:
    """A server with all it answers."""
    server = Server()
    _add_lifetime(server)
    _add_documents(server)
    _add_navigation(server)
    return server


def _add_lifetime(server: Server) -> None:
    @server.feature(lsp.INITIALIZED)
    def _(params: lsp.InitializedParams) -> None:
        server.processes.prepare()

    @server.feature(lsp.INITIALIZE)
    def _(params: lsp.InitializeParams) -> None:
        server.settings = Settings.of(params.initialization_options)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def _(params: lsp.DidChangeConfigurationParams) -> None:
        server.settings = Settings.of(params.settings)
        for document in server.documents.values():
            server.schedule(document, 0)

    @server.feature(lsp.SHUTDOWN)
    async def _(params: Any) -> None:
        await server.close()


def _add_documents(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def _(params: lsp.DidOpenTextDocumentParams) -> None:
        given = params.text_document
        document = Document(given.uri, Text(given.text, server.unit), given.version)
        server.documents[given.uri] = document
        server.schedule(document, 0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def _(params: lsp.DidChangeTextDocumentParams) -> None:
        document = server.document(params.text_document.uri)
        document.change(params.content_changes, params.text_document.version)
        server.schedule(document)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def _(params: lsp.DidSaveTextDocumentParams) -> None:
        # The weights file beside it may be new.
        server.schedule(server.document(params.text_document.uri), 0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def _(params: lsp.DidCloseTextDocumentParams) -> None:
        document = server.documents.pop(params.text_document.uri, None)
        if document is None:
            return
        document.is_open = False
        if document.check is not None:
            document.check.cancel()
        server.processes.give(document.holder)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(document.uri, []))


def _add_navigation(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def _(params: lsp.HoverParams) -> lsp.Hover | None:
        document = server.document(params.text_document.uri)
        with suppress(Stopped, WorkerError):
            return await hovering.hover(document, params.position, server.spare)
        return None

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def _(params: lsp.DefinitionParams) -> lsp.Location | None:
        with suppress(Stopped):
            document = server.document(params.text_document.uri)
            return await navigation.definition(document, params.position)
        return None

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    async def _(params: lsp.ReferenceParams) -> list[lsp.Location]:
        with suppress(Stopped):
            return await navigation.references(
                server.document(params.text_document.uri),
                params.position,
                params.context.include_declaration,
            )
        return []

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    async def _(params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
        with suppress(Stopped):
            document = server.document(params.text_document.uri)
            return await navigation.highlights(document, params.position)
        return []

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def _(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        with suppress(Stopped):
            return await navigation.symbols(server.document(params.text_document.uri))
        return []

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    async def _(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        with suppress(Stopped):
            return await navigation.folds(server.document(params.text_document.uri))
        return []

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION,
        lsp.CompletionOptions(trigger_characters=["%", "@", "^", "#", "!", ".", "{", "<", "="]),
    )
    async def _(params: lsp.CompletionParams) -> lsp.CompletionList | None:
        with suppress(Stopped, WorkerError):
            document = server.document(params.text_document.uri)
            return await completion.complete(document, params.position, server.spare)
        return None


# Problems of the worker as diagnostics of the protocol.

SOURCE = "qdialect"

_SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "information": lsp.DiagnosticSeverity.Information,
}


def diagnostics_of(document: Document) -> list[lsp.Diagnostic]:
    """The problems of a document, where they are in its text now (edits may have moved them)."""
    found: list[lsp.Diagnostic] = []
    for problem in document.problems:
        span = document.moved(problem["start"], problem["end"])
        if span is not None:
            found.append(_diagnostic(document, problem, span))
    return found


def _diagnostic(
    document: Document, problem: dict[str, Any], span: tuple[int, int]
) -> lsp.Diagnostic:
    notes: list[lsp.DiagnosticRelatedInformation] = []
    for text, start, end in problem["notes"]:
        place = document.moved(start, end) or span
        notes.append(lsp.DiagnosticRelatedInformation(document.location(*place), printable(text)))
    return lsp.Diagnostic(
        document.range(*span),
        printable(problem["message"]),
        _SEVERITIES[problem["severity"]],
        problem["code"] or None,
        source=SOURCE,
        related_information=notes or None,
    )


# What a user may set, under `qopt` in the settings of the editor.


@dataclass(frozen=True)
class Settings:
    """The settings; what is absent or of another type keeps its default."""

    preflight: str = "auto"
    """Warnings about upstream tools: auto, all, mlir-opt-22, iree-3.13 or off."""
    boundary: bool = True
    """Whether to say where integers become floats and back."""
    unregistered: bool = False
    """Whether ops of unknown dialects are right in every file."""
    delay: float = 0.2
    """Seconds without typing before a text is read."""

    @staticmethod
    def of(given: Any) -> Settings:
        """The settings in a JSON value, plain or under `qopt`."""
        if not isinstance(given, dict):
            return Settings()
        whole = cast("dict[str, Any]", given)
        inner = cast("dict[str, Any]", whole["qopt"] if _is_object(whole.get("qopt")) else whole)
        return Settings(**{f.name: _value(f.default, inner.get(f.name)) for f in fields(Settings)})


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _value(default: Any, given: Any) -> Any:
    if isinstance(default, float) and isinstance(given, int | float):
        return min(max(0.0, float(given)), 60.0)
    return given if type(given) is type(default) else default
