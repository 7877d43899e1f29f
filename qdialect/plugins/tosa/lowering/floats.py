"""Floats in TOSA's profile of floats: elementwise operations, reductions, matrix products.

TOSA has no quotient, square root or rounding of floats. They are written as

    x / y          x * reciprocal(y)               one rounding more than a quotient
    sqrt(x)        reciprocal(rsqrt(x))            0 and infinities come out right
    nearest(x)     cast to i32 and back, of |x| < 2**23; what is larger is whole

and exp(x) - 1 and log(1 + x) as they are read. Values keep the order in which they are laid out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.pooling import window_counts
from qdialect.plugins.common.lowering.emitter import Lowering, element_of, integer_type, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.floats.algebra import Algebra, Function, Logic, Order, Pair
from qdialect.plugins.common.lowering.floats.kept import kept_node
from qdialect.plugins.common.lowering.floats.rows import float_rows
from qdialect.plugins.common.lowering.floats.writer import Compute, FloatWriter, Reduction
from qdialect.plugins.common.lowering.laid_out import LaidOut, channels_last, identity_order
from qdialect.plugins.common.lowering.preconditions import common_order
from qdialect.plugins.common.lowering.windows import pool_windows
from qdialect.plugins.tosa.dialect import PROPAGATE
from qdialect.plugins.tosa.lowering.contraction import accumulator, cropped, matrices, window_op
from qdialect.plugins.tosa.lowering.emitter import Emitter, axis, longs
from qdialect.plugins.tosa.lowering.movement import taken
from qdialect.plugins.tosa.lowering.pooling import sums_by_slices

_DIRECT = ("abs", "ceil", "erf", "exp", "floor", "log", "tanh")
_WHOLE = 2.0**23

#: the operation, whether its operands are exchanged, whether it is negated
COMPARISONS: Mapping[Order, tuple[str, bool, bool]] = {
    "eq": ("equal", False, False),
    "ne": ("equal", False, True),
    "gt": ("greater", False, False),
    "ge": ("greater_equal", False, False),
    "lt": ("greater", True, False),
    "le": ("greater_equal", True, False),
}


class TensorAlgebra(Algebra):
    """Tensors of one rank, of which extents of 1 broadcast."""

    def __init__(self, e: Emitter, rank: int, element: Attribute) -> None:
        super().__init__(element)
        self._e = e
        self._rank = rank

    @property
    def _is_integer(self) -> bool:
        return isinstance(self.element, IntegerType)

    def _op(
        self, name: str, x: Sequence[SSAValue], element: Attribute, **more: Attribute
    ) -> SSAValue:
        extents = np.broadcast_shapes(*(shape_of(value) for value in x))
        return self._e.op(name, x, extents, element, **more)

    def number(self, value: float) -> SSAValue:
        """`tosa.const`"""
        return self._e.number(value, self.element, (1,) * self._rank)

    def pair(self, name: Pair, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """See the base class."""
        if name in ("maximum", "minimum"):
            return self._op(name, [lhs, rhs], self.element, nan_mode=PROPAGATE)
        if name == "mul":
            extents = np.broadcast_shapes(shape_of(lhs), shape_of(rhs))
            return self._e.op("mul", [lhs, rhs, self._e.scalar(0, 8)], extents, self.element)
        if name == "div" and self._is_integer:
            return self._op("intdiv", [lhs, rhs], self.element)
        if name == "div":
            return self.pair("mul", lhs, self.reciprocal(rhs))
        if name == "power" and self._is_integer:
            raise Unlowerable("type", "it takes a power of integers")
        return self._op({"power": "pow"}.get(name, name), [lhs, rhs], self.element)

    def function(self, name: Function, x: SSAValue) -> SSAValue:
        """See the base class."""
        if self._is_integer and name != "abs":
            raise Unlowerable("type", f"it takes a {name} of integers")
        if name in _DIRECT:
            return self._op(name, [x], self.element)
        if name == "sqrt":
            return self.reciprocal(self._op("rsqrt", [x], self.element))
        whole = self._op("cast", [self._op("cast", [x], i32)], self.element)
        near = self.compare("lt", self.function("abs", x), self.number(_WHOLE))
        return self.choose(near, whole, x)

    def compare(self, order: Order, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """See the base class."""
        name, exchanged, negated = COMPARISONS[order]
        out = self._op(name, [rhs, lhs] if exchanged else [lhs, rhs], i1)
        return self._op("logical_not", [out], i1) if negated else out

    def choose(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """See the base class."""
        return self._op("select", [condition, lhs, rhs], self.element)

    def cast(
        self, x: SSAValue, element: Attribute, *, of_truth: bool = False, to_truth: bool = False
    ) -> SSAValue:
        """`tosa.cast`, which rounds floats to the nearest integer: they are cut first."""
        if element_of(x) == element:
            return x
        if integer_type(element) is not None and not self._is_integer:
            if to_truth:
                return self.compare("ne", x, self.number(0))
            above = self.compare("ge", x, self.number(0))
            x = self.choose(above, self.function("floor", x), self.function("ceil", x))
        return self._op("cast", [x], element)

    def logical(self, name: Logic, x: Sequence[SSAValue]) -> SSAValue:
        """See the base class."""
        return self._op(f"logical_{name}", x, i1)

    def sigmoid(self, x: SSAValue) -> SSAValue:
        """`tosa.sigmoid`"""
        return self._op("sigmoid", [x], self.element)

    def reciprocal(self, x: SSAValue) -> SSAValue:
        """`tosa.reciprocal`"""
        return self._op("reciprocal", [x], self.element)


class TosaWriter(FloatWriter):
    """See the module."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self.e = emitter

    def stored(self, element: Attribute) -> Attribute:
        """TOSA has integers of 32 bits at most."""
        return i32 if element == i64 else element

    def computed(
        self,
        operands: Sequence[LaidOut],
        shape: Sequence[int],
        element: Attribute,
        compute: Compute,
    ) -> LaidOut:
        """Operations on tensors of the rank of the result."""
        parts = [ranked(self.e, x, len(shape)) for x in operands]
        order = common_order(parts, len(shape))
        values = [self.e.value_of(x, order) for x in parts]
        out = compute(TensorAlgebra(self.e, len(shape), element_of(values[-1])), values)
        return LaidOut(tuple(shape), order, None, out)

    def reduced(self, name: Reduction, x: LaidOut, axes: Sequence[int]) -> LaidOut:
        """One dimension after the other."""
        value = self.e.value_of(x, x.order)
        extra = {} if name == "sum" else {"nan_mode": PROPAGATE}
        for dimension in axes:
            place, extents = x.axis_position(dimension), list(shape_of(value))
            extents[place] = 1
            value = self.e.op(
                f"reduce_{name}", [value], extents, element_of(value), axis=axis(place), **extra
            )
        shape = tuple(1 if d in set(axes) else n for d, n in enumerate(x.shape))
        return LaidOut(shape, x.order, None, value)

    def product(self, lhs: LaidOut, rhs: LaidOut) -> LaidOut:
        """`tosa.matmul`"""
        shape = (*np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2]), lhs.shape[-2], rhs.shape[-1])
        out = matrices(self.e, (lhs, 0.0), (rhs, 0.0))
        return LaidOut(shape, identity_order(len(shape)), None, self.e.reshaped(out, shape))

    def window_sums(self, op: NNOp, x: LaidOut) -> LaidOut:
        """A depthwise convolution with ones; sums of slices over three dimensions."""
        geometry, order, kernel = pool_windows(op), channels_last(x.rank), op.values["kernel"]
        value = cropped(self.e, self.e.value_of(x, order), geometry.crops)
        element, channels = element_of(value), x.shape[1]
        if x.rank > 4:
            out = sums_by_slices(self.e, value, kernel, geometry)
        else:
            window = kernel if x.rank == 4 else (1, *kernel)
            weight = self.e.number(1.0, element, (*window, channels, 1))
            bias = self.e.number(0.0, element, (channels,))
            out = window_op(self.e, "depthwise_conv2d", value, weight, bias, (0, 0), geometry)
        return LaidOut((*x.shape[:2], *geometry.result), order, None, out)

    def taken(self, x: LaidOut, dimension: int, index: Sequence[int]) -> LaidOut:
        """`tosa.gather`, or a slice"""
        value = self.e.value_of(x, x.order)
        out = taken(self.e, value, x.axis_position(dimension), np.asarray(index, np.int64))
        shape = tuple(len(index) if d == dimension else n for d, n in enumerate(x.shape))
        return LaidOut(shape, x.order, None, out)


