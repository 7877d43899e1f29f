"""Properties of ops from version 5 of bytecode on, where each op encodes its own.

What an op of upstream's encodes follows from its row in the tables of `upstream`: its inherent
attributes in the order of their names, each as a number; one that may be absent has a flag for
that in the lowest bit. The sizes of its groups of operands and results stand among them in
version 5; in version 6 they are behind them, as arrays of numbers:

    linalg.generic    doc? indexing_maps iterator_types library_call? operandSegmentSizes

An op that was not registered where the file was written has its properties as a dictionary.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, i32
from xdsl.ir import Attribute

from qdialect.errors import InputError, UnsupportedError
from qdialect.plugins.mlir.bytecode.cursor import Cursor
from qdialect.plugins.mlir.bytecode.emitter import number
from qdialect.plugins.mlir.bytecode.entries import Entries
from qdialect.plugins.mlir.bytecode.layout import NATIVE_SEGMENTS

if TYPE_CHECKING:
    from qdialect.plugins.mlir.bytecode.write_entries import EntryWriter

_OLDER = "files of version 4 have properties as a dictionary: --emit-bytecode-version=4"
_INDEX_BITS = 8
"""The most bits that the place of a size may take."""


class _Item(NamedTuple):
    name: str
    presence: str
    """`required`, `optional` or `sizes`."""
    groups: int = 0
    """How many groups there are sizes of."""


@cache
def _items(name: str) -> tuple[_Item, ...] | None:
    """What the properties of an op are, in order; None if that is not known."""
    from qdialect.plugins.mlir.upstream.table import find_row

    row = find_row(name)
    if row is None:
        return None
    items = [
        _Item(
            kind.name,
            "required" if kind.presence == "required" else "optional",
        )
        for kind in row.properties.values()
    ]
    if "operand-segments" in row.traits:
        items.append(_Item("operandSegmentSizes", "sizes", len(row.operands)))
    if "result-segments" in row.traits:
        items.append(_Item("resultSegmentSizes", "sizes", len(row.results)))
    return tuple(sorted(items, key=lambda item: item.name))


def has_row(name: str) -> bool:
    """Whether it is known how an op encodes its properties."""
    return _items(name) is not None


def inherent_names(name: str) -> frozenset[str]:
    """The names of the properties of an op that has a row; none for others."""
    return frozenset(item.name for item in _items(name) or ())


class PropertyReader:
    """The section of properties of one file."""

    def __init__(self, cursor: Cursor | None, entries: Entries, version: int) -> None:
        self._entries = entries
        self._version = version
        self._parts: list[Cursor] = []
        if cursor is not None and cursor.left:
            for _ in range(cursor.count()):
                self._parts.append(cursor.part(cursor.number()))
            cursor.finish("the properties")

    def read(
        self, name: str, is_registered: bool, index: int, cursor: Cursor
    ) -> dict[str, Attribute]:
        """The properties with this number, of an op of this name."""
        if index >= len(self._parts):
            cursor.fail(f"there are no properties {index}: there are {len(self._parts)}")
        whole = self._parts[index]
        part = Cursor(whole.data, whole.at, whole.end)
        items = _items(name) if is_registered else None
        if items is not None:
            found = self._native(items, part)
        elif is_registered:
            raise InputError(
                f"how the properties of '{name}' are encoded is not known here",
                code="unknown-properties",
                notes=(_OLDER,),
            )
        else:
            dictionary = self._entries.attribute(part)
            if not isinstance(dictionary, DictionaryAttr):
                part.fail("the properties of an op are no dictionary")
            found = dict(dictionary.data)
        part.finish("the properties of an op")
        return found

    def _native(self, items: tuple[_Item, ...], part: Cursor) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        has_arrays = self._version >= NATIVE_SEGMENTS
        for item in items:
            if item.presence == "required" or (item.presence == "sizes" and not has_arrays):
                found[item.name] = self._entries.attribute(part)
            elif item.presence == "optional":
                at, is_there = part.flagged()
                if is_there:
                    found[item.name] = self._entries.attribute_at(at, part)
        for item in items if has_arrays else ():
            if item.presence == "sizes":
                found[item.name] = DenseArrayBase.from_list(i32, _sizes(part, item.groups))
        return found


def _sizes(cursor: Cursor, count: int) -> list[int]:
    """An array of `count` numbers, of which those that are 0 may be left out."""
    sizes = [0] * count
    written, is_sparse = cursor.flagged()
    if not written:
        return sizes
    if written > count:
        cursor.fail(f"{written} sizes of {count} groups")
    bits = cursor.number() if is_sparse else 0
    if bits > _INDEX_BITS:
        cursor.fail(f"places of {bits} bits")
    for index in range(written):
        value = cursor.number()
        place = value & (1 << bits) - 1 if is_sparse else index
        value >>= bits
        if place >= count or value >= 1 << 31:
            cursor.fail("a size of no such group")
        sizes[place] = value
    return sizes


class PropertyWriter:
    """Encodes properties, equal ones once."""

    def __init__(self, writer: EntryWriter, version: int) -> None:
        self._writer = writer
        self._version = version
        self._known: dict[bytes, int] = {}

    def write(
        self, name: str, is_known: bool, found: dict[str, Attribute]
    ) -> tuple[int | None, dict[str, Attribute]]:
        """The number of the properties among `found`, None if an op has none, and the rest.

        `is_known` says whether readers may have the op; what is not known is a dictionary.
        """
        items = _items(name)
        if items is None:
            if not found:
                return None, found
            if is_known:
                raise UnsupportedError(
                    f"how the properties of '{name}' are encoded is not known here",
                    notes=(_OLDER,),
                )
            return self._number(number(self._writer.dictionary(found))), {}
        if not items:
            return None, found
        rest = {key: value for key, value in found.items() if key not in inherent_names(name)}
        return self._number(self._native(name, items, found)), rest

    def section(self) -> bytes:
        """The contents of the section."""
        parts = b"".join(number(len(data)) + data for data in self._known)
        return number(len(self._known)) + parts

    def _number(self, data: bytes) -> int:
        return self._known.setdefault(data, len(self._known))

    def _native(self, name: str, items: tuple[_Item, ...], found: dict[str, Attribute]) -> bytes:
        out = bytearray()
        has_arrays = self._version >= NATIVE_SEGMENTS
        for item in items:
            value = found.get(item.name)
            if item.presence == "optional":
                at = 0 if value is None else self._writer.attribute(value) << 1 | 1
                out += number(at)
            elif item.presence == "required" or not has_arrays:
                if value is None:
                    raise UnsupportedError(f"'{name}' has no '{item.name}', which it must have")
                out += number(self._writer.attribute(value))
        for item in items if has_arrays else ():
            if item.presence == "sizes":
                sizes: tuple[int, ...] = cast("Any", found[item.name]).get_values()
                out += number(len(sizes) << 1) + b"".join(map(number, sizes))
        return bytes(out)
