"""Node attributes: as Python values for importers, as IR attributes for `onnx.node`."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute

from qdialect.ir.dialects.attributes import strings
from qdialect.ir.weights import BlobStore
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import ProtoAttr
from qdialect.plugins.onnx.read.tensors import payload_of

if TYPE_CHECKING:
    from onnx import AttributeProto

_BYTE = IntegerType(8, Signedness.UNSIGNED)


def python_value(attribute: AttributeProto) -> Any:
    """Int, float, str, lists of these, or the message itself."""
    value = package("onnx.helper").get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def ir_attribute(attribute: AttributeProto, store: BlobStore) -> Attribute:
    """Numbers, texts and lists of them readably, everything else as `#onnx.proto`."""
    readable = _readable(attribute)
    # The number 0 and an empty list are false.
    return _serialized(attribute, store) if readable is None else readable


def _readable(attribute: AttributeProto) -> Attribute | None:
    kinds = package("onnx").AttributeProto
    match attribute.type:
        case kinds.INT:
            return IntegerAttr(attribute.i, i64)
        case kinds.FLOAT if isfinite(attribute.f):
            return FloatAttr(attribute.f, f64)
        case kinds.INTS:
            return DenseArrayBase.from_list(i64, list(attribute.ints))
        case kinds.FLOATS if all(isfinite(value) for value in attribute.floats):
            return DenseArrayBase.from_list(f64, list(attribute.floats))
        case kinds.STRING:
            text = _text(attribute.s)
            return None if text is None else StringAttr(text)
        case kinds.STRINGS:
            texts = [_text(entry) for entry in attribute.strings]
            known = [text for text in texts if text is not None]
            return strings(known) if len(known) == len(texts) else None
        case _:
            return None


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _serialized(attribute: AttributeProto, store: BlobStore) -> ProtoAttr:
    data = attribute.SerializeToString(deterministic=True)
    kind = package("onnx").AttributeProto.AttributeType.Name(attribute.type).lower()
    tensor = TensorType(_BYTE, [len(data)])
    return ProtoAttr(StringAttr(kind), payload_of(memoryview(data), tensor, store))
