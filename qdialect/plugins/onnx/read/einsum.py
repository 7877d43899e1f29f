"""`Einsum` of two tensors that is a matrix product, as one.

    "bij,bjk->bik"  ->  nn.matmul          "bhid,bhjd->bhij"  ->  transpose, nn.matmul

One label is summed, which is the last of the first tensor; the second has it last or last
but one, and the same leading labels as the first, or none.  Others stay ONNX nodes.
So does one row or one column times a constant: ONNX Runtime packs the constants of `MatMul` and
then sums in another order than `Einsum` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr

from qdialect.ir import ops as nn
from qdialect.ir.ops import KEY
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.plugins.onnx.read.compute import Results, float_shapes
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

_FORM = re.compile(r"([A-Za-z]+),([A-Za-z]+)->([A-Za-z]+)")


def einsum(imp: Importer, node: Node) -> Results:
    """`Einsum` as `nn.matmul`, the second tensor transposed if need be."""
    shapes = float_shapes(imp, node.inputs)
    form = _FORM.fullmatch(str(node.get("equation", "")).replace(" ", ""))
    if shapes is None or form is None or len(shapes) != 2:
        return None
    labels = form.groups()
    turned = _is_turned(*labels)
    if turned is None or [len(shape) for shape in shapes] != [len(text) for text in labels[:2]]:
        return None
    summed = shapes[0][-1], shapes[1][-1 if turned else -2]
    if DYNAMIC in summed or summed[0] != summed[1]:
        return None  # an extent of 1 is repeated, which a matrix product does not do
    lhs, rhs = (imp.value(name) for name in node.inputs)
    one = {1, DYNAMIC}
    packed = not turned and len(shapes[1]) == 2 and nn.constant_of(rhs) is not None
    if packed and (shapes[1][-1] in one or one.issuperset(shapes[0][:-1])):
        return None
    if turned:
        rank = len(labels[1])
        op = nn.TransposeOp(rhs, perm=(*range(rank - 2), rank - 1, rank - 2))
        op.attributes[KEY] = StringAttr(f"{node.key}_transposed")
        rhs = imp.emit(op).results[0]
    return [imp.build(nn.MatMulOp, lhs, rhs, output=node.output(0))]


def _is_turned(lhs: str, rhs: str, result: str) -> bool | None:
    """Whether the second tensor has its last two dimensions the other way round; None if
    this is no matrix product."""
    if min(len(lhs), len(rhs)) < 2 or any(len(set(t)) != len(t) for t in (lhs, rhs, result)):
        return None
    batch, summed = rhs[:-2], lhs[-1]
    if batch and batch != lhs[:-2]:
        return None
    for column, row, turned in ((rhs[-1], rhs[-2], False), (rhs[-2], rhs[-1], True)):
        if row == summed and column not in lhs and result == lhs[:-1] + column:
            return turned
    return None
