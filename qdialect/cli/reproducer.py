"""Crash reproducers: one file with the module and the pipeline, as mlir-opt writes it."""

from __future__ import annotations

import os
import tempfile
import traceback
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from qdialect.backends.mlir import module_text
from qdialect.context import QContext
from qdialect.errors import QError
from qdialect.passes.manager import Instrumentation, Passes, PassFailure
from qdialect.passes.pipeline import PassSpec, parse_pipeline, pipeline_text
from qdialect.weights import replacing

#: name of the group in `{-# external_resources #-}`
GROUP = "mlir_reproducer"


class Reproducer(Instrumentation):
    """Keeps the module as it was before the pipeline, to be written when it fails.

    Without a path the file goes to the folder for temporary files, and only when
    a pass crashed or left invalid IR.
    """

    def __init__(self, ctx: QContext, path: str | None, verify_each: bool) -> None:
        self.ctx = ctx
        self.path = None if path is None else Path(path)
        self.verify_each = verify_each
        self.written: Path | None = None
        self._source: tuple[ModuleOp, str] | None = None

    def before_pipeline(self, passes: Passes, module: ModuleOp) -> None:
        self._source = (module.clone(), pipeline_text(spec for spec, _ in passes))

    def after_failure(self, name: str, module: ModuleOp, error: QError) -> None:
        if self.path is None and not isinstance(error, PassFailure):
            return
        path = self.path
        if path is None:
            handle, temporary = tempfile.mkstemp(prefix="qdialect-reproducer-", suffix=".mlir")
            os.close(handle)
            path = Path(temporary)
        with replacing(path) as temporary_path:
            temporary_path.write_text(self._text(error), encoding="utf-8")
        self.written = path

    def _text(self, error: QError) -> str:
        assert self._source is not None
        module, pipeline = self._source
        told = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        comment = "".join(f"// {line}".rstrip() + "\n" for line in told.splitlines())
        quoted = pipeline.replace("\\", "\\\\").replace('"', '\\"')
        return (
            f"// qopt-opt --run-reproducer runs this file again; it failed with:\n{comment}\n"
            f"{module_text(module, self.ctx, inline_weights=True, text_version='v24')}\n"
            "{-#\n  external_resources: {\n"
            f"    {GROUP}: {{\n"
            f'      pipeline: "{quoted}",\n'
            "      disable_threading: true,\n"
            f"      verify_each: {str(self.verify_each).lower()}\n"
            "    }\n  }\n#-}\n"
        )


def pipeline_of(resources: dict[str, dict[str, str | bool]]) -> tuple[list[PassSpec], bool] | None:
    """The pipeline and `verify_each` of a text that is a reproducer, else None."""
    group = resources.get(GROUP)
    if group is None:
        return None
    return parse_pipeline(str(group.get("pipeline", ""))), group.get("verify_each", True) is True
