"""Watching passes: IR dumps, timing and statistics, in the manner of mlir-opt."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typing_extensions import override
from xdsl.dialects.builtin import ModuleOp

from qdialect.cli.terminal import bar, moving
from qdialect.errors import QError, unwritable
from qdialect.ir.context import QContext
from qdialect.pipeline.manager import Instrumentation, Passes
from qdialect.plugins.mlir.write import module_text

_RULE = "===" + "-" * 73 + "==="


class IRDumps(Instrumentation):
    """Prints the module to standard error around passes (None: around all), or to files in the
    folder `tree`, numbered as they are written."""

    def __init__(
        self,
        ctx: QContext,
        *,
        before: Sequence[str] | None,
        after: Sequence[str] | None,
        after_change: bool,
        after_failure: bool,
        generic: bool,
        debuginfo: bool,
        text_version: str | None = None,
        tree: str | None = None,
    ) -> None:
        self._ctx = ctx
        self._tree = None if tree is None else Path(tree)
        self._written = 0
        self._before, self._after = before, after
        self._after_change, self._after_failure = after_change, after_failure
        self._options: dict[str, Any] = {
            "generic": generic,
            "debuginfo": debuginfo,
            "text_version": text_version,
        }
        self._previous = ""

    @property
    def prints_anything(self) -> bool:
        """Whether anything would ever be printed."""
        lists = (self._before, self._after)
        named = any(names is None or names for names in lists)
        return named or self._after_change or self._after_failure

    @override
    def before_pass(self, name: str, module: ModuleOp) -> None:
        if self._before is None or name in self._before:
            self._dump(f"Before {name}", module)
        if self._after_change:
            self._previous = self._text(module)

    @override
    def after_pass(self, name: str, module: ModuleOp) -> None:
        if self._after_change and self._previous == self._text(module):
            return
        if self._after is None or name in self._after or (self._after_change and not self._after):
            self._dump(f"After {name}", module)

    @override
    def after_failure(self, name: str, module: ModuleOp, error: QError) -> None:
        if self._after_failure or self._after is None:
            self._dump(f"After {name} Failed", module)

    def _text(self, module: ModuleOp) -> str:
        return module_text(module, self._ctx, **self._options)

    def _dump(self, title: str, module: ModuleOp) -> None:
        try:
            text = self._text(module)
        except Exception as error:
            text = f"<<the module cannot be printed: {type(error).__name__}>>\n"
        text = f"// -----// IR Dump {title} //----- //\n{text}\n"
        if self._tree is None:
            sys.stderr.write(text)
            return
        name = module.sym_name.data if module.sym_name else "no-symbol-name"
        folder = self._tree / f"builtin_module_{name}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{self._written}_{title.split()[1]}.mlir"
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise unwritable(folder, error) from None
        self._written += 1


class Timing(Instrumentation):
    """Wall time of each pass, of its verification, and of the phases around passes."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._rows: list[tuple[int, str, float]] = []
        self._started = self._verified = self._pipeline = 0.0

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Time one phase that is not a pass."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._rows.append((0, name, time.perf_counter() - start))

    @override
    def before_pass(self, name: str, module: ModuleOp) -> None:
        self._started = time.perf_counter()
        self._verified = 0.0

    @override
    def before_verify(self, name: str, module: ModuleOp) -> None:
        self._verified = time.perf_counter()

    @override
    def after_pass(self, name: str, module: ModuleOp) -> None:
        now = time.perf_counter()
        end = self._verified or now
        self._rows.append((0, f"'{name}' Pass", end - self._started))
        if self._verified:
            self._rows.append((1, "(V) verifier", now - self._verified))

    def report(self) -> str:
        """The table, and a total that includes what no row counts."""
        total = time.perf_counter() - self._began
        lines = [
            _RULE,
            "... Execution time report ...".center(len(_RULE)).rstrip(),
            _RULE,
            f"  Total Execution Time: {total:.4f} seconds",
            "",
            "  ----Wall Time----  ----Name----",
        ]
        rest = total - sum(seconds for _, _, seconds in self._rows)
        for depth, name, seconds in [*self._rows, (0, "Rest", rest), (0, "Total", total)]:
            share = 100 * seconds / total if total else 0.0
            lines.append(f"  {seconds:9.4f} ({share:5.1f}%)  {'  ' * depth}{name}")
        return "\n".join(lines) + "\n"


class Progress(Instrumentation):
    """Shows on a terminal which pass is running; silent elsewhere."""

    def __init__(self) -> None:
        self._bar = bar(sys.stderr) if moving(sys.stderr) else None

    @override
    def before_pipeline(self, ctx: QContext, passes: Passes, module: ModuleOp) -> None:
        if self._bar is not None:
            self._bar.add_task("passes", total=len(passes))
            self._bar.start()

    @override
    def before_pass(self, name: str, module: ModuleOp) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[-1], description=name)

    @override
    def after_pass(self, name: str, module: ModuleOp) -> None:
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[-1])

    @override
    def after_pipeline(self) -> None:
        if self._bar is not None:
            self._bar.stop()


class Statistics(Instrumentation):
    """What each pass did: rewrites that fired and were refused, ops before and after."""

    def __init__(self, ctx: QContext) -> None:
        self._ctx = ctx
        self._seen = self._ops = 0
        self._passes: list[tuple[str, list[tuple[int, str]]]] = []

    @override
    def before_pass(self, name: str, module: ModuleOp) -> None:
        self._seen = len(self._ctx.remarks.remarks)
        self._ops = sum(1 for _ in module.walk())

    @override
    def after_pass(self, name: str, module: ModuleOp) -> None:
        counts: dict[str, int] = {}
        for remark in self._ctx.remarks.remarks[self._seen :]:
            label = f"{remark.rule} {remark.kind}"
            counts[label] = counts.get(label, 0) + 1
        ops = sum(1 for _ in module.walk())
        rows = [(self._ops, "ops before"), (ops, "ops after")]
        rows += [(count, label) for label, count in sorted(counts.items())]
        self._passes.append((name, rows))

    def report(self) -> str:
        """The counts of all passes."""
        title = "... Pass statistics report ...".center(len(_RULE)).rstrip()
        lines = [_RULE, title, _RULE]
        for name, rows in self._passes:
            lines.append(f"'{name}' Pass")
            lines += [f"  (S) {count:6} {label}" for count, label in rows]
        return "\n".join(lines) + "\n"
