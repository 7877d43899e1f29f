"""Quark's own QuantizeLinear and DequantizeLinear, which runtimes have no kernel for.

To integers both mean what ONNX's ops do, and become `quant.qcast` and `quant.dcast`.  To float16
and bfloat16, with a scale of 1 and a zero point of 0, they round to that type and back, which a
`Cast` does; float16 saturates.  With other parameters, and for blocks that have an exponent in
common (BFP, MX), there is no type of ours: the nodes stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import bf16, f16, f32
from xdsl.ir import Attribute, SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.quant import DCastOp, QCastOp, UniformType, element_type, with_element
from qdialect.ir.quant.elements import is_tensor
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import DATA_TYPES, ELEMENTS, NodeOp
from qdialect.plugins.onnx.read.attributes import ir_attribute
from qdialect.plugins.onnx.read.compute import Results
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.quantization import (
    Place,
    element_at,
    shape_of,
    storage_name,
    under,
)

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

_INTEGERS = frozenset({"u8", "i8", "u16", "i16", "i32"})
_LARGEST_HALF = 65504.0


def quantize(imp: Importer, node: Node) -> Results:
    """`ExtendedQuantizeLinear(x, scale, zero_point)`."""
    source, zero = imp.type_of(node.input(0)), imp.statics.get(node.input(2))
    if zero is None or not is_tensor(source) or element_type(source) != f32:
        return None
    stored = ELEMENTS[zero.data_type]
    if stored in (f16, bf16):
        if not _is_identity(imp, node):
            return None
        x = imp.value(node.input(0))
        if stored == f16:
            x = imp.emit(nn.ClipOp(x, min=-_LARGEST_HALF, max=_LARGEST_HALF)).results[0]
        return [_cast(imp, x, stored)]
    element = _element(imp, node, storage_name(stored), source)
    if element is None:
        return None
    return [imp.emit(QCastOp(imp.value(node.input(0)), with_element(source, element))).results[0]]


def dequantize(imp: Importer, node: Node) -> Results:
    """`ExtendedDequantizeLinear(q, scale, zero_point)`."""
    source = imp.type_of(node.input(0))
    if not is_tensor(source):
        return None
    if element_type(source) in (f16, bf16):
        return [_cast(imp, imp.value(node.input(0)), f32)] if _is_identity(imp, node) else None
    element = _element(imp, node, storage_name(element_type(source)), source)
    if element is None:
        return None
    codes = under(imp, node.input(0), element)
    return [imp.emit(DCastOp(codes, with_element(codes.type, f32))).results[0]]


TRANSLATED = (quantize, dequantize)
"""Functions that read what no runtime has as what all have."""


def translation(count: int) -> list[str]:
    """What is said of nodes that were read so, nothing if there are none."""
    if not count:
        return []
    return [f"{count} casts of Quark's own, which no runtime has, are written as those of ONNX"]


def _element(
    imp: Importer, node: Node, storage: str | None, source: Attribute
) -> UniformType | None:
    if storage not in _INTEGERS or not node.input(2):
        return None
    place = Place(node.input(1), node.input(2), int(node.get("axis", 0)))
    element = element_at(imp, node, place, storage, shape_of(source))
    return element if element is not None and element.qparams.expressed == "f32" else None


def _is_identity(imp: Importer, node: Node) -> bool:
    """Whether scales are 1 and zero points 0, so that numbers only change their type."""
    scale, zero = imp.static(node.input(1)), imp.statics.get(node.input(2))
    if scale is None or not (scale == 1).all() or zero is None:
        return False
    return not any(imp.loaded.tensors.raw(zero))


def _cast(imp: Importer, value: SSAValue, element: Attribute) -> SSAValue:
    to = package("onnx.helper").make_attribute("to", DATA_TYPES[element])
    attributes = {"to": ir_attribute(to, imp.ctx.blobs)}
    return imp.emit(
        NodeOp("Cast", [value], [with_element(value.type, element)], attributes)
    ).results[0]
