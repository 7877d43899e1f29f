"""Which version of an op a file must ask for, by the types and options it is used with.

A runtime refuses a version it does not know, so the least one that says what is used is written.
The rules are those of LiteRT's converter (`GetBuiltinOperatorVersion` in
tflite/converter/tools/versioning/op_version.cc): of each op, the first row that holds, else 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Value(NamedTuple):
    """What is known of an input or output: the schema's type, its shape, its scales."""

    type: str
    shape: tuple[int, ...] = ()
    scales: tuple[float, ...] = ()
    axis: int = 0
    is_sparse: bool = False

    @property
    def is_per_axis(self) -> bool:
        """Whether it has a scale for each index of its axis, more than one."""
        count = len(self.scales)
        return count > 1 and self.axis < len(self.shape) and self.shape[self.axis] == count


_NOTHING = Value("")


@dataclass(frozen=True)
class Use:
    """One use of an op."""

    inputs: Sequence[Value | None]
    outputs: Sequence[Value | None]
    options: Mapping[str, Any]

    def x(self, index: int) -> Value:
        """An input; one without a type where it is absent."""
        return (self.inputs[index] if index < len(self.inputs) else None) or _NOTHING

    @property
    def y(self) -> Value:
        """The first output."""
        return (self.outputs[0] if self.outputs else None) or _NOTHING

    def types(self, *expected: str) -> bool:
        """Whether inputs have these types, and the first output the last of them."""
        *inputs, output = expected
        found = [self.x(index).type for index in range(len(inputs))]
        return found == inputs and self.y.type == output

    @property
    def broadcasts_wide(self) -> bool:
        """Whether two inputs differ in shape, and one has more than four dimensions."""
        if len(self.inputs) < 2 or self.x(0).shape == self.x(1).shape:
            return False
        return max(len(value.shape) for value in self.inputs if value) > 4

    def has(self, option: str) -> bool:
        """Whether an option is anything but zero, false or the first of its enum."""
        return self.options.get(option) not in (None, 0, False, "FLOAT32", "NONE", "DEFAULT")


Rule = Callable[[Use], bool]
Rows = tuple[tuple[int, Rule], ...]

_FLOAT8 = ("FLOAT8_E4M3FN", "FLOAT8_E5M2")


def _first(*types: str) -> Rule:
    return lambda use: use.x(0).type in types


def _second(*types: str) -> Rule:
    return lambda use: use.x(1).type in types


def _either(*types: str) -> Rule:
    return lambda use: use.x(0).type in types or use.y.type in types


def _types(*types: str) -> Rule:
    return lambda use: use.types(*types)


def _both(type: str) -> Rule:
    return lambda use: use.x(0).type == use.y.type == type


def _rank_over(rank: int) -> Rule:
    return lambda use: len(use.x(0).shape) > rank


def _set(*options: str) -> Rule:
    return lambda use: any(use.has(option) for option in options)


def _when(first: Rule, *others: Rule) -> Rule:
    return lambda use: first(use) and all(rule(use) for rule in others)


def _wide(use: Use) -> bool:
    return use.broadcasts_wide


_HYBRID = _types("FLOAT32", "INT8", "FLOAT32")
_INT16_INT8 = _types("INT16", "INT8", "INT16")
_INT8_FIRST: Rows = ((2, _first("INT8")),)
_INT8_THEN_16: Rows = ((3, _first("INT16")), (2, _first("INT8")))
_POOL: Rows = ((3, _both("INT16")), (2, _first("INT8")))


def _filters(use: Use) -> bool:
    weights = use.x(1)
    return bool(weights.shape) and len(weights.scales) == weights.shape[0]


def _channels(use: Use) -> bool:
    weights = use.x(1)
    return len(weights.shape) == 4 and len(weights.scales) == weights.shape[3]


def _grouped(use: Use) -> bool:
    x, weights = use.x(0).shape, use.x(1).shape
    return len(x) == len(weights) == 4 and x[3] != weights[3]


def _unquantized(use: Use) -> bool:
    return not use.x(0).scales and not (len(use.inputs) > 1 and use.x(1).scales)


def _large_ratio(use: Use) -> bool:
    a, b, y = use.x(0).scales, use.x(1).scales, use.y.scales
    return bool(a and b and y) and a[0] * b[0] / y[0] >= 1.0


def _dilated(use: Use) -> bool:
    return any(use.options.get(f"dilation_{n}_factor", 1) != 1 for n in "wh")


def _recurrent(weight: int) -> Rows:
    """Rules of recurrent ops with weights of 8 bits beside floats."""

    def hybrid(use: Use) -> bool:
        return use.x(weight).type == "INT8" and use.y.type == "FLOAT32"

    return (3, _when(hybrid, _set("asymmetric_quantize_inputs"))), (2, hybrid)


