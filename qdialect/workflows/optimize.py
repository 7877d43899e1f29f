"""Optimizing a model such that no valid model is refused.

A rewrite that crashes, or after which the result is outside its contract, is left out and the
pipeline runs again on the original.  What is left out grows from one rewrite (a rule at one
place) to a rule everywhere to a whole pass, as often as that is needed.  Rules are tried in the
same order each time, so the same input gives the same result.

The bodies of `If`, `Loop` and `Scan` are optimized first, each as a model of its own, and only
by exact rewrites, whatever the level of the rest: how far an output is off through many
iterations is not known. At `relaxed` they are quantized again for a target that refuses ops of
theirs: nothing is known of outputs then. A body that cannot be read by itself, or that no rewrite
changes, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override
from xdsl.passes import ModulePass

from qdialect.errors import QError, UsageError
from qdialect.ir.context import QContext
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.pipeline.manager import Instrumentation, Passes, PassManager
from qdialect.plugins.onnx.bodies import WithBodies, changed_bodies
from qdialect.quantizer.profile.model_identity import kept_identity
from qdialect.rewrite.remarks import ANYWHERE
from qdialect.workflows.model import Model, run_passes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qdialect.plugins.onnx.write.written import Written
    from qdialect.plugins.tflite.files import WrittenTflite
    from qdialect.targets.base import Target
    from qdialect.workflows.check import Checked, Judge
    from qdialect.workflows.written import FileForm

EVERYTHING = "all passes"
"""What is left out where the original is the result."""
MOST = 24
"""After so many that were left out, the original is the result."""
_AGAIN = "regrid"
"""The pass that chooses qparams again, in bodies too."""
_PLACES = 3
"""A rule that is wrong at so many places is left out everywhere."""
_THEIRS = ("bad-plugin", "numerics")
"""Errors that are the caller's to mend: plug-in code, a check they asked for."""

Watchers = Callable[[QContext], Sequence[Instrumentation]]


def optimize(
    model: Model,
    target: Target,
    numerics: str | None = None,
    *,
    check: int = 0,
    verify_each: bool = False,
    instrumentation: Sequence[Instrumentation] = (),
) -> Model:
    """See `qdialect.api.optimize`: an error of a rewrite is the caller's to see."""
    pipeline = optimize_pipeline(target, numerics or "exact", numerics or "ties")
    start = with_bodies(model, pipeline, target)
    optimized = run_passes(
        start.model,
        pipeline,
        target=target,
        verify_each=verify_each,
        instrumentation=instrumentation,
    )
    optimized.ctx.remarks.remarks += start.remarks
    if check:
        from qdialect.workflows.check import check_optimized

        check_optimized(model, optimized, check)
    return optimized


