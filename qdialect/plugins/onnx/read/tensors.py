"""Tensors of a model file as raw bytes: inline, in typed fields, or in side files.

Nothing is believed before it is checked against the bytes that are there, so
memory stays bounded by the size of the files.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    IntegerType,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute

from qdialect.errors import InputError, Where
from qdialect.ir.ops import BlobAttr, ConstantOp
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.constants import INLINE_LIMIT, Payload, element_name
from qdialect.ir.quant import UniformType
from qdialect.ir.quant.elements import integer_width
from qdialect.ir.weights import DTYPES, Blob, BlobStore, is_possible, within
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import ELEMENTS, STRING

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import TensorProto


ELEMENT_NAMES = {element: element_name(element) for element in ELEMENTS.values()}
"""How the weight store spells the element types of `ELEMENTS`."""


def stored_float(element: UniformType) -> Attribute:
    """The float type of float storage."""
    keyword = element.qparams.storage.keyword
    return next(kind for kind, name in ELEMENT_NAMES.items() if name == keyword)


class TensorReader:
    """Gives the bytes of `TensorProto`s of one model file; `weights` are those of it that were
    not parsed, by the locations they have in place of a file."""

    def __init__(
        self,
        file: str | None,
        folder: Path | None,
        weights: Mapping[str, memoryview] | None = None,
    ) -> None:
        self._file = file
        self._folder = folder
        self._weights = weights or {}
        self._mapped: dict[Path, memoryview] = {}

    def element(self, tensor: TensorProto) -> Attribute:
        """The element type; InputError for a data type that does not exist."""
        try:
            return ELEMENTS[tensor.data_type]
        except KeyError:
            raise self._bad(tensor, f"has the unknown data type {tensor.data_type}") from None

    def check(self, tensor: TensorProto) -> None:
        """InputError unless the tensor holds exactly the data its type and shape need."""
        element = self.element(tensor)
        if min((0, *tensor.dims)) < 0:
            raise self._bad(tensor, f"has a negative extent in {list(tensor.dims)}")
        if element == STRING:
            return
        self._check_size(tensor, element)
        if not is_possible(tensor.dims):
            raise self._bad(tensor, f"has the shape {list(tensor.dims)}, which no array has")

    def _check_size(self, tensor: TensorProto, element: Attribute) -> None:
        if self._is_external(tensor) or tensor.HasField("raw_data"):
            found = len(self._packed(tensor)) if self._is_external(tensor) else len(tensor.raw_data)
            needed = (prod(tensor.dims) * _bits(element) + 7) // 8
            if found != needed:
                raise self._bad(tensor, f"holds {found} bytes, but its shape needs {needed}")
            return
        found = max(
            len(tensor.float_data),
            len(tensor.int32_data),
            len(tensor.int64_data),
            len(tensor.double_data),
            len(tensor.uint64_data),
        )
        if found * 8 < prod(tensor.dims) * min(8, _bits(element)) * _entries(element):
            raise self._bad(tensor, f"holds {found} values, but has shape {list(tensor.dims)}")

    def raw(self, tensor: TensorProto) -> memoryview:
        """Little-endian bytes, elements narrower than a byte one per byte."""
        import numpy as np

        element = self.element(tensor)
        if self._is_external(tensor) or tensor.HasField("raw_data"):
            packed = self._packed(tensor)
            bits = _bits(element)
            if bits >= 8:
                return packed
            return _unpack(packed, bits, prod(tensor.dims), element)
        values: NDArray[Any] = package("onnx.numpy_helper").to_array(tensor)
        if (integer_width(element) or 8) < 8 and values.dtype != np.bool_:
            values = values.astype(np.int8)
        return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data.toreadonly()

    def array(self, tensor: TensorProto) -> NDArray[Any] | None:
        """The value; None for types the weight store does not hold."""
        name = ELEMENT_NAMES[self.element(tensor)]
        if name not in DTYPES:
            return None
        return Blob(name, tuple(tensor.dims), self.raw(tensor)).array()

    def constant(self, tensor: TensorProto, element: Attribute, store: BlobStore) -> ConstantOp:
        """A constant op for the tensor under element type `element`: its own type, or
        a quantized type it holds the stored integers of."""
        stored = element
        if isinstance(element, UniformType):
            stored = IntegerType(element.qparams.storage.width)
        shape = tuple(tensor.dims)
        raw = self.raw(tensor)
        width = integer_width(stored)
        if width in (2, 4):
            raw = _sign_extended(raw, width)
        value = payload_of(raw, ranked(stored, shape), store)
        return ConstantOp(value, ranked(element, shape))

    # -- data outside the message -----------------------------------------------

    def has_file(self, tensor: TensorProto) -> bool:
        """Whether the data is in a file beside the model."""
        if not self._is_external(tensor):
            return False
        return not any(entry.value in self._weights for entry in tensor.external_data)

    def _is_external(self, tensor: TensorProto) -> bool:
        return tensor.data_location == package("onnx").TensorProto.EXTERNAL

    def _packed(self, tensor: TensorProto) -> memoryview:
        if not self._is_external(tensor):
            return memoryview(tensor.raw_data)
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if (inside := self._weights.get(entries.get("location", ""))) is not None:
            return inside
        mapped = self._map(tensor, entries.get("location", ""))
        try:
            offset = int(entries.get("offset", "0"))
            length = int(entries.get("length", str(len(mapped) - offset)))
        except ValueError:
            raise self._bad(tensor, "has an external offset or length that is no number") from None
        if offset < 0 or length < 0 or offset + length > len(mapped):
            raise self._bad(
                tensor, f"lies outside its external file (bytes {offset} to {offset + length})"
            )
        return mapped[offset : offset + length]

    def _map(self, tensor: TensorProto, location: str) -> memoryview:
        if self._folder is None:
            raise self._bad(tensor, "is in an external file, but the model came without a folder")
        path = within(self._folder, location)
        if path is None:
            raise self._bad(tensor, f"is in {location!r}, outside the folder of the model")
        if path not in self._mapped:
            if os.path.exists(path) and not path.is_file():
                # Nobody may ever write to a pipe.
                raise self._bad(tensor, f"is in '{location}', which is no file")
            try:
                with path.open("rb") as file:
                    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise self._bad(
                    tensor, f"is in '{location}', which cannot be read: {reason}"
                ) from None
            self._mapped[path] = memoryview(data)
        return self._mapped[path]

    def _bad(self, tensor: TensorProto, reason: str) -> InputError:
        return InputError(
            f"initializer '{tensor.name}' {reason}",
            where=Where(file=self._file),
            code="bad-initializer",
        )


def payload_of(raw: memoryview, kind: TensorType[Any], store: BlobStore) -> Payload:
    """Bytes as an attribute of type `kind`: inline if small, else in `store`.

    Infinities and NaNs go to the store: as text, xDSL does not read them back.
    """
    shape = kind.get_shape()
    if prod(shape) <= INLINE_LIMIT and _is_finite(raw, kind.element_type):
        return DenseIntOrFPElementsAttr(kind, BytesAttr(bytes(raw)))
    key = store.add_bytes(raw, element_name(kind.element_type), shape)
    return BlobAttr(StringAttr(key), kind)


def _is_finite(raw: memoryview, element: Attribute) -> bool:
    import numpy as np

    if ELEMENT_NAMES[element] not in ("f32", "f16", "f64"):
        return True
    return bool(np.isfinite(np.frombuffer(raw, f"<f{_bits(element) // 8}")).all())


def _bits(element: Attribute) -> int:
    width = integer_width(element)
    if width is not None:
        return 8 if width == 1 else width
    if isinstance(element, ComplexType):
        return 2 * _bits(cast("ComplexType[Any]", element).element_type)
    return element.bitwidth if isinstance(element, FixedBitwidthType) else 8


def _entries(element: Attribute) -> int:
    return 2 if isinstance(element, ComplexType) else 1


def _unpack(packed: memoryview, bits: int, count: int, element: Attribute) -> memoryview:
    """Elements of 2 or 4 bits, lowest first, as one byte each (signed: sign extended)."""
    import numpy as np

    data = np.frombuffer(packed, np.uint8)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = ((data[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    signed = integer_width(element) is not None and not ELEMENT_NAMES[element].startswith("u")
    unpacked = np.ascontiguousarray(values.astype(np.uint8)).data.toreadonly()
    return _sign_extended(unpacked, bits) if signed else unpacked


def _sign_extended(raw: memoryview, bits: int) -> memoryview:
    """Elements of `bits` bits, one per byte, as text of a signless type gives them."""
    import numpy as np

    values = np.frombuffer(raw, np.uint8)
    high = np.uint8(256 - (1 << bits))
    extended = np.where(values & np.uint8(1 << (bits - 1)), values | high, values)
    return extended.astype(np.uint8).data.toreadonly()
