"""Reading flatbuffers by a schema, trusting nothing in them.

Each distance, vtable and vector is checked against the bytes there are before it is followed, and
how many tables and elements are visited is bounded: tables may be shared, and a small file may
name one of them a million times. Vectors of numbers are views of the file, never copies.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qdialect.errors import InputError, Where
from qdialect.plugins.tflite.file.schema import Field, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

CODE = "invalid-tflite"

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")


@dataclass
class Bytes:
    """The bytes of a file: `data` is a buffer (mapped, or in memory), `name` for messages."""

    data: memoryview
    name: str
    #: how many more tables and elements may be visited
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = len(self.data) // 4 + 1024

    def bad(self, place: str, reason: str) -> InputError:
        """The error of a place, a path of fields or the name of a tensor or op."""
        return InputError(reason, where=Where(self.name, node=place), code=CODE)

    def visit(self, place: str, count: int = 1) -> None:
        """Count what is visited; InputError where it is more than a file of this size has."""
        self.left -= count
        if self.left < 0:
            raise self.bad(place, "the file repeats its tables more often than its size allows")

    def numbers(self, place: str, start: int, count: int, type: str, width: int) -> NDArray[Any]:
        """A view of `count` numbers of `width` bytes from `start`."""
        import numpy as np

        self.within(place, start, count * width)
        return np.frombuffer(self.data, np.dtype(type).newbyteorder("<"), count, start)

    def within(self, place: str, start: int, size: int) -> None:
        """InputError where bytes are not all in the file."""
        if start < 0 or size > len(self.data) - start:
            raise self.bad(place, f"{size} bytes at {start} are outside of the {len(self.data)}")


Place = Callable[[], str]


class Decoder:
    """Turns tables into dicts by the names of fields: enums are names (numbers where the schema
    has none), a union is the name of its table with its dict, what is absent its default."""

    def __init__(self, contents: Bytes, schema: Schema) -> None:
        self._contents, self._schema = contents, schema

    def root(self, table: str) -> dict[str, Any]:
        """The table that the file begins with."""
        contents = self._contents
        if len(contents.data) < 8:
            raise contents.bad(
                table, f"the file has {len(contents.data)} bytes, too few for a flatbuffer"
            )
        return self._table(table, _U32.unpack_from(contents.data, 0)[0], lambda: table)

    def _table(self, name: str, at: int, place: Place) -> dict[str, Any]:
        contents = self._contents
        data, size = contents.data, len(contents.data)
        if at > size - 4:
            raise contents.bad(place(), f"the table {name} at {at} is outside of the {size} bytes")
        vtable = at - _I32.unpack_from(data, at)[0]
        if not 0 <= vtable <= size - 4:
            raise contents.bad(place(), f"the vtable of {name} at {vtable} is outside of the file")
        length, extent = _U16.unpack_from(data, vtable)[0], _U16.unpack_from(data, vtable + 2)[0]
        if length < 4 or length % 2 or vtable + length > size:
            raise contents.bad(place(), f"the vtable of {name} has {length} bytes")
        if extent < 4 or at + extent > size:
            raise contents.bad(place(), f"the table {name} has {extent} bytes")
        contents.visit(place(), 2) if contents.left < 2 else None
        contents.left -= 2
        values = dict(self._schema.defaults(name))
        tag = 0
        for row in self._schema.tables[name]:
            slot = 4 + 2 * row.slot
            offset = _U16.unpack_from(data, vtable + slot)[0] if slot + 2 <= length else 0
            if not offset:
                tag = 0 if row.role == "tag" else tag
                continue
            if offset < 4 or offset + row.packing.size > extent:
                raise contents.bad(f"{place()}.{row.name}", f"lies outside of its table {name}")
            value = row.packing.unpack_from(data, at + offset)[0]
            if row.role == "tag":
                tag = value
            elif row.role == "number" and not row.many:
                values[row.name] = self._number(row, value)
            else:
                values[row.name] = self._behind(
                    row, at + offset + value, tag, lambda row=row: f"{place()}.{row.name}"
                )
        return values

    def _number(self, row: Field, value: Any) -> Any:
        if row.enum:
            return self._schema.enums[row.enum].names.get(value, value)
        return bool(value) if row.type == "bool" else value

    def _behind(self, row: Field, at: int, tag: int, place: Place) -> Any:
        """What a distance leads to: a vector, a string, a table, or that of a union."""
        if row.role == "union":
            return self._union(row, at, tag, place)
        if row.role == "table" and not row.many:
            return self._table(row.type, at, place)
        if row.role == "string" and not row.many:
            return self._string(at, place)
        contents = self._contents
        count = self._count(at, row.width, place)
        if row.role == "number":
            if row.type != "uint8":
                contents.visit(place(), count // 4)
            return contents.numbers(place(), at + 4, count, row.type, row.width)
        contents.visit(place(), count)
        found: list[Any] = []
        for index in range(count):
            position = at + 4 + 4 * index
            position += _U32.unpack_from(contents.data, position)[0]
            if row.role == "string":
                found.append(self._string(position, lambda index=index: f"{place()}[{index}]"))
            else:
                found.append(
                    self._table(row.type, position, lambda index=index: f"{place()}[{index}]")
                )
        return found

    def _union(self, row: Field, at: int, tag: int, place: Place) -> Any:
        if tag == 0:
            return None
        name = self._schema.enums[row.enum].names.get(tag)
        if name is None:
            raise self._contents.bad(place(), f"{row.enum} has no member {tag} that we know")
        return name, self._table(name, at, place)

    def _count(self, at: int, width: int, place: Place) -> int:
        contents = self._contents
        contents.within(place(), at, 4)
        count: int = _U32.unpack_from(contents.data, at)[0]
        if count * width > len(contents.data) - at - 4:
            raise contents.bad(place(), f"{count} elements at {at} are more than the file has")
        return count

    def _string(self, at: int, place: Place) -> str:
        count = self._count(at, 1, place)
        self._contents.visit(place(), count // 16)
        text = bytes(self._contents.data[at + 4 : at + 4 + count])
        return text.decode("utf-8", "backslashreplace")
