"""Floats and plain integers: elementwise builtins, reductions, matrix products.

There is no error function. With z = sqrt(2) x, GELU(z) = z / 2 (1 + erf(x)), so that

    erf(x) = 2 GELU(z) / z - 1

of which the quotient is taken where |z| is not next to 0, and 2 x / sqrt(pi) elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.emitter import element_of, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.floats.algebra import Algebra, Function, Logic, Order, Pair
from qdialect.plugins.common.lowering.floats.writer import Compute, FloatWriter, Reduction
from qdialect.plugins.common.lowering.laid_out import LaidOut, channels_last, identity_order
from qdialect.plugins.common.lowering.preconditions import common_order
from qdialect.plugins.tflite.lowering.codes import ACTIVATION
from qdialect.plugins.tflite.lowering.emitter import Emitter
from qdialect.plugins.tflite.lowering.reduction import reduced
from qdialect.plugins.tflite.lowering.slices import taken
from qdialect.plugins.tflite.lowering.windows import (
    by_slices,
    lifted,
    lowered_rank,
    padded,
    pool_windows,
)

_PAIRS: Mapping[Pair, str] = {"power": "POW", "maximum": "MAXIMUM", "minimum": "MINIMUM"}
_WITH_ACTIVATION = ("add", "sub", "mul", "div")
_FUNCTIONS: Mapping[Function, str] = {"nearest": "ROUND"}
_ORDERS: Mapping[Order, str] = {
    "eq": "EQUAL",
    "ne": "NOT_EQUAL",
    "lt": "LESS",
    "le": "LESS_EQUAL",
    "gt": "GREATER",
    "ge": "GREATER_EQUAL",
}
_LOGIC: Mapping[Logic, str] = {
    "and": "LOGICAL_AND",
    "or": "LOGICAL_OR",
    "not": "LOGICAL_NOT",
    "xor": "NOT_EQUAL",
}
_SMALL = 1e-2
_NUMBERS = (f32, i32, i64)
#: integer types of the builtins of pairs
_INTEGERS: Mapping[Pair, tuple[Attribute, ...]] = {"div": (i32,), "power": (i32,)}


class TensorAlgebra(Algebra):
    """Tensors, which broadcast."""

    def __init__(self, e: Emitter, element: Attribute) -> None:
        super().__init__(element)
        self._e = e

    def _op(self, name: str, x: Sequence[SSAValue], element: Attribute, **more: Any) -> SSAValue:
        return self._e.node(name, x, broadcast(*(shape_of(v) for v in x)), element, **more)

    def number(self, value: float) -> SSAValue:
        """A constant of rank 0."""
        return self._e.scalar(value, self.element)

    def _check(self, allowed: Sequence[Attribute] = _NUMBERS) -> None:
        if self.element not in allowed:
            raise Unlowerable("type", f"it computes with {self.element}", "f32")

    def pair(self, name: Pair, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """See the base class."""
        self._check(_NUMBERS if self.element == f32 else _INTEGERS.get(name, _NUMBERS))
        more = {ACTIVATION: "NONE"} if name in _WITH_ACTIVATION else {}
        return self._op(_PAIRS.get(name, name.upper()), [lhs, rhs], self.element, **more)

    def function(self, name: Function, x: SSAValue) -> SSAValue:
        """See the base class."""
        self._check((f32, i32) if name == "abs" else (f32,))
        if name == "erf":
            return self._erf(x)
        return self._op(_FUNCTIONS.get(name, name.upper()), [x], self.element)

    def _erf(self, x: SSAValue) -> SSAValue:
        z = self.pair("mul", x, self.number(math.sqrt(2)))
        near = self.compare("lt", self.function("abs", z), self.number(_SMALL))
        safe = self.choose(near, self.number(1.0), z)
        gelu = self._op("GELU", [safe], f32, approximate=False)
        twice = self.pair("div", self.pair("add", gelu, gelu), safe)
        far = self.pair("sub", twice, self.number(1.0))
        # erf(x) = 2 / sqrt(pi) (x - x^3 / 3 + x^5 / 10 - ...)
        square = self.pair("mul", x, x)
        series = self.pair("sub", self.number(1.0), self.pair("mul", square, self.number(1 / 3)))
        line = self.pair("mul", x, self.number(2 / math.sqrt(math.pi)))
        return self.choose(near, self.pair("mul", line, series), far)

    def compare(self, order: Order, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """See the base class."""
        return self._op(_ORDERS[order], [lhs, rhs], i1)

    def choose(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """`SELECT_V2`"""
        return self._op("SELECT_V2", [condition, lhs, rhs], element_of(lhs))

    def cast(
        self, x: SSAValue, element: Attribute, *, of_truth: bool = False, to_truth: bool = False
    ) -> SSAValue:
        """`CAST`, which cuts floats towards 0."""
        if element_of(x) == element:
            return x
        if to_truth:
            return self.compare("ne", x, self._e.scalar(0, element_of(x)))
        return self._op("CAST", [x], element)

    def logical(self, name: Logic, x: Sequence[SSAValue]) -> SSAValue:
        """See the base class."""
        return self._op(_LOGIC[name], x, i1)

    def sigmoid(self, x: SSAValue) -> SSAValue:
        """`LOGISTIC`"""
        self._check((f32,))
        return self._op("LOGISTIC", [x], self.element)

    def negated(self, x: SSAValue) -> SSAValue:
        """`NEG`"""
        self._check()
        return self._op("NEG", [x], self.element)


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that shapes broadcast to. An unknown extent beside 1 stays unknown, beside a larger
    one it is that."""
    rank = max(map(len, shapes), default=0)
    found: list[int] = []
    for extents in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True):
        known = [n for n in extents if n not in (1, DYNAMIC)]
        found.append(known[0] if known else DYNAMIC if DYNAMIC in extents else 1)
    return tuple(found)


