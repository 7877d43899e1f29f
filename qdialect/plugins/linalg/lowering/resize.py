"""Bilinear resize: sums of weighted codes, the weights in whole parts.

    y * parts_y * parts_x = sum of codes * whole numbers

which is the step of the exact result (`Behavior.grid`). Which elements a row or column of the
result reads, and with which weights, are constants.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, i32
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.resize import Ratio, ratios
from qdialect.passes.lowering.pointwise import Body
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.preconditions import exact_result, quantized
from qdialect.plugins.linalg.lowering.elementwise import laid_out_type, stepped, zero_of
from qdialect.plugins.linalg.lowering.emitter import Emitter, Read


def resize_linear(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.resize_linear`, between elements of which the weights are ratios."""
    (x,), row_and_column, shape = operands, ratios(op), shape_of(op.results[0])
    params = quantized(x)
    zero_of(params)
    if row_and_column is None:
        raise Unlowerable(
            "weights", "its weights are no ratios of integers", "scales that are powers of 2"
        )
    exact_result(e, op)
    reads: list[Read] = []
    for dim, ratio in zip((2, 3), row_and_column, strict=True):
        along = AffineMap(4, 0, (AffineExpr.dimension(dim),))
        for numbers in _between(ratio, x.shape[dim], shape[dim]):
            reads.append((e.const(numbers, i32), along))
    source = e.value_of(x)

    def compute(body: Body, values: Sequence[SSAValue]) -> SSAValue:
        rows, columns = values[:3], values[3:6]
        first = [body.add(IndexOp(d)) for d in (0, 1)]
        total: SSAValue | None = None
        for y, down in ((rows[0], rows[2]), (rows[1], None)):
            for c, across in ((columns[0], columns[2]), (columns[1], None)):
                place = [body.add(arith.IndexCastOp(i, IndexType())) for i in (y, c)]
                code = body.add(tensor.ExtractOp(source, [*first, *place], laid_out_type(params)))
                part = stepped(body, code, params)
                for weight, ratio, near in (
                    (rows[2], row_and_column[0], down),
                    (columns[2], row_and_column[1], across),
                ):
                    factor = weight
                    if near is None:
                        factor = body.add(arith.SubiOp(body.constant(ratio.parts, i32), weight))
                    part = body.add(arith.MuliOp(part, factor))
                total = part if total is None else body.add(arith.AddiOp(total, part))
        assert total is not None
        return total

    result = e.empty(shape, i32), AffineMap.identity(4)
    out = e.loops(reads, result, "pppp", compute)
    return e.result(out, identity_order(4), qparams_of(op.results[0]), shape)


def _between(ratio: Ratio, size: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two elements each result lies between, and how many parts the first one has."""
    at = np.arange(count, dtype=np.int64) * ratio.step + ratio.offset
    at = np.clip(at, 0, (size - 1) * ratio.parts)
    first = at // ratio.parts
    near = ratio.parts - (at - first * ratio.parts)
    second = np.minimum(first + 1, size - 1)
    return first.astype(np.int32), second.astype(np.int32), near.astype(np.int32)
