"""The commands of `qopt` and their flags, as tables.

Nothing here imports what a command does: `--help` and completion read this file alone.
"""

from __future__ import annotations

from qdialect.cli.flags import (
    DIMS,
    FORCE,
    HELP,
    JSON,
    LOAD_PLUGIN,
    NUMERICS_INPUTS,
    REPORT,
    VERIFY_NUMERICS,
    Command,
    optional,
    switch,
    value,
)
from qdialect.engines.table import ENGINES

LEVELS = ("exact", "ties", "bounded", "saturation", "relaxed")
_ENGINE = value(
    "engine",
    "ENGINE",
    "what runs the model (default: numpy, the exact reference); given again, the same in others, "
    "compared",
    choices=tuple(ENGINES),
)
_RUNTIME = switch(
    "runtime-optimizations", "let ONNX Runtime rewrite the graph (default: run it as written)"
)

_TARGET = value(
    "target",
    "NAME",
    "what it will run on (default: onnxruntime; litert or circle by the suffix of the result)",
)
_KERNELS = value(
    "kernels",
    "KERNELS",
    "whose arithmetic a .tflite or .circle file has, read or written (default: litert-xnn, as "
    "LiteRT runs files)",
    choices=("litert-xnn", "litert-opt", "litert-ref"),
)
_NUMERICS = value(
    "numerics",
    "LEVEL",
    "how much answers may change (default: exact, or ties where quantizes multiply by reciprocals)",
    choices=LEVELS,
)
_RESULT = value("o output-file", "OUT", "where to write the result", writes=True)
_DATA = value("data d", "DIR|NPZ", ".npz or .npy file, or a folder of them")
_WHOLE_FILES = switch("whole-files", "each file of the data is one sample, not a batch")
_INLINE_WEIGHTS = switch("inline-weights", "write all weights into the result, none beside it")
_QUIET = switch("quiet q", "no summary")

