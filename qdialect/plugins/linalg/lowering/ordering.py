"""Comparisons, where extremes are, and what is picked at run time.

A truth value is stored in 8 bits: engines have no tensors of one bit in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, f32, i8, i32, i64
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.passes.lowering.pointwise import Body
from qdialect.plugins.common.lowering.emitter import Lowering, element_of, integer_type
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.floats.algebra import Order
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.preconditions import common_qparams, is_on_codes, quantized
from qdialect.plugins.linalg.lowering.elementwise import widened
from qdialect.plugins.linalg.lowering.emitter import Emitter
from qdialect.plugins.linalg.lowering.floats import BodyAlgebra, truth
from qdialect.plugins.linalg.lowering.movement import move

_LOWEST = -(1 << 63)
_WORD = 32


def compare(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.compare` of codes with one meaning, or of floats or plain integers."""
    assert isinstance(op, NNOp)
    shape, mode = shape_of(op.results[0]), op.values["mode"]
    values = [e.value_of(x) for x in operands]
    if is_on_codes(op):
        signed = common_qparams(operands, quantized(operands[0])).storage.signed
        if mode not in ("eq", "ne") and not signed:
            mode = f"u{mode}"

    def comparison(body: Body, v: Sequence[SSAValue]) -> SSAValue:
        if mode.startswith("u"):
            bit = body.add(arith.CmpiOp(v[0], v[1], mode))
        else:
            bit = BodyAlgebra(body, v[0].type).compare(cast("Order", mode), v[0], v[1])
        return body.add(arith.ExtUIOp(bit, i8))

    out = e.elementwise(values, shape, i8, comparison)
    return LaidOut(shape, identity_order(len(shape)), None, out)


def extreme_place(smallest: bool) -> Lowering[Emitter]:
    """`nn.arg_max` and `nn.arg_min`: the largest of code * 2**32 + place, which is counted from
    the end if the first of equal ones is wanted."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        assert isinstance(op, NNOp)
        (x,), v, shape = operands, op.values, shape_of(op.results[0])
        axis = int(v["axis"]) % x.rank
        end, last = int(x.shape[axis]) - 1, bool(v["last"])

        def largest(body: Body, values: Sequence[SSAValue]) -> SSAValue:
            code = _ranked(body, values[0], x)
            if smallest:
                code = body.add(arith.SubiOp(body.constant(0, i64), code))
            place = body.add(arith.IndexCastOp(body.add(IndexOp(axis)), i64))
            if not last:
                place = body.add(arith.SubiOp(body.constant(end, i64), place))
            high = body.add(arith.ShLIOp(code, body.constant(_WORD, i64)))
            return body.add(arith.MaxSIOp(body.add(arith.AddiOp(high, place)), values[-1]))

        others = [d for d in range(x.rank) if d != axis]
        onto = AffineMap(x.rank, 0, tuple(AffineExpr.dimension(d) for d in others))
        init = e.filled([x.shape[d] for d in others], 64, _LOWEST)
        kinds = "".join("r" if d == axis else "p" for d in range(x.rank))
        out = e.loops([(e.value_of(x), AffineMap.identity(x.rank))], (init, onto), kinds, largest)

        def place_of(body: Body, values: Sequence[SSAValue]) -> SSAValue:
            mask = body.constant((1 << _WORD) - 1, i64)
            place = body.add(arith.AndIOp(values[0], mask))
            return place if last else body.add(arith.SubiOp(body.constant(end, i64), place))

        out = e.elementwise([out], shape_of(out), i64, place_of)
        return LaidOut(shape, identity_order(len(shape)), None, e.reshaped(out, shape))

    return lower


def _ranked(body: Body, value: SSAValue, x: LaidOut) -> SSAValue:
    """A code, or an integer of 32 bits in the order of floats: of those below 0 all bits but the
    sign are negated. -0 and 0 are one."""
    if x.params is not None:
        return widened(body, value, x.params, i64)
    if (integer := integer_type(value.type)) is not None:
        if integer.width.data > _WORD:
            raise Unlowerable("storage", f"it compares {integer}", "i32")
        return body.add(arith.ExtSIOp(value, i64))
    if value.type != f32:
        raise Unlowerable("storage", f"it compares {value.type}", "f32")
    value = body.add(arith.AddfOp(value, body.constant(0.0, f32)))
    bits = body.add(arith.BitcastOp(value, i32))
    sign = body.add(arith.ShRSIOp(bits, body.constant(_WORD - 1, i32)))
    mask = body.add(arith.AndIOp(sign, body.constant((1 << (_WORD - 1)) - 1, i32)))
    return body.add(arith.ExtSIOp(body.add(arith.XOrIOp(bits, mask)), i64))


def select(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
    """`nn.select`: by a constant a movement, else `arith.select`."""
    condition, *sides = operands
    if condition.array is not None:
        return move(e, op, operands)
    shape, params = shape_of(op.results[0]), qparams_of(op.results[0])
    if any(x.params != params for x in sides):
        raise Unlowerable("qparams", "its operands are not on one scale", "integerize")

    def picked(body: Body, values: Sequence[SSAValue]) -> SSAValue:
        return body.add(arith.SelectOp(truth(body, values[0]), values[1], values[2]))

    values = [e.value_of(x) for x in operands]
    out = e.elementwise(values, shape, element_of(values[1]), picked)
    return e.result(out, identity_order(len(shape)), params, shape)


def gather(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
    """`nn.gather`: by constants a movement, else a read at indices, those below 0 counted from
    the end."""
    assert isinstance(op, NNOp)
    x, indices = operands
    if indices.array is not None:
        return move(e, op, operands)
    shape, axis = shape_of(op.results[0]), int(op.values["axis"]) % x.rank
    source, places, inner = e.value_of(x), e.value_of(indices), indices.rank
    rank, index_type = len(shape), element_of(places)
    if index_type not in (i32, i64):
        raise Unlowerable("indices", f"its indices are {index_type}", "i32 or i64 indices")
    kind = i64 if index_type == i64 else i32

    def read(body: Body, values: Sequence[SSAValue]) -> SSAValue:
        index, zero = values[0], body.constant(0, kind)
        back = body.add(arith.AddiOp(index, body.constant(x.shape[axis], kind)))
        below = body.add(arith.CmpiOp(index, zero, "slt"))
        index = body.add(arith.SelectOp(below, back, index))
        at = [body.add(IndexOp(d if d < axis else d - 1 + inner)) for d in range(x.rank)]
        at[axis] = body.add(arith.IndexCastOp(index, IndexType()))
        return body.add(tensor.ExtractOp(source, at, element_of(source)))

    dims = tuple(AffineExpr.dimension(axis + d) for d in range(inner))
    result = e.empty(shape, element_of(source)), AffineMap.identity(rank)
    out = e.loops([(places, AffineMap(rank, 0, dims))], result, "p" * rank, read)
    return e.result(out, identity_order(rank), qparams_of(op.results[0]), shape)
