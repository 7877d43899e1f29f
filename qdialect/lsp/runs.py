"""Runs a pipeline on a chunk and says what it changed, as a diff.

`optimize` and `optimize{numerics=ties}` stand for the passes of `qopt optimize` for a target.
Both sides of the diff are printed in the same way, so that it shows what the passes did and not
how the file was laid out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from qdialect.errors import UsageError
from qdialect.formats.mlir.read import parse_text, verify_module
from qdialect.formats.mlir.write import blob_keys, module_text
from qdialect.lsp.checks import Options, session_for
from qdialect.lsp.history import Event, events_of
from qdialect.lsp.index import Index
from qdialect.numerics.contract import Numerics
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.pipeline.manager import PassManager
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import PassSpec, parse_pipeline

OPTIMIZE = "optimize"
_COMMENTS = re.compile(r"(?:[ \t]*(?://[^\n]*)?\n)*")


class Run(NamedTuple):
    """What a pipeline made of a chunk. `before` and `after` are the texts of the function that was
    asked for, or of the module; `result` is the whole chunk."""

    diff: str
    before: str
    after: str
    result: str
    events: list[Event]
    bounds: list[str]


def specs_of(pipeline: str, target: str) -> list[PassSpec]:
    """The passes of a pipeline. Raises UsageError where there are no such ones."""
    specs: list[PassSpec] = []
    for spec in parse_pipeline(pipeline):
        if spec.name != OPTIMIZE:
            specs.append(spec)
            continue
        level = "exact"
        for option, values in spec.options:
            if option != "numerics" or len(values) != 1:
                raise UsageError("'optimize' has one option, numerics", code="bad-option")
            try:
                level = str(Numerics.parse(values[0]))
            except ValueError as error:
                raise UsageError(str(error), code="bad-option") from None
        specs += parse_pipeline(optimize_pipeline(target, level))
    return specs


def run(text: str, name: str, pipeline: str, function: str, target: str, options: Options) -> Run:
    """Run `pipeline` on the module in `text`; with the name of a function the diff is of that one.

    `name` is the file in locations. Raises QError for a text or a pipeline that is wrong.
    """
    from qdialect.targets.installed import get_target

    ctx = session_for(text, options)
    ctx.target = get_target(target)
    registry = PassRegistry()
    passes = registry.build(specs_of(pipeline, target))
    folder = Path(options.folder) if options.folder else None
    module = parse_text(text, ctx, name, folder=folder).module
    verify_module(module, ctx)
    known = blob_keys(module)
    first = module_text(module, ctx, external=known)
    PassManager(ctx, passes).run(module)
    last = module_text(module, ctx, external=known)
    before, after = (_cut(each, function) for each in (first, last))
    comments = _COMMENTS.match(text)
    return Run(
        _diff(before, after, name, pipeline),
        before,
        after,
        (comments.group() if comments else "") + last,
        events_of(ctx.remarks.remarks),
        [str(bound) for bound in ctx.remarks.outputs],
    )


def _cut(text: str, function: str) -> str:
    """The text of one function, or all of it where there is no such function."""
    if not function:
        return text
    for outline in Index(text).walk():
        if outline.kind == "symbol" and outline.name == function:
            start = text.rfind("\n", 0, outline.whole.start) + 1
            return text[start : outline.whole.end] + "\n"
    return text


def _diff(before: str, after: str, name: str, pipeline: str) -> str:
    lines: Sequence[list[str]] = [each.splitlines(keepends=True) for each in (before, after)]
    return "".join(difflib.unified_diff(lines[0], lines[1], name, f"{name} after {pipeline}", n=3))
