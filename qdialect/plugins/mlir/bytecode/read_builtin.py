"""Decodes the attributes and types that the builtin dialect encodes itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    BFloat16Type,
    BoolAttr,
    BytesAttr,
    CallSiteLoc,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    FileLineColLoc,
    Float16Type,
    Float32Type,
    Float64Type,
    Float80Type,
    Float128Type,
    FloatAttr,
    FunctionType,
    FusedLoc,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefLayoutAttr,
    MemRefType,
    NameLoc,
    NoneAttr,
    NoneType,
    ShapedType,
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

from qdialect.plugins.mlir.bytecode.cursor import Cursor
from qdialect.plugins.mlir.bytecode.entries import Decoder, Entries, entry_of
from qdialect.plugins.mlir.bytecode.layout import DYNAMIC, Attr, Type
from qdialect.plugins.mlir.bytecode.numbers import dense_data, is_expressible, signed_value

_LARGEST = 1 << 31
"""A splat is held in full: one of more bytes is an error."""
_SIGNEDNESS = (Signedness.SIGNLESS, Signedness.SIGNED, Signedness.UNSIGNED)

T = TypeVar("T")


def _list(cursor: Cursor, read: Callable[[Cursor], T]) -> list[T]:
    return [read(cursor) for _ in range(cursor.count())]


# -- attributes --------------------------------------------------------------------


def _array(entries: Entries, cursor: Cursor) -> Attribute:
    return ArrayAttr(_list(cursor, entries.attribute))


def _dictionary(entries: Entries, cursor: Cursor) -> Attribute:
    return DictionaryAttr(entries.dictionary(cursor))


def _string(entries: Entries, cursor: Cursor) -> Attribute:
    found = entries.any_string(cursor)
    return StringAttr(found) if isinstance(found, str) else entries.parsed(_quoted(found))


def _quoted(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    plain = (
        chr(byte) if 31 < byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in data
    )
    return f'"{"".join(plain)}"'


def _typed_string(entries: Entries, cursor: Cursor) -> Attribute:
    text = _quoted(entries.any_string(cursor))
    return entries.parsed(f"{text} : {entries.printed(entries.type(cursor))}")


def _name(entries: Entries, cursor: Cursor) -> StringAttr:
    found = entries.attribute(cursor)
    if not isinstance(found, StringAttr):
        cursor.fail("a name that is no string")
    return found


def _flat_symbol(entries: Entries, cursor: Cursor) -> SymbolRefAttr:
    return SymbolRefAttr(_name(entries, cursor))


def _symbol(entries: Entries, cursor: Cursor) -> Attribute:
    root = _name(entries, cursor)
    nested: list[StringAttr] = []
    for part in _list(cursor, entries.attribute):
        if not isinstance(part, SymbolRefAttr) or part.nested_references.data:
            cursor.fail("a nested reference that is no symbol")
        nested.append(part.root_reference)
    return SymbolRefAttr(root, ArrayAttr(nested))


def _type(entries: Entries, cursor: Cursor) -> Attribute:
    return entries.type(cursor)


def _unit(_entries: Entries, _cursor: Cursor) -> Attribute:
    return UnitAttr()


def _bits(cursor: Cursor, width: int) -> int:
    """An integer of known width, as its bits."""
    if width <= 8:
        return cursor.byte()
    mask = (1 << width) - 1
    if width <= 64:
        return cursor.signed() & mask
    words = _list(cursor, Cursor.signed)
    return sum((word & (1 << 64) - 1) << 64 * index for index, word in enumerate(words)) & mask


def _integer(entries: Entries, cursor: Cursor) -> Attribute:
    found = entries.type(cursor)
    if not isinstance(found, IntegerType | IndexType):
        cursor.fail("an integer attribute that is of no integer type")
    kind = cast("IntegerType | IndexType", found)
    width = kind.width.data if isinstance(kind, IntegerType) else 64
    return IntegerAttr(signed_value(_bits(cursor, width), kind), kind)


def _float(entries: Entries, cursor: Cursor) -> Attribute:
    kind = entries.type(cursor)
    if not isinstance(kind, AnyFloat):
        cursor.fail("a float attribute that is of no float type")
    bits = _bits(cursor, kind.bitwidth)
    if not is_expressible(kind):
        return entries.parsed(f"0x{bits:0{-(-kind.bitwidth // 4)}X} : {kind}")
    size = kind.compile_time_size
    return FloatAttr(next(iter(kind.iter_unpack(bits.to_bytes(size, "little")))), kind)


def _dense_array(entries: Entries, cursor: Cursor) -> Attribute:
    kind = entries.type(cursor)
    count = cursor.number()
    data = cursor.take(cursor.count())
    if not isinstance(kind, IntegerType | AnyFloat):
        cursor.fail("an array of no integers or floats")
    if len(data) != count * kind.compile_time_size:
        cursor.fail(f"an array of {count} {kind} that is {len(data)} bytes long")
    if kind == i1:
        data = data.translate(b"\0" + b"\xff" * 255)
    return DenseArrayBase(cast("Any", kind), BytesAttr(data))


def _shaped(entries: Entries, cursor: Cursor) -> ShapedType:
    kind = entries.type(cursor)
    if not isinstance(kind, ShapedType) or min(kind.get_shape(), default=0) < 0:
        cursor.fail("elements that are of no static shape")
    return kind


def _dense(entries: Entries, cursor: Cursor) -> Attribute:
    kind = cast("TensorType[Any]", _shaped(entries, cursor))
    data = cursor.take(cursor.count())
    count = math.prod(kind.get_shape())
    element: Any = kind.element_type
    if not isinstance(element, IntegerType | IndexType | AnyFloat | ComplexType):
        cursor.fail(f"dense elements of the type {element}")
    if count * 16 > _LARGEST and len(data) * 8 < count:
        cursor.fail(f"a splat of {count} elements is too large")
    if not is_expressible(cast("Attribute", element)):
        text = _wide_elements(data, kind, cast("Any", element))
        if text is None:
            cursor.fail(f"{len(data)} bytes for {kind}")
        return entries.parsed(f"{text} : {entries.printed(kind)}")
    found = dense_data(data, count, cast("Any", element))
    if found is None:
        cursor.fail(f"{len(data)} bytes for {kind}")
    return DenseIntOrFPElementsAttr(kind, BytesAttr(found))


def _dense_resource(entries: Entries, cursor: Cursor) -> Attribute:
    kind = _shaped(entries, cursor)
    return DenseResourceAttr(StringAttr(entry_of(cursor, entries.resources, "resource")), kind)


def _dense_strings(entries: Entries, cursor: Cursor) -> Attribute:
    kind = _shaped(entries, cursor)
    is_splat = cursor.number()
    shape = kind.get_shape()
    count = 1 if is_splat else math.prod(shape)
    if count > cursor.left:
        cursor.fail(f"{count} strings are claimed in {cursor.left} bytes")
    texts = [_quoted(entries.any_string(cursor)) for _ in range(count)]
    return entries.parsed(f"{_nested(texts, shape)} : {entries.printed(cast('Attribute', kind))}")


def _nested(texts: list[str], shape: Sequence[int]) -> str:
    """`dense<..>` of these elements, or of the one that all are."""
    if len(texts) > 1:
        for extent in reversed(shape):
            texts = [
                f"[{', '.join(texts[at : at + extent])}]" for at in range(0, len(texts), extent)
            ]
    return f"dense<{texts[0] if texts else ''}>"


def _wide_elements(data: bytes, kind: TensorType[Any], element: Any) -> str | None:
    """`dense<..>` of elements that xDSL cannot hold; None if there are not so many."""
    if isinstance(element, IntegerType):
        width: int = cast("Any", element).width.data
    elif isinstance(element, AnyFloat):
        width = element.bitwidth
    else:
        return None
    size = -(-width // 8)
    count = math.prod(kind.get_shape())
    if len(data) not in (size, size * count):
        return None
    bits = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
    if isinstance(element, IntegerType):
        texts = [str(signed_value(value, cast("IntegerType", element))) for value in bits]
    else:
        texts = [f"0x{value:0{2 * size}X}" for value in bits]
    return _nested(texts, kind.get_shape())


def _sparse(entries: Entries, cursor: Cursor) -> Attribute:
    kind = entries.printed(entries.type(cursor))
    parts = [_literal(entries, cursor) for _ in range(2)]
    return entries.parsed(f"sparse<{', '.join(parts)}> : {kind}")


def _literal(entries: Entries, cursor: Cursor) -> str:
    """What stands between the brackets of `dense<..>`."""
    found = entries.attribute(cursor)
    text = entries.printed(found)
    if not isinstance(found, DenseIntOrFPElementsAttr):
        cursor.fail("sparse elements that are not dense")
    return text[len("dense<") : text.rindex("> : ")]


def _distinct(entries: Entries, cursor: Cursor) -> Attribute:
    # Each entry is an identity of its own.
    found = entries.attribute(cursor)
    entries.distinct += 1
    return entries.parsed(f"distinct[{entries.distinct - 1}]<{entries.printed(found)}>")


# -- locations ---------------------------------------------------------------------


def _unknown_loc(_entries: Entries, _cursor: Cursor) -> Attribute:
    return UnknownLoc()


def _call_site(entries: Entries, cursor: Cursor) -> Attribute:
    return CallSiteLoc(entries.location(cursor), entries.location(cursor))


def _file_loc(entries: Entries, cursor: Cursor) -> Attribute:
    return FileLineColLoc(
        _name(entries, cursor), IntAttr(cursor.number()), _column(cursor.number())
    )


@lru_cache(maxsize=1024)
def _column(number: int) -> IntAttr:
    return IntAttr(number)


def _file_range(entries: Entries, cursor: Cursor) -> Attribute:
    file = entries.printed(_name(entries, cursor))
    places = _list(cursor, Cursor.number)
    if len(places) > 4:
        cursor.fail("a range of more than four numbers")
    line, column, end_line, end_column = (*places, *(0,) * (4 - len(places)))
    if len(places) < 3:
        return entries.parsed(f"loc({file}:{line}:{column})")
    if len(places) == 3:
        return entries.parsed(f"loc({file}:{line}:{column} to :{end_line})")
    return entries.parsed(f"loc({file}:{line}:{column} to {end_line}:{end_column})")


def _fused(entries: Entries, cursor: Cursor) -> Attribute:
    return FusedLoc(ArrayAttr(_list(cursor, entries.location)), NoneAttr())


def _fused_with_metadata(entries: Entries, cursor: Cursor) -> Attribute:
    parts = ArrayAttr(_list(cursor, entries.location))
    return FusedLoc(cast("ArrayAttr[Attribute]", parts), entries.attribute(cursor))


def _name_loc(entries: Entries, cursor: Cursor) -> Attribute:
    name, child = _name(entries, cursor), entries.location(cursor)
    return NameLoc(name, NoneAttr() if isinstance(child, UnknownLoc) else child)


# -- types -------------------------------------------------------------------------


def _integer_type(_entries: Entries, cursor: Cursor) -> Attribute:
    number = cursor.number()
    width, signedness = number >> 2, number & 3
    if signedness > 2 or width >= 1 << 24:
        cursor.fail("an integer type of no such width or signedness")
    return IntegerType(width, _SIGNEDNESS[signedness])


def _plain(kind: TypeAttribute) -> Decoder:
    return lambda entries, cursor: kind


def _function(entries: Entries, cursor: Cursor) -> Attribute:
    return FunctionType.from_lists(_list(cursor, entries.type), _list(cursor, entries.type))


def _complex(entries: Entries, cursor: Cursor) -> Attribute:
    return ComplexType(cast("Any", entries.type(cursor)))


def _shape(cursor: Cursor) -> list[int]:
    shape = _list(cursor, Cursor.signed)
    if any(extent < 0 and extent != DYNAMIC for extent in shape):
        cursor.fail("a negative extent")
    return [DYNAMIC_INDEX if extent == DYNAMIC else extent for extent in shape]


def _tensor(entries: Entries, cursor: Cursor) -> Attribute:
    shape = _shape(cursor)
    return TensorType(entries.type(cursor), shape)


def _tensor_with_encoding(entries: Entries, cursor: Cursor) -> Attribute:
    encoding = entries.attribute(cursor)
    shape = _shape(cursor)
    return TensorType(entries.type(cursor), shape, encoding)


def _tuple(entries: Entries, cursor: Cursor) -> Attribute:
    return TupleType(ArrayAttr(_list(cursor, entries.type)))


def _memref(entries: Entries, cursor: Cursor, space: Attribute | None = None) -> Attribute:
    shape, element = _shape(cursor), entries.type(cursor)
    layout = entries.attribute(cursor)
    if not isinstance(layout, MemRefLayoutAttr):
        # An attribute of a dialect may be a layout too; text can say so.
        prefix = "".join("?x" if extent < 0 else f"{extent}x" for extent in shape)
        rest = [layout] if space is None else [layout, space]
        parts = [f"{prefix}{entries.printed(element)}", *map(entries.printed, rest)]
        return entries.parsed(f"memref<{', '.join(parts)}>")
    is_identity = isinstance(layout, AffineMapAttr) and layout.data == AffineMap.identity(
        len(shape)
    )
    return MemRefType(element, shape, NoneAttr() if is_identity else layout, space or NoneAttr())


def _memref_in_space(entries: Entries, cursor: Cursor) -> Attribute:
    space = entries.attribute(cursor)
    return _memref(entries, cursor, space)


def _unranked_memref(entries: Entries, cursor: Cursor) -> Attribute:
    return UnrankedMemRefType(entries.type(cursor), NoneAttr())


def _unranked_memref_in_space(entries: Entries, cursor: Cursor) -> Attribute:
    space = entries.attribute(cursor)
    return UnrankedMemRefType(entries.type(cursor), space)


def _unranked_tensor(entries: Entries, cursor: Cursor) -> Attribute:
    return UnrankedTensorType(entries.type(cursor))


def _vector(entries: Entries, cursor: Cursor) -> Attribute:
    shape = _list(cursor, Cursor.signed)
    return VectorType(entries.type(cursor), shape)


def _scalable_vector(entries: Entries, cursor: Cursor) -> Attribute:
    scalable = ArrayAttr([BoolAttr(bool(flag), i1) for flag in _list(cursor, Cursor.byte)])
    shape = _list(cursor, Cursor.signed)
    return VectorType(entries.type(cursor), shape, scalable)


ATTRIBUTES: dict[int, Decoder] = {
    Attr.ARRAY: _array,
    Attr.DICTIONARY: _dictionary,
    Attr.STRING: _string,
    Attr.TYPED_STRING: _typed_string,
    Attr.FLAT_SYMBOL: _flat_symbol,
    Attr.SYMBOL: _symbol,
    Attr.TYPE: _type,
    Attr.UNIT: _unit,
    Attr.INTEGER: _integer,
    Attr.FLOAT: _float,
    Attr.CALL_SITE_LOC: _call_site,
    Attr.FILE_LOC: _file_loc,
    Attr.FUSED_LOC: _fused,
    Attr.FUSED_LOC_WITH_METADATA: _fused_with_metadata,
    Attr.NAME_LOC: _name_loc,
    Attr.UNKNOWN_LOC: _unknown_loc,
    Attr.DENSE_RESOURCE: _dense_resource,
    Attr.DENSE_ARRAY: _dense_array,
    Attr.DENSE: _dense,
    Attr.DENSE_STRINGS: _dense_strings,
    Attr.SPARSE: _sparse,
    Attr.DISTINCT: _distinct,
    Attr.FILE_RANGE: _file_range,
}

TYPES: dict[int, Decoder] = {
    Type.INTEGER: _integer_type,
    Type.INDEX: _plain(IndexType()),
    Type.FUNCTION: _function,
    Type.BF16: _plain(BFloat16Type()),
    Type.F16: _plain(Float16Type()),
    Type.F32: _plain(Float32Type()),
    Type.F64: _plain(Float64Type()),
    Type.F80: _plain(Float80Type()),
    Type.F128: _plain(Float128Type()),
    Type.COMPLEX: _complex,
    Type.MEMREF: _memref,
    Type.MEMREF_IN_SPACE: _memref_in_space,
    Type.NONE: _plain(NoneType()),
    Type.TENSOR: _tensor,
    Type.TENSOR_WITH_ENCODING: _tensor_with_encoding,
    Type.TUPLE: _tuple,
    Type.UNRANKED_MEMREF: _unranked_memref,
    Type.UNRANKED_MEMREF_IN_SPACE: _unranked_memref_in_space,
    Type.UNRANKED_TENSOR: _unranked_tensor,
    Type.VECTOR: _vector,
    Type.SCALABLE_VECTOR: _scalable_vector,
}
