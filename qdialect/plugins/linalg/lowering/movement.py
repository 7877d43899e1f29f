"""Ops that move elements, by their declared index maps.

transpose, reshape, concat    the order a value is laid out in; collapse and expand; insert_slice
a pad with a constant         `tensor.pad`
slices, forwards              `tensor.extract_slice`
others                        a loop that reads the flat operands at a constant's indices
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.passes.lowering.pointwise import Body
from qdialect.plugins.common.lowering.emitter import element_of
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.movement import flat_index, laid_out_as, movement
from qdialect.plugins.common.lowering.preconditions import fill_code
from qdialect.plugins.linalg.lowering.emitter import Emitter

if TYPE_CHECKING:
    from qdialect.algebra.qparams.maps import IndexMap


def slices(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
    """`nn.slice`."""
    assert isinstance(op, NNOp)
    x, v, shape = operands[0], op.values, shape_of(op.results[0])
    if x.is_constant or any(step < 1 for step in v["steps"]):
        return move(e, op, operands)
    bounds = zip(x.shape, v["starts"], v["stops"], v["steps"], strict=True)
    starts = [slice(a, b, c).indices(n)[0] for n, a, b, c in bounds]
    value = e.box(e.value_of(x), starts, shape, v["steps"])
    return e.result(value, identity_order(x.rank), qparams_of(op.results[0]), shape)


def moved(e: Emitter, phi: IndexMap, operands: Sequence[LaidOut]) -> LaidOut:
    """The operands (of one storage) moved by `phi`; the result has no parameters yet."""
    from qdialect.algebra.qparams.maps import Concat, Pad

    shape = phi.output_shape([x.shape for x in operands])
    renamed = laid_out_as(moved, e, phi, operands, shape)
    if renamed is not None:
        return renamed
    x = operands[0]
    if isinstance(phi, Pad) and phi.has_border:
        pads = list(zip(phi.low, phi.high, strict=True))
        value = e.padded(e.value_of(x), pads, fill_code(x, phi.border_value))
        return LaidOut(shape, identity_order(len(shape)), None, value)
    if isinstance(phi, Concat):
        value = e.joined([e.value_of(part) for part in operands], phi.axis)
        return LaidOut(shape, identity_order(len(shape)), None, value)
    return _gathered(e, phi, operands, shape)


def _gathered(
    e: Emitter, phi: IndexMap, operands: Sequence[LaidOut], shape: tuple[int, ...]
) -> LaidOut:
    """Each element by its place in all operands flat, one after the other; one more element
    is what stands at borders."""
    index, count = flat_index(phi, operands, shape)
    at_border = index < 0
    index = np.where(at_border, count, index).reshape(shape)
    parts = [e.reshaped(e.value_of(x), (prod(x.shape),)) for x in operands if prod(x.shape)]
    source = e.joined(parts, 0)
    if at_border.any():
        source = e.padded(source, [(0, 1)], fill_code(operands[0], phi.border_value))
    element = element_of(source)

    def read(body: Body, values: Sequence[SSAValue]) -> SSAValue:
        place = body.add(arith.IndexCastOp(values[0], IndexType()))
        return body.add(tensor.ExtractOp(source, [place], element))

    places = e.const(index.astype(np.int32), i32)
    return LaidOut(
        shape, identity_order(len(shape)), None, e.elementwise([places], shape, element, read)
    )


move = movement(moved)
"""Any op that is declared as a movement."""
