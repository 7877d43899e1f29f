"""Comparisons, choices, gathers by indices at run time, and where extremes are, on floats.

An op on codes is refused: StableHLO compares quantized numbers by what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Operation

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.emitter import Lowering, element_of, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.preconditions import common_order, is_on_codes
from qdialect.plugins.stablehlo.dialect import GatherDimensionsAttr
from qdialect.plugins.stablehlo.lowering.emitter import Emitter, longs
from qdialect.plugins.stablehlo.lowering.floats import StablehloWriter, TensorAlgebra
from qdialect.plugins.stablehlo.lowering.movement import move


def _of_floats(op: Operation) -> None:
    if is_on_codes(op):
        raise Unlowerable("codes", "StableHLO has it for floats only")


def compare(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.compare` of floats or plain integers."""
    _of_floats(op)
    assert isinstance(op, NNOp)
    shape = shape_of(op.results[0])
    parts = [ranked(e, x, len(shape)) for x in operands]
    order = common_order(parts, len(shape))
    values = [e.broadcast(x, shape, order) for x in parts]
    algebra = TensorAlgebra(e, [shape[d] for d in order], element_of(values[0]))
    return LaidOut(shape, order, None, algebra.compare(op.values["mode"], *values))


def select(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
    """`nn.select`: by a constant a movement, else `stablehlo.select`."""
    if operands[0].array is not None:
        return move(e, op, operands)
    _of_floats(op)
    shape = shape_of(op.results[0])
    parts = [ranked(e, x, len(shape)) for x in operands]
    order = common_order(parts, len(shape))
    values = [e.broadcast(x, shape, order) for x in parts]
    algebra = TensorAlgebra(e, [shape[d] for d in order], element_of(values[1]))
    return LaidOut(shape, order, None, algebra.choose(values[0], values[1], values[2]))


def gather(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
    """`nn.gather`: by constants a movement, else `stablehlo.gather`; indices below 0 are counted
    from the end."""
    x, indices = operands
    if indices.array is not None:
        return move(e, op, operands)
    assert isinstance(op, NNOp)
    shape, axis = shape_of(op.results[0]), int(op.values["axis"]) % x.rank
    places = e.value_of(indices)
    element = element_of(places)
    if element not in (i32, i64):
        raise Unlowerable("indices", f"its indices are {element}", "i32 or i64 indices")
    if x.params is not None and not x.params.is_per_tensor:
        raise Unlowerable("axis", "it moves what has parameters along a dimension")
    algebra = TensorAlgebra(e, indices.shape, element)
    back = algebra.pair("add", places, algebra.number(x.shape[axis]))
    below = algebra.compare("lt", places, algebra.number(0))
    places = e.reshaped(algebra.choose(below, back, places), (*indices.shape, 1))
    inner = indices.rank
    kept = tuple(d if d < axis else d + inner - 1 for d in range(x.rank) if d != axis)
    value = e.value_of(x)
    out = e.op(
        "gather",
        [value, places],
        shape,
        element_of(value),
        dimension_numbers=GatherDimensionsAttr((kept, (axis,), (), (), (axis,), inner)),
        slice_sizes=longs([1 if d == axis else n for d, n in enumerate(x.shape)]),
    )
    return e.result(out, identity_order(len(shape)), x.params, shape)


def extreme_place(smallest: bool) -> Lowering[Emitter]:
    """`nn.arg_max` and `nn.arg_min`: of the places that hold the extreme, the first or the last."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        _of_floats(op)
        assert isinstance(op, NNOp)
        (x,), v, shape = operands, op.values, shape_of(op.results[0])
        axis, w = int(v["axis"]) % x.rank, StablehloWriter(e)
        extreme = w.reduced("min" if smallest else "max", x, [axis])
        size, last = x.shape[axis], bool(v["last"])
        column = (size, *(1 for _ in x.shape[axis + 1 :]))
        index = np.arange(size, dtype=np.int64).reshape(column)
        order = x.order
        whole = [x.shape[d] for d in order]
        value, best = (e.broadcast(y, x.shape, order) for y in (x, extreme))
        holds = TensorAlgebra(e, whole, element_of(value)).compare("eq", value, best)
        places = LaidOut(column, identity_order(len(column)), None, None, index)
        algebra = TensorAlgebra(e, whole, i64)
        beyond = algebra.number(-1 if last else size)
        chosen = algebra.choose(holds, e.broadcast(places, x.shape, order), beyond)
        found = w.reduced("max" if last else "min", LaidOut(x.shape, order, None, chosen), [axis])
        out = w.shaped(found, shape)
        return e.result(e.value_of(out), identity_order(len(shape)), None, shape)

    return lower
