"""Weights outside the text: content-addressed tensors, memory-mapped from disk.

A blob is raw little-endian bytes with a dtype name and a shape; its key is a
hash of all three, so equal weights are one blob and two modules in one process
cannot disturb each other.  On disk a store is a safetensors file
(https://huggingface.co/docs/safetensors: 8-byte header length, JSON header, raw
bytes), opened read-only through mmap: nothing is read until it is used.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qdialect.errors import InputError, Where
from qdialect.ir.weights.files import replacing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: element type name in IR text -> (safetensors dtype, bytes per element).  Types
#: narrower than a byte are held one element per byte.
DTYPES: Mapping[str, tuple[str, int]] = {
    "f64": ("F64", 8),
    "f32": ("F32", 4),
    "f16": ("F16", 2),
    "bf16": ("BF16", 2),
    "i64": ("I64", 8),
    "i32": ("I32", 4),
    "i16": ("I16", 2),
    "i8": ("I8", 1),
    "i4": ("I8", 1),
    "i2": ("I8", 1),
    "i1": ("BOOL", 1),
    "ui64": ("U64", 8),
    "ui32": ("U32", 4),
    "ui16": ("U16", 2),
    "ui8": ("U8", 1),
    "f8E4M3FN": ("F8_E4M3", 1),
    "f8E5M2": ("F8_E5M2", 1),
}

_NUMPY = {
    "f64": "<f8",
    "f32": "<f4",
    "f16": "<f2",
    "bf16": "<u2",
    "i64": "<i8",
    "i32": "<i4",
    "i16": "<i2",
    "i8": "i1",
    "i4": "i1",
    "i2": "i1",
    "i1": "?",
    "ui64": "<u8",
    "ui32": "<u4",
    "ui16": "<u2",
    "ui8": "u1",
    "f8E4M3FN": "u1",
    "f8E5M2": "u1",
}

Answer = TypeVar("Answer")

_MAX_HEADER = 100_000_000
_KEY_ENTRY = "qdialect.element_types"


class Blob:
    """One tensor: element type name as in IR text, shape, raw bytes."""

    def __init__(self, element: str, shape: tuple[int, ...], data: memoryview) -> None:
        self.element = element
        self.shape = shape
        self.data = data

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Blob):
            return NotImplemented
        same = (self.element, self.shape) == (other.element, other.shape)
        return same and self.data == other.data

    def array(self) -> NDArray[Any]:
        """A read-only view; types numpy lacks come as their bit patterns (bf16
        as uint16, 8-bit floats as uint8)."""
        return self._array

    @cached_property
    def _array(self) -> NDArray[Any]:
        import numpy as np

        view = np.frombuffer(self.data, np.dtype(_NUMPY[self.element])).reshape(self.shape)
        view.flags.writeable = False
        return view


class BlobStore:
    """Blobs by content key: some in memory, some in mapped files."""

    def __init__(self) -> None:
        self._blobs: dict[str, Blob] = {}
        self._derived: dict[tuple[str, Hashable], Any] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._blobs

    def __len__(self) -> int:
        return len(self._blobs)

    def get(self, key: str) -> Blob:
        """The blob under `key`; InputError (`missing-blob`) if there is none."""
        try:
            return self._blobs[key]
        except KeyError:
            raise InputError(
                f"weight '{key}' is in no open weight store",
                code="missing-blob",
                notes=("is the .safetensors file beside the .mlir file?",),
            ) from None

    def derived(self, key: str, question: Hashable, compute: Callable[[], Answer]) -> Answer:
        """What `compute` finds out about the blob under `key`; found once per `question`,
        and kept with it: let it be small."""
        asked = key, question
        if asked not in self._derived:
            self._derived[asked] = compute()
        return self._derived[asked]

    def add(self, array: np.ndarray[Any, Any], element: str) -> str:
        """Keep `array` (not copied when contiguous) as `element`; returns its key."""
        import numpy as np

        data = np.ascontiguousarray(array, np.dtype(_NUMPY[element])).reshape(array.shape)
        raw = data.reshape(-1).view(np.uint8).data.toreadonly()
        return self.add_bytes(raw, element, tuple(data.shape))

    def add_bytes(self, raw: memoryview, element: str, shape: tuple[int, ...]) -> str:
        """Keep raw little-endian bytes; returns the content key."""
        key = content_key(element, shape, raw)
        if key not in self._blobs:
            self._blobs[key] = Blob(element, shape, raw)
        return key

    def add_named(self, key: str, raw: memoryview, element: str, shape: tuple[int, ...]) -> str:
        """Keep raw little-endian bytes under the name that a file gives them; returns it, or the
        content key where the name stands for another weight already."""
        blob = Blob(element, shape, raw)
        if self._blobs.setdefault(key, blob) == blob:
            return key
        return self.add_bytes(raw, element, shape)

    def open(self, path: str | os.PathLike[str]) -> None:
        """Map a safetensors file and add its tensors under the names in it.

        InputError (`bad-weight-store`) when the file is not a sound store: the
        header is checked against the file size before anything is believed.  A name
        that already stands for another weight is an error: nothing may change what
        modules of this session refer to.
        """
        read = _read(Path(path))
        for key, blob in read.items():
            known = self._blobs.get(key, blob)
            same = (known.element, known.shape) == (blob.element, blob.shape)
            if not same or known.data != blob.data:
                raise InputError(
                    f"tensor '{key}' is not the one that is open under this name",
                    where=Where(file=str(path)),
                    code="bad-weight-store",
                    notes=("load the modules in sessions of their own",),
                )
        self._blobs.update(read)

    def save(self, path: str | os.PathLike[str], keys: Iterable[str]) -> None:
        """Write the blobs named `keys` as a safetensors file, atomically."""
        _write(Path(path), {key: self.get(key) for key in sorted(set(keys))})

    def save_with_old(self, path: Path, keys: Iterable[str]) -> bool:
        """`save`, and keep what a store at `path` has besides; whether it has anything.

        A text that refers to it stays right until it is replaced.
        """
        new = {key: self.get(key) for key in set(keys)}
        try:
            old = _read(path) if path.exists() else {}
        except InputError:  # nothing can refer to it
            old = {}
        both = old | new
        _write(path, {key: both[key] for key in sorted(both)})
        return len(both) > len(new)


def is_possible(shape: Sequence[int]) -> bool:
    """Whether there can be an array of such a shape, even if it has no elements."""
    size = 8
    for extent in shape:
        size *= max(extent, 1)
    return len(shape) <= 32 and min((0, *shape)) >= 0 and size < 1 << 63


def content_key(element: str, shape: tuple[int, ...], raw: memoryview) -> str:
    """128-bit BLAKE2b of element type, shape and bytes, in hex."""
    from hashlib import blake2b

    digest = blake2b(digest_size=16)
    digest.update(f"{element}{list(shape)}".encode())
    digest.update(raw)
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Blob]:
    import json
    from mmap import ACCESS_READ, mmap

    where = Where(file=str(path))

    def bad(reason: str) -> InputError:
        return InputError(f"not a weight store: {reason}", where=where, code="bad-weight-store")

    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise bad("shorter than its length field")
            mapped = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot open weight store: {reason}", where=where) from None
    (length,) = struct.unpack("<Q", mapped[:8])
    if length > min(size - 8, _MAX_HEADER):
        raise bad(f"header of {length} bytes in a file of {size}")
    try:
        header: dict[str, Any] = json.loads(bytes(mapped[8 : 8 + length]))
        elements: dict[str, str] = json.loads(header.pop("__metadata__", {}).get(_KEY_ENTRY, "{}"))
        payload = mapped[8 + length :]
        blobs: dict[str, Blob] = {}
        for key, entry in header.items():
            begin, end = entry["data_offsets"]
            shape = tuple(entry["shape"])
            if any(type(number) is not int for number in (begin, end, *shape)):
                raise bad(f"tensor '{key}' has an offset or extent that is no integer")
            element = elements.get(key) or _element_of(str(entry["dtype"]))
            dtype, width = DTYPES[element]
            count = 1
            for extent in shape:
                count *= extent
            if dtype != entry["dtype"] or not is_possible(shape):
                raise bad(f"tensor '{key}' has an inconsistent type or shape")
            if not 0 <= begin <= end <= len(payload) or end - begin != count * width:
                raise bad(f"tensor '{key}' does not fit the bytes it claims")
            blobs[key] = Blob(element, shape, payload[begin:end])
        return blobs
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise bad(f"malformed header ({type(error).__name__})") from None


def _element_of(dtype: str) -> str:
    found = next((name for name, (tag, _) in DTYPES.items() if tag == dtype), None)
    if found is None:
        raise KeyError(dtype)
    return found


def _write(path: Path, blobs: Mapping[str, Blob]) -> None:
    import json

    header: dict[str, Any] = {
        "__metadata__": {_KEY_ENTRY: json.dumps({k: b.element for k, b in blobs.items()})}
    }
    offset = 0
    for key, blob in blobs.items():
        end = offset + len(blob.data)
        header[key] = {
            "dtype": DTYPES[blob.element][0],
            "shape": list(blob.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for blob in blobs.values():
            file.write(blob.data)
