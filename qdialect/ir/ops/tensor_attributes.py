"""The elements of a tensor attribute, whichever way the text holds them: inline, in the weight
store, or in a resource of the file.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute

from qdialect.errors import InputError
from qdialect.ir.ops.constants import BlobAttr
from qdialect.ir.quant import element_type
from qdialect.ir.weights import BlobStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FLOATS = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "bf16": "<u2"}


def tensor_attribute_type(attribute: Attribute) -> TensorType[Any]:
    """The type of a tensor attribute; InputError (`bad-tensor`) for anything else."""
    if isinstance(attribute, BlobAttr | DenseIntOrFPElementsAttr | DenseResourceAttr):
        kind = attribute.type if not isinstance(attribute, DenseIntOrFPElementsAttr) else None
        kind = attribute.get_type() if kind is None else kind
        if isinstance(kind, TensorType):
            return cast("TensorType[Any]", kind)
    raise InputError("an attribute holds no tensor whose elements are known", code="bad-tensor")


def tensor_attribute_array(attribute: Attribute, blobs: BlobStore, ctx: Context) -> NDArray[Any]:
    """The stored elements in the shape of the type: integers and floats as they are, bf16 and
    floats of 8 bits as their bits.  InputError (`missing-blob`, `missing-resource`,
    `bad-resource`) where the elements are not there."""
    import numpy as np

    kind = tensor_attribute_type(attribute)
    data: NDArray[Any]
    if isinstance(attribute, BlobAttr):
        data = blobs.get(attribute.key.data).array()
    elif isinstance(attribute, DenseIntOrFPElementsAttr):
        data = _unpacked(attribute.data.data, kind)
    else:
        resource = cast("DenseResourceAttr", attribute)
        data, size = _unpacked(_resource(resource, ctx), kind), prod(kind.get_shape())
        if data.size != size:
            key = resource.resource_handle.data
            fault = f"resource '{key}' has {data.size} elements, not {size}"
            raise InputError(fault, code="bad-resource")
    element = kind.element_type
    width = _width(element)
    if 1 < width < 8:
        # Whoever wrote the bytes may have left the bits above as they were.
        spare = 8 - width
        data = (data << spare).astype(np.int8) >> spare
    shape = kind.get_shape()
    if data.size == 1 and prod(shape) != 1:
        return np.broadcast_to(data.reshape(()), shape)
    return data.reshape(shape)


def _width(element: Attribute) -> int:
    """The bits of an integer type; 0 of others."""
    return cast("Any", element).width.data if isinstance(element, IntegerType) else 0


def _unpacked(data: bytes | bytearray, kind: TensorType[Any]) -> NDArray[Any]:
    """The elements that bytes hold, one or as many as the type has."""
    import numpy as np

    name, count = str(element_type(kind)), max(prod(kind.get_shape()), 1)
    if name in _FLOATS:
        return np.frombuffer(data, _FLOATS[name])
    if name.startswith("f"):
        return np.frombuffer(data, np.uint8)
    if name == "i1":
        return np.frombuffer(data, np.bool_)
    width = len(data) // count if len(data) >= count else len(data)
    return np.frombuffer(data, f"<i{width}" if width in (2, 4, 8) else np.int8)


def _resource(attribute: DenseResourceAttr, ctx: Context) -> bytes:
    """The bytes behind `dense_resource<...>`: an alignment in 4 bytes comes first."""
    key = attribute.resource_handle.data
    for dialect in ctx.loaded_dialects:
        interface = dialect.get_interface(OpAsmDialectInterface)
        text = interface.lookup(key) if interface and dialect.name == "builtin" else None
        if text:
            return bytes.fromhex(text[2:])[4:]
    raise InputError(f"the file has no resource '{key}'", code="missing-resource")
