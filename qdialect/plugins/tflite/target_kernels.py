"""What LiteRT's kernels have to do for an op: the terms that its time is a linear function of.

As for ONNX Runtime (`onnxruntime_kernels`), an execution is a `Work`: a measured kernel, a state
and numbers (products, elements, ...) of which the price table has the nanoseconds.  Contractions
are on `float`, on `i8 i8` (activations, weights), `i16 i8` or `dynamic` (floats, weights of 8 bits,
quantized as they run); other ops on `float`, on `codes`, which are of 8 bits, or `codes 16`.

An op on codes that XNNPACK does not take runs in LiteRT's own kernel, and the network leaves
XNNPACK for it and comes back: its price has that in it (`LEAVE`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from qdialect.ir.ops.base import NNOp
from qdialect.plugins.onnx.target_kernels import (
    CODES,
    DYNAMIC,
    FLOAT,
    VIEW,
    WARM,
    WARM_WEIGHTS,
    Work,
    cast_work,
    elements,
    elementwise,
    is_constant,
    priced_shape,
)

I8, I16 = "i8 i8", "i16 i8"
CODES_16 = "codes 16"
"""State of an op that is no contraction on codes of 16 bits."""
RUN = "run"
"""A kernel that stands for what an invocation costs by itself."""
LEAVE = "leave"
"""A kernel that stands for leaving XNNPACK for one op and coming back."""
BLOCK = 16
"""Channels of a result that XNNPACK computes at a time with vectors of 512 bits."""
SUMMED = 8
"""Products of codes that are summed at a time."""
IMAGE = 16
"""Fewer channels of an input are those of an image."""
MANY_TAPS = 25
"""A depthwise convolution of more taps has a kernel that takes ten times as long for each."""

ON_CODES = frozenset(
    {
        *("nn.add", "nn.sub", "nn.mul", "nn.sigmoid", "nn.tanh", "nn.leaky_relu", "nn.max_pool2d"),
        *("nn.reduce_mean", "nn.reduce_sum", "nn.reduce_max", "nn.concat", "nn.split"),
        *("nn.slice", "nn.transpose", "nn.pad", "nn.resize_linear", "nn.depth_to_space"),
        *("nn.space_to_depth", "quant.rescale"),
    }
)
"""Ops on codes that XNNPACK takes, beside contractions."""
OFF_CODES = frozenset(
    {
        *("nn.avg_pool2d", "nn.softmax", "nn.hard_swish", "nn.maximum", "nn.minimum", "nn.prelu"),
        *("nn.relu", "nn.resize_nearest", "nn.gather", "nn.exp", "nn.gelu", "nn.abs", "nn.table"),
    }
)
"""Ops on codes that only LiteRT's own kernels take."""
_LIKE: Mapping[str, str] = {
    "nn.global_avg_pool2d": "nn.reduce_mean",
    "nn.clip": "nn.relu",
    "nn.reduce_min": "nn.reduce_max",
    "nn.split": "nn.slice",
    "nn.table": "nn.exp",
    **dict.fromkeys(("nn.tile", "nn.expand"), "nn.concat"),
}
"""Ops that take about what another one does."""
_VIEWS = frozenset({"nn.reshape", "nn.flatten", "nn.squeeze", "nn.unsqueeze"})
_CLAMPS = frozenset({"nn.relu", "nn.clip"})
_CLAMPING = (
    *("nn.conv1d", "nn.conv2d", "nn.conv_transpose2d", "nn.fully_connected", "nn.matmul"),
    *("nn.add", "nn.sub", "nn.mul", "nn.max_pool2d"),
)
"""Ops whose kernels clamp what they write (a fused activation)."""


