"""The flags of `qopt profile` and of the commands on profiles."""

from __future__ import annotations

from qdialect.cli.flags import FORCE, HELP, JSON, Command, Flag

_OUTPUT = Flag(("o", "output-file"), "where to write the profile", "value", "P.json", writes=True)

PROFILE_COMMANDS = (
    Command(
        "qopt profile",
        "Runs calibration data through a float model and writes what its values were: for\n"
        "every value by its key, and for what composite ops would be lowered to.",
        (
            Flag(("data", "d"), ".npz or .npy file, or a folder of them", "value", "DIR|NPZ"),
            Flag(
                ("o", "output-file"),
                "where to write it (default: IN.profile.json)",
                "value",
                "P.json",
                writes=True,
            ),
            Flag(
                ("engine",),
                "what runs the model (default: numpy)",
                "value",
                "ENGINE",
                choices=("numpy", "onnxruntime", "dask"),
            ),
            Flag(
                ("channels",),
                "what to keep of single channels (default: none)",
                "value",
                "WHAT",
                choices=("none", "range", "bins"),
            ),
            Flag(("no-components",), "do not observe the pieces of composite ops"),
            Flag(("whole-files",), "each file of the data is one sample, not a batch"),
            Flag(("samples",), "use these samples of the data only", "value", "A:B"),
            Flag(
                ("first",),
                "number of the data's first sample in the whole data set (default: 0)",
                "value",
                "N",
            ),
            Flag(("resume",), "go on after an interruption"),
            Flag(
                ("workers",),
                "for dask: local processes, or the address of a scheduler (default: 2)",
                "value",
                "N|ADDRESS",
            ),
            Flag(
                ("worker-engine",),
                "for dask: what runs the model on a worker (default: numpy)",
                "value",
                "ENGINE",
                choices=("numpy", "onnxruntime"),
            ),
            Flag(("quiet", "q"), "no summary"),
            JSON,
            FORCE,
            HELP,
        ),
        ("IN",),
        notes="See also qopt profile merge --help and qopt profile show --help.",
    ),
    Command(
        "qopt profile merge",
        "Joins profiles of parts of a data set: the profile of the whole, byte for byte.",
        (_OUTPUT, JSON, FORCE, HELP),
        ("P...",),
    ),
    Command(
        "qopt profile show",
        "Prints the ranges in a profile.",
        (
            Flag(("key", "k"), "this entry only (may be repeated)", "value", "KEY"),
            Flag(
                ("method",),
                "how to choose the range (default: minmax)",
                "value",
                "METHOD",
                choices=("minmax", "percentile", "average", "mse", "entropy"),
            ),
            Flag(("percentile",), "share of the data to keep, in percent", "value", "PERCENT"),
            Flag(("max-of-channel",), "the largest range of a channel (takes --channels)"),
            JSON,
            HELP,
        ),
        ("P",),
    ),
)
