"""Floats in StableHLO: elementwise operations, reductions, products.

StableHLO broadcasts nothing by itself: values are broadcast before an operation. It has no error
function, which is written as a quotient of polynomials (`_ERF`), to about 2 units in the last
place of f32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, SSAValue

from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.emitter import element_of, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.floats.algebra import Algebra, Function, Logic, Order, Pair
from qdialect.plugins.common.lowering.floats.writer import Compute, FloatWriter, Reduction, idle
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.preconditions import common_order
from qdialect.plugins.common.lowering.windows import pool_windows
from qdialect.plugins.stablehlo.dialect.attributes import ComparisonDirectionAttr
from qdialect.plugins.stablehlo.lowering.contraction import product
from qdialect.plugins.stablehlo.lowering.emitter import Emitter
from qdialect.plugins.stablehlo.lowering.movement import taken
from qdialect.plugins.stablehlo.lowering.pooling import combined_windows

_FUNCTIONS: Mapping[Function, str] = {
    "abs": "abs",
    "ceil": "ceil",
    "exp": "exponential",
    "floor": "floor",
    "log": "log",
    "nearest": "round_nearest_even",
    "sqrt": "sqrt",
    "tanh": "tanh",
}
_PAIRS: Mapping[Pair, str] = {
    "add": "add",
    "div": "divide",
    "maximum": "maximum",
    "minimum": "minimum",
    "mul": "multiply",
    "power": "power",
    "sub": "subtract",
}
_ERF = (
    (
        *(0.00022905065861350646, 0.0034082910107109506, 0.050955695062380861),
        *(0.18520832239976145, 1.128379143519084),
    ),
    (
        *(-1.1791602954361697e-7, 0.000023547966471313185, 0.0010179625278914885),
        *(0.014070470171167667, 0.11098505178285362, 0.49746925110067538, 1.0),
    ),
)
"""erf(x) = x P(x^2) / Q(x^2) of |x| < 3.75, beyond which it is 1 in f32: the coefficients of P
and Q, the highest first."""
_ERF_END = 3.7439211627767994


class TensorAlgebra(Algebra):
    """Tensors of one shape."""

    def __init__(self, e: Emitter, extents: Sequence[int], element: Attribute) -> None:
        super().__init__(element)
        self._e = e
        self._extents = extents

    @property
    def _is_integer(self) -> bool:
        return isinstance(self.element, IntegerType)

    def _op(self, name: str, x: Sequence[SSAValue]) -> SSAValue:
        return self._e.op(name, x, self._extents, self.element)

    def number(self, value: float) -> SSAValue:
        """A scalar, broadcast."""
        return self._e.splat(value, self.element, self._extents)

    def pair(self, name: Pair, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """See the base class."""
        return self._op(_PAIRS[name], [lhs, rhs])

    def function(self, name: Function, x: SSAValue) -> SSAValue:
        """See the base class."""
        if self._is_integer and name != "abs":
            raise Unlowerable("type", f"it takes a {name} of integers")
        return self._erf(x) if name == "erf" else self._op(_FUNCTIONS[name], [x])

    def _erf(self, x: SSAValue) -> SSAValue:
        end = self.number(_ERF_END)
        x = self.pair("minimum", self.pair("maximum", x, self.negated(end)), end)
        square = self.pair("mul", x, x)
        above, below = (self._polynomial(square, coefficients) for coefficients in _ERF)
        return self.pair("div", self.pair("mul", x, above), below)

    def _polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        total = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            total = self.pair("add", self.pair("mul", total, x), self.number(coefficient))
        return total

    def compare(self, order: Order, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """`stablehlo.compare`"""
        direction = ComparisonDirectionAttr(order.upper())
        operands = [lhs, rhs]
        return self._e.op("compare", operands, self._extents, i1, comparison_direction=direction)

    def choose(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """`stablehlo.select`"""
        return self._op("select", [condition, lhs, rhs])

    def cast(
        self, x: SSAValue, element: Attribute, *, of_truth: bool = False, to_truth: bool = False
    ) -> SSAValue:
        """`stablehlo.convert`"""
        if element_of(x) == element:
            return x
        return self._e.op("convert", [x], self._extents, element)

    def logical(self, name: Logic, x: Sequence[SSAValue]) -> SSAValue:
        """See the base class."""
        return self._e.op(name, x, self._extents, i1)

    def sigmoid(self, x: SSAValue) -> SSAValue:
        """`stablehlo.logistic`"""
        return self._op("logistic", [x])

    def expm1(self, x: SSAValue) -> SSAValue:
        """`stablehlo.exponential_minus_one`"""
        return self._op("exponential_minus_one", [x])

    def log1p(self, x: SSAValue) -> SSAValue:
        """`stablehlo.log_plus_one`"""
        return self._op("log_plus_one", [x])

    def negated(self, x: SSAValue) -> SSAValue:
        """`stablehlo.negate`"""
        return self._op("negate", [x])


class StablehloWriter(FloatWriter):
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
        """Operations on tensors of the shape of the result."""
        parts = [ranked(self.e, x, len(shape)) for x in operands]
        order = common_order(parts, len(shape))
        values = [self.e.broadcast(x, shape, order) for x in parts]
        extents = [shape[d] for d in order]
        out = compute(TensorAlgebra(self.e, extents, element_of(values[-1])), values)
        return LaidOut(tuple(shape), order, None, out)

    def reduced(self, name: Reduction, x: LaidOut, axes: Sequence[int]) -> LaidOut:
        """`stablehlo.reduce`"""
        value, element = self.e.value_of(x, x.order), element_of(self.e.value_of(x, x.order))
        init = self.e.number(idle(name, element), element)
        pairs: Mapping[Reduction, str] = {"max": "maximum", "min": "minimum", "sum": "add"}
        places = sorted(x.axis_position(d) for d in axes)
        out = self.e.combined(value, init, pairs[name], places)
        shape = tuple(1 if d in set(axes) else n for d, n in enumerate(x.shape))
        out = self.e.reshaped(out, [shape[d] for d in x.order])
        return LaidOut(shape, x.order, None, out)

    def product(self, lhs: LaidOut, rhs: LaidOut) -> LaidOut:
        """`stablehlo.dot_general`"""
        shape = (*np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2]), lhs.shape[-2], rhs.shape[-1])
        out = product(self.e, (lhs, rhs), shape, element_of(self.e.value_of(lhs)))
        return LaidOut(shape, identity_order(len(shape)), None, out)

    def window_sums(self, op: NNOp, x: LaidOut) -> LaidOut:
        """`stablehlo.reduce_window`"""
        geometry, value = pool_windows(op), self.e.value_of(x, x.order)
        init = self.e.number(0.0, element_of(value))
        out = combined_windows(self.e, x, value, init, (op.values["kernel"], geometry), "add")
        return LaidOut((*x.shape[:2], *geometry.result), x.order, None, out)

    def taken(self, x: LaidOut, dimension: int, index: Sequence[int]) -> LaidOut:
        """`stablehlo.gather`"""
        value = self.e.value_of(x, x.order)
        out = taken(self.e, value, x.axis_position(dimension), np.asarray(index, np.int64))
        shape = tuple(len(index) if d == dimension else n for d, n in enumerate(x.shape))
        return LaidOut(shape, x.order, None, out)