class TfliteWriter(FloatWriter):
    """See the module."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self.e = emitter

    def computed(
        self,
        operands: Sequence[LaidOut],
        shape: Sequence[int],
        element: Attribute,
        compute: Compute,
    ) -> LaidOut:
        """Ops on tensors of the rank of the result; numbers stay of rank 0."""
        rank = len(shape)
        parts = [x if x.rank == 0 and x.is_constant else ranked(self.e, x, rank) for x in operands]
        order = common_order(parts, rank)
        values = [
            self.e.value_of(x) if x.rank != rank else self.e.value_of(x, order) for x in parts
        ]
        out = compute(TensorAlgebra(self.e, element_of(values[-1])), values)
        return LaidOut(tuple(shape), order, None, out)

    def reduced(self, name: Reduction, x: LaidOut, axes: Sequence[int]) -> LaidOut:
        """`SUM`, `REDUCE_MAX`, `REDUCE_MIN`"""
        named = {"sum": "SUM", "max": "REDUCE_MAX", "min": "REDUCE_MIN"}[name]
        value, order = reduced(
            self.e, named, x, axes, x.rank, element_of(self.e.value_of(x, x.order))
        )
        shape = tuple(1 if d in set(axes) else n for d, n in enumerate(x.shape))
        return LaidOut(shape, order, None, value)

    def product(self, lhs: LaidOut, rhs: LaidOut) -> LaidOut:
        """`BATCH_MATMUL`"""
        shape = (*broadcast(lhs.shape[:-2], rhs.shape[:-2]), lhs.shape[-2], rhs.shape[-1])
        (a, adj_a), (b, adj_b) = matrix(self.e, lhs), matrix(self.e, rhs)
        out = self.e.node(
            "BATCH_MATMUL",
            [a, b],
            shape,
            f32,
            adj_x=adj_a,
            adj_y=adj_b,
            asymmetric_quantize_inputs=False,
        )
        return LaidOut(shape, identity_order(len(shape)), None, out)

    def window_sums(self, op: NNOp, x: LaidOut) -> LaidOut:
        """A depthwise convolution with ones."""
        v, counts = op.values, shape_of(op.results[0])[2:]
        if x.rank > 4 or x.shape[1] == DYNAMIC or any(d != 1 for d in v.get("dilations", ())):
            sums = by_slices(self.e, op, x, "ADD", 0.0)
            return LaidOut((*x.shape[:2], *counts), channels_last(x.rank), None, sums)
        windows = pool_windows(op)
        kernel, strides, pads, channels = v["kernel"], v["strides"], windows.pads, x.shape[1]
        whole, flat = counts, x.rank == 3
        if flat:
            x, kernel, strides, whole = lifted(self.e, x), (1, *kernel), (1, *strides), (1, *counts)
            pads = None if pads is None else ((0, 0), *pads)
        value = padded(self.e, self.e.value_of(x, channels_last(4)), pads)
        out = self.e.node(
            "DEPTHWISE_CONV_2D",
            [
                value,
                self.e.scalar(1.0, f32, (1, *kernel, channels)),
                self.e.scalar(0.0, f32, (channels,)),
            ],
            (shape_of(value)[0], *whole, channels),
            f32,
            padding=windows.padding,
            stride_w=strides[1],
            stride_h=strides[0],
            depth_multiplier=1,
            dilation_w_factor=1,
            dilation_h_factor=1,
            **{ACTIVATION: "NONE"},
        )
        out = lowered_rank(self.e, out) if flat else out
        shape = (*x.shape[:2], *counts)
        return LaidOut(shape, channels_last(len(shape)), None, out)

    def taken(self, x: LaidOut, dimension: int, index: Sequence[int]) -> LaidOut:
        """`GATHER`, or a slice"""
        value = self.e.value_of(x, x.order)
        out = taken(self.e, value, x.axis_position(dimension), np.asarray(index, np.int64))
        shape = tuple(len(index) if d == dimension else n for d, n in enumerate(x.shape))
        return LaidOut(shape, x.order, None, out)


def matrix(e: Emitter, x: LaidOut) -> tuple[SSAValue, bool]:
    """A stack of matrices, and whether they lie transposed."""
    swapped = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    if x.array is None and x.rank > 1 and x.order == swapped:
        return e.value_of(x, swapped), True
    return e.value_of(x), False
