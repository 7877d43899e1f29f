"""Which of the things under the cursor an editor is told about, and by whom."""

from __future__ import annotations

import re

from lsprotocol import types as lsp

from qdialect.plugins.mlir.lsp.document import Document
from qdialect.plugins.mlir.lsp.processes import Process

_TYPE = re.compile(r"(?:![\w.$]+|\b(?:tensor|memref|vector|complex|tuple))(?=<)")
_RUN = re.compile(r"^\s*//\s*RUN:|--?(?:p|passes|pass-pipeline)[ =]")
_PASS = re.compile(r"[A-Za-z][\w-]*")
_NUMBER = re.compile(r"#([0-9]+)")


async def hover(document: Document, position: lsp.Position, spare: Process) -> lsp.Hover | None:
    """What is at a position. `spare` answers what no text has to be read for."""
    offset = document.offset(position)
    start, end = document.text.line(offset)
    line = document.text.content[start:end]
    if _RUN.search(line):
        return await _of_pass(document, start, line, offset, spare)
    begin, index = await document.index_at(offset)
    if (op := index.op_at(offset - begin)) is not None:
        name = op.name.strip('"')
        text = await document.ask("op", begin + op.span.start, name=name)
        return _shown(document, text, begin + op.span.start, begin + op.span.end)
    quantized = _type_at(line, offset - start)
    if quantized is not None:
        low, high = quantized
        text = await document.ask("type", offset, text=line[low:high])
        return _shown(document, text, start + low, start + high)
    found = index.at(offset - begin)
    if found is None:
        return None
    entity, span = found
    text = None
    if entity.definition is not None:
        place = begin + entity.definition.start
        if entity.kind == "value":
            number = _NUMBER.match(index.text, span.end)
            chosen = int(number[1]) if number else None
            text = await document.ask("value", place, index=chosen, name=entity.name)
        elif entity.kind == "alias":
            text = await document.ask("type", place, text=entity.name)
        elif entity.op:
            op = index.op_before(entity.definition.start)
            if op is not None:
                text = await document.ask("op", begin + op.span.start, name=op.name.strip('"'))
    if not text:
        text = _plain(entity.name, entity.kind, entity.definition is not None)
    uses = len(entity.uses)
    if entity.kind != "value":
        text += f"\n\n- used {uses} times" if uses != 1 else "\n\n- used once"
    return _shown(document, text, begin + span.start, begin + span.end)


def _plain(name: str, kind: str, defined: bool) -> str:
    if not defined:
        return f"`{name}`: nothing here defines this {kind}"
    return f"`{name}`: a {kind}" + ("; no type is known yet" if kind == "value" else "")


def _type_at(line: str, column: int) -> tuple[int, int] | None:
    """The innermost quantized type around a column, or the type whose name is there."""
    best: tuple[int, int] | None = None
    for found in _TYPE.finditer(line):
        if found.start() > column:
            break
        end = _closing(line, found.end())
        is_quantized = line.startswith("!quant", found.start())
        if end is not None and column < end and (is_quantized or column <= found.end()):
            best = found.start(), end
    return best


def _closing(line: str, position: int) -> int | None:
    depth = 0
    for at in range(position, len(line)):
        if line[at] == "<":
            depth += 1
        elif line[at] == ">" and line[at - 1] != "-":
            depth -= 1
            if depth == 0:
                return at + 1
    return None


async def _of_pass(
    document: Document, start: int, line: str, offset: int, spare: Process
) -> lsp.Hover | None:
    for found in _PASS.finditer(line):
        if found.start() <= offset - start <= found.end():
            text = await spare.request("pass_", name=found.group())
            return _shown(document, text, start + found.start(), start + found.end())
    return None


def _shown(document: Document, text: str | None, start: int, end: int) -> lsp.Hover | None:
    if not text:
        return None
    content = lsp.MarkupContent(lsp.MarkupKind.Markdown, text)
    return lsp.Hover(content, document.range(start, end))
