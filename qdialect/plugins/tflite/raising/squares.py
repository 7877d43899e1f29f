"""SQUARED_DIFFERENCE of codes, in the integers that LiteRT's kernels compute with.

    a = g((q - z) 2^7, s / S),  b = g((r - w) 2^7, t / S),  S = 2 max(s, t)
    y = g((a - b)^2, S^2 / (2^14 u))                         g: the two roundings of gemmlowp

The first two are each one rescale with its first rounding and one with its second, as the 7 bits
come before both.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.ir import ops as nn
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.base import ranked
from qdialect.ir.quant import RescaleOp, UniformType
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tflite.numerics.scales import fixed_point
from qdialect.plugins.tflite.raising.node import Node, params_of
from qdialect.plugins.tflite.raising.raiser import Raiser, common_order, element_in

_BITS = 7


def of_codes(r: Raiser, node: Node) -> Raised:
    """The op; Unraisable for codes of other types than 8 bits."""
    operands = [node.input(0), node.input(1)]
    params = [params_of(x) for x in operands]
    first, second, target = params[0], params[1], node.params()
    if first is None or second is None or target is None:
        raise Unraisable("no-counterpart", "it squares differences of codes and plain numbers")
    if {p.storage.spelling for p in (first, second, target)} != {"i8"}:
        raise Unraisable("no-counterpart", "it squares differences of other codes than i8")
    order = common_order(operands)
    twice = 2 * max(first.scale, second.scale)
    steps = QParams.per_tensor("i32", twice / (1 << _BITS))
    values = [
        _scaled(r, r.value(r.with_rank(x, len(order)), order), p.scale / twice, steps)
        for x, p in zip(operands, (first, second), strict=True)
    ]
    difference = r.op(nn.SubOp, *values, element=UniformType(steps))
    squares = QParams.per_tensor("i32", steps.scale * steps.scale)
    square = r.op(nn.MulOp, difference, difference, element=UniformType(squares))
    multiplier, shift = fixed_point(twice * twice / ((1 << 2 * _BITS) * target.scale))
    kind = ranked(element_in(r, node, order), shape_of(square))
    made = RescaleOp(square, kind, Rounding.GEMMLOWP, [multiplier], [shift])
    return Raised(order, r.append(made).results[0])


def _scaled(r: Raiser, value: SSAValue, ratio: float, steps: QParams) -> SSAValue:
    """Codes times 2^7, then by a ratio of 1/2 at most."""
    multiplier, shift = fixed_point(ratio)
    kind = ranked(UniformType(steps), shape_of(value))
    rests = shift - 31
    between = kind
    if rests:
        finer = QParams.per_tensor("i32", steps.scale * 2.0**-rests)
        between = ranked(UniformType(finer), shape_of(value))
    first = RescaleOp(value, between, Rounding.HALF_UP, [multiplier], [31 - _BITS])
    value = r.append(first).results[0]
    if not rests:
        return value
    return r.append(RescaleOp(value, kind, Rounding.HALF_AWAY, [1], [rests])).results[0]
