"""Decodes the types of the quant dialect, which encodes them itself.

They are read as the text that means the same, so that the rules of the types hold here too;
floats are written as the bits of a double, which is exact.
"""

from __future__ import annotations

from struct import pack, unpack
from typing import Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute

from qdialect.algebra.float_text import FORMATS
from qdialect.algebra.qparams.parameters import QParams
from qdialect.ir.quant.read import QuantSyntaxError, read_any, read_calibrated, read_uniform
from qdialect.ir.quant.types import AnyType, CalibratedType, UniformType
from qdialect.plugins.mlir.bytecode.cursor import Cursor
from qdialect.plugins.mlir.bytecode.entries import Decoder, Entries
from qdialect.plugins.mlir.bytecode.layout import Quant

_PREFIX = {
    (Signedness.SIGNLESS, True): "i",
    (Signedness.SIGNLESS, False): "u",
    (Signedness.SIGNED, True): "si",
    (Signedness.UNSIGNED, False): "ui",
}


def _storage(entries: Entries, cursor: Cursor) -> str:
    flags, kind = cursor.number(), entries.type(cursor)
    if isinstance(kind, IntegerType):
        integer = cast("IntegerType[int, Signedness]", kind)
        prefix = _PREFIX.get((integer.signedness.data, bool(flags & 1)))
        if prefix is None:
            cursor.fail("a storage type of another sign than its flag")
        return f"{prefix}{integer.width.data}"
    if isinstance(kind, AnyFloat):
        return str(kind)
    cursor.fail("a storage type of no numbers")


def _bounds(cursor: Cursor) -> str:
    return f"<{cursor.signed()}:{cursor.signed()}>"


def _double(cursor: Cursor) -> str:
    return f"0x{cursor.signed() & (1 << 64) - 1:016X}"


def _expressed(entries: Entries, cursor: Cursor) -> str:
    return str(entries.type(cursor))


def _param(scale: str, zero_point: int) -> str:
    return f"{scale}:{zero_point}"


def _no_alias(_name: str) -> None:
    return None


def _uniform_of(text: str, cursor: Cursor) -> UniformType:
    try:
        return UniformType(read_uniform(text, 0, _no_alias)[0])
    except QuantSyntaxError as error:
        cursor.fail(error.message)


def _any(entries: Entries, cursor: Cursor, *, has_expressed: bool = False) -> Attribute:
    storage = _storage(entries, cursor)
    expressed = f":{_expressed(entries, cursor)}" if has_expressed else ""
    try:
        return AnyType(read_any(f"<{storage}{_bounds(cursor)}{expressed}>", 0, _no_alias)[0])
    except QuantSyntaxError as error:
        cursor.fail(error.message)


def _any_with_expressed(entries: Entries, cursor: Cursor) -> Attribute:
    return _any(entries, cursor, has_expressed=True)


def _calibrated(entries: Entries, cursor: Cursor) -> Attribute:
    expressed = _expressed(entries, cursor)
    text = f"<{expressed}<{_double(cursor)}:{_double(cursor)}>>"
    try:
        return CalibratedType(read_calibrated(text, 0, _no_alias)[0])
    except QuantSyntaxError as error:
        cursor.fail(error.message)


def _uniform(entries: Entries, cursor: Cursor) -> Attribute:
    start = cursor.at
    flags, kind, expressed = cursor.number(), cursor.number(), cursor.number()
    bits, zero_point = cursor.signed() & (1 << 64) - 1, cursor.signed()
    low, high = cursor.signed(), cursor.signed()
    # Networks have thousands of types that differ in these two numbers only.
    like = entries.uniform_like.get((flags, kind, expressed, low, high))
    (scale,) = unpack("<d", bits.to_bytes(8, "little"))
    if like is None:
        at = Cursor(cursor.data, start, cursor.end)
        storage, name = _storage(entries, at), _expressed(entries, at)
        text = f"<{storage}<{low}:{high}>:{name}, {_param(f'0x{bits:016X}', zero_point)}>"
        found = _uniform_of(text, cursor)
        entries.uniform_like[flags, kind, expressed, low, high] = found.data
        return found
    fmt = FORMATS[like.expressed]
    if not fmt.smallest <= scale <= fmt.largest:
        cursor.fail(f"scale {scale:e} out of expressed type range")
    return UniformType(QParams.per_tensor(like.storage, scale, zero_point, like.expressed))


def _per_axis(entries: Entries, cursor: Cursor) -> Attribute:
    storage, expressed = _storage(entries, cursor), _expressed(entries, cursor)
    axis, bounds = cursor.number(), _bounds(cursor)
    scales = [_double(cursor) for _ in range(cursor.count())]
    zero_points = [cursor.signed() for _ in range(cursor.count())]
    if len(scales) != len(zero_points):
        cursor.fail(f"{len(scales)} scales but {len(zero_points)} zero points")
    params = ",".join(map(_param, scales, zero_points))
    return _uniform_of(f"<{storage}{bounds}:{expressed}:{axis}, {{{params}}}>", cursor)


def _sub_channel(entries: Entries, cursor: Cursor) -> Attribute:
    storage, expressed = _storage(entries, cursor), _expressed(entries, cursor)
    bounds = _bounds(cursor)
    axes = [cursor.signed() for _ in range(cursor.count())]
    sizes = [cursor.signed() for _ in range(cursor.count())]
    scales, zero_points = entries.attribute(cursor), entries.attribute(cursor)
    if (
        len(axes) != len(sizes)
        or not isinstance(scales, DenseIntOrFPElementsAttr)
        or not isinstance(zero_points, DenseIntOrFPElementsAttr)
        or scales.get_shape() != zero_points.get_shape()
    ):
        cursor.fail("blocks, scales and zero points that do not fit each other")
    params = [
        _param(f"0x{pack('>d', scale).hex()}", zero)
        for scale, zero in zip(
            cast("Any", scales.iter_values()), cast("Any", zero_points.iter_values()), strict=True
        )
    ]
    for extent in reversed(scales.get_shape()):
        step = max(extent, 1)
        params = [f"{{{','.join(params[at : at + step])}}}" for at in range(0, len(params), step)]
    blocks = ",".join(f"{axis}:{size}" for axis, size in zip(axes, sizes, strict=True))
    text = f"<{storage}{bounds}:{expressed}:{{{blocks}}}, {params[0] if params else '{}'}>"
    return _uniform_of(text, cursor)


TYPES: dict[int, Decoder] = {
    Quant.ANY: _any,
    Quant.ANY_WITH_EXPRESSED: _any_with_expressed,
    Quant.CALIBRATED: _calibrated,
    Quant.UNIFORM: _uniform,
    Quant.PER_AXIS: _per_axis,
    Quant.SUB_CHANNEL: _sub_channel,
}
