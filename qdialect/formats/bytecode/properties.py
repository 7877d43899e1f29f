"""Properties of ops from version 5 of bytecode on, where each op encodes its own.

An op that was not registered where the file was written has its properties as a dictionary. For
others the order of their attributes says what follows: see `native`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Operation

from qdialect.errors import InputError
from qdialect.formats.bytecode.cursor import Cursor
from qdialect.formats.bytecode.entries import Entries


class Properties:
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
        self, name: tuple[str, bool], op: type[Operation], number: int, cursor: Cursor
    ) -> dict[str, Attribute]:
        """The properties with this number, of an op of this name."""
        if number >= len(self._parts):
            cursor.fail(f"there are no properties {number}: there are {len(self._parts)}")
        whole = self._parts[number]
        part = Cursor(whole.data, whole.at, whole.end)
        if name[1]:
            raise InputError(
                f"how the properties of '{name[0]}' are encoded is not known here",
                code="unknown-properties",
                notes=("files of version 4 need not be: mlir-opt --emit-bytecode-version=4",),
            )
        found = self._entries.attribute(part)
        part.finish("the properties of an op")
        if not isinstance(found, DictionaryAttr):
            part.fail("the properties of an op are no dictionary")
        return dict(found.data)
