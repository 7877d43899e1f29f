"""The pass manager: runs passes in order, verifies the module, and calls instrumentation.

A pass that cannot do its work raises QError; a crash, or IR that does not verify, becomes a
PassFailure that names the pass (or the plug-in it comes from).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from qdialect.errors import (
    InputError,
    PassFailure,
    QError,
    culprit,
    foreign_frame,
    foreign_module,
)
from qdialect.ir.context import QContext
from qdialect.ir.ops.locations import op_where
from qdialect.ir.verify.cache import VerifiedOps
from qdialect.ir.verify.verifier import verify_module
from qdialect.pipeline.anchors import unanchored
from qdialect.pipeline.text import PassSpec
from qdialect.rewrite.summary import summarize

Passes = Sequence[tuple[PassSpec, ModulePass]]


class Instrumentation:
    """Hooks around passes; override what you need."""

    def before_pipeline(self, ctx: QContext, passes: Passes, module: ModuleOp) -> None:
        """Called once, before the first pass."""

    def before_pass(self, name: str, module: ModuleOp) -> None:
        """Called before each pass."""

    def before_verify(self, name: str, module: ModuleOp) -> None:
        """Called between a pass and the verification of its result."""

    def after_pass(self, name: str, module: ModuleOp) -> None:
        """Called after a pass has run and its result has been verified."""

    def after_failure(self, name: str, module: ModuleOp, error: QError) -> None:
        """Called when a pass failed, or left a module that does not verify."""

    def after_pipeline(self) -> None:
        """Called once at the end, also after a failure."""


@runtime_checkable
class BeforePipeline(Protocol):
    """A pass that has to know what the module was before the first pass of its pipeline."""

    def before_pipeline(self, ctx: QContext, module: ModuleOp) -> None:
        """Note it in `ctx.at_start`."""
        ...


class PassManager:
    """Runs `passes` on modules of the session `ctx`.

    With `verify_each` the module is verified after every pass; else once at the end.
    `strict` is that of `verify_module`.

    A pass does not run again on what it left as it was. A pass class says so by
    `counts_changes` (it adds what it changes to `QContext.changes`), and by `idempotent`
    (it leaves what it has changed as it is, too).  What analyses know is kept as long as
    nothing changes, or only passes do that say `keeps_analyses`: what they leave there is
    right for the module as they leave it.
    """

    def __init__(
        self,
        ctx: QContext,
        passes: Passes,
        *,
        verify_each: bool = True,
        strict: bool = True,
        instrumentation: Sequence[Instrumentation] = (),
    ) -> None:
        self.ctx = ctx
        self.passes = passes
        self.verify_each = verify_each
        self.strict = strict
        self.instrumentation: list[Instrumentation] = list(instrumentation)
        #: by pass, the count of changes at which it does nothing
        self._left: dict[str, int] = {}
        self._verified = VerifiedOps()

    def run(self, module: ModuleOp) -> None:
        """Apply all passes to `module`, in place.

        Raises QError when a pass cannot do its work on this input or a plug-in fails, and
        PassFailure when a pass of ours crashed or left invalid IR.  Either leaves `module`
        as the failing pass did: who needs the old one runs on a clone, as `api` does.
        """
        self._notify(lambda watcher: watcher.before_pipeline(self.ctx, self.passes, module))
        try:
            self._left.clear()
            self._verified = VerifiedOps()
            self.ctx.analyses.clear()
            self.ctx.keeps_analyses = True
            for _, instance in self.passes:
                if isinstance(instance, BeforePipeline):
                    instance.before_pipeline(self.ctx, module)
            last = len(self.passes) - 1
            for index, (spec, instance) in enumerate(self.passes):
                self._run_pass(spec, instance, module, self.verify_each or index == last)
            self.ctx.remarks.outputs = summarize(self.ctx, module)
        finally:
            self.ctx.keeps_analyses = False
            self.ctx.analyses.clear()
            self.ctx.at_start.clear()
            self._notify(lambda watcher: watcher.after_pipeline())

    def _apply(self, spec: PassSpec, instance: ModulePass, module: ModuleOp) -> None:
        key, before = str(spec), self.ctx.changes
        if self._left.get(key) == before:
            return
        instance.apply(self.ctx, module)
        self.ctx.error_bounds.check(spec.name)
        if not getattr(instance, "counts_changes", False):
            self.ctx.changes += 1
        elif self.ctx.changes == before or getattr(instance, "idempotent", False):
            self._left[key] = self.ctx.changes
        if self.ctx.changes != before and not getattr(instance, "keeps_analyses", False):
            self.ctx.analyses.clear()

    def _run_pass(
        self, spec: PassSpec, instance: ModulePass, module: ModuleOp, verify: bool
    ) -> None:
        name = spec.name
        self._notify(lambda watcher: watcher.before_pass(name, module))
        try:
            self._apply(spec, instance, module)
            if verify:
                self._notify(lambda watcher: watcher.before_verify(name, module))
                self._verify(name, instance, module)
            self._notify(lambda watcher: watcher.after_pass(name, module))
        except (Exception, SystemExit) as error:
            failure = self._described(name, module, error)
            self._notify(lambda watcher: watcher.after_failure(name, module, failure))
            if failure is error:
                raise
            raise failure from error

    def _verify(self, name: str, instance: ModulePass, module: ModuleOp) -> None:
        try:
            verify_module(
                module,
                self.ctx.blobs,
                behaviors=self.ctx.behaviors,
                strict=self.strict,
                verified=self._verified,
            )
        except QError as error:
            home = type(unanchored(instance)).__module__
            is_plugin = foreign_module(home)
            kind, code = (QError, "bad-plugin") if is_plugin else (PassFailure, "internal-error")
            whose = f" (plug-in {home})" if is_plugin else ""
            raise kind(
                f"pass '{name}'{whose} left invalid IR: {error.message}",
                where=error.where,
                code=code,
                notes=error.notes,
            ) from error

    def _described(self, name: str, module: ModuleOp, error: Exception | SystemExit) -> QError:
        if isinstance(error, QError):
            return error
        if isinstance(error, DiagnosticException):
            text = str(error).strip().split("\n")[0] or type(error).__name__
            message = f"pass '{name}' failed: {text}"
            return InputError(message, where=op_where(module), code="pass-failed")
        frame = foreign_frame(error)
        if frame is not None:
            message = f"pass '{name}': plug-in code failed in {frame}: {culprit(error)}"
            return QError(message, code="bad-plugin")
        return PassFailure(f"pass '{name}' crashed: {culprit(error)}", code="internal-error")

    def _notify(self, call: Callable[[Instrumentation], Any]) -> None:
        for watcher in self.instrumentation:
            call(watcher)
