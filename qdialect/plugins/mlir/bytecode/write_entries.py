"""The tables of strings, attributes, types and resources of a file that is being written.

Each is numbered when it is first named. Attributes and types of builtin and quant get the
encodings of these dialects; others are written as text, in the form every MLIR tool reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    DenseResourceAttr,
    FileLineColLoc,
    StringAttr,
    TensorType,
    UnregisteredAttr,
)
from xdsl.ir import Attribute, BuiltinAttribute, TypeAttribute

from qdialect.ir.weights import DTYPES
from qdialect.plugins.mlir.bytecode import write_builtin, write_quant
from qdialect.plugins.mlir.bytecode.emitter import number, put
from qdialect.plugins.mlir.bytecode.layout import Attr
from qdialect.plugins.mlir.resources import ResourceBlob, ResourceTable
from qdialect.plugins.mlir.write.printer import BLOB, MLIRPrinter

if TYPE_CHECKING:
    from qdialect.algebra.qparams.parameters import Storage
    from qdialect.ir.context import QContext
    from qdialect.ir.ops.constants import BlobAttr

ALIGNMENT = 16
"""Of weights in the file: what readers that do not map a file align it to."""


class _Table:
    """Entries in order: the dialect's number, whether it encodes them itself, the bytes."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, bool, bytes]] = []
        #: by identity; the entry keeps it alive and unique
        self.known: dict[int, tuple[int, Attribute]] = {}
        self.equal: dict[Attribute, int] = {}


