"""Which ops of TFLite files XNNPACK takes in LiteRT 2.3; the optimized kernels run the rest.

`refusal` says why it does not take a `tflite.node`, None where it does. `ROWS` has one entry for
each op that it knows: the kinds of operands and results, and what else must hold. Kinds:

    code      f32, f16, or codes of 8 bits on one scale         float     f32 or f16
    single    the same without f16                              codes     8 bits on one scale
    signed    f32, f16 or signed codes                          const     a constant
    shape     a constant vector of i32                          any       anything
    weight    f32, f16, codes on one scale, signed ones on a scale per channel (`channel`)
    bias      f32, f16, or i32 with scales; a constant

What the delegate reads it reads before shapes are computed: a dynamic extent counts as one. It also
looks at `quantized_dimension` of tensors with one scale (it wants 0), which types do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Operation

from qdialect.plugins.tflite import target_checks as must
from qdialect.plugins.tflite.target_nodes import NODE, Reason, node_of, unpacks


@dataclass(frozen=True)
class Row:
    """What XNNPACK takes of one op; kinds of further inputs are that of the last."""

    inputs: tuple[str, ...]
    result: str = "code"
    count: tuple[int, int] | None = None
    checks: tuple[must.Check, ...] = ()
    channel: int = 0


def takes(op: Operation) -> bool:
    """Whether XNNPACK runs a `tflite.node`."""
    return refusal(op) is None


def refusal(op: Operation) -> Reason | None:
    """Why XNNPACK does not run a `tflite.node`; None where it does."""
    if op.name != NODE:
        return Reason("op", f"'{op.name}' is no op of a file")
    if unpacks(op):
        return _unpacked(op)
    node = node_of(op)
    if node.name == "VAR_HANDLE":
        return _handle(op)
    row = ROWS.get(node.name)
    if row is None:
        return Reason("op", f"XNNPACK knows no {node.name}")
    fewest, most = row.count or (len(row.inputs), len(row.inputs))
    if not fewest <= len(node.inputs) <= most:
        return Reason("inputs", f"{node.name} has {len(node.inputs)} inputs")
    for index, part in enumerate(node.inputs):
        kind = row.inputs[min(index, len(row.inputs) - 1)]
        found = must.fits(kind, part, f"operand #{index}", row.channel)
        if found is not None:
            return found
    for index, part in enumerate(node.results):
        found = must.fits(row.result, part, f"result #{index}")
        if found is not None:
            return found
    return next((found for check in row.checks if (found := check(node)) is not None), None)


def _unpacked(op: Operation) -> Reason | None:
    for use in op.results[0].uses:
        if use.operation.name == NODE and refusal(use.operation) is not None:
            return Reason("users", "an op reads it that XNNPACK does not take")
    return None


def _handle(op: Operation) -> Reason | None:
    """Taken with what reads or writes the variable."""
    users = [use.operation for use in op.results[0].uses]
    if any(user.name == NODE and takes(user) for user in users):
        return None
    return Reason("users", "XNNPACK takes nothing that uses the variable")


def _binary(kind: str, *checks: must.Check) -> Row:
    both = (must.SMALL, must.rank(1, 0, must.MOST_DIMENSIONS))
    return Row((kind, kind), kind, checks=(*both, *checks))


_IMAGE = (must.rank(0, 4), must.rank(1, 4), must.rank(-1, 4))
_CONVOLUTION = ("code", "weight", "bias")
_FLOAT_UNARY = (
    *("ABS", "CEIL", "COS", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LOG", "NEG", "RELU"),
    *("RELU6", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIN", "SQRT", "SQUARE"),
)

ROWS: Mapping[str, Row] = {
    **{name: Row(("float",), "float", checks=(must.SMALL,)) for name in _FLOAT_UNARY},
    "DEQUANTIZE": Row(("codes",), "float", checks=(must.SMALL,)),
    "ELU": Row(("signed",), "signed", checks=(must.SMALL,)),
    "LOGISTIC": Row(("code",), checks=(must.SMALL,)),
    "TANH": Row(("code",), checks=(must.SMALL,)),
    "LEAKY_RELU": Row(("code",), checks=(must.SMALL, must.leaky)),
    "QUANTIZE": Row(("code",), checks=(must.SMALL, must.requantizes)),
    "ADD": _binary("code", must.one_type(0, 1), must.ratios, must.activation),
    "SUB": _binary("code", must.one_type(0, 1), must.ratios, must.activation),
    "MUL": _binary("code", must.one_type(0, 1), must.product, must.activation),
    "DIV": _binary("float", must.activation),
    "MAXIMUM": _binary("float"),
    "MINIMUM": _binary("float"),
    "SQUARED_DIFFERENCE": _binary("float"),
    "PRELU": Row(
        ("float", "const"),
        "float",
        checks=(must.SMALL, must.float_slope),
    ),
    "AVERAGE_POOL_2D": Row(("float",), "float", checks=(must.window, must.activation)),
    "MAX_POOL_2D": Row(("single",), checks=(must.window, must.activation)),
    "SOFTMAX": Row(("float",), "float", checks=(must.beta,)),
    "CONV_2D": Row(_CONVOLUTION, checks=(*_IMAGE, must.convolves, must.activation), count=(3, 3)),
    "DEPTHWISE_CONV_2D": Row(
        _CONVOLUTION, checks=(*_IMAGE, must.convolves, must.activation), channel=3, count=(3, 3)
    ),
    "TRANSPOSE_CONV": Row(
        ("shape", "weight", "single", "bias"),
        "single",
        (3, 4),
        (must.rank(1, 4), must.rank(2, 4), must.rank(-1, 4), must.deconvolves, must.activation),
    ),
    "FULLY_CONNECTED": Row(
        ("code", "any", "any"), "code", (2, 3), (must.dense, must.zero_weights, must.activation)
    ),
    "BATCH_MATMUL": Row(("code", "factor"), checks=(must.zero_weights, must.matmul), channel=-1),
    **dict.fromkeys(
        ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"),
        Row(("code", "shape"), checks=(must.some_axes,)),
    ),
    "CONCATENATION": Row(("code",), count=(2, 5), checks=(must.fewer_inputs,)),
    "PAD": Row(
        ("code", "const"), checks=(must.rank(0, 1, must.MOST_DIMENSIONS), must.not_negative(1))
    ),
    "RESHAPE": Row(
        ("code", "const"),
        count=(1, 2),
        checks=(
            must.SMALL,
            must.rank(-1, 0, must.MOST_DIMENSIONS),
            must.same_parameters,
            must.flat_reshape,
        ),
    ),
    "RESIZE_BILINEAR": Row(("single", "shape"), checks=(must.rank(0, 4), must.rank(-1, 4))),
    "SLICE": Row(("code", "const", "const"), checks=(must.not_negative(1), must.positive(2))),
    "STRIDED_SLICE": Row(("code", "const", "const", "shape"), checks=(must.one_by_one,)),
    "SPLIT": Row(("shape", "code"), checks=(must.pieces,)),
    "TRANSPOSE": Row(("code", "const"), checks=(must.rank(0, 1, must.MOST_DIMENSIONS),)),
    "READ_VARIABLE": Row(("any",)),
    "ASSIGN_VARIABLE": Row(("any", "code")),
    "Convolution2DTransposeBias": Row(("float32", "weight", "bias"), "float32"),
    "SPACE_TO_DEPTH": Row(("single",), checks=(must.block,)),
    "DEPTH_TO_SPACE": Row(("code",), checks=(must.block,)),
}
"""What XNNPACK takes of each op that it knows."""
