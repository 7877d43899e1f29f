"""`qopt-opt`: reads MLIR, runs passes, writes MLIR; flags as in mlir-opt.

This file answers `--help`, `--version` and the lists without importing xDSL;
everything else is in `opt_driver`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from qdialect.cli.flags import (
    BYTECODE_VERSION,
    EMIT_BYTECODE,
    FORCE,
    HELP,
    LOAD_PLUGIN,
    NUMERICS_INPUTS,
    OUTPUT,
    QUANT_TEXT,
    VERIFY_NUMERICS,
    VERSION,
    Arguments,
    Command,
    optional,
    parse,
    switch,
    value,
    write,
)
from qdialect.cli.terminal import OK, guarded, table

COMMAND = Command(
    "qopt-opt",
    "Reads a module, runs a pipeline of passes on it and writes it.",
    (
        OUTPUT,
        value(
            "pass-pipeline p passes",
            "PIPELINE",
            "passes to run: 'a,b{x=1}' or 'builtin.module(func.func(a),b)'",
        ),
        value("target", "NAME", "what the passes compile for (default: generic)"),
        LOAD_PLUGIN,
        value(
            "assume-profile",
            "P.json",
            "state the ranges of a profile on ops, for passes with assume=profile",
        ),
        optional(
            "remarks",
            "FILE.json",
            "say what fired and what was refused, and why (to FILE: as JSON)",
            writes=True,
        ),
        VERIFY_NUMERICS,
        NUMERICS_INPUTS,
        switch(
            "inline-weights",
            "write weights into the text (default for other tools: generic, --quant-text)",
        ),
        switch("mlir-print-op-on-diagnostic", "accepted; errors show the line of the op"),
        switch(
            "mlir-print-stacktrace-on-diagnostic", "show below an error where in our code it arose"
        ),
        switch("mlir-disable-diagnostic-notes", "show no notes below errors"),
        optional(
            "split-input-file",
            "MARKER",
            "process the pieces between lines with MARKER (default: '// -----') one by one",
        ),
        value("output-split-marker", "MARKER", "what stands between pieces that are written"),
        optional(
            "verify-diagnostics",
            "WHICH",
            "check 'expected-error {{..}}' comments; only-expected: others may be reported, too",
        ),
        switch("verify-each", "verify after each pass (default: true)", default=True),
        switch("verify-roundtrip", "write what was read, read it again and compare, in both forms"),
        switch("no-implicit-module", "take the one op of the input as it is, without a module"),
        switch("mlir-very-unsafe-disable-verifier-on-parsing", "do not verify the input"),
        switch("disable-verify", "do not verify the input, nor after each pass"),
        switch(
            "verify-quant-strict",
            "reject values whose quantized type means nothing (default: true)",
            default=True,
        ),
        switch(
            "allow-unregistered-dialect allow-unregistered-dialects", "keep ops of unknown dialects"
        ),
        switch("mlir-print-op-generic print-op-generic", "write ops in the generic form"),
        switch("keep-value-names", "keep the names of values of the input (mlir-opt numbers them)"),
        switch("mlir-print-debuginfo print-debuginfo", "write locations"),
        switch("mlir-print-value-users", "write users of values as comments"),
        switch("mlir-use-nameloc-as-prefix", "name values by their locations"),
        switch("mlir-print-unique-ssa-ids", "give no name twice in a module"),
        switch("mlir-print-skip-regions", "write no regions"),
        switch("mlir-print-assume-verified", "accepted; the module is verified, or has errors"),
        value(
            "mlir-elide-elementsattrs-if-larger",
            "N",
            "leave out dense attributes of more than N elements",
        ),
        value(
            "mlir-elide-resource-strings-if-larger",
            "N",
            "leave out resources whose text is longer than N",
        ),
        value(
            "mlir-print-elementsattrs-with-hex-if-larger",
            "N",
            "write dense attributes of more than N elements as hexadecimal bytes (-1: none; "
            "default: 100)",
        ),
        QUANT_TEXT,
        EMIT_BYTECODE,
        BYTECODE_VERSION,
        value("mlir-print-ir-before", "P", "print the module before pass P"),
        value("mlir-print-ir-after", "P", "print the module after pass P"),
        switch("mlir-print-ir-before-all", "print the module before each pass"),
        switch("mlir-print-ir-after-all print-between-passes", "print the module after each pass"),
        switch(
            "mlir-print-ir-after-change", "print the module after passes that changed something"
        ),
        switch("mlir-print-ir-after-failure", "print the module when a pass fails"),
        value(
            "mlir-print-ir-tree-dir",
            "DIR",
            "write what --mlir-print-ir flags print to files in DIR, a folder for each op",
        ),
        switch("mlir-print-ir-module-scope", "accepted; the whole module is printed"),
        value(
            "debug-only",
            "NAMES",
            "say what these passes and rules did and refused (a,b)",
        ),
        switch("debug", "say what all passes and rules did and refused"),
        switch("mlir-timing time-passes", "print how long each step took"),
        switch("mlir-pass-statistics", "print what each pass counted"),
        value(
            "mlir-pass-pipeline-crash-reproducer",
            "FILE",
            "when a pass fails write FILE, which --run-reproducer runs again",
        ),
        value(
            "mlir-generate-reproducer",
            "FILE",
            "write FILE with the input and the pipeline, which --run-reproducer runs",
        ),
        switch("run-reproducer", "run the pipeline the input itself names"),
        switch("dump-pass-pipeline", "print the pipeline that is run"),
        switch("mlir-disable-threading", "accepted; there is one thread"),
        switch("mlir-print-local-scope", "accepted; no aliases are written"),
        switch("show-dialects", "list the dialects and exit"),
        switch("list-passes", "list the passes and their options and exit"),
        switch("list-targets", "list the targets and exit"),
        value("show-target", "NAME", "say what target NAME can do and exit"),
        FORCE,
        HELP,
        VERSION,
    ),
    ("[FILE]",),
    "--PASS and --PASS='option=value ..' run a pass, in their order: --cse --canonicalize.\n"
    "Passes of xDSL can be named too. FILE is - or absent for standard input.\n"
    "Exit codes: 0 done, 1 wrong input or failed check, 2 wrong command line, 70 our bug.",
    takes_passes=True,
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
    elif args.has("show-target"):
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
    if args.has("load-plugin"):
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
