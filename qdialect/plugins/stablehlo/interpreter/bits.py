"""Values as the bits that they are stored in, for `bitcast_convert`.

Bits of an element that holds several smaller ones come first to last from the lowest.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, ComplexType, IntegerType, Signedness
from xdsl.ir import Attribute

from qdialect.interpreter.small_floats import is_small_float, width_of_float
from qdialect.interpreter.values import Array, Evaluation
from qdialect.ir.quant import element_type, quant_element
from qdialect.plugins.stablehlo.interpreter.call import wrapped


def bitcast(x: Array, source: Attribute, target: Attribute, evaluation: Evaluation) -> Array:
    """The same bits as elements of another type; a last dimension appears or goes where
    the widths differ."""
    from_bits, to_bits = _width(source), _width(target)
    bits = _bits(x, source, from_bits)
    if from_bits > to_bits:
        parts = from_bits // to_bits
        shifts = np.arange(parts, dtype=np.uint64) * np.uint64(to_bits)
        pieces = [_shifted(bits, int(s)) for s in shifts]
        bits = [_masked(piece, to_bits) for piece in pieces]
        return _values(np.stack(bits, -1), target, to_bits, evaluation)
    if from_bits < to_bits:
        parts = to_bits // from_bits
        wide = bits.astype(object)
        whole = sum((wide[..., p] << (p * from_bits) for p in range(parts)), start=0)
        return _values(np.asarray(whole, object), target, to_bits, evaluation)
    return _values(bits, target, to_bits, evaluation)


def _shifted(bits: Array, by: int) -> Array:
    return np.asarray(bits >> by, object) if bits.dtype == object else bits >> np.uint64(by)


def _masked(bits: Array, width: int) -> Array:
    mask = (1 << width) - 1
    return np.asarray(bits & mask, object) if bits.dtype == object else bits & np.uint64(mask)


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
        halves = np.ascontiguousarray(x[..., None]).view(np.uint64).astype(object)
        return np.asarray(halves[..., 0] + (halves[..., 1] << 64), object)
    plain = np.ascontiguousarray(x)
    if x.dtype.kind != "b":
        plain = plain.view(np.dtype(f"u{x.dtype.itemsize}"))
    wide = plain.astype(np.uint64).reshape(x.shape)
    return wide if width >= 64 else wide & np.uint64((1 << width) - 1)


def _values(bits: Array, kind: Attribute, width: int, evaluation: Evaluation) -> Array:
    element = element_type(kind)
    if isinstance(element, IntegerType):
        return wrapped(np.asarray(bits, object).astype(np.uint64), kind)
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
        low, high = (_masked(_shifted(bits, s), 64).astype(np.uint64) for s in (0, 64))
        return np.stack([low, high], -1).view(np.complex128)[..., 0]
    plain = bits.astype(np.uint64).astype(f"u{dtype.itemsize}")
    return np.ascontiguousarray(plain).view(dtype).reshape(bits.shape)