def rows() -> Mapping[str, Lowering[Emitter]]:
    """The float form of every op that has one, by name."""
    shared = float_rows(TosaWriter)
    pools = {f"nn.avg_pool{rank}d": shared[f"nn.avg_pool{rank}d"] for rank in (1, 2, 3)}

    def pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> Any:
        return _average_pool(e, op, operands) or pools[op.name](e, op, operands)

    return {**shared, **dict.fromkeys(pools, pool), "onnx.node": kept_node(TosaWriter)}


def _average_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | None:
    """`tosa.avg_pool2d`, which counts what is no pad; None where the op counts other elements."""
    assert isinstance(op, NNOp)
    (x,), kernel, geometry = operands, op.values["kernel"], pool_windows(op)
    counts = window_counts(op).reshape(geometry.result)
    inside = [
        [sum(0 <= n * step + tap - before < size for tap in range(width)) for n in range(count)]
        for size, width, (before, _), step, count in zip(
            x.shape[2:], kernel, geometry.pads, geometry.strides, geometry.result, strict=True
        )
    ]
    spatial = x.rank - 2
    if (
        spatial > 2
        or set(geometry.dilations) != {1}
        or any(max(pair) >= width for pair, width in zip(geometry.pads, kernel, strict=True))
        or not np.array_equal(counts, np.array(np.meshgrid(*inside, indexing="ij")).prod(axis=0))
    ):
        return None
    order = channels_last(x.rank)
    value = cropped(e, e.value_of(x, order), geometry.crops)
    element, (batch, *_, channels) = element_of(value), shape_of(value)
    pads, strides, result = geometry.pads, geometry.strides, geometry.result
    if spatial == 1:
        value = e.reshaped(value, (batch, 1, *shape_of(value)[1:]))
        kernel, pads, strides, result = (
            (1, *kernel), ((0, 0), *pads), (1, *strides), (1, *result),
        )  # fmt: skip
    zero = e.number(0.0, element, (1,))
    out = e.op(
        "avg_pool2d",
        [value, zero, zero],
        (batch, *result, channels),
        element,
        kernel=longs(kernel),
        stride=longs(strides),
        pad=longs([p for pair in pads for p in pair]),
        acc_type=accumulator(element),
    )
    shape = shape_of(op.results[0])
    out = e.reshaped(out, (batch, *shape[2:], channels))
    return e.result(out, order, None, shape)