_COMMANDS = (
    Command(
        "qopt optimize",
        "Writes a model that computes the same and runs faster; of a folder, all in it,\n"
        "into the folder OUT: on all cores, and only what has changed (OUT/.qopt knows).\n"
        "Integer ops stay integer ops unless the target asks for fewer conversions (litert and\n"
        "onnxruntime do; `qopt-opt --show-target NAME` says so in the row 'casts').",
        (
            _RESULT,
            _TARGET,
            _KERNELS,
            *DIMS,
            _NUMERICS,
            value(
                "form",
                "FORM",
                "how an .onnx result writes quantized ops (default: auto, what costs less "
                "and stays what it is in the runtime)",
                choices=("qdq", "qoperator", "auto"),
            ),
            value("pass-pipeline p passes", "PIPELINE", "run these passes instead"),
            optional(
                "remarks",
                "FILE.json",
                "say what fired and what was refused, and why (to FILE: as JSON)",
                writes=True,
            ),
            VERIFY_NUMERICS,
            NUMERICS_INPUTS,
            value(
                "check",
                "N",
                "before writing, compare with the original on N random inputs (default 2; 0: "
                "do not)",
            ),
            value("input i", "X.npz", "compare on these inputs instead"),
            value(
                "prices",
                "FILE.json",
                "a table of measured prices; no-dot-products: the shipped one as without VNNI",
            ),
            value(
                "race",
                "TIME",
                "time the input and what could be written in ONNX Runtime for about so long, "
                "and write the fastest (default: 3s; 0: prices choose, the same file anywhere)",
            ),
            value(
                "float",
                "FLOAT.onnx",
                "the float model, which takes part in the race and is written if it wins",
            ),
            switch("strict", "exit code 1 if a rewrite had to be left out (the result is written)"),
            switch("keep-refused", "write what a target without floats refuses ops of, too"),
            switch("details", "count our ops, too, before and after"),
            _INLINE_WEIGHTS,
            REPORT,
            switch("timing", "say how long import, passes and export took"),
            value("jobs j", "N", "how many models of a folder at once"),
            switch("no-cache", "of a folder, do again what is done"),
            _QUIET,
            JSON,
            FORCE,
            LOAD_PLUGIN,
            HELP,
        ),
        ("IN",),
    ),
    Command(
        "qopt inspect",
        "Says what is in models: ops, quantization, interface, weights, and where integers\n"
        "become floats and back; exit code 1 if that finds a code of --fail-on in any of them.",
        (
            JSON,
            REPORT,
            value("fail-on", "B1,B6", "boundary codes that must not occur, B1 to B7"),
            switch(
                "integerized",
                "take float ops between casts, as QDQ files write them, for ops on codes "
                "where they are",
            ),
            value(
                "target",
                "NAME",
                "say what of it a target takes on codes, why not the rest, and what would make "
                "legal what it refuses",
            ),
            *DIMS,
            FORCE,
            LOAD_PLUGIN,
            HELP,
        ),
        ("IN...",),
    ),
    Command(
        "qopt explain",
        "Says what qopt optimize did, what it nearly did and which condition failed: in all,\n"
        "by rule or by condition, or at an op, with how that is declared and its types.",
        (
            value(
                "op",
                "KEY",
                "the op's name, that of a value it gives, or FILE:LINE:COLUMN; repeatable",
            ),
            value("rule", "RULE", "only what this rule or pass did, by op; repeatable"),
            value("code", "CODE", "only where this condition failed, by op; repeatable"),
            _TARGET,
            _NUMERICS,
            JSON,
            LOAD_PLUGIN,
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
            value("input i", "X.npz", "the inputs"),
            value("output o", "Y.npz", "where to write the outputs", writes=True),
            _ENGINE,
            _RUNTIME,
            JSON,
            FORCE,
            LOAD_PLUGIN,
            HELP,
        ),
        ("IN",),
    ),
    Command(
        "qopt diff",
        "Compares the outputs of two models, or of one in two engines (A with --engine X\n"
        "--engine Y); exit code 1 if they are further apart than --max-steps.",
        (
            value("input i", "X.npz", "the inputs (default: random ones)"),
            value("samples n", "N", "how many random inputs (default: 4)"),
            value(
                "max-steps",
                "K",
                "largest difference to accept, in quantization steps (default: 0)",
            ),
            switch(
                "layers by-layer",
                "compare value by value, by key, instead: SQNR of what B's numbers mean",
            ),
            switch(
                "alone",
                "with --layers: also what each op of B makes of A's values: what is lost there",
            ),
            value(
                "worst",
                "N",
                "with --layers: only the N values where most is lost (with --alone: there)",
            ),
            value(
                "data d",
                "DIR|NPZ",
                "with --layers: inputs, samples along the first dimension, of which --samples are "
                "taken",
            ),
            JSON,
            value(
                "engine",
                "ENGINE",
                "what runs the models (default: numpy, the exact reference); given again, "
                "what runs the second",
                choices=tuple(ENGINES),
            ),
            _RUNTIME,
            LOAD_PLUGIN,
            HELP,
        ),
        ("A", "[B]"),
        "max counts steps of an output's codes, units of an integer, or ulp of a float with\n"
        "no codes behind it; models that are not meant to be the same are compared by their SQNR.",
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
        "qopt new-target",
        "Writes a package for a target of your own: what it runs, an op with its kernel and\n"
        "lowering, a pass, and tests that pass.",
        (
            value("o output-file", "FOLDER", "where to write it (default: a new folder NAME)"),
            JSON,
            HELP,
        ),
        ("NAME",),
    ),
    Command(
        "qopt completion",
        "Prints what makes a shell (bash, zsh or fish) complete our commands; to use it:\n"
        "eval \"$(qopt completion bash)\". Needs shtab: pip install 'qdialect[completion]'.",
        (HELP,),
        ("SHELL",),
    ),
    Command(
        "qopt profile",
        "Runs calibration data through a float model and writes what its values were: for\n"
        "every value by its key, and for what composite ops would be lowered to.",
        (
            _DATA,
            value(
                "o output-file",
                "P.json",
                "where to write it (default: IN.profile.json)",
                writes=True,
            ),
            value(
                "engine",
                "ENGINE",
                "what runs the model (default: numpy)",
                choices=("numpy", "onnxruntime", "dask"),
            ),
            value(
                "channels",
                "WHAT",
                "what to keep of single channels (default: none)",
                choices=("none", "range", "bins"),
            ),
            switch("no-components", "do not observe the pieces of composite ops"),
            _WHOLE_FILES,
            value("samples", "A:B", "use these samples of the data only"),
            value(
                "first", "N", "number of the data's first sample in the whole data set (default: 0)"
            ),
            switch("resume", "go on after an interruption"),
            value(
                "workers",
                "N|ADDRESS",
                "for dask: local processes, or the address of a scheduler (default: 2)",
            ),
            value(
                "worker-engine",
                "ENGINE",
                "for dask: what runs the model on a worker (default: numpy)",
                choices=("numpy", "onnxruntime"),
            ),
            _QUIET,
            JSON,
            FORCE,
            LOAD_PLUGIN,
            HELP,
        ),
        ("IN",),
        notes="See also qopt profile merge --help and qopt profile show --help.",
    ),
    Command(
        "qopt profile merge",
        "Joins profiles of parts of a data set: the profile of the whole, byte for byte.",
        (
            value("o output-file", "P.json", "where to write the profile", writes=True),
            JSON,
            FORCE,
            HELP,
        ),
        ("P...",),
    ),
    Command(
        "qopt profile show",
        "Prints the ranges in a profile.",
        (
            value("key k", "KEY", "this entry only (may be repeated)"),
            value(
                "method",
                "METHOD",
                "how to choose the range (default: minmax)",
                choices=("minmax", "percentile", "average", "mse", "entropy"),
            ),
            value("percentile", "PERCENT", "share of the data to keep, in percent"),
            switch("max-of-channel", "the largest range of a channel (takes --channels)"),
            JSON,
            HELP,
        ),
        ("P",),
    ),
    Command(
        "qopt quantize",
        "Makes a quantized model of a float one, calibrated on data or by a profile.",
        (
            _DATA,
            value("profile", "P.json", "a profile of the model (see qopt profile)"),
            switch(
                "profile-of-another-model",
                "use what of the profile has the same key and shape, and list what has not",
            ),
            _RESULT,
            _TARGET,
            *DIMS,
            value(
                "form",
                "FORM",
                "how an .onnx result writes quantized ops (default: qdq)",
                choices=("qdq", "qoperator"),
            ),
            value(
                "prices",
                "FILE.json",
                "let a table of prices say which ops are quantized; no-dot-products: the "
                "shipped one as without VNNI",
            ),
            value(
                "time race",
                "TIME",
                "time the float model and what could be written in ONNX Runtime for about so long, "
                "and write the fastest (default: 3s; 0: rules choose, the same file anywhere)",
            ),
            value(
                "effort",
                "LEVEL",
                "how much is tried for accuracy (default: 0): rewrites that leave the float "
                "function and other roundings of weights; what data confirms is kept",
                choices=("0", "1", "2"),
            ),
            value(
                "effort-time",
                "TIME",
                "start nothing of that after about so long (default: 2m at level 1, 20m at 2)",
            ),
            value(
                "metric",
                "NAME",
                "judge by this, too: detect, classify, embed, text, or a function of yours, as "
                "module:function or file.py:function",
            ),
            value(
                "budget",
                "BUDGET",
                "what the result has to meet, may be given again: metric>=0.99*float, sqnr>=30, "
                "latency<=0.7*float, latency<=2ms",
            ),
            switch(
                "best-effort",
                "write what comes nearest where nothing meets the budgets (default: sqnr>=6)",
            ),
            value(
                "front",
                "DIR",
                "write every model that no other is better than in latency and in loss",
            ),
            value(
                "losses",
                "HOW",
                "what single ops lose, for budgets and fronts (default: measured, each op alone)",
                choices=("measured", "estimated"),
            ),
            value(
                "state",
                "DIR",
                "keep here what single ops lose and how weights are rounded, and go on where a run "
                "was stopped",
            ),
            value(
                "workers",
                "N|ADDRESS",
                "measure what single ops lose, and round weights, in so many processes, or on a "
                "scheduler of Dask",
            ),
            value(
                "scheme",
                "SCHEME",
                "zero points of values (default: asymmetric)",
                choices=("asymmetric", "symmetric", "power-of-two"),
            ),
            value(
                "activations",
                "TYPE",
                "integers of values (default: the target's: u8, of integer and tosa i8)",
                choices=("u8", "i8", "u16", "i16"),
            ),
            value(
                "weights",
                "TYPE",
                "integers of weights (default: i8); of 2 bits and those with names: in blocks, and "
                "the products stay float",
                choices=(
                    *("i8", "u8", "i4", "u4", "i3", "u3", "i16"),
                    *("i2", "u2", "nf4", "mxint8", "mxfp4"),
                ),
            ),
            value(
                "scale-type",
                "TYPE",
                "type of the scales of weights in blocks (default: f32)",
                choices=("f32", "f16", "f8E4M3FN", "f8E8M0FNU"),
            ),
            value(
                "tables",
                "TYPE",
                "integers of tables of which rows are picked (default: i8, a scale for each row); "
                "those of 4 bits have scales in blocks",
                choices=("i8", "i4", "u4"),
            ),
            switch("per-tensor", "one scale for all channels of a weight"),
            switch("per-channel", "a scale for each channel of a weight (the default)"),
            value(
                "block",
                "N",
                "weights of matrix products get a scale for every N numbers that are summed, and "
                "the products stay float",
            ),
            value(
                "weights-only",
                "NAMES|all",
                "products with a matrix of which only the weights become codes, named as in "
                "--keep-float",
            ),
            value(
                "dynamic",
                "NAMES|all",
                "products that quantize their input as they run, named as in --keep-float",
            ),
            switch(
                "caches",
                "inputs that get elements joined and are returned (keys and values of a decoder) "
                "are codes from input to output, in the integers of values",
            ),
            value(
                "calibration",
                "METHOD",
                "how to choose ranges (default: auto, what is best on the data)",
                choices=("auto", "minmax", "percentile", "average", "mse", "entropy"),
            ),
            value(
                "percentile", "PERCENT", "share of the data to keep, in percent (default: 99.99)"
            ),
            value(
                "keep-float",
                "NAMES|auto=N",
                "leave these ops float: by key, by kind (gelu), `first` or `last` product with "
                "weights, or the N whose quantization costs most",
            ),
            value(
                "max-steps",
                "K",
                "leave ops float that may turn one step into more than K "
                "(default: 16, or none where the target has no floats)",
            ),
            switch(
                "lower",
                "write what is not quantized whole (layer norm, LSTM) as its pieces "
                "(the default where the target has no floats)",
            ),
            switch("no-bias-correction", "leave biases as they are"),
            switch("require-all", "an op left float is an error"),
            switch("allow-float", "write the float model where nothing quantized is faster"),
            switch(
                "allow-dead",
                "write a model some of whose outputs, or channels of them, are one number where "
                "the float model's are not",
            ),
            value(
                "numerics",
                "LEVEL",
                "how much the optimizer may change (default: exact, or ties for how the target "
                "rounds)",
                choices=LEVELS,
            ),
            value(
                "engine",
                "ENGINE",
                "what runs the float model (default: onnxruntime where installed)",
                choices=("numpy", "onnxruntime"),
            ),
            _WHOLE_FILES,
            _INLINE_WEIGHTS,
            optional(
                "remarks",
                "FILE.json",
                "say what was left float and what fired, and why (to FILE: as JSON)",
                writes=True,
            ),
            REPORT,
            _QUIET,
            JSON,
            FORCE,
            LOAD_PLUGIN,
            HELP,
        ),
        ("IN",),
        notes="Give --data or --profile; --keep-float=auto=N takes --data.",
    ),
)

COMMANDS = {command.name.removeprefix("qopt "): command for command in _COMMANDS}
