"""Reads MLIR bytecode of versions 0 to 6 into a module.

Every length, number and depth in a file is checked before it is used: what is wrong is one
InputError (`bad-bytecode`) that names the byte of the file. Blobs of resources are views of the
mapped file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import ModuleOp

from qdialect.errors import InputError, QError, Where
from qdialect.plugins.mlir.bytecode import read_builtin, read_quant
from qdialect.plugins.mlir.bytecode.cursor import Cursor, Data, Malformed
from qdialect.plugins.mlir.bytecode.entries import Entries, entry_of
from qdialect.plugins.mlir.bytecode.layout import (
    DIALECT_VERSIONS,
    MAGIC,
    NATIVE_PROPERTIES,
    NEWEST,
    UNKNOWN_LOCATIONS_ELIDED,
    ResourceKind,
    Section,
)
from qdialect.plugins.mlir.bytecode.properties import PropertyReader
from qdialect.plugins.mlir.bytecode.read_ops import OpName, OpReader
from qdialect.plugins.mlir.read.aliases import AliasExtents
from qdialect.plugins.mlir.read.parser import separate_resources
from qdialect.plugins.mlir.resources import ResourceBlob, ResourceTable, blob_text

if TYPE_CHECKING:
    from qdialect.ir.context import QContext

_NEEDED = (
    Section.STRINGS,
    Section.DIALECTS,
    Section.ATTRIBUTES,
    Section.ATTRIBUTE_OFFSETS,
    Section.IR,
)

_ATTRIBUTES = {"builtin": read_builtin.ATTRIBUTES}
_TYPES = {"builtin": read_builtin.TYPES, "quant": read_quant.TYPES}


def module_of(data: Data, ctx: QContext, name: str) -> ModuleOp:
    """The module in `data`; it is not verified. InputError (`bad-bytecode`) for anything that is
    not bytecode; `name` is what the file is called in it."""
    try:
        return _File(data, ctx, name).module()
    except Malformed as error:
        raise _bad(name, f"{error.message} (byte {error.at})") from None
    except QError as error:
        error.where = error.where or Where(name)
        raise
    except RecursionError:
        raise _bad(name, "nested too deeply") from None
    except Exception as error:
        # Of constructors of ops and attributes, which say what they do not take.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise _bad(name, reason) from None


def mapped(path: Path) -> Data:
    """The contents of a file, mapped into memory."""
    from mmap import ACCESS_READ, mmap

    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return b""
            return mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot open input file: {reason}", where=Where(str(path)), code="unreadable-file"
        ) from None


def _bad(name: str, message: str) -> InputError:
    return InputError(f"bad bytecode: {message}", where=Where(name), code="bad-bytecode")


class _File:
    def __init__(self, data: Data, ctx: QContext, name: str) -> None:
        self._data = data
        self._ctx = ctx
        self._name = name
        separate_resources(ctx)

    def module(self) -> ModuleOp:
        """The module of the whole file."""
        cursor = Cursor(self._data, 0, len(self._data))
        if cursor.left < len(MAGIC) or cursor.take(len(MAGIC)) != MAGIC:
            raise Malformed(0, "the file does not begin like MLIR bytecode")
        version = cursor.number()
        if version > NEWEST:
            cursor.fail(
                f"version {version} is newer than {NEWEST}, the newest known here; "
                f"mlir-opt writes that with --emit-bytecode-version={NEWEST}"
            )
        end = self._data.find(b"\0", cursor.at)
        if end < 0:
            cursor.fail("the name of the producer has no end")
        cursor.at = end + 1
        sections = self._sections(cursor, version)
        strings = _strings(sections[Section.STRINGS])
        dialects, names = _dialects(sections[Section.DIALECTS], strings, version)
        keys = self._resources(sections, strings, dialects)
        entries = Entries(self._data, self._ctx, self._name, strings, keys, _ATTRIBUTES, _TYPES)
        entries.locate(sections[Section.ATTRIBUTE_OFFSETS], sections[Section.ATTRIBUTES], dialects)
        properties = PropertyReader(sections.get(Section.PROPERTIES), entries, version)
        reader = OpReader(self._ctx, self._name, entries, names, properties, version)
        module = reader.module(sections[Section.IR])
        if entries.large:
            extents = AliasExtents()
            for attribute in entries.large:
                extents.fault(attribute)
            fault = extents.fault_of_module(module, len(self._data))
            if fault is not None:
                cursor.fail(fault)
        return module

    def _sections(self, cursor: Cursor, version: int) -> dict[int, Cursor]:
        found: dict[int, Cursor] = {}
        while cursor.left:
            kind, contents = cursor.section()
            if kind > Section.PROPERTIES or kind in found:
                cursor.fail(f"section {kind} is unknown or there already")
            found[kind] = contents
        for section in _NEEDED:
            if section not in found:
                cursor.fail(f"the section of {section.name.lower().replace('_', ' ')} is missing")
        if version >= NATIVE_PROPERTIES and Section.PROPERTIES not in found:
            cursor.fail("the section of properties is missing")
        if (Section.RESOURCES in found) != (Section.RESOURCE_OFFSETS in found):
            cursor.fail("resources without offsets, or offsets without resources")
        return found

    # -- resources ---------------------------------------------------------------------

    def _resources(
        self, sections: dict[int, Cursor], strings: list[str | bytes], dialects: list[str]
    ) -> list[str]:
        """Keep all resources in the session; the keys of those that attributes refer to."""
        if Section.RESOURCES not in sections:
            return []
        offsets, contents = sections[Section.RESOURCE_OFFSETS], sections[Section.RESOURCES]
        for _ in range(offsets.count()):
            group = self._ctx.external_resources.setdefault(_text(offsets, strings), {})
            for _ in range(offsets.count()):
                key, value = self._resource(offsets, contents, strings)
                if isinstance(value, ResourceBlob):
                    group[key] = blob_text(value)
                elif value is not None:
                    group[key] = value
        keys: list[str] = []
        while offsets.left:
            dialect = entry_of(offsets, dialects, "dialect")
            found = self._ctx.get_optional_dialect(dialect)
            table = found and found.get_interface(OpAsmDialectInterface)
            if not isinstance(table, ResourceTable):
                offsets.fail(f"resources of dialect '{dialect}', which has none")
            for _ in range(offsets.count()):
                key, value = self._resource(offsets, contents, strings)
                if isinstance(value, ResourceBlob):
                    keys.append(table.add(key, value))
                elif value is None:
                    keys.append(table.declare_resource(key))
                else:
                    offsets.fail(f"resource '{key}' of dialect '{dialect}' is no blob")
        return keys

    def _resource(
        self, offsets: Cursor, contents: Cursor, strings: list[str | bytes]
    ) -> tuple[str, str | bool | ResourceBlob | None]:
        """The key and the value of the next resource; None for one that is only declared."""
        key = _text(offsets, strings)
        part = contents.part(offsets.number())
        kind = offsets.byte()
        if not part.left:
            return key, None
        value: str | bool | ResourceBlob
        if kind == ResourceKind.BOOL:
            value = bool(part.byte())
        elif kind == ResourceKind.STRING:
            value = _text(part, strings)
        elif kind == ResourceKind.BLOB:
            alignment, length = part.number(), part.number()
            part.align(alignment)
            start = part.skip(length)
            if alignment >= 1 << 32:
                part.fail(f"the alignment {alignment} is too large")
            value = ResourceBlob(alignment, memoryview(self._data)[start : start + length])
        else:
            part.fail(f"a resource of the unknown kind {kind}")
        part.finish("a resource")
        return key, value


def _strings(cursor: Cursor) -> list[str | bytes]:
    lengths = [cursor.number() for _ in range(cursor.count())]
    found: list[str | bytes] = []
    for length in reversed(lengths):
        if not length:
            cursor.fail("a string without its zero")
        data = cursor.take(length)
        if data[-1]:
            cursor.fail("a string without its zero")
        try:
            found.append(data[:-1].decode())
        except UnicodeDecodeError:
            found.append(data[:-1])
    cursor.finish("the strings")
    return found


def _text(cursor: Cursor, strings: list[str | bytes]) -> str:
    found = entry_of(cursor, strings, "string")
    if isinstance(found, bytes):
        cursor.fail("a name that is not UTF-8")
    return found


def _dialects(
    cursor: Cursor, strings: list[str | bytes], version: int
) -> tuple[list[str], list[OpName]]:
    dialects: list[str] = []
    for _ in range(cursor.count()):
        if version < DIALECT_VERSIONS:
            dialects.append(_text(cursor, strings))
            continue
        number, has_version = cursor.flagged()
        if number >= len(strings) or not isinstance(name := strings[number], str):
            cursor.fail(f"there is no string {number}: there are {len(strings)}")
        dialects.append(name)
        if has_version:
            # What a dialect changed since is its own affair; ours and builtin have no versions.
            kind, _ = cursor.section()
            if kind != Section.DIALECT_VERSION:
                cursor.fail("the version of a dialect is missing")
    names: list[OpName] = []
    if version >= UNKNOWN_LOCATIONS_ELIDED:
        cursor.number()
    while cursor.left:
        dialect = entry_of(cursor, dialects, "dialect")
        for _ in range(cursor.count()):
            number, is_registered = cursor.number(), True
            if version >= NATIVE_PROPERTIES:
                number, is_registered = number >> 1, bool(number & 1)
            if number >= len(strings) or not isinstance(name := strings[number], str):
                cursor.fail(f"there is no string {number}: there are {len(strings)}")
            names.append(OpName(f"{dialect}.{name}" if name else dialect, is_registered))
    return dialects, names
