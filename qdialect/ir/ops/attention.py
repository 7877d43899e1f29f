"""Scaled dot-product attention.

%y = nn.attention %q, %k, %v, %mask scale 0.125 : (...) -> tensor<1x4x16x8xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.ir import behaviors
from qdialect.ir.ops.base import HALF_EVEN, REAL, TENSOR, NNOp, Values
from qdialect.ir.ops.contraction import check_depth
from qdialect.ir.ops.declare import nn_op, onnx, values
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError, broadcast, require_rank

if TYPE_CHECKING:
    from qdialect.ir.behaviors import Behavior
    from qdialect.ir.ops.components import Components, Pieces


def _declare(name: str) -> Behavior:
    inputs = (behaviors.Port(role) for role in ("query", "key", "value"))
    return behaviors.Behavior(name, (*inputs, behaviors.Port("mask", behaviors.PortKind.PLAIN)))


def _attention_roles(op: Operation) -> tuple[str, ...]:
    return ("qk", "scaled", *(("masked",) if len(op.operands) > 3 else ()), "softmax", "av")


def _pieces() -> Components:
    from qdialect.ir.ops.components import Components
    from qdialect.ir.ops.contraction import MatMulOp
    from qdialect.ir.ops.elementwise import AddOp, MulOp
    from qdialect.ir.ops.movement import TransposeOp
    from qdialect.ir.ops.normalization import SoftmaxOp

    def build(op: Operation, pieces: Pieces) -> SSAValue:
        query, key, value, *mask = op.operands
        turned = pieces.emit(TransposeOp(key, perm=(0, 1, 3, 2)))
        scores = pieces.add("qk", MatMulOp(query, turned))
        scores = pieces.add("scaled", MulOp(scores, pieces.number(values(op)["scale"])))
        if mask:
            scores = pieces.add("masked", AddOp(scores, pieces.plain(mask[0])))
        return pieces.add("av", MatMulOp(pieces.add("softmax", SoftmaxOp(scores)), value))

    return Components(
        ("qk", "scaled", "masked", "softmax", "av"),
        build,
        _attention_roles,
        sums=frozenset({"qk"}),
        inner={"softmax": SoftmaxOp.name},
    )


@nn_op(_declare, onnx=onnx("Attention", 4, reads=False, writes=False, scale=1.0), pieces=_pieces)
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
