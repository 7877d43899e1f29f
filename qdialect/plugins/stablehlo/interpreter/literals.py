"""Dense attributes as runtime values."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ComplexType,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    TensorType,
)
from xdsl.ir import Attribute

from qdialect.errors import UnsupportedError
from qdialect.interpreter.values import Array, Evaluation
from qdialect.ir.ops.constants import BlobAttr
from qdialect.ir.quant import element_type, quant_element
from qdialect.plugins.stablehlo.interpreter.call import (
    as_element,
    is_integer,
    static_shape,
    wrapped,
)


def literal(value: Attribute, kind: Attribute, evaluation: Evaluation) -> Array:
    """The elements of a dense attribute, or of a weight, as a value of type `kind`."""
    shape = static_shape(kind)
    if isinstance(value, BlobAttr):
        array = np.asarray(evaluation.ctx.blobs.get(value.key.data).array()).reshape(shape)
        return as_element(array, kind, evaluation)
    if isinstance(value, DenseResourceAttr) or not isinstance(value, DenseIntOrFPElementsAttr):
        raise UnsupportedError(f"the elements of {value} are not known here")
    elements = _elements(cast("Any", value))
    if elements.size == 1:
        elements = np.full(shape, elements.reshape(-1)[0], elements.dtype)
    elements = elements.reshape(shape)
    quantized = quant_element(kind)
    if quantized is not None:
        storage = quantized.qparams.storage
        codes = elements.astype(np.int64)
        if not storage.signed:
            codes &= (1 << storage.width) - 1
        return codes.astype(evaluation.dtype(kind))
    return wrapped(elements, kind) if is_integer(kind) else as_element(elements, kind, evaluation)


def _elements(value: DenseIntOrFPElementsAttr) -> Array:
    stored = cast("TensorType[Any]", value.get_type())
    element = element_type(stored)
    if isinstance(element, ComplexType):
        pair = str(cast("ComplexType[Any]", element).element_type)
        return np.frombuffer(value.data.data, "<c8" if pair == "f32" else "<c16")
    name = str(element)
    simple = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "i8": "i1", "ui8": "u1", "i16": "<i2"}
    simple |= {"ui16": "<u2", "i32": "<i4", "ui32": "<u4", "i64": "<i8", "ui64": "<u8"}
    if name in simple:
        return np.frombuffer(value.data.data, simple[name])
    return np.array(value.get_values())
