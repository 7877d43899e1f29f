"""How ONNX Runtime adds up the products of a contraction, where that shows in the result.

A module of floats (`quant.arithmetic`) is what the runtime computes with its optimizations off.
Contractions that are equal in the reals then have the same bits if they add their products in the
same way (measured, ONNX Runtime 1.32; from `MlasConvPrepare` and `MlasGemm`):

    floats      in runs of 128, one after the other, if a group has two filters or more, and a sum
                128 products at most and the result two places, or 8192 places; else in an order
                that depends on all of these numbers and on threads
                any order is exact for codes times powers of two whose sums have 24 bits
    integers    exactly; but x86 before VNNI adds products of u8 and i8 in pairs that saturate at
                16 bits, in an order that depends on the shapes

So zeros at the end of each sum change no bit of

    nn.conv2d %x, %w : (tensor<1x3x8x8x!x>, tensor<4x3x1x1x!w>) -> tensor<1x4x8x8x!y>

and may change some where the weight is `tensor<1x3x1x1x!w>`.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import frexp, prod

from xdsl.ir import Operation

from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.sums import PAIRS, SumType
from qdialect.analysis.accumulators import products_of
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops.base import is_kernel, kernels_of
from qdialect.ir.ops.contraction import ConvolutionOp, TransposedConvolutionOp
from qdialect.ir.quant import DCastOp, arithmetic_of

_RUN = 128
"""Products that the kernels of floats add one after the other (`MLAS_SGEMM_STRIDEK`)."""
_PLACES = 64 * 128
"""Runs are longer where a thread has 64 places of the result or fewer; no more than 128 threads."""

_IN_FLOATS = SumType(25)
"""Integers that floats of 32 bits hold, with their sign."""


def order_of_sums(session: QContext, op: Operation) -> Hashable | None:
    """What decides in which order `op` adds its products up: equal for ops with the same bits.
    None where no order shows, or the op is no contraction."""
    behavior = session.behaviors.get(op)
    if behavior is None or behavior.accumulator is None or kernels_of(op) is not None:
        return None
    if arithmetic_of(op) is Arithmetic.REAL or _are_exact(session, op):
        return None
    shapes = tuple(map(shape_of, (*op.operands[:2], *op.results)))
    if is_in_integers(op):
        storages = [q and q.storage.spelling for q in map(qparams_of, op.operands[:2])]
        unsafe = storages == ["u8", "i8"] and may_saturate(session, op)
        return ("pairs", op.name, shapes) if unsafe else None
    if isinstance(op, ConvolutionOp):
        return _of_windows(op)
    if isinstance(op, TransposedConvolutionOp):
        v, taps = op.values, shapes[1][2:]
        apart = all(taps[d] <= stride for d, stride in enumerate(v["strides"]))
        depth, filters = shapes[1][0] // v["groups"], prod(shapes[1][1:])
        if apart and _is_in_order(depth, filters, shapes[0][2:]):
            return None
    return ("floats", op.name, shapes)


def is_in_integers(op: Operation) -> bool:
    """Whether the runtime adds the products of `op`, a contraction in a module of floats, up in
    integers: an integer kernel defines it, or its result is the sums."""
    if any(qparams_of(value) is None for value in op.operands[:2]):
        return False
    result = qparams_of(op.results[0])
    return is_kernel(op) or result is None or result.storage.width == PAIRS.bits


def may_saturate(session: QContext, op: Operation) -> bool:
    """Whether the runtime adds the products of a contraction in a module of floats up in integers,
    and two of them may leave 16 bits as products of u8 and i8."""
    behavior = session.behaviors.get(op)
    if behavior is None or behavior.accumulator is None or not is_in_integers(op):
        return False
    if kernels_of(op) is not None or arithmetic_of(op) is Arithmetic.REAL:
        return False
    products = products_of(session, op, PAIRS)
    return products is None or not products.fits


def _are_exact(session: QContext, op: Operation) -> bool:
    """Whether floats hold every sum of some of the products of a contraction: those of codes, with
    powers of two as scales."""
    codes = [v.owner.input if isinstance(v.owner, DCastOp) else v for v in op.operands]
    params = [q for value in codes[:2] if (q := qparams_of(value)) is not None]
    if any(q.expressed != "f32" or {frexp(s)[0] for s in q.scale_list()} != {0.5} for q in params):
        return False
    products = products_of(session, op, _IN_FLOATS, codes)
    if products is None or not products.fits:
        return False
    bias, sums = products.acc.bias, products.sums
    return bias is None or bias >= len(codes) or (sums is not None and sums.on_products)


def _of_windows(op: ConvolutionOp) -> Hashable | None:
    """The same of a convolution in floats."""
    v, (x, weight) = op.values, map(shape_of, op.operands[:2])
    filters, channels, taps = weight[0] // v["groups"], weight[1], weight[2:]
    places = shape_of(op.results[0])[2:]
    depth = channels * prod(taps)
    if _is_in_order(depth, filters, places):
        return None
    unmoved = {*v["strides"], 1} == {1} and not any(v["pads"])
    spans = any(n in (size, DYNAMIC) for n, size in zip(x[2:], taps, strict=True))
    direct = unmoved and (prod(taps) == 1 or (channels == 1 and spans))
    return ("floats", x[0], v["groups"], filters, depth, places, direct)


def _is_in_order(depth: int, filters: int, places: tuple[int, ...]) -> bool:
    if filters < 2 or DYNAMIC in (depth, *places):
        return False
    return prod(places) > (1 if depth <= _RUN else _PLACES)
