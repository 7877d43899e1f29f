"""Values as the bits that they are stored in, for `bitcast_convert`.

Bits of an element that holds several smaller ones come first to last from the lowest.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, ComplexType, IntegerType, Signedness
from xdsl.ir import Attribute

from qdialect.quant import element_type, quant_element
from qdialect.reference.stablehlo.call import wrapped
from qdialect.reference.stablehlo.small_floats import is_small_float, width_of_float
from qdialect.reference.values import Array, Evaluation


def bitcast(x: Array, source: Attribute, target: Attribute, evaluation: Evaluation) -> Array:
    """The same bits as elements of another type; a last dimension appears or goes where
    the widths differ."""
    from_bits, to_bits = _width(source), _width(target)
    bits = _bits(x, source, from_bits)
    if from_bits > to_bits:
        parts = from_bits // to_bits
        shifts = np.arange(parts, dtype=np.uint64) * np.uint64(to_bits)
        pieces = [_shifted(bits, int(s)) for s in shifts]
        bits = [piece & ((1 << to_bits) - 1) for piece in pieces]
        return _values(np.stack(bits, -1), target, to_bits, evaluation)
    if from_bits < to_bits:
        parts = to_bits // from_bits
        whole = np.zeros(bits.shape[:-1], object)
        for place in range(parts):
            whole = whole + (bits[..., place].astype(object) << (place * from_bits))
        return _values(whole, target, to_bits, evaluation)
    return _values(bits, target, to_bits, evaluation)


def _shifted(bits: Array, by: int) -> Array:
    return bits >> by if bits.dtype == object else bits >> np.uint64(by)


def _width(kind: Attribute) -> int:
    quantized = quant_element(kind)
    if quantized is not None:
        return quantized.qparams.storage.width
    element = element_type(kind)
    if isinstance(element, IntegerType):
        return cast("IntegerType[int, Signedness]", element).width.data
    if isinstance(element, ComplexType):
        return 2 * _width(cast("ComplexType[Any]", element).element_type)
    name = str(element)
    if is_small_float(name):
        return width_of_float(name)
    return {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}[name]


def _bits(x: Array, kind: Attribute, width: int) -> Array:
    """Unsigned integers of the width."""
    if isinstance(element_type(kind), BFloat16Type):
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint64)
    if x.dtype.kind == "c" and width == 128:
        halves = np.ascontiguousarray(x)[..., None].view(np.uint64).astype(object)
        return halves[..., 0] + (halves[..., 1] << 64)
    plain = np.ascontiguousarray(x)
    if x.dtype.kind != "b":
        plain = plain.view(np.dtype(f"u{x.dtype.itemsize}"))
    wide = plain.astype(np.uint64).reshape(x.shape)
    return wide if width >= 64 else wide & np.uint64((1 << width) - 1)


def _values(bits: Array, kind: Attribute, width: int, evaluation: Evaluation) -> Array:
    element = element_type(kind)
    if isinstance(element, IntegerType):
        return wrapped(bits.astype(np.uint64), kind)
    quantized = quant_element(kind)
    dtype = evaluation.dtype(kind)
    if quantized is not None:
        integer = IntegerType(width, Signedness.SIGNLESS)
        codes = wrapped(bits.astype(np.uint64), integer)
        storage = quantized.qparams.storage
        if not storage.signed:
            codes = codes.astype(np.int64) & ((1 << width) - 1)
        return codes.astype(dtype)
    if isinstance(element, BFloat16Type):
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if dtype.kind == "c" and width == 128:
        low = (bits & ((1 << 64) - 1)).astype(np.uint64)
        high = (bits >> 64).astype(np.uint64)
        return np.stack([low, high], -1).view(np.complex128)[..., 0]
    size = dtype.itemsize
    return np.ascontiguousarray(bits.astype(np.uint64).astype(f"u{size}")).view(dtype)
