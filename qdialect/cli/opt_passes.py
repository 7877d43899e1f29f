"""The passes of one run of `qopt-opt`, and what watches them."""

from __future__ import annotations

import sys

from xdsl.dialects.builtin import ModuleOp

from qdialect.cli.flags import Arguments
from qdialect.cli.instrumentation import IRDumps, Statistics, Timing
from qdialect.cli.reproducer import Reproducer, numerics_check
from qdialect.context import QContext
from qdialect.pipeline.manager import Instrumentation, Passes, PassManager


def run_passes(
    args: Arguments,
    module: ModuleOp,
    ctx: QContext,
    passes: Passes,
    verify_each: bool,
    timing: Timing | None,
) -> None:
    """Run `passes` on `module`, watched as the flags say."""
    crash_file = args.text("mlir-pass-pipeline-crash-reproducer")
    reproducer = Reproducer(ctx, crash_file, verify_each)
    statistics = Statistics(ctx) if args.switch("mlir-pass-statistics") else None
    checks = [numerics_check(args, crash_file)] if args.given("verify-numerics") else []
    manager = PassManager(
        ctx,
        passes,
        verify_each=verify_each,
        strict=args.switch("verify-quant-strict"),
        instrumentation=[
            reproducer,
            *([timing] if timing else []),
            *([statistics] if statistics else []),
            *_dumps(args, ctx),
            *checks,
        ],
    )
    try:
        manager.run(module)
    finally:
        if reproducer.written is not None:
            print(f"note: reproducer written to {reproducer.written}", file=sys.stderr)
    if statistics is not None:
        sys.stderr.write(statistics.report())


def _dumps(args: Arguments, ctx: QContext) -> list[Instrumentation]:
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
    )
    return [dumps] if dumps.wanted else []
