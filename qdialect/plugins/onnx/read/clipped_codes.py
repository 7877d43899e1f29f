"""`Clip` of codes: a storage range narrower than the type.

    QuantizeLinear, Clip(0, 15), DequantizeLinear  ->  quant.qcast to !quant.uniform<u8<0:15>:...>

ONNX has no other way to say that 4 of 8 bits are used. Of a quantize such bounds become those of
its type, of constant codes those of the type they are read under. Others are an `nn.clip`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from qdialect.algebra.qparams.parameters import Storage
from qdialect.ir import ops as nn
from qdialect.ir.quant import QCastOp, UniformType, element_type, quant_element, with_element
from qdialect.ir.quant.elements import integer_width
from qdialect.packages import package
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

Results = list[SSAValue] | None

_WIDEST = 8
"""Bits of codes that `Clip` takes as they are in every runtime."""


def clip_of_codes(imp: Importer, node: Node) -> Results:
    """`Clip` of codes, between constant ones."""
    x = node.input(0)
    if integer_width(element_type(imp.type_of(x))) in (_WIDEST, 32) and x in imp.statics:
        return _clip_of_constant(imp, node)
    value = imp.value(x)
    element = quant_element(value.type)
    if element is None or element.qparams.storage.is_float:
        return None
    storage = element.qparams.storage
    bounds = _bounds(imp, node, storage)
    if bounds is None:
        return None
    low, high = bounds
    cast_op = value.owner
    fits = storage.width == _WIDEST and storage.min <= low <= high <= storage.max
    narrows = _are_of_bits(low, high) or not element.qparams.is_per_tensor
    if isinstance(cast_op, QCastOp) and fits and narrows:
        imp.replaced.append(cast_op)
        narrow = replace(storage, min=low, max=high)
        target = with_element(value.type, UniformType(element.qparams.with_storage(narrow)))
        node.names_inputs = False
        return [imp.emit(QCastOp(cast_op.input, target)).results[0]]
    if not element.qparams.is_per_tensor:
        return None
    zero, scale = element.qparams.zero_point, element.qparams.scale
    reals = {"min": (low - zero) * scale, "max": (high - zero) * scale}
    given = {name: reals[name] for at, name in ((1, "min"), (2, "max")) if node.input(at)}
    return [imp.build(nn.ClipOp, value, output=node.output(0), **given)]


def _bounds(imp: Importer, node: Node, storage: Storage) -> tuple[int, int] | None:
    """The least and the greatest code; those of the storage where the node does not say."""
    found = list(storage.full_range)
    for position in (1, 2):
        if node.input(position):
            array = imp.static(node.input(position))
            if array is None or array.size != 1 or array.dtype.kind not in "iu":
                return None
            found[position - 1] = int(array.reshape(-1)[0])
    return found[0], found[1]


def _are_of_bits(low: int, high: int) -> bool:
    """Whether the codes are all of fewer bits, or all but one; others are bounds of values."""
    codes = high + 1 if low == 0 else 2 * (high + 1)
    starts = low in (0, -(high + 1), -high)
    return starts and any(n & (n - 1) == 0 for n in ((codes, codes + 1) if low == 0 else (codes,)))


def _clip_of_constant(imp: Importer, node: Node) -> Results:
    """Constant codes; those that are within the bounds as they are."""
    import numpy as np

    x, output = node.input(0), node.output(0)
    array = imp.static(x)
    if array is None or array.dtype.kind not in "iu":
        return None
    kind = "i" if array.dtype.kind == "i" else "u"
    storage = Storage.of(f"{kind}{8 * array.dtype.itemsize}")
    bounds = _bounds(imp, node, storage)
    if bounds is None or bounds[0] > bounds[1]:
        return None
    low, high = bounds
    tensor = imp.statics[x]
    if array.size and (array.min() < low or array.max() > high):
        tensor = package("onnx.numpy_helper").from_array(np.clip(array, low, high), output)
    imp.statics[output] = tensor
    imp.code_bounds[output] = bounds
    return []
