"""Encodes attributes and types as the builtin dialect does; what it has no encoding for is text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from struct import pack
from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    BFloat16Type,
    CallSiteLoc,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    Float80Type,
    Float128Type,
    FloatAttr,
    FunctionType,
    FusedLoc,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NameLoc,
    NoneAttr,
    NoneType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    TupleType,
    UnitAttr,
    UnknownLoc,
    UnrankedMemRefType,
    UnrankedTensorType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.ir.affine import AffineMap

from qdialect.ir.dialects.verbatim import range_of
from qdialect.plugins.mlir.bytecode.emitter import (
    Numbering,
    number,
    numbers,
    signed,
    signed_numbers,
)
from qdialect.plugins.mlir.bytecode.layout import DYNAMIC, Attr, Type
from qdialect.plugins.mlir.bytecode.numbers import is_expressible, raw_data

_SIGNEDNESS = {Signedness.SIGNLESS: 0, Signedness.SIGNED: 1, Signedness.UNSIGNED: 2}

Encoder = Callable[[Numbering, Any], bytes | None]


def encoded(writer: Numbering, attribute: Attribute, is_type: bool) -> bytes | None:
    """The bytes of an attribute or type; None if it is written as text."""
    if is_type:
        encode = TYPES.get(type(attribute))
        return None if encode is None else encode(writer, attribute)
    if isinstance(attribute, TypeAttribute):
        return number(Attr.TYPE) + number(writer.type(attribute))
    encode = ATTRIBUTES.get(type(attribute))
    return None if encode is None else encode(writer, attribute)


def _all(numbered: Callable[[Any], int], parts: Iterable[Any]) -> bytes:
    found = [number(numbered(part)) for part in parts]
    return number(len(found)) + b"".join(found)


# -- attributes --------------------------------------------------------------------


def _array(writer: Numbering, attribute: ArrayAttr[Any]) -> bytes:
    return number(Attr.ARRAY) + _all(writer.attribute, attribute.data)


def _dictionary(writer: Numbering, attribute: DictionaryAttr) -> bytes:
    entries = sorted(attribute.data.items())
    pairs = [number(writer.name(key)) + number(writer.attribute(value)) for key, value in entries]
    return number(Attr.DICTIONARY) + number(len(entries)) + b"".join(pairs)


def _string(writer: Numbering, attribute: StringAttr) -> bytes:
    return number(Attr.STRING) + number(writer.string(attribute.data))


def _symbol(writer: Numbering, attribute: SymbolRefAttr) -> bytes:
    root = number(writer.attribute(attribute.root_reference))
    if not attribute.nested_references.data:
        return number(Attr.FLAT_SYMBOL) + root
    nested = [SymbolRefAttr(part) for part in attribute.nested_references.data]
    return number(Attr.SYMBOL) + root + _all(writer.attribute, nested)


def _unit(_writer: Numbering, _attribute: UnitAttr) -> bytes:
    return number(Attr.UNIT)


def _bits(value: int, width: int) -> bytes:
    value &= (1 << width) - 1
    if width <= 8:
        return bytes((value,))
    if width <= 64:
        return number(_zigzag(value))
    words = [value >> shift & (1 << 64) - 1 for shift in range(0, max(value.bit_length(), 1), 64)]
    return number(len(words)) + b"".join(number(_zigzag(word)) for word in words)


def _zigzag(word: int) -> int:
    """A word of 64 bits as a signed number is written."""
    return (word << 1 & (1 << 64) - 1) ^ ((1 << 64) - 1 if word >> 63 else 0)


def double(value: float) -> bytes:
    """The bits of a double."""
    return _bits(int.from_bytes(pack("<d", value), "little"), 64)


def _integer(writer: Numbering, attribute: IntegerAttr[Any]) -> bytes:
    kind = cast("IntegerType | IndexType", attribute.type)
    width = kind.width.data if isinstance(kind, IntegerType) else 64
    bits = _bits(attribute.value.data, width)
    return number(Attr.INTEGER) + number(writer.type(kind)) + bits


def _float(writer: Numbering, attribute: FloatAttr[Any]) -> bytes | None:
    kind = cast("AnyFloat", attribute.type)
    if not is_expressible(kind):
        return None
    bits = int.from_bytes(kind.pack((attribute.value.data,)), "little")
    return number(Attr.FLOAT) + number(writer.type(kind)) + _bits(bits, kind.bitwidth)


def _dense_array(writer: Numbering, attribute: DenseArrayBase[Any]) -> bytes:
    kind, data = attribute.elt_type, attribute.data.data
    if kind == i1:
        data = data.translate(b"\0" + b"\1" * 255)
    head = number(Attr.DENSE_ARRAY) + number(writer.type(kind)) + number(len(attribute))
    return head + number(len(data)) + data


def _dense(writer: Numbering, attribute: DenseIntOrFPElementsAttr[Any]) -> bytes | None:
    return dense(writer, cast("TensorType[Any]", attribute.type), attribute.data.data)


def dense(writer: Numbering, kind: TensorType[Any], data: bytes | memoryview) -> bytes | None:
    """Elements written out; None if they are not of this type."""
    raw = raw_data(data, math.prod(kind.get_shape()), kind.element_type)
    if raw is None:
        return None
    return number(Attr.DENSE) + number(writer.type(kind)) + number(len(raw)) + raw


def _dense_resource(writer: Numbering, attribute: DenseResourceAttr) -> bytes:
    return resource(writer, cast("Attribute", attribute.type), writer.named_resource(attribute))


def resource(writer: Numbering, kind: Attribute, handle: int) -> bytes:
    """Elements that are the resource numbered `handle`."""
    return number(Attr.DENSE_RESOURCE) + number(writer.type(kind)) + number(handle)


# -- locations ---------------------------------------------------------------------


def _unknown_loc(_writer: Numbering, _attribute: UnknownLoc) -> bytes:
    return number(Attr.UNKNOWN_LOC)


def _call_site(writer: Numbering, attribute: CallSiteLoc) -> bytes:
    callee, caller = writer.attribute(attribute.callee), writer.attribute(attribute.caller)
    return number(Attr.CALL_SITE_LOC) + number(callee) + number(caller)


def _fused(writer: Numbering, attribute: FusedLoc) -> bytes:
    ends = range_of(attribute)
    if ends is not None:
        start, end = ends
        places = [start.line.data, start.column.data, end.line.data, end.column.data]
        return number(Attr.FILE_RANGE) + number(writer.attribute(start.filename)) + numbers(places)
    parts = _all(writer.attribute, cast("ArrayAttr[Attribute]", attribute.locations).data)
    if isinstance(attribute.metadata, NoneAttr):
        return number(Attr.FUSED_LOC) + parts
    metadata = number(writer.attribute(attribute.metadata))
    return number(Attr.FUSED_LOC_WITH_METADATA) + parts + metadata


def _name_loc(writer: Numbering, attribute: NameLoc) -> bytes:
    child: Attribute = attribute.location
    if isinstance(child, NoneAttr):
        child = UnknownLoc()
    name = number(writer.attribute(attribute.desc))
    return number(Attr.NAME_LOC) + name + number(writer.attribute(child))


# -- types -------------------------------------------------------------------------


def _integer_type(_writer: Numbering, kind: IntegerType) -> bytes:
    return number(Type.INTEGER) + number(kind.width.data << 2 | _SIGNEDNESS[kind.signedness.data])


def _plain(kind: Type) -> Encoder:
    return lambda writer, attribute: number(kind)


def _function(writer: Numbering, kind: FunctionType) -> bytes:
    inputs = _all(writer.type, kind.inputs.data)
    return number(Type.FUNCTION) + inputs + _all(writer.type, kind.outputs.data)


def _complex(writer: Numbering, kind: ComplexType[Any]) -> bytes:
    return number(Type.COMPLEX) + number(writer.type(kind.element_type))


def _shape(shape: tuple[int, ...]) -> bytes:
    return signed_numbers([DYNAMIC if extent == DYNAMIC_INDEX else extent for extent in shape])


def _tensor(writer: Numbering, kind: TensorType[Any]) -> bytes:
    rest = _shape(kind.get_shape()) + number(writer.type(kind.element_type))
    if isinstance(kind.encoding, NoneAttr):
        return number(Type.TENSOR) + rest
    return number(Type.TENSOR_WITH_ENCODING) + number(writer.attribute(kind.encoding)) + rest


def _memref(writer: Numbering, kind: MemRefType[Any]) -> bytes:
    from xdsl.dialects.builtin import AffineMapAttr

    shape = kind.get_shape()
    layout: Attribute = kind.layout
    if isinstance(layout, NoneAttr):
        layout = AffineMapAttr(AffineMap.identity(len(shape)))
    rest = _shape(shape) + number(writer.type(kind.element_type)) + number(writer.attribute(layout))
    if isinstance(kind.memory_space, NoneAttr):
        return number(Type.MEMREF) + rest
    return number(Type.MEMREF_IN_SPACE) + number(writer.attribute(kind.memory_space)) + rest


def _tuple(writer: Numbering, kind: TupleType) -> bytes:
    return number(Type.TUPLE) + _all(writer.type, kind.types.data)


def _unranked_memref(writer: Numbering, kind: UnrankedMemRefType[Any]) -> bytes:
    element = number(writer.type(kind.element_type))
    if isinstance(kind.memory_space, NoneAttr):
        return number(Type.UNRANKED_MEMREF) + element
    space = number(writer.attribute(kind.memory_space))
    return number(Type.UNRANKED_MEMREF_IN_SPACE) + space + element


def _unranked_tensor(writer: Numbering, kind: UnrankedTensorType[Any]) -> bytes:
    return number(Type.UNRANKED_TENSOR) + number(writer.type(kind.element_type))


def _vector(writer: Numbering, kind: VectorType[Any]) -> bytes:
    rest = b"".join(map(signed, kind.get_shape()))
    rest = number(len(kind.get_shape())) + rest + number(writer.type(kind.element_type))
    if not kind.get_num_scalable_dims():
        return number(Type.VECTOR) + rest
    flags = bytes(kind.get_scalable_dims())
    return number(Type.SCALABLE_VECTOR) + number(len(flags)) + flags + rest


ATTRIBUTES: dict[type[Attribute], Encoder] = {
    ArrayAttr: _array,
    DictionaryAttr: _dictionary,
    StringAttr: _string,
    SymbolRefAttr: _symbol,
    UnitAttr: _unit,
    IntegerAttr: _integer,
    FloatAttr: _float,
    DenseArrayBase: _dense_array,
    DenseIntOrFPElementsAttr: _dense,
    DenseResourceAttr: _dense_resource,
    UnknownLoc: _unknown_loc,
    CallSiteLoc: _call_site,
    FusedLoc: _fused,
    NameLoc: _name_loc,
}

TYPES: dict[type[Attribute], Encoder] = {
    IntegerType: _integer_type,
    IndexType: _plain(Type.INDEX),
    FunctionType: _function,
    BFloat16Type: _plain(Type.BF16),
    Float16Type: _plain(Type.F16),
    Float32Type: _plain(Type.F32),
    Float64Type: _plain(Type.F64),
    Float80Type: _plain(Type.F80),
    Float128Type: _plain(Type.F128),
    ComplexType: _complex,
    MemRefType: _memref,
    NoneType: _plain(Type.NONE),
    TensorType: _tensor,
    TupleType: _tuple,
    UnrankedMemRefType: _unranked_memref,
    UnrankedTensorType: _unranked_tensor,
    VectorType: _vector,
}
