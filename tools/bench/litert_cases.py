"""Small TFLite files, each of some copies of one op, of which LiteRT's kernels are timed.

    one(Case("ADD", ((1, 8, 8, 32),) * 2, (1, 8, 8, 32)), CODES, copies=4)

Copies stand in a row, each on the result of the one before, where the shapes allow it and numbers
stay ordinary; else side by side on the same input.  Constants differ from copy to copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.plugins.tflite.file.model import File, Operator, Quantization, Subgraph, Tensor
from qdialect.plugins.tflite.target_kernels import CODES, CODES_16, DYNAMIC, FLOAT, I8, I16

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Shape = tuple[int, ...]
SIDES = (8, 48, 96)
"""Images are side x side x 32."""
CHANNELS = 32
_STEPS = (0.05, 0.06, 0.07)
_WIDE_STEP = 2**-12
_WIDE_CODES = (I16, CODES_16)
_WIDE = frozenset({"LOGISTIC", "SOFTMAX"})
"""Ops of which int8 results have the scale 1/256."""
_IN_A_ROW = frozenset(
    {
        *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL", "ADD", "SUB", "MUL"),
        *("MAXIMUM", "MINIMUM", "PRELU", "MAX_POOL_2D", "AVERAGE_POOL_2D", "TRANSPOSE"),
    }
)
"""Ops of which copies stand in a row. XNNPACK puts functions of one operand on codes together."""

_FIRST = frozenset(
    {"HARD_SWISH", "ELU", "NEG", "FLOOR", "CEIL", "ROUND", "POW", "PRELU", "RESHAPE"}
)
"""Ops of one version."""


@dataclass(frozen=True)
class Case:
    """An op: shapes of operands that vary and of the result, shapes of weights (the last is that
    of the bias), other constants, and options."""

    op: str
    takes: tuple[Shape, ...]
    gives: Shape
    weights: tuple[Shape, ...] = ()
    #: numbers that are operands behind those that vary (in front of them: `before`)
    numbers: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    states: tuple[str, ...] = (FLOAT, CODES)
    #: the dimension of the weights that has one scale for each
    axis: int = 0
    before: bool = False


def one(case: Case, state: str, copies: int) -> File:
    """A file of so many copies."""
    made = _Maker(case, state)
    source = [made.varying(f"x{n}", shape, n) for n, shape in enumerate(case.takes)]
    inputs, outputs = list(source), list[int]()
    chained = is_chained(case)
    first = source[0]
    for copy in range(copies):
        result = made.op(copy, [first, *source[1:]])
        if chained:
            first, outputs = result, [result]
        else:
            outputs.append(result)
    graph = Subgraph("main", made.tensors, inputs, outputs, made.operators)
    return File("tflite", 3, [graph])


def is_chained(case: Case) -> bool:
    """Whether copies stand in a row."""
    return case.op == "RESHAPE" or (case.gives == case.takes[0] and case.op in _IN_A_ROW)


class _Maker:
    """The tensors and operators of a file."""

    def __init__(self, case: Case, state: str) -> None:
        self.case, self.state = case, state
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.rng = np.random.default_rng(0)

    def add(
        self,
        name: str,
        shape: Shape,
        kind: str,
        scales: Any = None,
        zero: int = 0,
        data: Array | None = None,
        axis: int = 0,
    ) -> int:
        quantization = None
        if scales is not None:
            array = np.atleast_1d(np.asarray(scales, np.float32))
            quantization = Quantization(array, np.full(len(array), zero, np.int64), axis)
        self.tensors.append(Tensor(name, shape, kind, None, data, quantization))
        return len(self.tensors) - 1

    def varying(self, name: str, shape: Shape, number: int) -> int:
        """An activation."""
        if self.state in (FLOAT, DYNAMIC) or self.case.op == "QUANTIZE float":
            return self.add(name, shape, "FLOAT32")
        if self.state in _WIDE_CODES:
            return self.add(name, shape, "INT16", _WIDE_STEP)
        step = _STEPS[0] if self.case.op in _SAME else _STEPS[number % 3]
        return self.add(name, shape, "INT8", step, int(self.case.op != "BATCH_MATMUL"))

    def op(self, copy: int, operands: Sequence[int]) -> int:
        """One more copy; its result."""
        case = self.case
        inputs, options = [*operands, *self._weights(copy)], case.options
        if case.op == "RESHAPE":  # there and back
            shape = case.takes[0] if copy % 2 else case.gives
            inputs, options = [*inputs, self._number(f"s{copy}", shape)], {"new_shape": shape}
        numbers = [self._number(f"n{copy}_{n}", given) for n, given in enumerate(case.numbers)]
        inputs = [*numbers, *inputs] if case.before else [*inputs, *numbers]
        if case.op == "TRANSPOSE_CONV":  # shape, weights, x, bias
            inputs = [numbers[0], inputs[1], inputs[0], inputs[2]]
        elif case.op == "PADV2":
            inputs.append(self._pad_value(copy))
        name = case.op.partition(" ")[0]
        version = 1 if name in _FIRST else 2
        self.operators.append(Operator(name, version, inputs, [self._result(copy)], options))
        return self.operators[-1].outputs[0]

    def _result(self, copy: int) -> int:
        case, name = self.case, f"y{copy}"
        shape = case.takes[0] if case.op == "RESHAPE" and copy % 2 else case.gives
        if case.op == "DEQUANTIZE":
            return self.add(name, shape, "FLOAT32")
        if self.state in (FLOAT, DYNAMIC) and case.op != "QUANTIZE float":
            return self.add(name, shape, "FLOAT32")
        if self.state in _WIDE_CODES:
            fixed = case.op in ("LOGISTIC", "TANH", "SOFTMAX")
            return self.add(name, shape, "INT16", 2**-15 if fixed else _WIDE_STEP)
        if case.op in _WIDE:
            return self.add(name, shape, "INT8", 1 / 256, -128)
        if case.op == "TANH":
            return self.add(name, case.gives, "INT8", 1 / 128, 0)
        step = _STEPS[0] if case.op in _SAME else _STEPS[(copy + 1) % 3]
        return self.add(name, shape, "INT8", step, 1)

    def _weights(self, copy: int) -> Iterator[int]:
        case = self.case
        if not case.weights:
            return
        *weights, bias = case.weights
        count = bias[0] if bias else 1
        for n, shape in enumerate(weights):
            name = f"w{copy}_{n}"
            if self.state == FLOAT:
                data = self.rng.normal(0, 0.05, shape).astype(np.float32)
                yield self.add(name, shape, "FLOAT32", data=data)
                continue
            data = self.rng.integers(-127, 128, shape).astype(np.int8)
            scales = np.full(count, 0.003) if bias else [0.003]
            yield self.add(name, shape, "INT8", scales, data=data, axis=case.axis)
        if not bias:
            return
        if self.state in (FLOAT, DYNAMIC):
            yield self.add(f"b{copy}", bias, "FLOAT32", data=np.zeros(bias, np.float32))
            return
        steps = [0.003 * self._step(0)] * count
        kind, dtype = ("INT64", np.int64) if self.state == I16 else ("INT32", np.int32)
        yield self.add(f"b{copy}", bias, kind, steps, data=np.zeros(bias, dtype))

    def _step(self, number: int) -> float:
        """The scale of what the copy that is made takes."""
        made = self.operators[-1].outputs[0] if self.operators else 0
        found = self.tensors[made if is_chained(self.case) else number].quantization
        return 1.0 if found is None else float(found.scales[0])

    def _number(self, name: str, given: Any) -> int:
        array = np.asarray(given, np.int32)
        return self.add(name, array.shape, "INT32", data=array)

    def _pad_value(self, copy: int) -> int:
        if self.state == FLOAT:
            return self.add(f"v{copy}", (1,), "FLOAT32", data=np.zeros(1, np.float32))
        return self.add(f"v{copy}", (1,), "INT8", _STEPS[0], 1, np.ones(1, np.int8))


_SAME = frozenset(
    {
        *("MAX_POOL_2D", "AVERAGE_POOL_2D", "CONCATENATION", "SLICE", "STRIDED_SLICE", "TRANSPOSE"),
        *("PAD", "PADV2", "MIRROR_PAD", "GATHER", "RESIZE_NEAREST_NEIGHBOR", "DEPTH_TO_SPACE"),
        *("SPACE_TO_DEPTH", "RESHAPE", "MAXIMUM", "MINIMUM", "REDUCE_MAX", "RESIZE_BILINEAR"),
    }
)
"""Ops whose operands and result have the same qparams."""

_POINT = (
    *((16, 96, 56), (96, 24, 28), (32, 64, 40), (64, 64, 28), (128, 128, 14), (256, 64, 14)),
    *((512, 128, 7), (256, 512, 7), (32, 16, 80), (144, 24, 20), (512, 512, 7), (64, 384, 10)),
    *((960, 160, 5), (256, 64, 1), (64, 256, 1), (48, 48, 32), (1024, 256, 14), (24, 8, 16)),
)
"""Channels, those of the result, side."""
_WINDOW = (
    *((16, 16, 64, 3, 1), (32, 32, 32, 3, 1), (64, 64, 28, 3, 1), (128, 128, 14, 3, 1)),
    *((64, 128, 28, 3, 2), (256, 256, 7, 3, 1), (512, 512, 7, 3, 1), (48, 64, 16, 5, 1)),
    *((128, 32, 28, 3, 1), (64, 64, 4, 3, 1), (16, 32, 80, 3, 2), (32, 8, 40, 3, 1)),
)
_IMAGE = (
    *((3, 16, 112, 3, 2), (3, 32, 160, 3, 2), (3, 64, 112, 7, 2), (1, 16, 28, 3, 1)),
    *((3, 32, 48, 3, 1), (3, 24, 192, 3, 2), (8, 16, 40, 3, 1)),
)
_DEPTHWISE = (
    *((16, 80, 3, 1), (32, 80, 3, 2), (64, 40, 3, 1), (96, 56, 3, 2), (128, 20, 3, 1)),
    *((256, 10, 5, 1), (384, 10, 3, 1), (512, 7, 5, 1), (960, 5, 3, 1), (32, 112, 3, 1)),
    *((24, 28, 5, 1), (144, 20, 3, 2), (64, 24, 7, 1), (128, 8, 7, 1), (32, 48, 9, 2)),
    *((8, 128, 1, 1), (16, 64, 1, 1), (64, 32, 1, 1), (8, 64, 3, 1), (16, 96, 3, 2)),
)
_GROUPED = ((32, 32, 20, 3, 4), (64, 64, 28, 3, 8), (128, 128, 14, 3, 32), (64, 128, 14, 1, 2))
_TRANSPOSED = ((32, 16, 16, 2, 2), (64, 32, 20, 3, 2), (128, 64, 10, 4, 2), (16, 8, 48, 2, 2))
_PRODUCTS = (
    *((1, 256, 10), (1, 1024, 1000), (1, 64, 64), (1, 512, 2048), (1, 2048, 512), (1, 128, 16)),
    *((1, 256, 64), (1, 128, 128), (1, 512, 32), (1, 96, 96)),
    *((16, 256, 256), (64, 128, 512), (128, 64, 64), (196, 384, 384), (49, 768, 192), (8, 32, 32)),
)
"""Rows, depth, columns."""
_CONTRACTED = (FLOAT, I8, I16, DYNAMIC)
_ON_8, _ON_16 = (FLOAT, CODES), (FLOAT, CODES, CODES_16)


def cases() -> Iterator[Case]:
    """All that is measured."""
    for channels, count, side in _POINT:
        yield _conv(channels, count, side, 1, 1)
    for channels, count, side, taps, stride in (*_WINDOW, *_IMAGE):
        yield _conv(channels, count, side, taps, stride)
    for channels, count, side, taps, groups in _GROUPED:
        yield _conv(channels, count, side, taps, 1, groups)
    for channels, side, taps, stride in _DEPTHWISE:
        yield _depthwise(channels, side, taps, stride)
    for channels, count, side, taps, stride in _TRANSPOSED:
        large = (1, side * stride, side * stride, count)
        options = {"padding": "SAME", "stride_w": stride, "stride_h": stride}
        yield Case(
            "TRANSPOSE_CONV",
            ((1, side, side, channels),),
            large,
            ((count, taps, taps, channels), (count,)),
            (large,),
            options,
            (FLOAT, I8),
        )
    for rows, depth, columns in _PRODUCTS:
        yield Case(
            "FULLY_CONNECTED",
            ((rows, depth),),
            (rows, columns),
            ((columns, depth), (columns,)),
            states=_CONTRACTED,
        )
    for heads, rows, depth, columns in ((4, 64, 32, 64), (8, 128, 64, 128), (1, 49, 96, 49)):
        shapes = ((heads, rows, depth), (heads, depth, columns))
        yield Case("BATCH_MATMUL", shapes, (heads, rows, columns), states=(FLOAT, I8))
    for side in SIDES:
        yield from _others(side)


def _conv(channels: int, count: int, side: int, taps: int, stride: int, groups: int = 1) -> Case:
    out = -(-side // stride)
    return Case(
        "CONV_2D",
        ((1, side, side, channels),),
        (1, out, out, count),
        ((count, taps, taps, channels // groups), (count,)),
        options={"padding": "SAME", "stride_w": stride, "stride_h": stride},
        states=_CONTRACTED,
    )


def _depthwise(channels: int, side: int, taps: int, stride: int) -> Case:
    out = -(-side // stride)
    options = {"padding": "SAME", "stride_w": stride, "stride_h": stride, "depth_multiplier": 1}
    return Case(
        "DEPTHWISE_CONV_2D",
        ((1, side, side, channels),),
        (1, out, out, channels),
        ((1, taps, taps, channels), (channels,)),
        options=options,
        states=_CONTRACTED,
        axis=3,
    )


_BOTH = ("LOGISTIC", "TANH", "HARD_SWISH", "RELU", "GELU", "EXP", "ABS")
_ON_FLOATS = ("ELU", "LOG", "SQRT", "RSQRT", "NEG", "FLOOR", "CEIL", "ROUND")


def _others(side: int) -> Iterator[Case]:
    """What is no contraction, on images of a side."""
    x = (1, side, side, CHANNELS)
    half, double = (1, side // 2, side // 2, CHANNELS), (1, 2 * side, 2 * side, CHANNELS // 4)
    floats, point = (FLOAT,), (1, 1, 1, CHANNELS)
    for name in _BOTH:
        wide = name in ("LOGISTIC", "TANH", "RELU")
        yield Case(name, (x,), x, states=_ON_16 if wide else _ON_8)
    for name in _ON_FLOATS:
        yield Case(name, (x,), x, states=_ON_8 if name == "RSQRT" else floats)
    for name in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"):
        yield Case(name, (x, x), x, states=_ON_16)
    for name in ("DIV", "POW"):
        yield Case(name, (x, x), x, states=floats)
    yield Case("LEAKY_RELU", (x,), x, options={"alpha": 0.1}, states=_ON_16)
    yield Case("PRELU", (x,), x, ((1, 1, CHANNELS), ()))
    yield Case(
        "SOFTMAX",
        ((side * side // 2, 64),),
        (side * side // 2, 64),
        options={"beta": 1.0},
        states=_ON_16,
    )
    pool = {"padding": "SAME", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
    wide = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "filter_width": 3, "filter_height": 3}
    for name in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        yield Case(name, (x,), half, options=pool, states=_ON_16)
        yield Case(name, (x,), x, options=wide, states=_ON_16)
    for name in ("MEAN", "SUM", "REDUCE_MAX"):
        states = _ON_16 if name == "MEAN" else _ON_8
        options = {"keep_dims": True}
        yield Case(name, (x,), point, numbers=([1, 2],), options=options, states=states)
    both = (1, side, side, 2 * CHANNELS)
    yield Case("CONCATENATION", (x, x), both, options={"axis": 3}, states=_ON_16)
    yield Case("SLICE", (x,), half, numbers=([0, 1, 1, 0], half))
    steps = {"begin_mask": 0, "end_mask": 0}
    yield Case(
        "STRIDED_SLICE", (x,), half, (), ([0, 0, 0, 0], x, [1, 2, 2, 1]), steps, states=(CODES,)
    )
    yield Case("TRANSPOSE", (x,), (1, CHANNELS, side, side), numbers=([0, 3, 1, 2],), states=_ON_16)
    yield Case("TRANSPOSE", (x,), x, numbers=([0, 2, 1, 3],), states=_ON_16)
    padded = (1, side + 2, side + 2, CHANNELS)
    amounts = [[0, 0], [1, 1], [1, 1], [0, 0]]
    yield Case("PAD", (x,), padded, numbers=(amounts,))
    yield Case("GATHER", (x,), x, numbers=(list(range(side))[::-1],), options={"axis": 1})
    large = (1, 2 * side, 2 * side, CHANNELS)
    for name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        options = {"half_pixel_centers": True, "align_corners": False}
        yield Case(name, (x,), large, numbers=([2 * side, 2 * side],), options=options)
    yield Case("DEPTH_TO_SPACE", (x,), double, options={"block_size": 2})
    small = (1, side // 2, side // 2, 4 * CHANNELS)
    yield Case("SPACE_TO_DEPTH", (x,), small, options={"block_size": 2})
    yield Case("RESHAPE", (x,), (1, prod(x)), states=_ON_16)
    yield Case("QUANTIZE", (x,), x, states=(CODES, CODES_16))
    yield Case("QUANTIZE float", (x,), x, states=(FLOAT, CODES_16))
    yield Case("DEQUANTIZE", (x,), x, states=(CODES, CODES_16))
