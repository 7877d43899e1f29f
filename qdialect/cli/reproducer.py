"""Crash reproducers: one file with the module and the pipeline, as mlir-opt writes it."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from typing_extensions import override
from xdsl.dialects.builtin import ModuleOp

from qdialect.cli.files import load_arrays
from qdialect.cli.flags import Arguments
from qdialect.cli.terminal import line, say
from qdialect.errors import PassFailure, QError
from qdialect.ir.context import QContext
from qdialect.ir.weights import save_text
from qdialect.pipeline.manager import Instrumentation, Passes
from qdialect.pipeline.text import PassSpec, parse_pipeline, pipeline_text
from qdialect.plugins.mlir.write import module_text

#: name of the group in `{-# external_resources #-}`
GROUP = "mlir_reproducer"


class Reproducer(Instrumentation):
    """Keeps the module as it was before the pipeline, to be written when it fails.

    Without a path the file goes to the folder for temporary files, and only when
    a pass crashed or left invalid IR.  Wrong numerics have their own, smaller one
    (`write_reduced`).
    """

    def __init__(self, ctx: QContext, path: str | None, verify_each: bool) -> None:
        self.ctx = ctx
        self.path = None if path is None else Path(path)
        self.verify_each = verify_each
        self.written: Path | None = None
        self._source: tuple[ModuleOp, str] | None = None

    @override
    def before_pipeline(self, ctx: QContext, passes: Passes, module: ModuleOp) -> None:
        self._source = (module.clone(), pipeline_text(spec for spec, _ in passes))

    def write(self, module: ModuleOp, specs: Sequence[PassSpec]) -> None:
        """Write the reproducer of a pipeline now, whether it fails or not."""
        comment = "qopt-opt --run-reproducer runs this file."
        text = _text(module, pipeline_text(specs), self.ctx, self.verify_each, comment)
        self.written = _write(self.path, "qdialect-reproducer-", text)

    @override
    def after_failure(self, name: str, module: ModuleOp, error: QError) -> None:
        if (self.path is None and not isinstance(error, PassFailure)) or error.code == "numerics":
            return
        assert self._source is not None
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        comment = f"qopt-opt --run-reproducer runs this file again; it failed with:\n{trace}"
        text = _text(*self._source, self.ctx, self.verify_each, comment)
        self.written = _write(self.path, "qdialect-reproducer-", text)


def numerics_check(args: Arguments, path: str | None = None) -> Instrumentation:
    """The check that `--verify-numerics` and `--numerics-inputs` ask for; a reduced program
    goes to `path`."""
    from qdialect.workflows.validation.numerics_check import NumericsCheck

    inputs = args.text("numerics-inputs")
    return NumericsCheck(
        args.integer("verify-numerics", 1, minimum=1),
        inputs=None if inputs is None else load_arrays(inputs),
        say=partial(say, kind="note"),
        write=partial(write_reduced, path),
    )


def write_reduced(
    path: str | None, module: ModuleOp, ctx: QContext, spec: PassSpec, why: str
) -> str:
    """Keep a reduced program that a pass makes another function of, at `path` or among the
    temporary files; what to say of it."""
    comment = f"qopt-opt --run-reproducer --verify-numerics=4 runs this file again.\n{why}"
    text = _text(module, str(spec), ctx, True, comment)
    written = _write(None if path is None else Path(path), "qdialect-numerics-", text)
    count = sum(1 for op in module.walk() if op.results)
    again = f"qopt-opt --run-reproducer --verify-numerics=4 {written}"
    return f"reduced to {count} op{'s'[: count != 1]}: {again} shows it again"


def _write(path: Path | None, prefix: str, text: str) -> Path:
    if path is None:
        handle, temporary = tempfile.mkstemp(prefix=prefix, suffix=".mlir")
        os.close(handle)
        path = Path(temporary)
    save_text(path, text)
    return path


def _text(module: ModuleOp, pipeline: str, ctx: QContext, verify_each: bool, comment: str) -> str:
    above = "".join(line(f"// {text}".rstrip()) for text in comment.splitlines())
    group = {"pipeline": pipeline, "disable_threading": True, "verify_each": verify_each}
    resources = {**ctx.external_resources, GROUP: group}
    text = module_text(module, ctx, inline_weights=True, text_version="v24", resources=resources)
    return f"{above}\n{text}"


def pipeline_of(resources: dict[str, dict[str, str | bool]]) -> tuple[list[PassSpec], bool] | None:
    """The pipeline and `verify_each` of a text that is a reproducer, else None."""
    group = resources.get(GROUP)
    if group is None:
        return None
    return parse_pipeline(str(group.get("pipeline", ""))), group.get("verify_each", True) is True