class EntryWriter:
    """Numbers what ops name."""

    def __init__(self, ctx: QContext, inline_weights: bool) -> None:
        self._ctx = ctx
        self._inline = inline_weights
        self.strings: dict[str | bytes, int] = {}
        self.dialects: dict[str, int] = {}
        #: the blobs that attributes name, by key
        self.resources: dict[str, ResourceBlob | None] = {}
        self.heads: dict[tuple[Storage, str], bytes] = {}
        self._handles: dict[str, int] = {}
        self._attributes = _Table()
        self._types = _Table()
        self._places: dict[tuple[int, int, int], int] = {}
        self._dictionaries: dict[bytes, int] = {}
        self._names: dict[str, int] = {}

    # -- numbers -------------------------------------------------------------------

    def string(self, text: str | bytes) -> int:
        """The number of a string."""
        return self.strings.setdefault(text, len(self.strings))

    def dialect(self, name: str) -> int:
        """The number of a dialect."""
        return self.dialects.setdefault(name, len(self.dialects))

    def attribute(self, attribute: Attribute) -> int:
        """The number of an attribute."""
        known = self._attributes.known.get(id(attribute))
        if known is not None:
            return known[0]
        if type(attribute) is FileLineColLoc:
            return self._file_location(attribute)
        return self._numbered(self._attributes, attribute)

    def type(self, kind: Attribute) -> int:
        """The number of a type."""
        known = self._types.known.get(id(kind))
        return known[0] if known is not None else self._numbered(self._types, kind)

    def name(self, name: str) -> int:
        """The number of a string as an attribute."""
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = self.attribute(StringAttr(name))
        return found

    def dictionary(self, entries: Mapping[str, Attribute]) -> int:
        """The number of the dictionary with these entries."""
        data = bytearray(number(Attr.DICTIONARY) + number(len(entries)))
        for key in sorted(entries) if len(entries) > 1 else entries:
            put(data, self.name(key))
            put(data, self.attribute(entries[key]))
        encoded = bytes(data)
        found = self._dictionaries.get(encoded)
        if found is None:
            found = self._add(self._attributes, "builtin", True, encoded)
            self._dictionaries[encoded] = found
        return found

    def resource(self, key: str, blob: ResourceBlob | None) -> int:
        """The number of the resource under `key`."""
        number = self._handles.setdefault(key, len(self._handles))
        if self.resources.get(key) is None:
            self.resources[key] = blob
        return number

    def _file_location(self, location: FileLineColLoc) -> int:
        """Every op has one of these; looked up by value, as their own hash is slow."""
        file = self.attribute(location.filename)
        key = file, location.line.data, location.column.data
        found = self._places.get(key)
        if found is None:
            data = bytes((Attr.FILE_LOC << 1 | 1,)) + b"".join(map(number, key))
            found = self._places[key] = self._add(self._attributes, "builtin", True, data)
        self._attributes.known[id(location)] = found, location
        return found

    def _numbered(self, table: _Table, attribute: Attribute) -> int:
        found = table.equal.get(attribute)
        if found is None:
            dialect, data = self._encoded(table, attribute)
            is_encoded = data is not None
            if data is None:
                data = self.text(attribute).encode() + b"\0"
            found = table.equal[attribute] = self._add(table, dialect, is_encoded, data)
        table.known[id(attribute)] = found, attribute
        return found

    def _add(self, table: _Table, dialect: str, is_encoded: bool, data: bytes) -> int:
        table.entries.append((self.dialect(dialect), is_encoded, data))
        return len(table.entries) - 1

    def _encoded(self, table: _Table, attribute: Attribute) -> tuple[str, bytes | None]:
        """The dialect of an attribute and how that encodes it; None if as text."""
        is_type = table is self._types
        if isinstance(attribute, UnregisteredAttr):
            return attribute.attr_name.data.partition(".")[0], None
        name = attribute.name
        if name.startswith("quant.") and is_type:
            return "quant", write_quant.encoded(self, attribute)
        if name == BLOB:
            return "builtin", self._blob(cast("BlobAttr", cast("Any", attribute)))
        if isinstance(attribute, BuiltinAttribute) or (
            isinstance(attribute, TypeAttribute) and not is_type
        ):
            return "builtin", write_builtin.encoded(self, attribute, is_type)
        return name.partition(".")[0], None

    def _blob(self, weight: BlobAttr) -> bytes:
        """A weight of the session's store, as a resource where a resource can be one."""
        key = weight.key.data
        data = self._ctx.blobs.get(key).data
        kind = cast("TensorType[Any]", weight.type)
        width = 8 * len(data) // max(_count(kind), 1)
        is_plain = str(kind.element_type) in DTYPES and width == kind.element_type.bitwidth
        if is_plain and not self._inline:
            resource = self.resource(key, ResourceBlob(ALIGNMENT, data))
            return write_builtin.resource(self, kind, resource)
        found = write_builtin.dense(self, kind, data)
        assert found is not None
        return found

    def named_resource(self, attribute: DenseResourceAttr) -> int:
        """The number of the resource that an attribute names."""
        from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface

        key = attribute.resource_handle.data
        builtin = self._ctx.get_optional_dialect("builtin")
        table = builtin and builtin.get_interface(OpAsmDialectInterface)
        blob = table.blob(key) if isinstance(table, ResourceTable) else None
        return self.resource(key, blob)

    def text(self, attribute: Attribute) -> str:
        """An attribute or type as MLIR text."""
        stream = StringIO()
        MLIRPrinter(stream=stream, ctx=self._ctx, external=()).print_attribute(attribute)
        return stream.getvalue()

    # -- sections --------------------------------------------------------------------

    def sections(self) -> tuple[bytes, bytes]:
        """The contents of the sections of offsets and of entries."""
        offsets, contents = bytearray(), bytearray()
        tables = self._attributes.entries, self._types.entries
        for entries in tables:
            offsets += number(len(entries))
        for entries in tables:
            start = 0
            while start < len(entries):
                dialect, end = entries[start][0], start
                group = bytearray()
                while end < len(entries) and entries[end][0] == dialect:
                    _, is_encoded, data = entries[end]
                    group += number(len(data) << 1 | is_encoded)
                    contents += data
                    end += 1
                offsets += number(dialect) + number(end - start) + group
                start = end
        return bytes(offsets), bytes(contents)

    def string_section(self) -> bytes:
        """The contents of the section of strings."""
        # Names of files may not be UTF-8.
        texts = [
            t.encode(errors="backslashreplace") if isinstance(t, str) else t for t in self.strings
        ]
        lengths = b"".join(number(len(text) + 1) for text in reversed(texts))
        return number(len(texts)) + lengths + b"".join(text + b"\0" for text in texts)


def _count(kind: TensorType[Any]) -> int:
    count = 1
    for extent in kind.get_shape():
        count *= extent
    return count
