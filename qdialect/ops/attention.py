"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from qdialect.ops.base import HALF_EVEN, REAL, TENSOR, NNOp, Values
from qdialect.ops.contraction import check_depth
from qdialect.ops.shapes import DYNAMIC, Shape, ShapeError, broadcast, require_rank


@irdl_op_definition
class AttentionOp(NNOp):
    """softmax(scale * query @ key^T + mask) @ value, along the last dimension.

    `query` [N, heads, S, D], `key` [N, heads, T, D], `value` [N, heads, T, E]; `mask` is
    floats that broadcast to [N, heads, S, T]. The result is [N, heads, S, E].
    """

    name = "nn.attention"
    query = operand_def(TENSOR)
    key = operand_def(TENSOR)
    value = operand_def(TENSOR)
    mask = opt_operand_def(TENSOR)
    result = result_def(TENSOR)
    scale = prop_def(REAL)
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        for shape, name in zip(operands, ("query", "key", "value"), strict=False):
            require_rank(shape, 4, f"a {name}")
        query, key, value = operands[:3]
        check_depth(query[3], key[3])
        check_depth(key[2], value[2])
        for other in (key, value):
            for d in (0, 1):
                if DYNAMIC not in (query[d], other[d]) and query[d] != other[d]:
                    raise ShapeError(f"expects {query[d]} along dimension {d}, but got {other[d]}")
        scores = (*query[:3], key[2])
        if len(operands) > 3 and DYNAMIC not in (*scores, *operands[3]):
            mask = operands[3]
            if len(mask) > 4 or broadcast([scores, mask]) != scores:
                raise ShapeError(f"mask of shape {list(mask)} does not broadcast to {list(scores)}")
        return [(*query[:3], value[3])]


OPS = [AttentionOp]
