"""Quantization at run time: DynamicQuantizeLinear and what fuses it with a product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import UnitAttr, f32

from qdialect.ir import ops as nn
from qdialect.ir.quant import element_type
from qdialect.plugins.onnx.dialect import FUSED
from qdialect.plugins.onnx.read.compute import Results
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.quantization import Place, element_at, shape_of, storage_name, under

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer


def quantize(imp: Importer, node: Node) -> Results:
    """`DynamicQuantizeLinear` as `nn.dynamic_quantize`."""
    kind = imp.type_of(node.input(0))
    if shape_of(kind) is None or element_type(kind) != f32:
        return None
    if len(node.outputs) != 3 or not all(node.outputs):
        return None
    return list(imp.emit(nn.DynamicQuantizeOp(imp.value(node.input(0)))).results)


def matmul(imp: Importer, node: Node) -> Results:
    """`DynamicQuantizeMatMul(a, b, b_scale, b_zero_point, bias)` of `com.microsoft`."""
    kinds = [imp.type_of(name) for name in node.inputs[:2]]
    shapes = [shape_of(kind) for kind in kinds]
    if None in shapes or element_type(kinds[0]) != f32 or not all(shapes):
        return None
    storage, shape = storage_name(element_type(kinds[1])), shapes[1]
    if storage not in ("u8", "i8") or shape is None or len(shape) < 2:
        return None
    scale = imp.statics.get(node.input(2))
    if scale is None or tuple(scale.dims) not in ((), (1,), shape[-1:]):
        return None  # the runtime reads as many scales as there are columns
    if node.input(4) and len(shape) > 2 and tuple(scale.dims) not in ((), (1,)):
        return None  # the runtime (1.32) multiplies the bias with the scales, too
    place = Place(node.input(2), node.input(3), axis=-1)
    element = element_at(imp, node, place, storage, shape)
    bias = imp.type_of(node.input(4))
    if element is None or element.qparams.expressed != "f32":
        return None
    if node.input(4) and (shape_of(bias) is None or element_type(bias) != f32):
        return None
    node.names_inputs = False
    operands = imp.value(node.input(0)), under(imp, node.input(1), element)
    product = imp.build(
        nn.DynamicMatMulOp,
        *operands,
        output="" if node.input(4) else node.output(0),
        element=f32,
    )
    cast("Any", product.owner).attributes[FUSED] = UnitAttr()
    if not node.input(4):
        return [product]
    return [imp.build(nn.AddOp, product, imp.value(node.input(4)), output=node.output(0))]
