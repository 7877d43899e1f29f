"""`qopt-opt`: reads MLIR, runs passes, writes MLIR; flags as in mlir-opt.

This file answers `--help`, `--version` and the lists without importing xDSL;
everything else is in `opt_driver`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from qdialect.cli.flags import (
    FORCE,
    HELP,
    NUMERICS_INPUTS,
    OUTPUT,
    QUANT_TEXT,
    VERIFY_NUMERICS,
    VERSION,
    Arguments,
    Command,
    Flag,
    parse,
    write,
)
from qdialect.cli.terminal import OK, guarded, table

COMMAND = Command(
    "qopt-opt",
    "Reads a module, runs a pipeline of passes on it and writes it.",
    (
        OUTPUT,
        Flag(
            ("pass-pipeline", "p", "passes"),
            "passes to run: 'a,b{x=1}' or 'builtin.module(func.func(a),b)'",
            "value",
            "PIPELINE",
        ),
        Flag(("target",), "what the passes compile for (default: generic)", "value", "NAME"),
        Flag(("load-plugin",), "import MODULE: dialects, passes, behaviors", "value", "MODULE"),
        Flag(
            ("assume-profile",),
            "state the ranges of a profile on ops, for passes with assume=profile",
            "value",
            "P.json",
        ),
        Flag(
            ("remarks",),
            "say what fired and what was refused, and why (to FILE: as JSON)",
            "optional",
            "FILE.json",
            writes=True,
        ),
        VERIFY_NUMERICS,
        NUMERICS_INPUTS,
        Flag(("inline-weights",), "write weights into the text"),
        Flag(("split-input-file",), "process the pieces between '// -----' lines one by one"),
        Flag(("verify-diagnostics",), "check 'expected-error {{..}}' comments"),
        Flag(("verify-each",), "verify after each pass (default: true)", default=True),
        Flag(("disable-verify",), "do not verify the input, nor after each pass"),
        Flag(
            ("verify-quant-strict",),
            "reject values whose quantized type means nothing (default: true)",
            default=True,
        ),
        Flag(
            ("allow-unregistered-dialect", "allow-unregistered-dialects"),
            "keep ops of unknown dialects",
        ),
        Flag(("mlir-print-op-generic", "print-op-generic"), "write ops in the generic form"),
        Flag(
            ("keep-value-names",),
            "keep the names of values of the input (mlir-opt numbers them)",
        ),
        Flag(("mlir-print-debuginfo", "print-debuginfo"), "write locations"),
        QUANT_TEXT,
        Flag(("mlir-print-ir-before",), "print the module before pass P", "value", "P"),
        Flag(("mlir-print-ir-after",), "print the module after pass P", "value", "P"),
        Flag(("mlir-print-ir-before-all",), "print the module before each pass"),
        Flag(
            ("mlir-print-ir-after-all", "print-between-passes"),
            "print the module after each pass",
        ),
        Flag(
            ("mlir-print-ir-after-change",), "print the module after passes that changed something"
        ),
        Flag(("mlir-print-ir-after-failure",), "print the module when a pass fails"),
        Flag(("mlir-timing", "time-passes"), "print how long each step took"),
        Flag(("mlir-pass-statistics",), "print what each pass counted"),
        Flag(
            ("mlir-pass-pipeline-crash-reproducer",),
            "when a pass fails write FILE, which --run-reproducer runs again",
            "value",
            "FILE",
        ),
        Flag(("run-reproducer",), "run the pipeline the input itself names"),
        Flag(("dump-pass-pipeline",), "print the pipeline that is run"),
        Flag(("mlir-disable-threading",), "accepted; there is one thread"),
        Flag(("mlir-print-local-scope",), "accepted; no aliases are written"),
        Flag(("show-dialects",), "list the dialects and exit"),
        Flag(("list-passes",), "list the passes and their options and exit"),
        Flag(("list-targets",), "list the targets and exit"),
        Flag(("show-target",), "say what target NAME can do and exit", "value", "NAME"),
        FORCE,
        HELP,
        VERSION,
    ),
    ("[FILE]",),
    "Passes of xDSL can be named too. FILE is - or absent for standard input.\n"
    "Exit codes: 0 done, 1 wrong input or failed check, 2 wrong command line, 70 our bug.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    return guarded(_run, argv)


def _run(argv: Sequence[str]) -> int:
    args = parse(COMMAND, argv)
    if args.switch("help"):
        write(COMMAND.help())
    elif args.switch("version"):
        write(version_line("qopt-opt"))
    elif args.switch("list-passes"):
        write(_pass_list(args))
    elif args.switch("list-targets"):
        from qdialect.targets.installed import summaries

        write(table(summaries()))
    elif args.given("show-target"):
        from qdialect.targets.describe import description
        from qdialect.targets.installed import get_target

        write(table(description(get_target(args.text("show-target") or ""))))
    else:
        from qdialect.cli.opt_driver import OptDriver

        driver = OptDriver(args)
        return driver.show_dialects() if args.switch("show-dialects") else driver.run()
    return OK


def version_line(command: str) -> str:
    """`command (qdialect x.y.z)`."""
    from qdialect import __version__

    return f"{command} (qdialect {__version__})\n"


def _pass_list(args: Arguments) -> str:
    from qdialect.passes import PASSES

    entries = list(PASSES.values())
    if args.given("load-plugin"):
        from qdialect.pipeline.plugins import Plugins

        entries = Plugins(args.texts("load-plugin")).registry().entries()
    rows: list[tuple[str, str]] = []
    for entry in entries:
        rows.append((entry.name, entry.summary))
        for option, type_name, default, text in entry.options:
            shown = f"  {option.replace('_', '-')}=<{type_name}>"
            rows.append((shown, f"{text} (default: {default})" if default else text))
    return table(rows)


if __name__ == "__main__":
    sys.exit(main())
