"""Comparisons, choices, gathers by indices at run time, and where extremes are.

Codes of one type are compared, chosen and gathered as they are; those of values on other scales are
rescaled first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32, i1, i32, i64
from xdsl.ir import Attribute, Operation

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.ordering import ArgOp
from qdialect.plugins.common.lowering.emitter import Lowering, element_of, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order, reordered
from qdialect.plugins.common.lowering.preconditions import common_order
from qdialect.plugins.tflite.lowering.algebra import TensorAlgebra
from qdialect.plugins.tflite.lowering.codes import signed
from qdialect.plugins.tflite.lowering.emitter import Emitter
from qdialect.plugins.tflite.lowering.movement import move
from qdialect.plugins.tflite.lowering.rescale import on_scale
from qdialect.plugins.tflite.lowering.slices import taken

_MOST = 4
"""Dimensions of operands that broadcast in comparisons."""


def compare(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.compare` of floats, plain integers, or codes of one type."""
    assert isinstance(op, NNOp)
    shape = shape_of(op.results[0])
    if operands[0].params != operands[1].params:
        raise Unlowerable("qparams", "its operands are not on one scale", "integerize")
    if len(shape) > _MOST:
        raise Unlowerable("rank", f"comparisons are of at most {_MOST} dimensions")
    parts = [ranked(e, signed(e, x), len(shape)) for x in operands]
    order = common_order(parts, len(shape))
    values = [e.value_of(x, order) for x in parts]
    algebra = TensorAlgebra(e, element_of(values[0]))
    return e.result(algebra.compare(op.values["mode"], *values), order, None, shape)


def select(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
    """`nn.select`: by a constant of one extent a movement, else `SELECT_V2`."""
    params, shape = qparams_of(op.results[0]), shape_of(op.results[0])
    condition, *choices = operands
    if all(x.is_constant for x in operands):
        return move(e, op, operands)
    if params is not None:
        choices = [on_scale(e, x, params) for x in choices]
    parts = [ranked(e, x, len(shape)) for x in (condition, *choices)]
    order = common_order(parts[1:], len(shape))
    values = [e.value_of(x, order) for x in parts]
    element = element_of(values[1])
    out = e.node("SELECT_V2", values, reordered(shape, order), element)
    return e.result(out, order, params, shape)


def gather(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
    """`nn.gather`: by constants a movement, else `GATHER`, of indices that count from the front."""
    x, indices = operands
    assert isinstance(op, NNOp)
    shape, axis = shape_of(op.results[0]), int(op.values["axis"]) % x.rank
    if indices.array is not None:
        if DYNAMIC not in x.shape and (indices.rank != 1 or x.is_constant):
            return move(e, op, operands)
        places = np.asarray(indices.array, np.int64).reshape(-1)
        if indices.rank != 1:
            raise Unlowerable("dynamic-shape", "it splits a dimension beside an unknown extent")
        if x.shape[axis] == DYNAMIC:
            if (places < 0).any():
                raise Unlowerable("dynamic-shape", "what it reads of an extent is not known")
            out = e.node(
                "GATHER",
                [e.value_of(x, x.order), e.const(places.astype(np.int32), i32)],
                reordered(shape, x.order),
                e.result_element(x),
                axis=x.order.index(axis),
                batch_dims=0,
            )
        else:
            places = np.where(places < 0, places + x.shape[axis], places)
            out = taken(e, e.value_of(x, x.order), x.order.index(axis), places)
        return e.result(out, x.order, x.params, shape)
    if x.params is not None and not x.params.is_per_tensor:
        raise Unlowerable("axis", "it moves what has parameters along a dimension")
    value, index = e.value_of(x), e.value_of(indices)
    element = element_of(index)
    if element not in (i32, i64):
        raise Unlowerable("indices", f"its indices are {element}", "i32 or i64 indices")
    if not isinstance(op.operands[1].owner, ArgOp):
        if x.shape[axis] == DYNAMIC:
            raise Unlowerable("dynamic-shape", "it counts from the end of an unknown extent")
        algebra = TensorAlgebra(e, element)
        below = algebra.compare("lt", index, algebra.number(0))
        back = algebra.pair("add", index, algebra.number(x.shape[axis]))
        index = algebra.choose(below, back, index)
    out = e.node("GATHER", [value, index], shape, element_of(value), axis=axis, batch_dims=0)
    return e.result(out, identity_order(len(shape)), x.params, shape)


def extreme_place(smallest: bool) -> Lowering[Emitter]:
    """`nn.arg_max` and `nn.arg_min`: the first place, or the last one, which is the first of the
    reversed dimension."""
    name = "ARG_MIN" if smallest else "ARG_MAX"

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        assert isinstance(op, NNOp)
        (x,), v, shape = operands, op.values, shape_of(op.results[0])
        axis = int(v["axis"]) % x.rank
        x = signed(e, x)
        size, place = x.shape[axis], x.order.index(axis)
        value = e.value_of(x, x.order)
        if v["last"]:
            if size == DYNAMIC:
                raise Unlowerable("dynamic-shape", "it counts from the end of an unknown extent")
            value = e.node(
                "REVERSE_V2", [value, e.numbers([place])], shape_of(value), element_of(value)
            )
        extents = [x.shape[d] for d in x.order if d != axis]
        out = e.node(name, [value, e.scalar(place, i32)], extents, i64, output_type="INT64")
        if v["last"]:
            algebra = TensorAlgebra(e, i64)
            out = algebra.pair("sub", algebra.number(size - 1), out)
        order = tuple(d - (d > axis) for d in x.order if d != axis)
        found = LaidOut(tuple(n for d, n in enumerate(x.shape) if d != axis), order, None, out)
        if v["keepdims"]:
            out = e.reshaped(e.value_of(found), shape)
            return e.result(out, identity_order(len(shape)), None, shape)
        return e.result(out, order, None, shape)

    return lower


def top_k(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> Sequence[LaidOut]:
    """`nn.top_k`: `TOPK_V2` along the dimension that lies last; the smallest are the largest of the
    negated."""
    assert isinstance(op, NNOp)
    (x,), v, shape = operands, op.values, shape_of(op.results[0])
    axis = int(v["axis"]) % x.rank
    order = x.order if x.order[-1] == axis else (*(d for d in x.order if d != axis), axis)
    x = signed(e, x)
    value = e.value_of(x, order)
    element: Attribute = element_of(value)
    negated = not v["largest"]
    if negated:
        if element != f32:
            raise Unlowerable("order", "the smallest are picked of floats only")
        value = TensorAlgebra(e, element).negated(value)
    extents = reordered(shape, order)
    kinds: list[tuple[Sequence[int], Any]] = [(extents, element), (extents, i32)]
    found, places = e.nodes("TOPK_V2", [value, e.scalar(int(v["k"]), i32)], kinds)
    if negated:
        found = TensorAlgebra(e, element).negated(found)
    places = TensorAlgebra(e, i32).cast(places, i64)
    given = qparams_of(op.results[0])
    if given is not None and not given.storage.signed:
        raise Unlowerable("storage", "it picks signed codes only", "reencode-storage")
    return [e.result(found, order, given, shape), LaidOut(shape, order, None, places)]


def truth(element: Attribute) -> bool:
    """Whether elements are truth values."""
    return element == i1