@dataclass(frozen=True)
class Dropped:
    """A rewrite, rule or pass that was left out, and why."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"left out: {self.what}: {self.why}"


@dataclass(frozen=True)
class Optimized:
    """A model that passed its check, with the file that was judged (an ONNX model in QDQ form;
    None: it becomes MLIR text)."""

    model: Model
    written: Written | WrittenTflite | None
    checked: Checked


class Optimization:
    """The passes of one pipeline on one model, some `without` more ado; `dropped` says what was
    left out of the others."""

    def __init__(
        self,
        model: Model,
        pipeline: str,
        target: Target,
        watchers: Watchers = lambda ctx: (),
        *,
        without: Collection[str] = (),
    ) -> None:
        from qdialect.pipeline.plugins import Plugins
        from qdialect.pipeline.text import parse_pipeline

        self.dropped: list[Dropped] = []
        self._model, self._target, self._watchers = model, target, watchers
        self._pipeline = pipeline
        #: the model with its bodies optimized; None before that
        self._start: WithBodies | None = None
        self._passes: Passes = Plugins().registry().build(parse_pipeline(pipeline))
        self._barred: dict[str, set[str]] = {}
        self._left_out: set[str] = set(without)
        self._verify_each = False

    def run(self) -> Model:
        """The model after all passes but what was left out."""
        while True:
            ctx = self._session()
            watch = _Watch()
            try:
                return self._attempt(ctx, [*self._watchers(ctx), watch])
            except QError as error:
                if isinstance(error, UsageError) or error.code in _THEIRS:
                    raise
                if "left invalid IR" in error.message and not self._verify_each:
                    self._verify_each = True  # to know which pass
                    continue
                if not self._drop(ctx.crashed, watch.name, error.message):
                    raise

    def checked(self, judge: Judge, form: FileForm | None) -> Optimized | None:
        """The model, compared with the original, with all rewrites left out after which it is
        outside its contract; None where nothing helps.

        `form` is what it is written in (None: MLIR text)."""
        from qdialect.workflows.written import write_as

        while True:
            model = self.run()
            written = None if form is None else write_as(model, form)
            checked = judge.check(model, written, form)
            problem = checked.failure or checked.wrong
            if problem is None:
                return Optimized(model, written, checked)
            why = checked.failure.message if checked.failure else str(checked.wrong)
            if not self._drop_wrong(judge, form, why):
                self.dropped.append(Dropped(EVERYTHING, why))
                return None

    # -- running ----------------------------------------------------------------------

    def _session(self) -> QContext:
        ctx = self._model.ctx.clone()
        ctx.target = self._target
        ctx.barred = self._barred
        return ctx

    def _with_bodies(self) -> WithBodies:
        if self._start is None:
            self._start = with_bodies(self._model, self._pipeline, self._target)
        return self._start

    def _attempt(self, ctx: QContext, watchers: Sequence[Instrumentation]) -> Model:
        start = self._with_bodies()
        module = start.model.module.clone()
        passes = [entry for entry in self._passes if entry[0].name not in self._left_out]
        manager = PassManager(ctx, passes, verify_each=self._verify_each, instrumentation=watchers)
        with kept_identity(module, ctx, [each for _, each in passes]):
            manager.run(module)
        ctx.remarks.remarks += start.remarks
        return Model(module, ctx)

    # -- leaving out ------------------------------------------------------------------

    def _drop(self, crashed: tuple[str, str] | None, name: str | None, why: str) -> bool:
        """Leave out a rewrite, or the pass; False where there is nothing more to leave out."""
        if len(self.dropped) >= MOST:
            return False
        if crashed is not None:
            rule, place = crashed
            places = self._barred.setdefault(rule, set())
            if ANYWHERE not in places:
                spread = place in places or len(places) + 1 >= _PLACES
                places.add(ANYWHERE if spread else place)
                what = f"rule {rule}" if spread else f"{rule} at '{place}'"
                self.dropped.append(Dropped(what, why))
                return True
        if name is None or name in self._left_out:
            return False
        self._left_out.add(name)
        self.dropped.append(Dropped(f"pass {name}", why))
        return True

    def _drop_wrong(self, judge: Judge, form: FileForm | None, why: str) -> bool:
        def is_wrong(ctx: QContext, module: ModuleOp) -> bool:
            return judge.is_wrong(ctx, module, form)

        if is_wrong(self._session(), self._model.module):
            return False  # reading and writing it alone changes it
        start = self._with_bodies()
        if start.remarks and is_wrong(self._session(), start.model.module):
            self._start = WithBodies(self._model, [])
            self.dropped.append(Dropped("rewrites in bodies of If, Loop and Scan", why))
            return True
        ctx, search = self._session(), _Search(is_wrong)
        try:
            self._attempt(ctx, [search])
        except _Found:
            return self._drop(search.culprit(ctx), search.name, why)
        return False


class _Watch(Instrumentation):
    """Knows which pass is under way."""

    name: str | None = None

    @override
    def before_pass(self, name: str, module: ModuleOp) -> None:
        self.name = name


class _Found(QError):
    """The first pass after which a module is wrong has run."""


class _Search(_Watch):
    """Stops after the first pass after which the module is wrong."""

    def __init__(self, is_wrong: Callable[[QContext, ModuleOp], bool]) -> None:
        self._is_wrong = is_wrong
        self._next = 0
        self._before: ModuleOp | None = None

    @override
    def before_pipeline(self, ctx: QContext, passes: Passes, module: ModuleOp) -> None:
        self._ctx, self._passes = ctx, passes

    @override
    def before_pass(self, name: str, module: ModuleOp) -> None:
        super().before_pass(name, module)
        self._instance: ModulePass = self._passes[self._next][1]
        self._next += 1
        self._changes = self._ctx.changes
        if self._before is None:
            self._before = module.clone()

    @override
    def after_pass(self, name: str, module: ModuleOp) -> None:
        counts = getattr(self._instance, "counts_changes", False)
        if counts and self._ctx.changes == self._changes:
            return
        if self._is_wrong(self._ctx, module):
            raise _Found("wrong from here on")
        self._before = None

    def culprit(self, ctx: QContext) -> tuple[str, str] | None:
        """The rule and the place of the rewrite in that pass; None where a pass does not
        consist of rewrites, or bounds of several rewrites add up."""
        from qdialect.workflows.validation.bisection import first_wrong_rewrite

        if self._before is None or any(b.contract != "exact" for b in ctx.remarks.outputs):
            return None
        found: Any = first_wrong_rewrite(ctx, self._before, self._instance, self._is_wrong)
        return None if found is None else (found.rewrite.rule, found.rewrite.place)


def with_bodies(model: Model, pipeline: str, target: Target) -> WithBodies:
    """The model with `pipeline` run on its bodies, exactly but where qparams are chosen again; the
    given one if that changes none."""
    pipeline = re.sub(r",fold-interface\b(\{[^}]*\})?", "", pipeline)
    exactly = re.sub(r"\bnumerics=\w+", "numerics=exact", pipeline)

    def change(body: Model) -> WithBodies | None:
        result = (
            run_passes(body, pipeline, target=target)
            if f"{_AGAIN}{{numerics=relaxed}}" in pipeline
            else None
        )
        if result is None or _AGAIN not in result.ctx.remarks.fired():
            result = run_passes(body, exactly, target=target)
        remarks = result.ctx.remarks.remarks
        fired = [remark for remark in remarks if remark.kind == "fired"]
        again = _AGAIN in result.ctx.remarks.fired()
        if not again and any(remark.contract != "exact" for remark in fired):
            return None
        return WithBodies(result, remarks if fired else [])

    return changed_bodies(model, change)
