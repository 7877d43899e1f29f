"""`qopt`: commands for people with a model; `.onnx` and `.mlir` are accepted everywhere.

This file holds the flags and answers `--help`; each command's work is in its own file,
imported when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from qdialect.cli.flags import (
    DIMS,
    FORCE,
    HELP,
    JSON,
    NUMERICS_INPUTS,
    REPORT,
    VERIFY_NUMERICS,
    Command,
    Flag,
    parse,
    write,
)
from qdialect.cli.opt import version_line
from qdialect.cli.profile_flags import PROFILE_COMMANDS
from qdialect.cli.quantize_flags import QUANTIZE_COMMAND
from qdialect.cli.terminal import OK, guarded, indented, table
from qdialect.engines.table import ENGINES
from qdialect.errors import UsageError, did_you_mean

LEVELS = ("exact", "ties", "bounded", "saturation", "relaxed")
_ENGINE = Flag(
    ("engine",),
    "what runs the model (default: numpy, the exact reference); given again, the same in others, "
    "compared",
    "value",
    "ENGINE",
    choices=tuple(ENGINES),
)
_RUNTIME = Flag(
    ("runtime-optimizations",), "let ONNX Runtime rewrite the graph (default: run it as written)"
)

COMMANDS = {
    command.name.removeprefix("qopt "): command
    for command in (
        Command(
            "qopt optimize",
            "Writes a model that computes the same and runs faster; of a folder, all in it,\n"
            "into the folder OUT: on all cores, and only what has changed (OUT/.qopt knows).",
            (
                Flag(
                    ("o", "output-file"), "where to write the result", "value", "OUT", writes=True
                ),
                Flag(("target",), "what it will run on (default: onnxruntime)", "value", "NAME"),
                *DIMS,
                Flag(
                    ("numerics",),
                    "how much answers may change (default: exact)",
                    "value",
                    "LEVEL",
                    choices=LEVELS,
                ),
                Flag(
                    ("form",),
                    "how an .onnx result writes quantized ops (default: auto, what costs less "
                    "and stays what it is in the runtime)",
                    "value",
                    "FORM",
                    choices=("qdq", "qoperator", "auto"),
                ),
                Flag(
                    ("pass-pipeline", "p", "passes"),
                    "run these passes instead",
                    "value",
                    "PIPELINE",
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
                Flag(
                    ("check",),
                    "before writing, compare with the original on N random inputs (default 2; 0: "
                    "do not)",
                    "value",
                    "N",
                ),
                Flag(("input", "i"), "compare on these inputs instead", "value", "X.npz"),
                Flag(("prices",), "what ops cost here, from qopt prices", "value", "FILE.json"),
                Flag(
                    ("race",),
                    "time the input and what could be written in ONNX Runtime for about so long, "
                    "and write the fastest (default: 3s; 0: prices choose, the same file anywhere)",
                    "value",
                    "TIME",
                ),
                Flag(
                    ("float",),
                    "the float model, which takes part in the race and is written if it wins",
                    "value",
                    "FLOAT.onnx",
                ),
                Flag(
                    ("strict",),
                    "exit code 1 if a rewrite had to be left out (the result is written)",
                ),
                Flag(("details",), "count our ops, too, before and after"),
                Flag(("inline-weights",), "write all weights into the result, none beside it"),
                REPORT,
                Flag(("timing",), "say how long import, passes and export took"),
                Flag(("jobs", "j"), "how many models of a folder at once", "value", "N"),
                Flag(("no-cache",), "of a folder, do again what is done"),
                Flag(("quiet", "q"), "no summary"),
                JSON,
                FORCE,
                HELP,
            ),
            ("IN",),
        ),
        Command(
            "qopt prices",
            "Measures what ops cost in ONNX Runtime on this machine, for qopt optimize --prices.",
            (
                Flag(
                    ("o", "output-file"),
                    "where to write the prices",
                    "value",
                    "FILE.json",
                    writes=True,
                ),
                Flag(("target",), "what is measured (default: onnxruntime)", "value", "NAME"),
                Flag(("rounds",), "how often each op is timed (default: 100)", "value", "N"),
                JSON,
                FORCE,
                HELP,
            ),
        ),
        Command(
            "qopt inspect",
            "Says what is in models: ops, quantization, interface, weights, and where integers\n"
            "become floats and back; exit code 1 if that finds a code of --fail-on in any of them.",
            (
                JSON,
                REPORT,
                Flag(
                    ("fail-on",), "boundary codes that must not occur, B1 to B7", "value", "B1,B6"
                ),
                Flag(
                    ("integerized",),
                    "take float ops between casts, as QDQ files write them, for ops on codes "
                    "where they are",
                ),
                *DIMS,
                FORCE,
                HELP,
            ),
            ("IN...",),
        ),
        Command(
            "qopt explain",
            "Says what qopt optimize did, what it nearly did and which condition failed: in all,\n"
            "by rule or by condition, or at an op, with how that is declared and its types.",
            (
                Flag(
                    ("op",),
                    "the op's name, that of a value it gives, or FILE:LINE:COLUMN; repeatable",
                    "value",
                    "KEY",
                ),
                Flag(
                    ("rule",), "only what this rule or pass did, by op; repeatable", "value", "RULE"
                ),
                Flag(
                    ("code",),
                    "only where this condition failed, by op; repeatable",
                    "value",
                    "CODE",
                ),
                Flag(("target",), "what it will run on (default: onnxruntime)", "value", "NAME"),
                Flag(
                    ("numerics",),
                    "how much answers may change (default: exact)",
                    "value",
                    "LEVEL",
                    choices=LEVELS,
                ),
                JSON,
                HELP,
            ),
            ("IN",),
        ),
        Command(
            "qopt run",
            "Runs a model on the arrays of an .npz file, by input name. With several engines the\n"
            "first's outputs are written, and the others' compared with them: exit code 1 if they\n"
            "differ, with the first value that does, by key.",
            (
                Flag(("input", "i"), "the inputs", "value", "X.npz"),
                Flag(("output", "o"), "where to write the outputs", "value", "Y.npz", writes=True),
                _ENGINE,
                _RUNTIME,
                JSON,
                FORCE,
                HELP,
            ),
            ("IN",),
        ),
        Command(
            "qopt diff",
            "Compares the outputs of two models, or of one in two engines (A with --engine X\n"
            "--engine Y); exit code 1 if they are further apart than --max-steps.",
            (
                Flag(("input", "i"), "the inputs (default: random ones)", "value", "X.npz"),
                Flag(("samples", "n"), "how many random inputs (default: 4)", "value", "N"),
                Flag(
                    ("max-steps",),
                    "largest difference to accept, in quantization steps (default: 0)",
                    "value",
                    "K",
                ),
                Flag(
                    ("layers", "by-layer"),
                    "compare value by value, by key, instead: SQNR of what B's numbers mean",
                ),
                JSON,
                Flag(
                    ("engine",),
                    "what runs the models (default: numpy, the exact reference); given again, "
                    "what runs the second",
                    "value",
                    "ENGINE",
                    choices=tuple(ENGINES),
                ),
                _RUNTIME,
                HELP,
            ),
            ("A", "[B]"),
            "max counts steps of an output's codes, units of an integer, or ulp of a float with\n"
            "no codes behind it; models that are not meant to be the same are told by their SQNR.",
        ),
        Command(
            "qopt engines",
            "Lists the engines that run integer networks, and where their commands are.",
            (JSON, HELP),
        ),
        Command(
            "qopt engines install",
            "Installs an engine (iree, mlir, tosa-reference or all) into an environment of its\n"
            "own, under QDIALECT_ENGINES or the user's cache.",
            (JSON, HELP),
            ("ENGINE",),
        ),
        Command(
            "qopt completion",
            "Prints what makes a shell (bash, zsh or fish) complete our commands; to use it:\n"
            "source <(qopt completion bash).",
            (HELP,),
            ("SHELL",),
        ),
        *PROFILE_COMMANDS,
        QUANTIZE_COMMAND,
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    return guarded(_run, argv)


def _run(argv: Sequence[str]) -> int:
    name = argv[0] if argv else "--help"
    if name in ("-h", "--help", "help"):
        write(_overview())
        return OK
    if name in ("-v", "--version"):
        write(version_line("qopt"))
        return OK
    rest = argv[1:]
    if rest and f"{name} {rest[0]}" in COMMANDS:
        name, rest = f"{name} {rest[0]}", rest[1:]
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS)
        raise UsageError(f"unknown command '{name}'{hint}", notes=("see qopt --help",))
    command = COMMANDS[name]
    args = parse(command, rest)
    if args.switch("help"):
        write(command.help())
        return OK
    return import_module(f"qdialect.cli.command_{name.replace(' ', '_')}").run(args)


def _overview() -> str:
    rows = [
        (" ".join((c.name, *c.arguments)), c.summary.replace("\n", " ")) for c in COMMANDS.values()
    ]
    return (
        "usage: qopt COMMAND ...\n\n"
        "Models, .onnx or .mlir: quantize, optimize, inspect, run, compare, calibrate.\n\n"
        f"{indented(table(rows, stream=sys.stdout))}\n"
        "qopt COMMAND --help tells the flags of a command.\n"
        "Exit codes: 0 done, 1 wrong input or failed check, 2 wrong command line, 70 our bug.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
