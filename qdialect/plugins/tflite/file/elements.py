"""Element types of tensors: how their numbers stand in a file, and as arrays.

4-bit and 2-bit numbers stand two and four to a byte, the first in the lowest bits, without
filling up rows (measured on rows of 31, CONV_2D and FULLY_CONNECTED); arrays have one to a byte.
Strings are a count, count + 1 offsets (all int32) and the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Element(NamedTuple):
    """The type of arrays, and how many bits an element takes in a file."""

    array: str
    bits: int


ELEMENTS = {
    "FLOAT32": Element("<f4", 32),
    "FLOAT16": Element("<f2", 16),
    "FLOAT64": Element("<f8", 64),
    "BFLOAT16": Element("<u2", 16),
    "FLOAT8_E4M3FN": Element("u1", 8),
    "FLOAT8_E5M2": Element("u1", 8),
    "INT64": Element("<i8", 64),
    "INT32": Element("<i4", 32),
    "INT16": Element("<i2", 16),
    "INT8": Element("i1", 8),
    "INT4": Element("i1", 4),
    "INT2": Element("i1", 2),
    "UINT64": Element("<u8", 64),
    "UINT32": Element("<u4", 32),
    "UINT16": Element("<u2", 16),
    "UINT8": Element("u1", 8),
    "UINT4": Element("u1", 4),
    "BOOL": Element("?", 8),
    "COMPLEX64": Element("<c8", 64),
    "COMPLEX128": Element("<c16", 128),
}
"""Types whose elements have a size of their own: not strings, and not blocks of several."""

RANGES = {
    **{f"INT{n}": (-(1 << (n - 1)), (1 << (n - 1)) - 1) for n in (2, 4, 8, 16, 32, 64)},
    **{f"UINT{n}": (0, (1 << n) - 1) for n in (4, 8, 16, 32, 64)},
}
"""The least and the greatest code of types that may be quantized."""


def stored_size(type: str, shape: Sequence[int]) -> int | None:
    """The bytes of a constant in a file; None where its type does not tell."""
    element = ELEMENTS.get(type)
    return None if element is None else (prod(shape) * element.bits + 7) // 8


def from_stored(stored: NDArray[Any], type: str, shape: Sequence[int]) -> NDArray[Any]:
    """The elements in the bytes of a file, as a view where it can be one; ValueError."""
    import numpy as np

    if type == "STRING":
        return _strings(stored.tobytes(), tuple(shape))
    if type not in ELEMENTS:
        return stored
    element = ELEMENTS[type]
    if element.bits >= 8:
        if type == "BOOL" and stored.size and stored.max() > 1:
            stored = (stored != 0).view(np.uint8)
        return stored.view(element.array).reshape(shape)
    bits = element.bits
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (stored[:, None] >> shifts).reshape(-1)[: prod(shape)]
    codes = (codes << (8 - bits)).astype(np.uint8)
    signed = element.array == "i1"
    return ((codes.view(np.int8) if signed else codes) >> (8 - bits)).reshape(shape)


def to_stored(data: NDArray[Any], type: str) -> NDArray[Any]:
    """The bytes in a file of the elements of an array (uint8), as a view where it can be one."""
    import numpy as np

    if type == "STRING":
        texts: list[bytes] = list(data.reshape(-1))
        offsets = np.cumsum([4 * (len(texts) + 2), *map(len, texts)])
        head = np.array([len(texts), *offsets], "<i4").tobytes()
        return np.frombuffer(head + b"".join(texts), np.uint8)
    if type not in ELEMENTS:
        return np.ascontiguousarray(data, np.uint8).reshape(-1)
    element = ELEMENTS[type]
    array = np.ascontiguousarray(data, element.array).reshape(-1)
    if element.bits >= 8:
        return array.view(np.uint8)
    bits = element.bits
    each = 8 // bits
    codes = array.view(np.uint8) & np.uint8((1 << bits) - 1)
    codes = np.concatenate([codes, np.zeros(-len(codes) % each, np.uint8)]).reshape(-1, each)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(codes << shifts, axis=1).astype(np.uint8)


def _strings(stored: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
    """Strings as `to_stored` writes them; ValueError where they are not."""
    import numpy as np

    count = int.from_bytes(stored[:4], "little")
    if count != prod(shape):
        raise ValueError(f"{count} strings for {prod(shape)} elements")
    if len(stored) < 4 * (count + 2):
        raise ValueError(f"{len(stored)} bytes are too few for {count} strings")
    offsets = np.frombuffer(stored, "<i4", count + 1, 4).tolist()
    if offsets != sorted(offsets) or offsets[0] < 4 * (count + 2) or offsets[-1] > len(stored):
        raise ValueError("the offsets of its strings are not in order inside of its bytes")
    found = np.empty(count, object)
    found[:] = [stored[a:b] for a, b in pairwise(offsets)]
    return found.reshape(shape)