def _lstm(kernel: str, use: Use) -> bool:
    """Whether an LSTM has inputs of a type, weights of 8 bits and outputs like its inputs."""
    return use.x(0).type == use.y.type == kernel and use.x(2).type == "INT8"


def _full(use: Use) -> bool:
    return use.options.get("kernel_type", "FULL") == "FULL"


_RESIZE: Rows = ((4, _first("INT16")), (3, _set("half_pixel_centers")), (2, _first("INT8")))
_BLOCK: Rows = (
    (4, _first("INT16")),
    (3, lambda use: len(use.x(0).shape) != 4),
    (2, _first("INT8")),
)
_PAD: Rows = (
    (6, _first(*_FLOAT8)),
    (5, _first("BOOL")),
    (4, _rank_over(4)),
    (3, _first("INT16")),
    (2, _first("INT8")),
)
_EXTREME: Rows = ((4, _both("INT16")), (3, _wide), (2, _first("INT8")))

RULES: Mapping[str, Rows] = {
    "CONV_2D": (
        (8, _when(_INT16_INT8, _set("quantized_bias_type"))),
        (6, _grouped),
        (4, _types("INT16", "INT16", "INT16")),
        (3, _types("INT8", "INT8", "INT8")),
        (7, _types("INT8", "INT4", "INT8")),
        (5, _when(_HYBRID, _filters)),
        (2, _HYBRID),
    ),
    "DEPTHWISE_CONV_2D": (
        (5, _types("INT16", "INT16", "INT16")),
        (6, _when(_HYBRID, _channels)),
        (4, _HYBRID),
        (3, _types("INT8", "INT8", "INT8")),
        (7, _types("INT8", "INT4", "INT8")),
        (2, _dilated),
    ),
    "EMBEDDING_LOOKUP": (
        (4, lambda use: use.x(1).type == "INT4" or use.x(1).is_per_axis),
        (5, _second("INT2")),
    ),
    "FAKE_QUANT": ((2, _set("narrow_range")),),
    "FULLY_CONNECTED": (
        (14, _second("INT2")),
        (13, _types("INT16", "INT4", "INT16")),
        (12, _when(_HYBRID, _filters)),
        (11, _when(_INT16_INT8, _set("quantized_bias_type"))),
        (8, lambda use: use.x(1).is_sparse),
        (7, _types("INT16", "INT16", "INT16")),
        (6, lambda use: len(use.inputs) == 2),
        (5, _set("keep_num_dims")),
        (4, _types("INT8", "INT8", "INT8")),
        (10, _types("INT8", "INT4", "INT8")),
        (9, _when(_HYBRID, _set("asymmetric_quantize_inputs"))),
        (3, _HYBRID),
        (2, _set("weights_format")),
    ),
    "GATHER": (
        (8, _first(*_FLOAT8)),
        (7, _first("INT4")),
        (6, _second("INT16")),
        (5, _set("batch_dims")),
        (4, _first("INT16")),
        (3, _first("BOOL")),
        (2, _first("INT8")),
    ),
    "SVDF": (
        (3, _first("INT8")),
        (4, _when(_HYBRID, _set("asymmetric_quantize_inputs"))),
        (2, _HYBRID),
    ),
    "SIGN": ((2, _first("INT32")),),
    "SIN": ((2, _first("FLOAT16")),),
    "COS": ((2, _first("FLOAT16")),),
    "MUL": (
        (8, _first("FLOAT16")),
        (7, _when(_first("INT16"), _unquantized)),
        (7, _first("UINT32")),
        (6, _first("COMPLEX64")),
        (5, _first("INT64")),
        (4, _first("INT16")),
        (3, _large_ratio),
        (2, _first("INT8")),
    ),
    "MAX_POOL_2D": _POOL,
    "AVERAGE_POOL_2D": _POOL,
    "TRANSPOSE": (
        (9, _first("FLOAT16")),
        (8, lambda use: len(use.x(0).shape) > 6 or use.x(0).type == "BFLOAT16"),
        (7, _first("INT4")),
        (6, _rank_over(5)),
        (5, _first("INT16")),
        (4, _rank_over(4)),
        (3, _first("BOOL")),
        (2, _first("INT8")),
    ),
    "TRANSPOSE_CONV": (
        (5, _when(_INT16_INT8, _set("quantized_bias_type"))),
        (4, _set("fused_activation_function")),
        (3, lambda use: len(use.inputs) == 4 and use.x(3).type != ""),
        (2, _second("INT8")),
    ),
    "LSTM": (
        (5, _when(_full, lambda use: _lstm("INT16", use))),
        (4, _when(_full, lambda use: _lstm("FLOAT32", use), _set("asymmetric_quantize_inputs"))),
        (3, _when(_full, lambda use: _lstm("FLOAT32", use))),
        (2, lambda use: not _full(use)),
    ),
    "SPLIT": (
        (5, _second(*_FLOAT8)),
        (4, _second("INT16")),
        (3, _second("INT32")),
        (2, _second("INT8")),
    ),
    "SPARSE_TO_DENSE": (
        (3, lambda use: use.x(2).type in ("INT8", "UINT8")),
        (2, lambda use: use.x(2).type == "INT64"),
    ),
    "SLICE": (
        (8, _first("FLOAT16")),
        (7, _first("INT4")),
        (6, _first("UINT32")),
        (5, _rank_over(4)),
        (4, _first("INT16")),
        (3, _first("STRING")),
        (2, _first("INT8")),
    ),
    "UNPACK": (
        (6, _first(*_FLOAT8)),
        (2, _first("INT8", "UINT8")),
        (3, _first("BOOL")),
        (4, _both("INT16")),
        (5, _first("FLOAT16", "BFLOAT16")),
    ),
    "DEQUANTIZE": (
        (9, _first(*_FLOAT8)),
        (8, _first("UINT4")),
        (7, _first("INT2")),
        (6, _first("INT4")),
        (3, _first("INT16", "FLOAT16")),
        (5, _when(_first("INT8"), lambda use: use.x(0).is_per_axis)),
        (2, _first("INT8")),
    ),
    "QUANTIZE": (
        (5, _either("UINT4")),
        (4, _either("INT4")),
        (3, lambda use: use.y.is_per_axis),
        (2, lambda use: use.y.type == "INT16"),
    ),
    "FLOOR_DIV": ((3, _first("INT16", "INT8")), (2, _first("FLOAT32"))),
    "FLOOR_MOD": ((2, _first("INT16", "INT8")),),
    "L2_NORMALIZATION": ((2, lambda use: use.y.type == "INT8"),),
    "ABS": (
        (5, _first("INT32")),
        (4, _when(_first("INT16"), lambda use: not use.x(0).scales)),
        (3, _first("INT16")),
        (2, _first("INT8", "UINT8")),
    ),
    "RELU": ((3, _first("INT16")), (2, _first("INT8", "UINT8"))),
    "STRIDED_SLICE": (
        (8, _set("offset")),
        (7, _first("UINT32")),
        (6, _set("ellipsis_mask", "new_axis_mask")),
        (5, _first("STRING")),
        (4, _rank_over(4)),
        (3, _first("BOOL")),
        (2, _first("INT8")),
    ),
    "REVERSE_V2": ((4, _first(*_FLOAT8)), (3, _first("INT8")), (2, _first("BOOL"))),
    "RESIZE_BILINEAR": _RESIZE,
    "RESIZE_NEAREST_NEIGHBOR": (
        (4, _first("INT16")),
        (3, _set("half_pixel_centers", "align_corners")),
        (2, _first("INT8")),
    ),
    "MAXIMUM": _EXTREME,
    "MINIMUM": _EXTREME,
    "PACK": (
        (5, _first(*_FLOAT8)),
        (2, _first("INT8")),
        (3, _both("INT16")),
        (4, _first("UINT32")),
    ),
    "TILE": ((3, _first("INT8")), (2, _first("STRING"))),
    "SQUEEZE": ((2, _first("STRING")),),
    "SPACE_TO_BATCH_ND": _BLOCK,
    "BATCH_TO_SPACE_ND": _BLOCK,
    "ADD": (
        (6, _first("FLOAT16")),
        (5, _when(_first("INT16"), lambda use: not use.x(0).scales)),
        (4, _first("INT64")),
        (3, _when(_both("INT16"), lambda use: not use.has("pot_scale_int16"))),
        (2, _first("INT8")),
    ),
    "SUB": (
        (5, _when(_both("INT16"), lambda use: not use.has("pot_scale_int16"))),
        (4, _first("INT64")),
        (3, _wide),
        (2, _first("INT8")),
    ),
    "GATHER_ND": (
        (6, _first(*_FLOAT8)),
        (5, _first("BOOL")),
        (4, _second("INT16")),
        (3, _first("INT16")),
        (2, _first("STRING")),
    ),
    "DIV": ((2, _wide),),
    "TANH": _POOL,
    "LOGISTIC": _POOL,
    "FILL": (
        (5, _second(*_FLOAT8)),
        (4, _second("FLOAT16")),
        (3, _second("INT8", "INT16")),
        (2, _second("BOOL", "STRING")),
    ),
    "EQUAL": ((5, _first("INT16")), (3, _first("STRING")), (2, _first("INT8"))),
    "NOT_EQUAL": ((4, _first("INT16")), (3, _first("STRING")), (2, _first("INT8"))),
    "LEAKY_RELU": ((2, _first("INT16")),),
    "RANGE": ((2, _first("INT64")),),
    "BATCH_MATMUL": (
        (3, _first("INT16")),
        (2, _first("INT8")),
        (4, _when(_HYBRID, _set("asymmetric_quantize_inputs"))),
    ),
    "PAD": _PAD,
    "PADV2": _PAD,
    "CONCATENATION": (
        (7, _first(*_FLOAT8)),
        (6, _first("FLOAT16")),
        (5, _first("INT4")),
        (4, _first("UINT32")),
        (3, _first("INT16")),
        (2, _first("INT8")),
    ),
    "SOFTMAX": ((4, _first("FLOAT16")), *_INT8_THEN_16),
    "MEAN": _INT8_THEN_16,
    "MIRROR_PAD": _INT8_THEN_16,
    "REDUCE_MAX": _INT8_THEN_16,
    "REDUCE_MIN": _INT8_THEN_16,
    "RELU6": _INT8_THEN_16,
    "RSQRT": _INT8_THEN_16,
    "RNN": _recurrent(1),
    "UNIDIRECTIONAL_SEQUENCE_RNN": _recurrent(1),
    "BIDIRECTIONAL_SEQUENCE_RNN": _recurrent(1),
    "BIDIRECTIONAL_SEQUENCE_LSTM": _recurrent(1),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        (5, lambda use: _lstm("INT16", use)),
        (4, _set("diagonal_recurrent_tensors")),
        (3, _when(lambda use: _lstm("FLOAT32", use), _set("asymmetric_quantize_inputs"))),
        (2, lambda use: _lstm("FLOAT32", use)),
    ),
    "ARG_MAX": ((3, _first("BOOL")), (2, _first("INT8"))),
    "ARG_MIN": ((3, _first("BOOL")), (2, _first("INT8"))),
    "SELECT": (
        (4, _first("UINT32")),
        (3, lambda use: any(len(use.x(index).shape) == 5 for index in range(3))),
        (2, _first("INT8")),
    ),
    "LESS": _INT8_THEN_16,
    "GREATER_EQUAL": _INT8_THEN_16,
    "SELECT_V2": ((2, _first("UINT32")),),
    "SPLIT_V": ((3, _first(*_FLOAT8)), (2, _first("INT8"))),
    "SPACE_TO_DEPTH": _INT8_FIRST,
    "SUM": _INT8_FIRST,
    "LOG_SOFTMAX": _INT8_FIRST,
    "GREATER": _INT8_FIRST,
    "LESS_EQUAL": _INT8_FIRST,
    "SQUARED_DIFFERENCE": _INT8_FIRST,
    "DEPTH_TO_SPACE": _INT8_FIRST,
    "TOPK_V2": (
        (3, lambda use: "INT16" in (use.x(0).type, use.x(1).type)),
        (3, lambda use: len(use.outputs) > 1 and (use.outputs[1] or _NOTHING).type == "INT16"),
        (2, _first("INT8")),
    ),
    "EXP": ((2, _first("INT8", "INT16")),),
    "LOG": ((2, _first("INT8", "INT16")),),
    "REDUCE_PROD": ((2, _first("INT8", "INT16")),),
    "SQRT": ((2, _first("INT8", "INT16")),),
    "DYNAMIC_UPDATE_SLICE": (
        (6, _first("BFLOAT16")),
        (5, _first("INT4")),
        (4, _first("INT16")),
        (3, _first("FLOAT16")),
        (2, lambda use: use.x(2).type == "INT64"),
    ),
    "BROADCAST_TO": ((4, _first(*_FLOAT8)), (3, _first("INT8", "INT16")), (2, lambda use: True)),
    "CAST": (
        (9, _either(*_FLOAT8)),
        (8, _either("INT2", "UINT4")),
        (7, _either("BFLOAT16")),
        (6, _types("INT4", "FLOAT32")),
        (5, _either("FLOAT64", "FLOAT16")),
        (4, _either("UINT16")),
        (3, _either("INT8")),
        (2, _either("UINT32")),
    ),
    "WHERE": ((2, lambda use: use.x(0).type != "BOOL"),),
    "GELU": ((3, _first("FLOAT16")), (2, _first("INT8", "UINT8"))),
}


def version_of(
    op: str,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value | None],
    options: Mapping[str, Any],
) -> int:
    """The version that a builtin op needs; `options` have the schema's names and enums."""
    use = Use(inputs, outputs, options)
    return next((version for version, rule in RULES.get(op, ()) if rule(use)), 1)
