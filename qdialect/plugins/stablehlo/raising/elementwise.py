"""Elementwise ops, on floats, integers and quantized types.

An operand that is broadcast is taken as it is: `nn` broadcasts itself. On quantized types an op
that `nn` has only on floats is what it means: dequantize, compute, quantize.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.ir import ops as nn
from qdialect.ir.dialects.attributes import keyword_of
from qdialect.ir.ops import ExpandOp, shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.quant import DCastOp, QCastOp, UniformType, expressed_type, quant_element
from qdialect.plugins.common.lowering.laid_out import Order, identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised, inverted
from qdialect.plugins.stablehlo.lowering.rescale import pair_may_tie
from qdialect.plugins.stablehlo.raising.facts import qparams, real_scalar, scalar_of, shrunk
from qdialect.plugins.stablehlo.raising.raiser import Handler, Raiser, is_quantized, result_element

Make = Callable[..., SSAValue]
"""Builds ops on values and returns their result, given the element type of it."""


def common_order(operands: Sequence[Raised], rank: int) -> Order:
    """The order of the largest operand that is no constant."""
    found = [x for x in operands if x.array is None and x.rank == rank]
    if not found:
        return identity_order(rank)
    return max(found, key=lambda x: int(np.prod(x.shape))).order


def unexpanded(value: SSAValue) -> SSAValue:
    """What an `nn.expand` repeats, if its rank is the same: who broadcasts needs no more."""
    owner = value.owner
    if isinstance(owner, ExpandOp) and len(shape_of(owner.input)) == len(shape_of(value)):
        return owner.input
    return value


def broadcast_operands(
    r: Raiser, op: Operation, operands: Sequence[Raised], order: Order
) -> list[SSAValue]:
    """Operands as they are before they are broadcast, as long as their shapes still give that of
    the result."""
    whole = [_short(r, shrunk(x), order) for x in operands]
    values = [unexpanded(v) for v in whole]
    expected = tuple(np.array(shape_of(op.results[0]))[list(_inverse(order))]) if order else ()
    found = np.broadcast_shapes(*(shape_of(v) for v in values))
    if tuple(found) != tuple(expected):
        largest = max(range(len(values)), key=lambda i: operands[i].array is None)
        values[largest] = r.value(operands[largest], order)
    return values


def _short(r: Raiser, x: Raised, order: Order) -> SSAValue:
    """A value; a constant without the leading dimensions that broadcasting adds."""
    params = qparams(x)
    if x.array is None or (params is not None and not params.is_per_tensor):
        return r.value(x, order)
    array = inverted(x.array, order)
    leading = next((d for d, n in enumerate(array.shape) if n != 1), array.ndim)
    array = array.reshape(array.shape[leading:])
    return r.value(Raised(identity_order(array.ndim), None, array, x.element))


def _inverse(order: Order) -> Order:
    return tuple(order.index(d) for d in range(len(order)))


def simple(kind: type[NNOp]) -> Make:
    """One op of `nn`."""

    def make(r: Raiser, *values: SSAValue, element: Attribute) -> SSAValue:
        return r.op(kind, *values, element=element)

    return make


def elementwise(make: Make, ties: Callable[[Operation], bool] | None = None) -> Handler:
    """An op that computes element by element; on quantized types by what it means where `nn` has
    it on floats only. `ties`: whether its result may lie between two codes."""

    def raise_it(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
        order = common_order(operands, len(shape_of(op.results[0])))
        values = broadcast_operands(r, op, operands, order)
        element = result_element(op, order)
        if not is_quantized(op):
            return Raised(order, make(r, *values, element=element))
        r.rounds_ties(op, True if ties is None else ties(op))
        count = len(r.operations)
        try:
            found = make(r, *values, element=element)
        except VerifyException:  # `nn` has it on floats only
            found = None
        if found is not None and r.are_right(count):
            return Raised(order, found)
        r.forget(count)
        return Raised(order, in_floats(r, make, values, element))

    return raise_it


def in_floats(r: Raiser, make: Make, values: Sequence[SSAValue], element: Attribute) -> SSAValue:
    """Dequantize, compute, quantize."""
    floats: list[SSAValue] = []
    for value in values:
        known = quant_element(value.type)
        if known is not None:
            kind = TensorType(expressed_type(known.qparams), list(shape_of(value)))
            value = r.append(DCastOp(value, kind)).results[0]
        floats.append(value)
    if not isinstance(element, UniformType):
        return make(r, *floats, element=element)
    out = make(r, *floats, element=expressed_type(element.qparams))
    return r.append(QCastOp(out, TensorType(element, list(shape_of(out))))).results[0]


def _pair_ties(product: bool) -> Callable[[Operation], bool]:
    def ties(op: Operation) -> bool:
        kinds = [quant_element(v.type) for v in (*op.operands, *op.results)]
        if any(k is None or not k.qparams.is_per_tensor for k in kinds):
            return True
        lhs, rhs, result = (k.qparams for k in kinds if k is not None)
        if max(k.qparams.storage.width for k in kinds if k is not None) > 16:
            return True
        return pair_may_tie(lhs, rhs, result, product)

    return ties


def _never(op: Operation) -> bool:
    """Of one type for operands and result, one of the operands is chosen."""
    return len({quant_element(v.type) for v in (*op.operands, *op.results)}) > 1


def _rsqrt(r: Raiser, x: SSAValue, element: Attribute) -> SSAValue:
    if isinstance(element, UniformType):
        raise VerifyException("nn computes it on floats only")
    return r.op(nn.ReciprocalOp, r.op(nn.SqrtOp, x, element=element), element=element)


def _square(r: Raiser, x: SSAValue, element: Attribute) -> SSAValue:
    return r.op(nn.MulOp, x, x, element=element)


def _float_only(op: Operation) -> None:
    kind = cast("TensorType[Any]", op.operands[0].type).element_type
    if isinstance(kind, IntegerType):
        raise Unraisable("type", f"nn has it on floats, not on {kind}")


def function(kind: type[NNOp] | Make) -> Handler:
    """A function of real numbers."""
    make = simple(kind) if isinstance(kind, type) else kind
    inner = elementwise(make)

    def raise_it(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
        _float_only(op)
        return inner(r, op, operands)

    return raise_it


def _power(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """To a constant power."""
    _float_only(op)
    exponent = real_scalar(operands[1])
    if exponent is None:
        raise Unraisable("exponent", "its exponent is no constant number")
    x = operands[0]
    element = result_element(op, x.order)
    value = r.value(x)
    if not is_quantized(op):
        return Raised(x.order, r.op(nn.PowOp, value, exponent=exponent, element=element))
    r.rounds_ties(op, True)

    def make(r: Raiser, v: SSAValue, element: Attribute) -> SSAValue:
        return r.op(nn.PowOp, v, exponent=exponent, element=element)

    return Raised(x.order, in_floats(r, make, [value], element))


def _extremum(kind: type[NNOp]) -> Handler:
    """With a constant 0: `nn.relu`; with another number: `nn.clip`."""
    inner = elementwise(simple(kind), _never)

    def raise_it(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
        for x, other in (operands, operands[::-1]):
            bound = real_scalar(other) if other.array is not None else None
            if x.array is not None or bound is None or _is_integer(op) or _never(op):
                continue
            if bound == (-np.inf if kind is nn.MaximumOp else np.inf):
                return x
            if bound == 0 and kind is nn.MaximumOp:
                return Raised(x.order, r.op(nn.ReluOp, r.value(x)))
            if bound == bound:
                limit = {"min" if kind is nn.MaximumOp else "max": bound}
                return Raised(x.order, r.op(nn.ClipOp, r.value(x), **limit))
        return inner(r, op, operands)

    return raise_it


def _is_integer(op: Operation) -> bool:
    return isinstance(cast("TensorType[Any]", op.results[0].type).element_type, IntegerType)


def _clamp(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    low, x, high = operands
    if _is_integer(op):
        order = common_order(operands, x.rank)
        bounded = [r.value(part, order if part.rank else ()) for part in operands]
        upper = r.op(nn.MaximumOp, bounded[1], bounded[0])
        return Raised(order, r.op(nn.MinimumOp, upper, bounded[2]))
    if _never(op):
        raise Unraisable("type", "its operands have different types")
    params = qparams(x)
    bounds: dict[str, float] = {}
    if params is not None:
        codes = scalar_of(low), scalar_of(high)
        if not params.is_per_tensor or None in codes:
            raise Unraisable("bounds", "its bounds are no constant numbers")
        first, last = (int(cast("Any", code)) for code in codes)
        if first > params.storage.min:
            bounds["min"] = (first - params.zero_point) * params.scale
        if last < params.storage.max:
            bounds["max"] = (last - params.zero_point) * params.scale
        if first == params.zero_point and "max" not in bounds:
            return Raised(x.order, r.op(nn.ReluOp, r.value(x)))
    else:
        numbers = real_scalar(low), real_scalar(high)
        if numbers[0] is None or numbers[1] is None:
            raise Unraisable("bounds", "its bounds are no constant numbers")
        if numbers[0] > -np.inf:
            bounds["min"] = numbers[0]
        if numbers[1] < np.inf:
            bounds["max"] = numbers[1]
        if bounds == {"min": 0.0}:
            return Raised(x.order, r.op(nn.ReluOp, r.value(x)))
    value = r.value(x)
    return Raised(x.order, r.op(nn.ClipOp, value, **bounds) if bounds else value)


def _compare(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    mode = keyword_of(op, "comparison_direction").lower()
    if keyword_of(op, "compare_type") == "TOTALORDER":
        raise Unraisable("comparison", "it orders NaN and signed zeros")
    if is_quantized(op) and len({quant_element(v.type) for v in op.operands}) > 1:
        raise Unraisable("type", "its operands are quantized differently")
    order = common_order(operands, len(shape_of(op.results[0])))
    values = broadcast_operands(r, op, operands, order)
    return Raised(order, r.append(nn.CompareOp(*values, mode=mode)).results[0])


def _select(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    shape = op.results[0].type
    kinds = {cast("TensorType[Any]", v.type).element_type for v in (*op.operands[1:], *op.results)}
    if len(kinds) > 1:
        raise Unraisable("type", "its operands are quantized differently")
    rank = len(cast("TensorType[Any]", shape).get_shape())
    if operands[0].rank != rank:
        condition = operands[0]
        if condition.array is not None:
            raise Unraisable("condition", "its condition is a constant")
        single = r.append(nn.ReshapeOp(r.value(condition), [1] * rank)).results[0]
        operands = [Raised(identity_order(rank), single), *operands[1:]]
    order = common_order(operands[1:], rank)
    values = broadcast_operands(r, op, operands, order)
    return Raised(order, r.append(nn.SelectOp(*values)).results[0])


def same_type(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """What changes nothing; Unraisable (`type`) where the type changes."""
    if op.operands[0].type != op.results[0].type:
        raise Unraisable("type", f"nn converts no {op.operands[0].type} to {op.results[0].type}")
    return operands[0]


HANDLERS: Mapping[str, Handler] = {
    "stablehlo.add": elementwise(simple(nn.AddOp), _pair_ties(False)),
    "stablehlo.subtract": elementwise(simple(nn.SubOp), _pair_ties(False)),
    "stablehlo.multiply": elementwise(simple(nn.MulOp), _pair_ties(True)),
    "stablehlo.maximum": _extremum(nn.MaximumOp),
    "stablehlo.minimum": _extremum(nn.MinimumOp),
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.select": _select,
    "stablehlo.optimization_barrier": same_type,
    "stablehlo.power": _power,
    **{
        f"stablehlo.{name}": function(kind)
        for name, kind in (
            ("abs", nn.AbsOp),
            ("ceil", nn.CeilOp),
            ("exponential", nn.ExpOp),
            ("floor", nn.FloorOp),
            ("log", nn.LogOp),
            ("logistic", nn.SigmoidOp),
            ("negate", nn.NegOp),
            ("round_nearest_even", nn.RoundOp),
            ("rsqrt", _rsqrt),
            ("sqrt", nn.SqrtOp),
            ("tanh", nn.TanhOp),
        )
    },
    "chlo.erf": function(nn.ErfOp),
    "chlo.square": function(_square),
}
