"""Floats in linalg: loops whose bodies are ops of `arith` and `math`.

An elementwise op is one `linalg.generic`, however many steps its formula has. Plain integers
(indices, lengths) are computed in the same loops with the integer ops of `arith`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    i1,
    i8,
    i32,
)
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.ir.ops.base import NNOp
from qdialect.passes.lowering.pointwise import Body
from qdialect.plugins.common.lowering.emitter import element_of, integer_type
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.floats.algebra import Algebra, Function, Logic, Order, Pair
from qdialect.plugins.common.lowering.floats.writer import Compute, FloatWriter, Reduction, idle
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.windows import pool_windows
from qdialect.plugins.linalg.lowering.contraction import padded, stacked_product, window_maps
from qdialect.plugins.linalg.lowering.emitter import Emitter, over_windows

_FLOAT_PAIRS: Mapping[Pair, Callable[[SSAValue, SSAValue], Operation]] = {
    "add": arith.AddfOp,
    "div": arith.DivfOp,
    "maximum": arith.MaximumfOp,
    "minimum": arith.MinimumfOp,
    "mul": arith.MulfOp,
    "power": math.PowFOp,
    "sub": arith.SubfOp,
}
_INTEGER_PAIRS: Mapping[Pair, Callable[[SSAValue, SSAValue], Operation]] = {
    "add": arith.AddiOp,
    "div": arith.DivSIOp,
    "maximum": arith.MaxSIOp,
    "minimum": arith.MinSIOp,
    "mul": arith.MuliOp,
    "sub": arith.SubiOp,
}
_FUNCTIONS: Mapping[Function, Callable[[SSAValue], Operation]] = {
    "abs": math.AbsFOp,
    "ceil": math.CeilOp,
    "erf": math.ErfOp,
    "exp": math.ExpOp,
    "floor": math.FloorOp,
    "log": math.LogOp,
    "nearest": math.RoundEvenOp,
    "sqrt": math.SqrtOp,
    "tanh": math.TanhOp,
}
_FLOAT_ORDERS: Mapping[Order, str] = {
    "eq": "oeq",
    "ne": "une",
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
}


class BodyAlgebra(Algebra):
    """Scalars in the body of a loop."""

    def __init__(self, body: Body, element: Attribute) -> None:
        super().__init__(element)
        self._body = body

    @property
    def _is_integer(self) -> bool:
        return isinstance(self.element, IntegerType)

    def number(self, value: float) -> SSAValue:
        """`arith.constant`"""
        if (integer := integer_type(self.element)) is not None:
            return self._body.add(arith.ConstantOp(IntegerAttr(int(value), integer)))
        assert isinstance(self.element, AnyFloat)
        return self._body.add(arith.ConstantOp(FloatAttr(value, self.element)))

    def pair(self, name: Pair, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """See the base class."""
        if not self._is_integer:
            return self._body.add(_FLOAT_PAIRS[name](lhs, rhs))
        if name not in _INTEGER_PAIRS:
            raise Unlowerable("type", f"it takes a {name} of integers")
        return self._body.add(_INTEGER_PAIRS[name](lhs, rhs))

    def function(self, name: Function, x: SSAValue) -> SSAValue:
        """See the base class."""
        if not self._is_integer:
            return self._body.add(_FUNCTIONS[name](x))
        if name != "abs":
            raise Unlowerable("type", f"it takes a {name} of integers")
        return self._body.add(math.AbsIOp(x))

    def compare(self, order: Order, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """See the base class."""
        if not self._is_integer:
            return self._body.add(arith.CmpfOp(lhs, rhs, _FLOAT_ORDERS[order]))
        mode = order if order in ("eq", "ne") else f"s{order}"
        return self._body.add(arith.CmpiOp(lhs, rhs, mode))

    def choose(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """See the base class."""
        return self._body.add(arith.SelectOp(condition, lhs, rhs))

    def cast(
        self, x: SSAValue, element: Attribute, *, of_truth: bool = False, to_truth: bool = False
    ) -> SSAValue:
        """See the base class; truth values are stored in 8 bits."""
        add = self._body.add
        if to_truth:
            return self.stored_truth(self.compare("ne", x, self.number(0)), element)
        source, target = integer_type(x.type), integer_type(element)
        if source is not None and target is not None:
            narrow, wide = source.width.data, target.width.data
            if narrow == wide:
                return x
            extend = arith.ExtUIOp if of_truth else arith.ExtSIOp
            return add(arith.TruncIOp(x, target) if narrow > wide else extend(x, target))
        if source is not None:
            to_float = arith.UIToFPOp if of_truth else arith.SIToFPOp
            return add(to_float(x, cast("AnyFloat", element)))
        if target is not None:
            return add(arith.FPToSIOp(x, target))
        assert isinstance(x.type, AnyFloat) and isinstance(element, AnyFloat)
        if x.type == element:
            return x
        wider = element.bitwidth > x.type.bitwidth
        return add(arith.ExtFOp(x, element) if wider else arith.TruncFOp(x, element))

    def logical(self, name: Logic, x: Sequence[SSAValue]) -> SSAValue:
        """See the base class."""
        if name == "not":
            one = self._body.add(arith.ConstantOp(IntegerAttr(1, i1)))
            return self._body.add(arith.XOrIOp(x[0], one))
        make = {"and": arith.AndIOp, "or": arith.OrIOp, "xor": arith.XOrIOp}[name]
        return self._body.add(make(x[0], x[1]))

    def truth_of(self, x: SSAValue) -> SSAValue:
        """See the base class."""
        return truth(self._body, x)

    def stored_truth(self, x: SSAValue, element: Attribute) -> SSAValue:
        """See the base class."""
        return x if x.type == element else self._body.add(arith.ExtUIOp(x, i8))

    def expm1(self, x: SSAValue) -> SSAValue:
        """`math.expm1`"""
        return self._body.add(math.ExpM1Op(x))

    def log1p(self, x: SSAValue) -> SSAValue:
        """`math.log1p`"""
        return self._body.add(math.Log1pOp(x))

    def negated(self, x: SSAValue) -> SSAValue:
        """`arith.negf`"""
        return super().negated(x) if self._is_integer else self._body.add(arith.NegfOp(x))


class LinalgWriter(FloatWriter):
    """See the module; values have their dimensions as `nn` has them."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self.e = emitter

    def stored(self, element: Attribute) -> Attribute:
        """Truth values take 8 bits."""
        return i8 if element == i1 else element

    def computed(
        self,
        operands: Sequence[LaidOut],
        shape: Sequence[int],
        element: Attribute,
        compute: Compute,
    ) -> LaidOut:
        """One loop."""
        values = [self.e.value_of(x) for x in operands]
        inner = element_of(values[-1])

        def body(body: Body, v: Sequence[SSAValue]) -> SSAValue:
            return compute(BodyAlgebra(body, inner), v)

        out = self.e.elementwise(values, shape, element, body)
        return LaidOut(tuple(shape), identity_order(len(shape)), None, out)

    def reduced(self, name: Reduction, x: LaidOut, axes: Sequence[int]) -> LaidOut:
        """A loop onto what is left, which starts with 0 or with what no element is beyond."""
        value, rank = self.e.value_of(x), x.rank
        element, dims = element_of(value), [AffineExpr.dimension(d) for d in range(rank)]
        outer = [d for d in range(rank) if d not in set(axes)]
        init = self.e.filled_with([x.shape[d] for d in outer], idle(name, element), element)
        out = self.e.loops(
            [(value, AffineMap.identity(rank))],
            (init, AffineMap(rank, 0, tuple(dims[d] for d in outer))),
            "".join("p" if d in outer else "r" for d in range(rank)),
            combining(name, element),
        )
        shape = tuple(n if d in outer else 1 for d, n in enumerate(x.shape))
        return LaidOut(shape, identity_order(rank), None, self.e.reshaped(out, shape))

    def product(self, lhs: LaidOut, rhs: LaidOut) -> LaidOut:
        """A loop nest that adds up products."""
        left, right = self.e.value_of(lhs), self.e.value_of(rhs)
        element = element_of(left)
        batches = np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
        shape = (*batches, lhs.shape[-2], rhs.shape[-1])
        init = self.e.filled_with(shape, 0, element)
        out = stacked_product(self.e, (left, right, init), summed_products(element))
        return LaidOut(shape, identity_order(len(shape)), None, out)

    def window_sums(self, op: NNOp, x: LaidOut) -> LaidOut:
        """A loop nest over windows."""
        geometry, value = pool_windows(op), self.e.value_of(x)
        element = element_of(value)
        shape = (*x.shape[:2], *geometry.result)
        value = padded(self.e, value, geometry, 0)
        init = self.e.filled_with(shape, 0, element)
        dims, count = window_maps(geometry, "nc{o}{k}")
        out = over_windows(
            self.e, value, init, op.values["kernel"], (dims, count), combining("sum", element)
        )
        return LaidOut(shape, identity_order(x.rank), None, out)

    def taken(self, x: LaidOut, dimension: int, index: Sequence[int]) -> LaidOut:
        """A loop that reads at the indices of a constant."""
        value = self.e.value_of(x)
        shape = tuple(len(index) if d == dimension else n for d, n in enumerate(x.shape))
        places = self.e.const(np.asarray(index, np.int32), i32)
        element = element_of(value)

        def read(body: Body, v: Sequence[SSAValue]) -> SSAValue:
            at = [body.add(IndexOp(d)) for d in range(x.rank)]
            at[dimension] = body.add(arith.IndexCastOp(v[0], IndexType()))
            return body.add(tensor.ExtractOp(value, at, element))

        along = AffineMap(x.rank, 0, (AffineExpr.dimension(dimension),))
        result = self.e.empty(shape, element), AffineMap.identity(x.rank)
        out = self.e.loops([(places, along)], result, "p" * x.rank, read)
        return LaidOut(shape, identity_order(x.rank), None, out)


Step = Callable[[Body, Sequence[SSAValue]], SSAValue]
"""The result so far, last, and an element of each operand as the next result."""


def combining(name: Reduction, element: Attribute) -> Step:
    """The result so far combined with an element."""
    pairs: Mapping[Reduction, Pair] = {"max": "maximum", "min": "minimum", "sum": "add"}
    return lambda body, v: BodyAlgebra(body, element).pair(pairs[name], v[-1], v[0])


def summed_products(element: Attribute) -> Step:
    """The sum so far and a product."""

    def add(body: Body, v: Sequence[SSAValue]) -> SSAValue:
        algebra = BodyAlgebra(body, element)
        return algebra.pair("add", v[2], algebra.pair("mul", v[0], v[1]))

    return add


def truth(body: Body, bit: SSAValue) -> SSAValue:
    """A truth value as an i1, which lowered ops store as i8."""
    return bit if bit.type == i1 else body.add(arith.TruncIOp(bit, i1))
