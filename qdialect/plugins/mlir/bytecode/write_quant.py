"""Encodes the types of the quant dialect as that does; those it has no encoding for are text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, get_args

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute

from qdialect.algebra.qparams.parameters import Layout, QParams, Storage
from qdialect.ir.quant.text_version import TextVersion, current_version
from qdialect.ir.quant.types import AnyType, CalibratedType, UniformType
from qdialect.plugins.mlir.bytecode.emitter import Numbering, number, signed, signed_numbers
from qdialect.plugins.mlir.bytecode.layout import Quant
from qdialect.plugins.mlir.bytecode.numbers import signed_value
from qdialect.plugins.mlir.bytecode.write_builtin import double


def encoded(writer: Numbering, kind: Attribute) -> bytes | None:
    """The bytes of a type; None if it is written as text."""
    if isinstance(kind, UniformType):
        return _uniform(writer, kind.data)
    if isinstance(kind, CalibratedType):
        expressed = number(writer.type(_float(kind.data.expressed)))
        low, high = double(kind.data.min), double(kind.data.max)
        return number(Quant.CALIBRATED) + expressed + low + high
    if isinstance(kind, AnyType):
        storage = _storage(writer, kind.data.storage)
        if storage is None:
            return None
        bounds = _bounds(kind.data.storage)
        if kind.data.expressed is None:
            return number(Quant.ANY) + storage + bounds
        expressed = number(writer.type(_float(kind.data.expressed)))
        return number(Quant.ANY_WITH_EXPRESSED) + storage + expressed + bounds
    return None


_FLOATS: dict[str, Attribute] = {kind.name: kind() for kind in get_args(AnyFloat)}


def _float(name: str) -> Attribute:
    return _FLOATS[name]


def _integer(storage: Storage) -> IntegerType:
    """What holds stored values; MLIR 22 knows only integers without a sign here."""
    if current_version() is TextVersion.V24 and storage.keyword in ("si", "ui"):
        sign = Signedness.SIGNED if storage.signed else Signedness.UNSIGNED
        return IntegerType(storage.width, sign)
    return IntegerType(storage.width)


def _storage(writer: Numbering, storage: Storage) -> bytes | None:
    if storage.quantile is not None:
        return None
    kind = _float(storage.keyword) if storage.is_float else _integer(storage)
    return number(int(storage.signed)) + number(writer.type(kind))


@lru_cache(maxsize=64)
def _bounds(storage: Storage) -> bytes:
    return signed(storage.min) + signed(storage.max)


def _uniform(writer: Numbering, qparams: QParams) -> bytes | None:
    key = qparams.storage, qparams.expressed
    head = writer.heads.get(key)
    if head is None:
        storage = _storage(writer, qparams.storage)
        if storage is None:
            return None
        head = writer.heads[key] = storage + number(writer.type(_float(qparams.expressed)))
    bounds = _bounds(qparams.storage)
    if qparams.layout is Layout.TENSOR:
        params = double(qparams.scale) + signed(qparams.zero_point)
        return number(Quant.UNIFORM) + head + params + bounds
    scales, zero_points = qparams.scale_list(), qparams.zero_point_list()
    if qparams.layout is Layout.AXIS:
        params = number(len(scales)) + b"".join(map(double, scales)) + signed_numbers(zero_points)
        return number(Quant.PER_AXIS) + head + number(qparams.blocks[0][0]) + bounds + params
    width = qparams.storage.width
    stored = [signed_value(zero & (1 << width) - 1, IntegerType(width)) for zero in zero_points]
    blocks = signed_numbers([axis for axis, _ in qparams.blocks])
    blocks += signed_numbers([size for _, size in qparams.blocks])
    return (
        number(Quant.SUB_CHANNEL)
        + head
        + bounds
        + blocks
        + _elements(writer, _float(qparams.expressed), qparams.grid, scales)
        + _elements(writer, IntegerType(width), qparams.grid, stored)
    )


def _elements(writer: Numbering, element: Any, shape: tuple[int, ...], values: list[Any]) -> bytes:
    data = BytesAttr(element.pack(values))
    dense = DenseIntOrFPElementsAttr(TensorType(element, shape), data)
    return number(writer.attribute(dense))
