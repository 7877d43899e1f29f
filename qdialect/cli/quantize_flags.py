"""The flags of `qopt quantize`."""

from __future__ import annotations

from qdialect.cli.flags import DIMS, FORCE, HELP, JSON, REPORT, Command, Flag

QUANTIZE_COMMAND = Command(
    "qopt quantize",
    "Makes a quantized model of a float one, calibrated on data or by a profile.",
    (
        Flag(("data", "d"), ".npz or .npy file, or a folder of them", "value", "DIR|NPZ"),
        Flag(("profile",), "a profile of the model (see qopt profile)", "value", "P.json"),
        Flag(("o", "output-file"), "where to write the result", "value", "OUT", writes=True),
        Flag(("target",), "what it will run on (default: onnxruntime)", "value", "NAME"),
        *DIMS,
        Flag(
            ("form",),
            "how an .onnx result writes quantized ops (default: qdq)",
            "value",
            "FORM",
            choices=("qdq", "qoperator"),
        ),
        Flag(
            ("scheme",),
            "zero points of values (default: asymmetric)",
            "value",
            "SCHEME",
            choices=("asymmetric", "symmetric", "power-of-two"),
        ),
        Flag(
            ("activations",),
            "integers of values (default: the target's: u8, of integer and tosa i8)",
            "value",
            "TYPE",
            choices=("u8", "i8", "u16", "i16"),
        ),
        Flag(
            ("weights",),
            "integers of weights (default: i8)",
            "value",
            "TYPE",
            choices=("i8", "u8", "i4", "u4", "i16"),
        ),
        Flag(("per-tensor",), "one scale for all channels of a weight"),
        Flag(("per-channel",), "a scale for each channel of a weight (the default)"),
        Flag(
            ("block",),
            "weights of matrix products get a scale for every N numbers that are summed, and the "
            "products stay float",
            "value",
            "N",
        ),
        Flag(
            ("calibration",),
            "how to choose ranges (default: auto, what is best on the data)",
            "value",
            "METHOD",
            choices=("auto", "minmax", "percentile", "average", "mse", "entropy"),
        ),
        Flag(
            ("percentile",),
            "share of the data to keep, in percent (default: 99.99)",
            "value",
            "PERCENT",
        ),
        Flag(
            ("keep-float",),
            "leave these ops float: by key, by kind (gelu), `first` or `last` product with "
            "weights, or the N whose quantization costs most",
            "value",
            "NAMES|auto=N",
        ),
        Flag(
            ("max-steps",),
            "leave ops float that may turn one step into more than K "
            "(default: 16, or none where the target has no floats)",
            "value",
            "K",
        ),
        Flag(
            ("lower",),
            "write what is not quantized whole (layer norm, LSTM) as its pieces "
            "(the default where the target has no floats)",
        ),
        Flag(("no-bias-correction",), "leave biases as they are"),
        Flag(("require-all",), "an op left float is an error"),
        Flag(
            ("numerics",),
            "how much the optimizer may change (default: exact, or ties for how the target rounds)",
            "value",
            "LEVEL",
            choices=("exact", "ties", "bounded", "saturation", "relaxed"),
        ),
        Flag(
            ("engine",),
            "what runs the float model (default: onnxruntime where installed)",
            "value",
            "ENGINE",
            choices=("numpy", "onnxruntime"),
        ),
        Flag(("whole-files",), "each file of the data is one sample, not a batch"),
        Flag(("inline-weights",), "write all weights into the result, none beside it"),
        Flag(
            ("remarks",),
            "say what was left float and what fired, and why (to FILE: as JSON)",
            "optional",
            "FILE.json",
            writes=True,
        ),
        REPORT,
        Flag(("quiet", "q"), "no summary"),
        JSON,
        FORCE,
        HELP,
    ),
    ("IN",),
    notes="Give --data or --profile; --keep-float=auto=N takes --data.",
)
