"""Writing flatbuffers by a schema: the same bytes each time, aligned, weights never copied.

Tables stand in front of what they have, so that all distances but those to vtables lead forward.
The bytes of `Buffer.data` come last, one behind the other, each at a multiple of 16: they are
written to the file from where they are. Where all would be more than a flatbuffer can hold, they
stand behind it, and `Buffer.offset` and `Buffer.size` say where.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qdialect.plugins.tflite.file.schema import Field, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = (1 << 31) - 1
"""Bytes of a flatbuffer at most."""
ALIGNED = 16

_U32 = struct.Struct("<I")
_TEXT = Field(0, "", "string", False, "string", "", None)


def encode(
    schema: Schema,
    identifier: bytes,
    table: str,
    values: Mapping[str, Any],
    largest: int = LARGEST,
) -> Iterator[memoryview]:
    """The pieces of a file, in their order, whose root is `table`.

    `values` are as `Decoder` gives them; of a `Buffer`, what `data` has may be any array.
    """
    encoder = _Encoder(schema, identifier, behind=False)
    encoder.write(table, values)
    if encoder.end() > largest:
        encoder = _Encoder(schema, identifier, behind=True)
        encoder.write(table, values)
    return encoder.pieces()


class _Encoder:
    """Head and bytes of buffers, which stand in the flatbuffer or `behind` it."""

    def __init__(self, schema: Schema, identifier: bytes, behind: bool) -> None:
        self._schema, self._behind = schema, behind
        self._head = bytearray(8)
        self._head[4:8] = identifier
        #: vtables that are written already, by their bytes
        self._vtables: dict[bytes, int] = {}
        #: bytes of buffers, with where the fields that tell their place stand
        self._data: list[tuple[NDArray[Any], tuple[int, ...]]] = []
        #: distances to fill in, last first, and what they lead to: a table has no field here
        self._pending: list[tuple[int, Field | None, Any]] = []

    def write(self, table: str, values: Mapping[str, Any]) -> None:
        """Make the head."""
        self._pending.append((0, None, (table, values)))
        while self._pending:
            at, row, value = self._pending.pop()
            if row is None:
                self._table(at, *value)
            elif row.role == "string" and not row.many:
                self._string(at, value)
            elif row.role == "number":
                self._numbers(at, row, value)
            else:
                self._distances(at, row, value)

    # -- tables -------------------------------------------------------------------------

    def _table(self, at: int, name: str, values: Mapping[str, Any]) -> None:
        present = list(self._present(name, values))
        layout = sorted(present, key=lambda entry: (-entry[0].packing.size, entry[0].slot))
        wide = any(row.packing.size == 8 for row, _ in layout)
        places: dict[str, int] = {}
        size = 4
        entries = [0] * (max((row.slot for row, _ in present), default=-1) + 1)
        for row, _ in layout:
            entries[row.slot] = places[row.name] = size
            size += row.packing.size
        vtable = struct.pack(f"<{2 + len(entries)}H", 4 + 2 * len(entries), size, *entries)
        if vtable not in self._vtables:
            self._vtables[vtable] = self._align(4)
            self._head += vtable
        # The fields begin 4 bytes behind the start, the widest first.
        start = self._align(8, 4) if wide else self._align(4)
        self._point(at, start)
        self._head += struct.pack("<i", start - self._vtables[vtable]) + bytes(size - 4)
        if name == "Buffer" and values.get("data") is not None:
            self._data.append(
                (values["data"], tuple(start + places[row.name] for row, _ in present))
            )
            return
        later: list[tuple[int, Field | None, Any]] = []
        for row, value in present:
            place = start + places[row.name]
            if _is_plain(row):
                row.packing.pack_into(self._head, place, value)
            elif row.role == "union":
                later.append((place, None, value))
            elif row.role == "table" and not row.many:
                later.append((place, None, (row.type, value)))
            else:
                later.append((place, row, value))
        self._pending.extend(reversed(later))

    def _present(self, name: str, values: Mapping[str, Any]) -> Iterator[tuple[Field, Any]]:
        """The fields of a table that are not as the schema has them anyway; enums as numbers."""
        rows = self._schema.tables[name]
        if name == "Buffer" and values.get("data") is not None:
            yield from ((row, 0) for row in rows if (row.name != "data") == self._behind)
            return
        for row, following in zip(rows, (*rows[1:], None), strict=False):
            if row.role == "tag":
                union = values.get(following.name) if following is not None else None
                if union is not None:
                    yield row, self._schema.enums[row.enum].numbers[union[0]]
                continue
            value = values.get(row.name)
            if value is None:
                continue
            if not _is_plain(row):
                yield row, value
                continue
            number, default = self._number(row, value), self._number(row, row.default)
            if row.packing.pack(number) != row.packing.pack(default):
                yield row, number

    def _number(self, row: Field, value: Any) -> Any:
        if row.enum and isinstance(value, str):
            return self._schema.enums[row.enum].numbers[value]
        return value

    # -- vectors ------------------------------------------------------------------------

    def _string(self, at: int, value: str) -> None:
        text = value.encode()
        self._point(at, self._align(4))
        self._head += _U32.pack(len(text)) + text + b"\0"

    def _numbers(self, at: int, row: Field, value: Any) -> None:
        import numpy as np

        array = np.ascontiguousarray(value, np.dtype(row.type).newbyteorder("<"))
        unit = ALIGNED if row.type == "uint8" else max(row.width, 4)
        self._align(unit, unit - 4)
        self._point(at, len(self._head))
        self._head += _U32.pack(array.size)
        self._head += array.tobytes()

    def _distances(self, at: int, row: Field, values: Sequence[Any]) -> None:
        start = self._align(4)
        self._point(at, start)
        self._head += _U32.pack(len(values)) + bytes(4 * len(values))
        for index, value in reversed(list(enumerate(values))):
            place = start + 4 + 4 * index
            if row.role == "string":
                self._pending.append((place, _TEXT, value))
            else:
                self._pending.append((place, None, (row.type, value)))

    # -- places -------------------------------------------------------------------------

    def _align(self, unit: int, remainder: int = 0) -> int:
        """Fill up to a position that is `remainder` modulo `unit`; the position."""
        self._head += bytes((remainder - len(self._head)) % unit)
        return len(self._head)

    def _point(self, at: int, target: int) -> None:
        _U32.pack_into(self._head, at, target - at)

    # -- the bytes of buffers -----------------------------------------------------------

    def end(self) -> int:
        """How many bytes head and buffers take."""
        return max(
            (start + data.nbytes for data, _, start in self._places()), default=len(self._head)
        )

    def _places(self) -> Iterator[tuple[NDArray[Any], tuple[int, ...], int]]:
        """The bytes of buffers and where they begin; their lengths stand in front of them."""
        end = len(self._head)
        for data, fields in self._data:
            start = end if self._behind else end + 4
            start += -start % ALIGNED
            yield data, fields, start
            end = start + data.nbytes

    def pieces(self) -> Iterator[memoryview]:
        """Head, then the bytes of buffers with what lies between them."""
        places = list(self._places())
        for data, fields, start in places:
            if self._behind:
                for place, number in zip(fields, (start, data.nbytes), strict=True):
                    struct.pack_into("<Q", self._head, place, number)
            else:
                self._point(fields[0], start - 4)
        end = len(self._head)
        yield memoryview(self._head)
        for data, _, start in places:
            length = b"" if self._behind else _U32.pack(data.nbytes)
            yield memoryview(bytes(start - end - len(length)) + length)
            if data.nbytes:
                yield data.reshape(-1).view("u1").data
            end = start + data.nbytes


def _is_plain(row: Field) -> bool:
    return row.role in ("number", "tag") and not row.many
