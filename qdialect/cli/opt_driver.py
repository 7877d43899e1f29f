"""What `qopt-opt` does once it has something to do."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp, StringAttr

from qdialect.cli.flags import (
    Arguments,
    are_weights_inline,
    bytecode_version,
    is_bytecode_requested,
    write,
    write_binary,
)
from qdialect.cli.terminal import OK, OUR_BUG, WRONG_INPUT, Sources, line, report, say
from qdialect.errors import Block, InputError, PassFailure, QError, UsageError, Where
from qdialect.ir.context import QContext
from qdialect.ir.ops.keys import KEY
from qdialect.ir.verify.verifier import BLOBS, verification_errors
from qdialect.ir.weights import BlobStore, save_text
from qdialect.pipeline.plugins import Plugins
from qdialect.plugins.mlir.bytecode.layout import MAGIC
from qdialect.plugins.mlir.read import (
    Parsed,
    bytecode_module,
    decode,
    is_bytecode,
    parse_text,
    read_text,
    weight_path,
)
from qdialect.plugins.mlir.write import bytecode, module_text, save_module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.passes import ModulePass

    from qdialect.cli.diagnostics import Expectations
    from qdialect.cli.instrumentation import Timing
    from qdialect.pipeline.manager import Passes
    from qdialect.pipeline.text import PassSpec
    from qdialect.plugins.mlir.bytecode.cursor import Data
    from qdialect.quantizer.profile.record import Profile
    from qdialect.targets.base import Target

SEPARATOR = "// -----"

STYLE_FLAGS = (
    "mlir-elide-elementsattrs-if-larger",
    "mlir-elide-resource-strings-if-larger",
    "mlir-print-elementsattrs-with-hex-if-larger",
    "mlir-print-skip-regions",
    "mlir-print-unique-ssa-ids",
    "mlir-print-value-users",
    "mlir-use-nameloc-as-prefix",
)
_UNVERIFIED = ("disable-verify", "mlir-very-unsafe-disable-verifier-on-parsing")
"""Flags with which the input is not verified."""


class OptDriver:
    """One run of `qopt-opt`."""

    def __init__(self, args: Arguments) -> None:
        self.args = args
        self.plugins = Plugins(args.texts("load-plugin"))
        self.specs: list[PassSpec] = []
        if self.plugins or args.has("pass-pipeline") or args.passes:
            self._read_pipeline()
        self.target: Target | None = None
        if (name := args.text("target")) is not None:
            from qdialect.targets.installed import get_target

            self.target = get_target(name)
        self.profile: Profile | None = None
        if (path := args.text("assume-profile")) is not None:
            from qdialect.quantizer.profile.file import load_profile

            self.profile = load_profile(Path(path))
        self.timing: Timing | None = None
        if args.switch("mlir-timing"):
            from qdialect.cli.instrumentation import Timing

            self.timing = Timing()
        #: how modules are written, as `module_text` takes it
        self.spelling: dict[str, Any] = {
            "generic": args.switch("mlir-print-op-generic"),
            "debuginfo": args.switch("mlir-print-debuginfo"),
            "inline_weights": are_weights_inline(args),
            "keep_names": args.switch("keep-value-names"),
            "text_version": args.text("quant-text"),
        }
        if any(args.has(flag) for flag in STYLE_FLAGS):
            from qdialect.cli.printing import chosen_style

            self.spelling["style"] = chosen_style(args)
        self.writes_bytecode = is_bytecode_requested(args)
        self.strict = args.switch("verify-quant-strict")
        self.sources = Sources()
        self.code = OK
        self.sessions: list[QContext] = []
        #: by piece; None for one that is wrong
        self.outputs: list[tuple[ModuleOp, QContext] | None] = []
        which = args.last("verify-diagnostics")
        if which not in (False, True, "all", "only-expected", "true", "false"):
            raise UsageError(f"--verify-diagnostics is all or only-expected, not '{which}'")
        self._verifies_diagnostics = which not in (False, "false")

    def _read_pipeline(self) -> None:
        """What is wrong with it, or with the plug-ins, is reported before the input is read."""
        from qdialect.pipeline.text import parse_pipeline

        registry = self.plugins.registry()
        texts = self.args.texts("pass-pipeline")
        if texts and self.args.passes:
            raise UsageError("'-pass-pipeline' option can't be used with individual pass options")
        self.specs = [s for text in texts or self.args.passes for s in parse_pipeline(text)]
        registry.build(self.specs)

    def show_dialects(self) -> int:
        """`--show-dialects`."""
        write("".join(f"{n}\n" for n in sorted(self._session().registered_dialect_names)))
        return OK

    def run(self) -> int:
        """Process the input; returns the exit code."""
        argument = self.args.positional[0] if self.args.positional else "-"
        self._bytecode, text, name, folder = _read_input(argument)
        self.sources.add(name, text)
        self._name, self._folder = name, folder
        for piece, offset in self._pieces(text):
            self._process(piece, offset)
        self._write()
        if self.timing is not None:
            sys.stderr.write(self.timing.report())
        if self.args.has("debug-only") or self.args.switch("debug"):
            from qdialect.cli.printing import debug_lines

            named = None if self.args.switch("debug") else self.args.texts("debug-only")
            sys.stderr.write(debug_lines(self.sessions, named))
        matched = self._verifies_diagnostics and self.args.text("remarks") is None
        if self.args.has("remarks") and not matched:
            from qdialect.cli.files import remarks_output

            remarks_output(self.sessions, self.args.text("remarks"))
        return self.code

    # -- pieces ----------------------------------------------------------------

    def _pieces(self, text: str) -> list[tuple[str, int]]:
        """The pieces of the input and the number of lines before each."""
        marker = self.args.last("split-input-file")
        if not marker:
            return [(text, 0)]
        separator = marker if isinstance(marker, str) else SEPARATOR
        pieces: list[tuple[str, int]] = []
        lines: list[str] = []
        start = 0
        for number, each in enumerate(text.splitlines(keepends=True)):
            if each.startswith(separator):
                pieces.append(("".join(lines), start))
                lines, start = [], number + 1
            else:
                lines.append(each)
        return [*pieces, ("".join(lines), start)]

    def _process(self, text: str, offset: int) -> None:
        """Read, run and keep one piece; report what goes wrong in it."""
        ctx = self._session()
        self.sessions.append(ctx)
        self.outputs.append(None)
        expectations: Expectations | None = None
        if self._verifies_diagnostics:
            from qdialect.cli.diagnostics import Expectations

            expectations = Expectations(text, self._name, offset)
        errors: list[QError] = []
        try:
            module = self._transformed(text, offset, ctx, errors)
            if module is not None:
                self.outputs[-1] = module, ctx
        except PassFailure as error:
            self._report(error)
            self.code = OUR_BUG
            return
        except UsageError:
            raise
        except QError as error:
            errors.append(error)
        if expectations is None:
            for error in errors:
                self._report(error)
            failed = bool(errors)
        else:
            failed = self._check(expectations, errors, ctx)
        if failed and self.code == OK:
            self.code = WRONG_INPUT

    def _report(self, error: QError) -> None:
        if self.args.switch("mlir-disable-diagnostic-notes"):
            error.notes = ()
        if self.args.switch("mlir-print-stacktrace-on-diagnostic"):
            from traceback import format_tb

            trace = "".join(format_tb(error.__traceback__)).rstrip()
            error.notes = (*error.notes, Block(f"diagnostic emitted with trace:\n{trace}", None))
        report(error, self.sources)

    def _check(self, expectations: Expectations, errors: list[QError], ctx: QContext) -> bool:
        from qdialect.cli.diagnostics import Diagnostic

        diagnostics = [Diagnostic.of_error(error) for error in errors]
        if self.args.has("remarks"):
            diagnostics += [Diagnostic.of_remark(remark) for remark in ctx.remarks.remarks]
        only_expected = self.args.text("verify-diagnostics") == "only-expected"
        complaints = expectations.check(diagnostics, only_expected=only_expected)
        for complaint in complaints:
            report(complaint, self.sources)
        return bool(complaints)

    def _transformed(
        self, text: str, offset: int, ctx: QContext, errors: list[QError]
    ) -> ModuleOp | None:
        with self._phase("Parser"):
            if self._bytecode is not None:
                module = bytecode_module(self._bytecode, ctx, self._name)
                parsed = Parsed(module, ctx.external_resources)
            else:
                parsed = parse_text(text, ctx, self._name, folder=self._folder, line_offset=offset)
        if not any(map(self.args.switch, _UNVERIFIED)):
            with self._phase("Verifier"):
                errors.extend(
                    verification_errors(
                        parsed.module, ctx.blobs, behaviors=ctx.declared, strict=self.strict
                    )
                )
            if errors:
                return None
        if self.args.switch("no-implicit-module"):
            from qdialect.cli.printing import require_one_op

            require_one_op(parsed.module, text, self._name)
        if self.args.switch("verify-roundtrip"):
            from qdialect.cli.printing import verify_roundtrip

            verify_roundtrip(parsed.module, ctx, self._session)
        if self.profile is not None:
            from qdialect.quantizer.profile.assume import state_ranges

            state_ranges(parsed.module, self.profile)
        specs, verify_each = self._pipeline(parsed, ctx)
        if self.args.switch("dump-pass-pipeline"):
            from qdialect.pipeline.text import pipeline_outline

            sys.stderr.writelines(map(line, pipeline_outline(specs).splitlines()))
        if (path := self.args.text("mlir-generate-reproducer")) is not None:
            from qdialect.cli.reproducer import Reproducer

            Reproducer(ctx, path, verify_each).write(parsed.module, specs)
        if specs:
            passes = self.plugins.registry().build(specs)
            _run_passes(self.args, parsed.module, ctx, passes, verify_each, self.timing)
        return parsed.module

    def _pipeline(self, parsed: Parsed, ctx: QContext) -> tuple[list[PassSpec], bool]:
        verify_each = self.args.switch("verify-each") and not self.args.switch("disable-verify")
        if not self.args.switch("run-reproducer"):
            return self.specs, verify_each
        from qdialect.cli.reproducer import GROUP, pipeline_of

        found = pipeline_of(parsed.external_resources)
        if found is None:
            raise InputError(
                "not a reproducer: it names no pipeline in its external_resources",
                where=Where(self._name),
            )
        del ctx.external_resources[GROUP]  # it has been used
        return found

    # -- sessions, output --------------------------------------------------------

    def _session(self) -> QContext:
        ctx = self.plugins.session(
            allow_unregistered=self.args.switch("allow-unregistered-dialect")
        )
        if self.target is not None:
            ctx.target = self.target
        return ctx

    def _write(self) -> None:
        output = self.args.text("o")
        if self.writes_bytecode and len(self.outputs) > 1:
            raise UsageError("a file of bytecode holds one module")
        if self.writes_bytecode:
            self.spelling["inline_weights"] = self.args.switch("inline-weights")
        if output in (None, "-") and self.writes_bytecode:
            with self._phase("Output"):
                for module, ctx in filter(None, self.outputs):
                    options = {k: self.spelling[k] for k in ("inline_weights", "text_version")}
                    version = bytecode_version(self.args)
                    write_binary(bytecode(module, ctx, version=version, **options))
        elif output in (None, "-"):
            with self._phase("Output"):
                write(self._joined(self._folder))
        elif self.code == OK:
            with self._phase("Output"):
                self._save(Path(output))

    def _save(self, path: Path) -> None:
        only = self.outputs[0] if len(self.outputs) == 1 else None
        if only is not None and not self.args.switch("no-implicit-module"):
            module, ctx = only
            save_module(
                module,
                ctx,
                path,
                as_bytecode=self.writes_bytecode,
                bytecode_version=bytecode_version(self.args),
                **self.spelling,
            )
        else:
            save_text(path, self._joined(None))

    def _joined(self, folder: Path | None) -> str:
        """All modules as one text.  Weights that are in a file a reader will find in
        `folder` stay there; others go into the text."""
        texts = StringIO()
        marker = self.args.text("output-split-marker")
        for index, output in enumerate(self.outputs):
            if index:
                texts.write((SEPARATOR if marker is None else marker) + "\n")
            if output is None:
                continue
            module, ctx = output
            if self.args.switch("no-implicit-module"):
                from qdialect.cli.printing import one_op_text

                texts.write(one_op_text(module, ctx, self.spelling) + "\n")
                continue
            external = _beside(module, ctx, folder)
            texts.write(module_text(module, ctx, external=external, **self.spelling))
            # mlir-opt ends a module with an empty line.
            texts.write("\n")
        return texts.getvalue()

    def _phase(self, name: str):
        return nullcontext() if self.timing is None else self.timing.phase(name)


def _read_input(argument: str) -> tuple[Data | None, str, str, Path]:
    """Bytecode or text, name for diagnostics, and the folder in which weights are looked for."""
    if argument == "-":
        buffer = getattr(sys.stdin, "buffer", None)
        data: bytes = sys.stdin.read().encode() if buffer is None else buffer.read()
        if data.startswith(MAGIC):
            return data, "", "<stdin>", Path()
        return None, decode(data, "<stdin>"), "<stdin>", Path()
    path = Path(argument)
    if is_bytecode(path):
        from qdialect.plugins.mlir.bytecode.read import mapped

        return mapped(path), "", argument, path.parent
    return None, read_text(path), argument, path.parent


def _beside(module: ModuleOp, ctx: QContext, folder: Path | None) -> BlobStore | None:
    named = module.attributes.get(BLOBS)
    if not isinstance(named, StringAttr) or folder is None:
        # References in a text without a store were there before; what is in memory
        # only must not get lost.
        return None if len(ctx.blobs) == 0 else BlobStore()
    store = BlobStore()
    store.open(weight_path(named.data, folder))
    return store


def _kept_identity(
    module: ModuleOp, ctx: QContext, passes: Sequence[ModulePass]
) -> AbstractContextManager[None]:
    """`model_identity.kept_identity`; nothing for a module without keys, which has no profile."""
    if not any(KEY in op.attributes for op in module.walk()):
        return nullcontext()
    from qdialect.quantizer.profile.model_identity import kept_identity

    return kept_identity(module, ctx, passes)


def _run_passes(
    args: Arguments,
    module: ModuleOp,
    ctx: QContext,
    passes: Passes,
    verify_each: bool,
    timing: Timing | None,
) -> None:
    """Run `passes` on `module`, watched as the flags say."""
    from qdialect.cli.instrumentation import IRDumps, Statistics
    from qdialect.cli.reproducer import Reproducer, numerics_check
    from qdialect.pipeline.manager import PassManager

    crash_file = args.text("mlir-pass-pipeline-crash-reproducer")
    reproducer = Reproducer(ctx, crash_file, verify_each)
    statistics = Statistics(ctx) if args.switch("mlir-pass-statistics") else None
    checks = [numerics_check(args, crash_file)] if args.has("verify-numerics") else []
    dumps = IRDumps(
        ctx,
        before=None
        if args.switch("mlir-print-ir-before-all")
        else args.texts("mlir-print-ir-before"),
        after=None if args.switch("mlir-print-ir-after-all") else args.texts("mlir-print-ir-after"),
        after_change=args.switch("mlir-print-ir-after-change"),
        after_failure=args.switch("mlir-print-ir-after-failure"),
        generic=args.switch("mlir-print-op-generic"),
        debuginfo=args.switch("mlir-print-debuginfo"),
        text_version="v24" if args.text("quant-text") == "v24" else None,
        tree=args.text("mlir-print-ir-tree-dir"),
    )
    manager = PassManager(
        ctx,
        passes,
        verify_each=verify_each,
        strict=args.switch("verify-quant-strict"),
        instrumentation=[
            reproducer,
            *([timing] if timing else []),
            *([statistics] if statistics else []),
            *([dumps] if dumps.prints_anything else []),
            *checks,
        ],
    )
    try:
        with _kept_identity(module, ctx, [each for _, each in passes]):
            manager.run(module)
    finally:
        if reproducer.written is not None:
            say(f"reproducer written to {reproducer.written}", "note")
    if statistics is not None:
        sys.stderr.write(statistics.report())
