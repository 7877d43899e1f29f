"""QuantizeLinear and DequantizeLinear, with constant parameters.

`QuantizeLinear -> quant.qcast`, `DequantizeLinear -> quant.dcast`; a constant
operand becomes an `nn.constant` of the quantized type.  With parameters that are not
constants, and on storage we have no type for, they stay ONNX nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from qdialect.algebra.qparams.parameters import FLOAT_STORAGE, QParams
from qdialect.errors import InputError
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    UniformType,
    element_type,
    quant_element,
    with_element,
)
from qdialect.ir.quant.elements import FLOATS, integer_width, is_tensor
from qdialect.plugins.onnx.dialect import ELEMENTS
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.tensors import ELEMENT_NAMES
from qdialect.plugins.onnx.read.types import extents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.read.importer import Importer

_UINT8 = 2
_EIGHT_BITS = ("f8E4M3FN", "f8E5M2")


def quantize(imp: Importer, node: Node) -> list[SSAValue] | None:
    """`QuantizeLinear(x, scale, zero_point)` as `quant.qcast`."""
    source = imp.type_of(node.input(0))
    expressed = element_type(source)
    if not is_tensor(source) or expressed not in FLOATS or not _is_plain(imp, node, "precision"):
        return None
    element = _element(imp, node, _quantize_storage(imp, node), shape_of(source))
    if element is None or element.qparams.expressed != ELEMENT_NAMES[expressed]:
        return None
    return [imp.emit(QCastOp(imp.value(node.input(0)), with_element(source, element))).results[0]]


def dequantize(imp: Importer, node: Node) -> list[SSAValue] | None:
    """`DequantizeLinear(q, scale, zero_point)` as `quant.dcast`."""
    name = node.input(0)
    element = dequantize_element(imp, node, imp.type_of(name))
    if element is None:
        return None
    operand = under(imp, name, element)
    target = with_element(operand.type, ELEMENTS[imp.statics[node.input(1)].data_type])
    return [imp.emit(DCastOp(operand, target)).results[0]]


def under(imp: Importer, name: str, element: UniformType) -> SSAValue:
    """The stored integers of a tensor, read under `element`, within the bounds known of them."""
    bounds = imp.code_bounds.get(name)
    if name not in imp.values or bounds is not None:
        return imp.constant(name, _bounded(element, bounds))
    value = imp.values[name]
    known = quant_element(value.type)
    if known is not None and known.qparams.storage.spelling == element.qparams.storage.spelling:
        element = _bounded(element, (known.qparams.storage.min, known.qparams.storage.max))
    return value if known == element else imp.quantized(value, element)


def _bounded(element: UniformType, bounds: tuple[int, int] | None) -> UniformType:
    storage = element.qparams.storage
    if bounds is None or bounds == (storage.min, storage.max):
        return element
    return UniformType(element.qparams.with_storage(replace(storage, min=bounds[0], max=bounds[1])))


def dequantize_element(imp: Importer, node: Node, source: Attribute) -> UniformType | None:
    """The element type a DequantizeLinear node reads its operand under.

    `source` is the operand's type; None when the parameters are not constants, or the
    storage is one we have no type for.
    """
    storage = storage_name(element_type(source)) if is_tensor(source) else None
    if not _is_plain(imp, node, "output_dtype"):
        return None
    return None if storage is None else _element(imp, node, storage, shape_of(source))


def _is_plain(imp: Importer, node: Node, attribute: str) -> bool:
    """Whether a node that may say in which float type it computes says that of its scale."""
    scale = imp.statics.get(node.input(1))
    asked = int(node.get(attribute, 0))
    return not asked or (scale is not None and scale.data_type == asked)


def shape_of(type: Attribute) -> tuple[int, ...] | None:
    """The extents of a ranked tensor type, else None."""
    return extents(cast("TensorType[Attribute]", type)) if isinstance(type, TensorType) else None


# -- parameters -------------------------------------------------------------------


def storage_name(element: Attribute) -> str | None:
    """`u8`, `i8` ... for a quantized or integer element type."""
    if isinstance(element, UniformType):
        return element.qparams.storage.spelling
    if ELEMENT_NAMES.get(element) in FLOAT_STORAGE:
        return ELEMENT_NAMES[element]
    if integer_width(element) in (None, 1, 64):
        return None
    return ELEMENT_NAMES[element].replace("ui", "u")


def _quantize_storage(imp: Importer, node: Node) -> str | None:
    zero = imp.statics.get(node.input(2))
    if node.input(2) and zero is None:
        return None
    asked = int(node.get("output_dtype", 0))
    given = zero.data_type if zero is not None else asked or _UINT8
    if asked and asked != given:
        raise InputError(
            "the zero point's type is not the output type the node asks for",
            where=node.where,
            code="bad-qparams",
        )
    storage = storage_name(ELEMENTS[given])
    # Without saturation, what is too large becomes a NaN or an infinity.
    return storage if node.get("saturate", 1) or storage not in _EIGHT_BITS else None


@dataclass(frozen=True)
class Place:
    """Where a node has qparams: the names of scale and zero point ("" if absent), the
    dimension that a vector of them goes along, and the elements per block (0: none)."""

    scale: str
    zero: str = ""
    axis: int = 1
    block: int = 0


def _element(
    imp: Importer, node: Node, storage: str | None, shape: tuple[int, ...] | None
) -> UniformType | None:
    axis, block = int(node.get("axis", 1)), int(node.get("block_size", 0))
    return element_at(imp, node, Place(node.input(1), node.input(2), axis, block), storage, shape)


def element_at(
    imp: Importer, node: Node, place: Place, storage: str | None, shape: tuple[int, ...] | None
) -> UniformType | None:
    """The quantized type that a node's parameters describe for a tensor of `shape`; None
    if they are not constants, or a scale is negative, zero or not finite; InputError
    (`bad-qparams`) if they describe none."""
    key = (place, storage, shape)
    if key not in imp.quantized_types:
        imp.quantized_types[key] = _read_element(imp, node, place, storage, shape)
    return imp.quantized_types[key]


def _read_element(
    imp: Importer, node: Node, place: Place, storage: str | None, shape: tuple[int, ...] | None
) -> UniformType | None:
    scale = imp.static(place.scale)
    if storage is None or scale is None:
        return None
    expressed = imp.statics[place.scale].data_type
    if ELEMENTS.get(expressed) not in FLOATS or scale.dtype.kind != "f":
        return None
    if place.zero and place.zero not in imp.statics:
        return None
    zeros = _zero_points(imp, node, place, storage, scale)
    scales = [float(value) for value in scale.reshape(-1)]
    if not all(isfinite(value) and value > 0 for value in scales):
        return None  # a runtime computes with any number, a type has a positive one
    if storage in FLOAT_STORAGE and any(zeros):
        return None  # bits of a float, which zero points in types are not
    kind = ELEMENT_NAMES[ELEMENTS[expressed]]
    if not scales:  # of an axis without indices: the tensor is empty
        return UniformType(QParams.per_tensor(storage, 1.0, expressed=kind))
    if place.block:
        blocks = _blocks(node, place, scale.shape, shape)
        if blocks is None:
            return None
        return UniformType(QParams.blockwise(storage, blocks, scale.shape, scales, zeros, kind))
    if scale.ndim == 0 or (scale.ndim == 1 and len(scales) == 1):
        return UniformType(QParams.per_tensor(storage, scales[0], zeros[0], kind))
    if shape is None:
        return None
    if scale.ndim > 1:
        raise _bad(node, f"scales of rank {scale.ndim} need a block size")
    if not -len(shape) <= place.axis < len(shape):
        raise _bad(node, f"axis {place.axis} is outside rank {len(shape)}")
    axis = place.axis % len(shape)
    if shape[axis] not in (-1, len(scales)):
        raise _bad(
            node, f"{len(scales)} scales for dimension {axis}, which has {shape[axis]} elements"
        )
    return UniformType(QParams.per_axis(storage, axis, scales, zeros, kind))


def _blocks(
    node: Node, place: Place, grid: tuple[int, ...], shape: tuple[int, ...] | None
) -> list[tuple[int, int]] | None:
    """The block of every dimension: `place.block` elements along the axis, else one; None
    if the last block is not full, which no type says, or might not be."""
    if shape is None or place.block < 0:
        return None
    rank = len(shape)
    if len(grid) != rank or not -rank <= place.axis < rank:
        raise _bad(
            node,
            f"blocks along axis {place.axis} of a tensor of rank {rank} "
            f"with scales of rank {len(grid)}",
        )
    axis = place.axis % rank
    blocks = [(d, place.block if d == axis else 1) for d in range(rank)]
    for (d, block), cells in zip(blocks, grid, strict=True):
        if shape[d] != DYNAMIC and -(-shape[d] // block) != cells:
            raise _bad(
                node,
                f"{cells} scales for dimension {d}, which has {shape[d]} elements "
                f"in blocks of {block}",
            )
    fits = all(shape[d] != DYNAMIC and shape[d] % block == 0 for d, block in blocks)
    return blocks if fits else None


def _zero_points(
    imp: Importer, node: Node, place: Place, storage: str, scale: NDArray[Any]
) -> list[int]:
    if not place.zero:
        return [0] * scale.size
    zero = imp.static(place.zero)
    given = storage_name(ELEMENTS[imp.statics[place.zero].data_type])
    if given != storage:
        raise _bad(node, f"the zero point's type {given} is not the tensor's type {storage}")
    if zero is None:
        zero = _wide(imp, place.zero)
    if zero.size != scale.size or (place.block and zero.shape != scale.shape):
        raise _bad(node, f"{scale.size} scales but {zero.size} zero points")
    return [int(value) for value in zero.reshape(-1)]


def _wide(imp: Importer, name: str) -> NDArray[Any]:
    """Zero points of a type numpy lacks (uint4, uint2), one byte each."""
    import numpy as np

    tensor = imp.statics[name]
    return np.frombuffer(imp.loaded.tensors.raw(tensor), np.uint8).reshape(tuple(tensor.dims))


def _bad(node: Node, reason: str) -> InputError:
    return InputError(reason, where=node.where, code="bad-qparams")