def multiple(n: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-n // unit) * unit


def convolution_work(
    state: str,
    positions: int,
    count: int,
    depth: int,
    taps: int,
    *,
    groups: int = 1,
    read: int,
    transposed: bool = False,
) -> Work:
    """Of a convolution: `positions` of the result (of a transposed one, of the input), its
    channels, those of the input of a group, and taps."""
    if transposed:
        kernel = "conv transposed"
    elif depth == 1 and groups > 1:
        kernel = "conv depthwise"
    elif groups > 1:
        kernel = "conv grouped"
    elif depth < IMAGE:
        kernel = "conv image"
    else:
        kernel = "conv point" if taps == 1 else "conv window"
    if kernel == "conv depthwise" and taps > MANY_TAPS:
        kernel = "conv depthwise large"
    if kernel.startswith("conv depthwise"):
        each = multiple(count, BLOCK)
        products = positions * each * taps
    else:
        each = multiple(count // groups, BLOCK) * groups
        products = positions * each * taps * multiple(depth, 1 if state == FLOAT else SUMMED)
    weights = count * depth * taps
    return Work(
        kernel,
        state,
        {
            "node": 1,
            "product": products,
            "written": positions * count,
            "read": read,
            "window": 0 if taps == 1 else positions * taps * groups,
            "far": max(weights - WARM_WEIGHTS, 0),
        },
    )


def product_work(
    state: str, rows: int, columns: int, depth: int, *, batches: int = 1, constant: bool = True
) -> Work:
    """Of a matrix product of so many rows (in all batches)."""
    kernel = ("product row" if rows == 1 else "product") if constant else "product of values"
    summed = multiple(depth, 1 if state == FLOAT else SUMMED)
    return Work(
        kernel,
        state,
        {
            "node": 1,
            "batch": batches - 1,
            "product": rows * multiple(columns, BLOCK) * summed,
            "written": rows * columns,
            "read": rows * depth + (0 if constant else batches * depth * columns),
            "far": max(depth * columns - WARM_WEIGHTS, 0) if constant else 0,
        },
    )


def plain_work(name: str, state: str, size: int, window: int = 0) -> Work:
    """Of an op over so many elements; `window` elements are compared or added up."""
    terms = elementwise(size)
    return Work(_LIKE.get(name, name), state, {**terms, "window": window} if window else terms)


def strided(steps: Sequence[int]) -> str:
    """The kernel of a slice: with steps it leaves XNNPACK, and copies element by element."""
    return "nn.slice" if all(step == 1 for step in steps) else "nn.slice strided"


def works(op: Operation, state: str) -> tuple[Work, ...] | None:
    """What an op of a float module runs in a state; () where another op's kernel does it, None
    where it cannot be in the state or is not known."""
    if not isinstance(op, NNOp) or not _are_tensors(op):
        return None
    if op.name == "nn.constant":
        return ()
    if op.name in ("nn.conv1d", "nn.conv2d", "nn.conv_transpose2d"):
        return None if state == DYNAMIC else _convolution(op, state)
    if op.name in ("nn.matmul", "nn.fully_connected"):
        return _product(op, state)
    if state == DYNAMIC:
        return None
    if op.name in _VIEWS:
        return (Work(VIEW, CODES, {"node": 1}),)
    if _is_taken_in(op):
        return ()
    if state == FLOAT:
        return (_plain(op, FLOAT),)
    name = _LIKE.get(op.name, op.name)
    if name in ON_CODES and _plain(op, CODES).kernel in (*ON_CODES, "nn.slice"):
        return (_plain(op, CODES),)
    if name in OFF_CODES or name == "nn.slice":
        return (_plain(op, CODES), Work(LEAVE, CODES, elementwise(elements(op.results[0]))))
    casts = [cast_work("quant.dcast", elements(v)) for v in op.operands if not is_constant(v)]
    casts += [cast_work("quant.qcast", elements(v)) for v in op.results]
    return (*casts, _plain(op, FLOAT))


def _is_taken_in(op: NNOp) -> bool:
    """Whether the kernel in front of a clamp does it."""
    if op.name not in _CLAMPS:
        return False
    owner = op.operands[0].owner
    return (
        isinstance(owner, NNOp) and owner.name in _CLAMPING and len(list(op.operands[0].uses)) == 1
    )


def _are_tensors(op: Operation) -> bool:
    return all(isinstance(v.type, TensorType) for v in (*op.operands, *op.results))


def _plain(op: NNOp, state: str) -> Work:
    values = [v for v in op.operands if not is_constant(v)]
    size = max(map(elements, (*values, *op.results)), default=1)
    window = 0
    if op.name.startswith(("nn.max_pool", "nn.avg_pool")):
        window = elements(op.results[0]) * prod(cast("tuple[int, ...]", op.values["kernel"]))
    name = op.name
    if name == "nn.slice":
        name, size = strided(cast("tuple[int, ...]", op.values["steps"])), elements(op.results[0])
    return plain_work(name, state, size, window)


def _convolution(op: NNOp, state: str) -> tuple[Work, ...] | None:
    if not is_constant(op.operands[1]):
        return None
    transposed = op.name == "nn.conv_transpose2d"
    first, second, *taps = priced_shape(op.operands[1])
    groups = max(int(op.values["groups"]), 1)
    count, depth = (second * groups, first // groups) if transposed else (first, second)
    where = op.operands[0] if transposed else op.results[0]
    channels = first if transposed else count
    positions = elements(where) // max(channels, 1)
    read = elements(op.operands[0])
    return (
        convolution_work(
            state,
            positions,
            count,
            depth,
            prod(taps),
            groups=groups,
            read=read,
            transposed=transposed,
        ),
    )


def _product(op: NNOp, state: str) -> tuple[Work, ...] | None:
    a, b = op.operands[:2]
    constant = op.name == "nn.fully_connected" or is_constant(b)
    if state == DYNAMIC and not constant:
        return None
    weights, result = priced_shape(b), priced_shape(op.results[0])
    columns = weights[0] if op.name == "nn.fully_connected" else weights[-1]
    rows = elements(op.results[0]) // max(columns, 1)
    batches = 1 if constant else prod(result[:-2])
    depth = priced_shape(a)[-1]
    return (product_work(state, rows, columns, depth, batches=batches, constant=constant),)


__all__ = [
    "BLOCK",
    "CODES",
    "CODES_16",
    "DYNAMIC",
    "FLOAT",
    "I8",
    "I16",
    "LEAVE",
    "OFF_CODES",
    "ON_CODES",
    "RUN",
    "VIEW",
    "WARM",
    "Work",
    "convolution_work",
    "plain_work",
    "product_work",
    "strided",
    "works",
]
