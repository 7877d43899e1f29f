"""Problems of the worker as diagnostics of the protocol."""

from __future__ import annotations

from typing import Any

from lsprotocol import types as lsp

from qdialect.errors import printable
from qdialect.plugins.mlir.lsp.document import Document

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
