"""`Gemm` as `nn.fully_connected`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.plugins.onnx.dialect import STORED_TRANSPOSED
from qdialect.plugins.onnx.read.compute import float_shapes
from qdialect.plugins.onnx.read.transposed import flat_constant, is_constant, transposed_constant

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer
    from qdialect.plugins.onnx.read.node import Node


def gemm(imp: Importer, node: Node) -> list[SSAValue] | None:
    """`Gemm(A, B, C)` = A·B + C; C is a vector, or a constant row [1, N].

    The weight becomes [N, K]; one the file holds as [K, N] must be constant.
    """
    plain = node.get("alpha", 1.0) == 1.0 and node.get("beta", 1.0) == 1.0
    names = [name for name in node.inputs if name]
    shapes = float_shapes(imp, names)
    if not plain or node.get("transA", 0) or shapes is None or len(shapes[1]) != 2:
        return None
    stored = not node.get("transB", 0)
    weight = imp.value(names[1])
    if stored and not is_constant(weight):
        return None
    bias = _bias(imp, names, shapes, shapes[1][1 if stored else 0])
    if bias is None:
        return None
    if stored:
        turned = transposed_constant(imp, weight)
        assert turned is not None
        weight = turned
    result = imp.build(
        nn.FullyConnectedOp, imp.value(names[0]), weight, *bias, output=node.output(0)
    )
    if stored:
        cast("Any", result.owner).attributes[STORED_TRANSPOSED] = UnitAttr()
    return [result]


def _bias(
    imp: Importer, names: Sequence[str], shapes: Sequence[tuple[int, ...]], size: int
) -> list[SSAValue] | None:
    """The bias as [size], if there is one; None if it has another shape."""
    if len(names) < 3:
        return []
    value = imp.value(names[2])
    if shapes[2] == (size,):
        return [value]
    flat = flat_constant(imp, value) if shapes[2] == (1, size) else None
    return None if flat is None else [flat]
