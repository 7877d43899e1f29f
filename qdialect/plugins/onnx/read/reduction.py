"""Reductions over constant axes, and global pools that are reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.reduction import ReduceOp
from qdialect.plugins.onnx.dialect import GLOBAL_POOL
from qdialect.plugins.onnx.read.compute import Rule, float_shapes
from qdialect.plugins.onnx.read.movement import movable
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

Results = list[SSAValue] | None


def reduce(kind: type[ReduceOp], *, axes_since: int, moves: bool = False) -> Rule:
    """A reduction; from opset `axes_since` on, axes are an input.

    `moves`: also of quantized values of one scale, since it picks elements.
    """

    def rule(imp: Importer, node: Node) -> Results:
        shape = _shape(imp, node, moves)
        if shape is None:
            return None
        axes: tuple[int, ...] | None = node.get("axes", ())
        if imp.opset >= axes_since:
            axes = imp.static_ints(node.input(1)) if node.input(1) else ()
        if axes is None:
            return None
        if not axes and node.flag("noop_with_empty_axes", False):
            return [imp.value(node.input(0))]
        axes = axes or tuple(range(len(shape)))
        if not kind.OF_NOTHING and 0 in [shape[a] for a in axes if -len(shape) <= a < len(shape)]:
            return None
        x, keep = imp.value(node.input(0)), node.flag("keepdims", True)
        return [imp.build(kind, x, output=node.output(0), axes=axes, keepdims=keep)]

    return rule


def global_max_pool(imp: Importer, node: Node) -> Results:
    """`GlobalMaxPool` as a maximum over the spatial dimensions."""
    shape = _shape(imp, node, True)
    if shape is None or len(shape) < 3 or 0 in shape[2:]:
        return None
    axes = tuple(range(2, len(shape)))
    result = imp.build(nn.ReduceMaxOp, imp.value(node.input(0)), output=node.output(0), axes=axes)
    cast("Any", result.owner).attributes[GLOBAL_POOL] = UnitAttr()
    return [result]


def _shape(imp: Importer, node: Node, moves: bool) -> tuple[int, ...] | None:
    if moves:
        return movable(imp, node.input(0))
    shapes = float_shapes(imp, node.inputs[:1])
    return None if shapes is None else shapes[0]
