"""What runs passes from the editor: lenses above functions, fixes for problems, and the two
commands behind them.

`qopt.showDiff` answers with a unified diff (and opens it, unless the client does that itself);
`qopt.applyPipeline` changes the text. Both take one object: `uri`, `pipeline`, and if wanted
`chunk` (a number, from 0) and `function` (`@name`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

from lsprotocol import types as lsp

from qdialect.lsp.document import Document
from qdialect.lsp.messages import SOURCE, meant
from qdialect.lsp.processes import Process
from qdialect.lsp.settings import Settings

SHOW = "qopt.showDiff"
APPLY = "qopt.applyPipeline"

LONGEST_RUN = 300.0
"""Seconds after which a pipeline is given up."""
MOST_FUNCTIONS = 200
"""Functions of a file that get lenses."""


class Request(NamedTuple):
    """The argument of a command."""

    document: Document
    pipeline: str
    chunk: int
    function: str

    @staticmethod
    def of(argument: Any, document: Callable[[str], Document]) -> Request:
        """Raises KeyError, TypeError or ValueError for what is no such argument."""
        if not isinstance(argument, dict):
            raise TypeError("an object with 'uri' and 'pipeline' is expected")
        given = cast("dict[str, Any]", argument)
        found = document(str(given["uri"]))
        chunk = int(given.get("chunk", 0))
        if not 0 <= chunk < len(found.chunks()):
            raise ValueError(f"there is no chunk {chunk}")
        return Request(found, str(given["pipeline"]), chunk, str(given.get("function", "")))


async def run(request: Request, settings: Settings, process: Process) -> dict[str, Any]:
    """Run the pipeline. Raises WorkerError, or TimeoutError if it takes too long."""
    document = request.document
    path = document.path
    answer = process.request(
        "run",
        text=document.chunks()[request.chunk][1],
        name=path.name if path else document.uri.rpartition("/")[2],
        pipeline=request.pipeline,
        function=request.function,
        target=settings.target,
        options={
            "folder": str(path.parent) if path else "",
            "unregistered": settings.unregistered,
        },
    )
    return await asyncio.wait_for(answer, LONGEST_RUN)


def edit_of(request: Request, result: str) -> lsp.WorkspaceEdit:
    """The edit that puts `result` in place of the chunk."""
    document = request.document
    start, text = document.chunks()[request.chunk]
    whole = document.range(start, start + len(text))
    versioned = lsp.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    edits: list[Any] = [lsp.TextEdit(whole, result)]
    return lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(versioned, edits)])


def written_diff(folder: Path, request: Request, diff: str) -> str:
    """Write a diff to a file in `folder`, for the editor to open; its URI."""
    stem = "".join(c if c.isalnum() else "-" for c in request.pipeline)[:60]
    path = folder / f"{stem}.diff"
    path.write_text(diff or "the pipeline changes nothing\n", encoding="utf-8")
    return path.as_uri()


async def lenses(document: Document, settings: Settings) -> list[lsp.CodeLens]:
    """The pipelines above each module and each function that has a body."""
    found: list[lsp.CodeLens] = []
    for chunk, (start, index) in enumerate(await document.indices()):
        if not index.ops:
            continue
        first = start + index.ops[0].span.start
        found += _at(document, settings, first, chunk, "")
        for outline in index.walk():
            is_function = outline.kind == "symbol" and outline.detail.endswith("func")
            if is_function and outline.whole.end > outline.span.end:
                place = start + outline.whole.start
                found += _at(document, settings, place, chunk, outline.name)
        if len(found) > MOST_FUNCTIONS * len(settings.pipelines):
            break
    return found


def _at(
    document: Document, settings: Settings, offset: int, chunk: int, function: str
) -> list[lsp.CodeLens]:
    here = document.range(offset, offset)
    of = "" if function else "module: "
    return [
        lsp.CodeLens(here, _command(f"{of}{each}", SHOW, document, each, chunk, function))
        for each in settings.pipelines
    ]


def _command(
    title: str, name: str, document: Document, pipeline: str, chunk: int, function: str = ""
) -> lsp.Command:
    argument: dict[str, Any] = {"uri": document.uri, "pipeline": pipeline, "chunk": chunk}
    if function:
        argument["function"] = function
    return lsp.Command(title, name, arguments=[argument])


def actions_of(document: Document, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """Fixes for the problems at a place: the pipeline that mends it, or the name that was meant."""
    found: list[lsp.CodeAction] = []
    for problem in params.context.diagnostics:
        if problem.source != SOURCE:
            continue
        given: Any = problem.data
        data = cast("dict[str, Any]", given) if isinstance(given, dict) else dict[str, Any]()
        if "fix" in data:
            fix, chunk = str(data["fix"]), int(data.get("chunk", 0))
            for title, name in ((f"Run {fix}", APPLY), (f"Show what {fix} changes", SHOW)):
                found.append(
                    lsp.CodeAction(
                        title,
                        lsp.CodeActionKind.QuickFix,
                        [problem],
                        command=_command(title, name, document, fix, chunk),
                    )
                )
        name = meant(problem.message)
        if name is not None:
            edit = lsp.WorkspaceEdit({document.uri: [lsp.TextEdit(problem.range, name)]})
            found.append(
                lsp.CodeAction(
                    f"Change to {name}",
                    lsp.CodeActionKind.QuickFix,
                    [problem],
                    is_preferred=True,
                    edit=edit,
                )
            )
    return found
