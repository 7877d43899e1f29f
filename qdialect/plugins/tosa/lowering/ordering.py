"""Comparisons, where extremes are, and what is picked by a condition at run time.

Codes with the same meaning compare as the numbers they name. Where TOSA has i32 only, indices
are i32: it has no wider ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.emitter import Lowering, element_of, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.preconditions import common_order, common_qparams, is_on_codes
from qdialect.plugins.tosa.dialect import PROPAGATE
from qdialect.plugins.tosa.lowering.emitter import Emitter, axis, flag
from qdialect.plugins.tosa.lowering.floats import TensorAlgebra
from qdialect.plugins.tosa.lowering.movement import move
from qdialect.plugins.tosa.lowering.rescale import signed, widened


def compare(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.compare` of codes with one meaning, or of floats or plain integers."""
    assert isinstance(op, NNOp)
    shape = shape_of(op.results[0])
    parts = [ranked(e, x, len(shape)) for x in operands]
    order = common_order(parts, len(shape))
    if is_on_codes(op):
        common_qparams(operands, operands[0].params)
        values = [widened(e, x, order) for x in parts]
    else:
        values = [e.value_of(x, order) for x in parts]
    algebra = TensorAlgebra(e, len(shape), element_of(values[0]))
    return LaidOut(shape, order, None, algebra.compare(op.values["mode"], *values))


def extreme_place(smallest: bool) -> Lowering[Emitter]:
    """`nn.arg_max` and `nn.arg_min`: the first of equal ones, or the last."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        assert isinstance(op, NNOp)
        v, operand, shape = op.values, operands[0], shape_of(op.results[0])
        if operand.params is not None and operand.params.storage.width > 8:
            raise Unlowerable("storage", f"TOSA finds no largest {operand.params.storage}")
        x = operand if operand.params is None else signed(e, operand)
        value, place, extents = e.value_of(x), v["axis"] % x.rank, list(x.shape)
        element = element_of(value)
        if smallest and x.params is None:
            value = TensorAlgebra(e, x.rank, element).negated(value)
        elif smallest:
            # ~q = -1 - q: the order reversed, without overflow.
            value = e.op("bitwise_not", [value], extents, element)
        if v["last"]:
            value = e.op("reverse", [value], extents, element, axis=axis(place))
        others = [n for d, n in enumerate(extents) if d != place]
        out = e.op("argmax", [value], others, i32, axis=axis(place), nan_mode=PROPAGATE)
        if v["last"]:
            ends = e.const(np.full((1,) * len(others), extents[place] - 1, np.int32), i32)
            out = e.op("sub", [ends, out], others, i32)
        return LaidOut(shape, identity_order(len(shape)), None, e.reshaped(out, shape))

    return lower


def select(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
    """`nn.select`: by a constant a movement, else `tosa.select`."""
    condition, *sides = operands
    if condition.array is not None:
        return move(e, op, operands)
    shape, params = shape_of(op.results[0]), qparams_of(op.results[0])
    if any(x.params != params for x in sides):
        raise Unlowerable("qparams", "its operands are not on one scale", "integerize")
    parts = [ranked(e, x, len(shape)) for x in operands]
    order = common_order(parts[1:], len(shape))
    values = [e.value_of(x, order) for x in parts]
    out = e.op("select", values, [shape[d] for d in order], element_of(values[1]))
    return e.result(out, order, params, shape)


def gather(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
    """`nn.gather`: by constants a movement, else `tosa.gather` along the dimension."""
    assert isinstance(op, NNOp)
    x, indices = operands
    if indices.array is not None:
        return move(e, op, operands)
    shape, dimension = shape_of(op.results[0]), int(op.values["axis"]) % x.rank
    front = (dimension, *(d for d in range(x.rank) if d != dimension))
    count, rest = x.shape[dimension], [x.shape[d] for d in front[1:]]
    rows = e.reshaped(e.value_of(x, front), (1, count, int(np.prod(rest))))
    picked = int(np.prod(indices.shape))
    index = _from_front(e, e.reshaped(e.value_of(indices), (1, picked)), count)
    out = e.op("gather", [rows, index], (1, picked, int(np.prod(rest))), element_of(rows))
    inner = len(indices.shape)
    out = e.reshaped(out, (*indices.shape, *rest))
    # The dimensions of the indices are in front: they stand where the one taken was.
    before = range(dimension)
    order = (
        *range(dimension, dimension + inner),
        *before,
        *range(dimension + inner, len(shape)),
    )
    return e.result(out, order, qparams_of(op.results[0]), shape)


def _from_front(e: Emitter, index: SSAValue, count: int) -> SSAValue:
    """Indices with those below 0 counted from the end: + count where the sign is set."""
    if element_of(index) != i32:
        raise Unlowerable("indices", f"its indices are {element_of(index)}", "i32 or i64 indices")
    shape = shape_of(index)
    ones = (1,) * len(shape)
    sign = e.op(
        "arithmetic_right_shift",
        [index, e.const(np.full(ones, 31, np.int32), i32)],
        shape,
        i32,
        round=flag(False),
    )
    more = e.op("bitwise_and", [sign, e.const(np.full(ones, count, np.int32), i32)], shape, i32)
    return e.op("add", [index, more], shape, i32)


def no_top_k(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """Always refused."""
    raise Unlowerable(
        "sort", "TOSA sorts nothing", "nn.reduce_max and nn.arg_max for the largest one"
    )
