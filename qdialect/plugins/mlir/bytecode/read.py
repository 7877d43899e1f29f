"""Reads MLIR bytecode of versions 0 to 6 into a module.

Every length, number and depth in a file is checked before it is used: what is wrong is one
InputError (`bad-bytecode`) that names the byte of the file. Blobs of resources are views of the
mapped file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, ModuleOp, NoneType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation
from xdsl.parser.core import ForwardDeclaredValue

from qdialect.errors import InputError, QError, Where
from qdialect.plugins.mlir.bytecode import read_builtin, read_quant
from qdialect.plugins.mlir.bytecode.cursor import Cursor, Data, Malformed
from qdialect.plugins.mlir.bytecode.entries import Entries, entry_of
from qdialect.plugins.mlir.bytecode.layout import (
    DIALECT_VERSIONS,
    LAZY_REGIONS,
    MAGIC,
    NATIVE_PROPERTIES,
    NEWEST,
    UNKNOWN_LOCATIONS_ELIDED,
    USE_ORDERS,
    Has,
    ResourceKind,
    Section,
)
from qdialect.plugins.mlir.bytecode.properties import PropertyReader, inherent_names
from qdialect.plugins.mlir.bytecode.use_orders import UseOrder, UseOrders
from qdialect.plugins.mlir.read.aliases import AliasExtents
from qdialect.plugins.mlir.read.parser import MLIRParser, Positions, separate_resources
from qdialect.plugins.mlir.resources import ResourceBlob, ResourceTable, blob_text
from qdialect.plugins.mlir.upstream.states import inherent_as_attribute

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


# Reads the ops of a bytecode file: the part that takes the time.
#
# A value is a number: within the regions of an isolated op, values of a region are numbered one
# after the other as they are defined, those of a region in it from there on:
#
#     func.func @f(%0, %1) {            the function is isolated: numbers begin at 0
#       %2 = scf.if ... {
#         %4 = ...                      the function's region defines four values, 0 to 3
#       }
#       %3 = ...
#     }


class OpName(NamedTuple):
    """The name of an op, and whether it was registered where the file was written."""

    name: str
    is_registered: bool


class _Kind(NamedTuple):
    op: type[Operation]
    properties: frozenset[str]
    """Names of attributes that are properties of the op."""
    as_attributes: frozenset[str]
    """Names of properties that xDSL's class of the op has among its attributes."""


class _Scope:
    """The values that ops can refer to, by number, and the number of the next region's first."""

    def __init__(self) -> None:
        self.values: dict[int, SSAValue] = {}
        self.next = 0


class OpReader:
    """Reads ops that refer to the tables of one file."""

    def __init__(
        self,
        ctx: QContext,
        name: str,
        entries: Entries,
        names: list[OpName],
        properties: PropertyReader,
        version: int,
    ) -> None:
        self._ctx = ctx
        self._name = name
        self._entries = entries
        self._names = names
        self._properties = properties
        self._version = version
        self._kinds: dict[int, _Kind] = {}
        self._locations: dict[int, LocationAttr] = {}
        self._types: dict[int, TypeAttribute] = {}
        #: by the numbers of an op's name and dictionary
        self._split: dict[tuple[int, int], tuple[dict[str, Attribute], dict[str, Attribute]]] = {}
        #: by the numbers of an op's name and properties
        self._native: dict[tuple[int, int], dict[str, Attribute]] = {}
        self._orders = UseOrders()

    def module(self, cursor: Cursor) -> ModuleOp:
        """The module that the section of ops holds; where it holds other ops, one around them."""
        scope = _Scope()
        count, has_arguments = cursor.flagged()
        if has_arguments:
            cursor.fail("a file whose block has arguments")
        block = Block()
        # At the top results have no numbers: no op can refer to them.
        self._ops(cursor, count, block, [], scope, None)
        cursor.finish("the ops")
        first = block.first_op
        if isinstance(first, ModuleOp) and first.next_op is None:
            first.detach()
            module = first
        else:
            module = ModuleOp(Region(block))
        self._orders.apply(module)
        return module

    # -- regions and blocks ----------------------------------------------------------

    def _regions(self, op: Operation, cursor: Cursor, scope: _Scope, is_isolated: bool) -> None:
        if not is_isolated:
            for region in op.regions:
                self._region(region, cursor, scope)
            return
        if self._version >= LAZY_REGIONS:
            kind, contents = cursor.section()
            if kind != Section.IR:
                cursor.fail("the section of a region is missing")
        else:
            contents = cursor
        scope = _Scope()
        for region in op.regions:
            self._region(region, contents, scope)
        if contents is not cursor:
            contents.finish("the regions of an op")

    def _region(self, region: Region, cursor: Cursor, scope: _Scope) -> None:
        count = cursor.count()
        if not count:
            return
        defined = cursor.count()
        blocks = [Block() for _ in range(count)]
        region.add_block(blocks)
        first = scope.next
        scope.next = last = first + defined
        numbers = _Numbers(first, last)
        for block in blocks:
            number, has_arguments = cursor.flagged()
            if has_arguments:
                self._arguments(block, cursor, scope, numbers)
            self._ops(cursor, number, block, blocks, scope, numbers)
        values = scope.values
        for number in range(first, last) if numbers.next < last else ():
            if isinstance(values.get(number), ForwardDeclaredValue):
                cursor.fail(f"value {number} is used but not defined")
        for number in range(first, numbers.next):
            del values[number]
        scope.next = first

    def _arguments(self, block: Block, cursor: Cursor, scope: _Scope, numbers: _Numbers) -> None:
        entries = self._entries
        count = cursor.count()
        types: list[TypeAttribute] = []
        locations: list[LocationAttr] = []
        for _ in range(count):
            if self._version >= UNKNOWN_LOCATIONS_ELIDED:
                number, has_location = cursor.flagged()
                types.append(entries.type_at(number, cursor))
                locations.append(entries.location(cursor) if has_location else UNKNOWN_LOC)
            else:
                types.append(entries.type(cursor))
                locations.append(entries.location(cursor))
        for kind, location in zip(types, locations, strict=True):
            block.insert_arg(kind, len(block.args), location)
        self._define(block.args, cursor, scope, numbers)
        if self._version >= USE_ORDERS and cursor.byte():
            self._use_orders(cursor, block.args)

    def _define(
        self,
        values: tuple[SSAValue, ...] | list[SSAValue],
        cursor: Cursor,
        scope: _Scope,
        numbers: _Numbers,
    ) -> None:
        known = scope.values
        for value in values:
            number = numbers.next
            if number >= numbers.end:
                cursor.fail("a region defines more values than it says")
            numbers.next = number + 1
            if number in known:
                before = known[number]
                before.replace_all_uses_with(value)
                self._orders.unsorted(value)
            known[number] = value

    # -- ops -------------------------------------------------------------------------

    def _ops(
        self,
        cursor: Cursor,
        count: int,
        block: Block,
        blocks: list[Block],
        scope: _Scope,
        numbers: _Numbers | None,
    ) -> None:
        read = self._op
        for _ in range(count):
            read(cursor, block, blocks, scope, numbers)

    def _op(
        self,
        cursor: Cursor,
        block: Block,
        blocks: list[Block],
        scope: _Scope,
        numbers: _Numbers | None,
    ) -> None:
        number = cursor.number
        entries = self._entries
        name = number()
        kind = self._kinds.get(name) or self._kind(name, cursor)
        mask = cursor.byte()
        place = number()
        location = self._locations.get(place)
        if location is None:
            location = entries.attribute_at(place, cursor)
            location = self._locations[place] = _location(location, cursor)
        properties: dict[str, Attribute] = {}
        attributes: dict[str, Attribute] = {}
        if mask & Has.ATTRIBUTES:
            key = name, number()
            split = self._split.get(key) or self._split_dictionary(kind, key, cursor)
            properties, attributes = split
        if mask & Has.PROPERTIES:
            key = name, number()
            native = self._native.get(key)
            if native is None:
                native = self._properties.read(*self._names[name], key[1], cursor)
                self._native[key] = native
            properties = {**properties, **native}
            for key_there in kind.as_attributes & native.keys():
                attributes = {**attributes, key_there: properties.pop(key_there)}
        types: list[TypeAttribute] = []
        if mask & Has.RESULTS:
            for _ in range(cursor.count()):
                at = number()
                found = self._types.get(at)
                if found is None:
                    found = self._types[at] = entries.type_at(at, cursor)
                types.append(found)
        operands: list[SSAValue] = []
        if mask & Has.OPERANDS:
            values = scope.values
            for _ in range(cursor.count()):
                at = number()
                value = values.get(at)
                operands.append(self._forward(at, cursor, scope) if value is None else value)
        successors: list[Block] = []
        if mask & Has.SUCCESSORS:
            for _ in range(cursor.count()):
                at = number()
                if at >= len(blocks):
                    cursor.fail(f"there is no block {at}: there are {len(blocks)}")
                successors.append(blocks[at])
        orders: list[tuple[int, UseOrder]] = []
        if mask & Has.USE_ORDERS and self._version >= USE_ORDERS:
            orders = self._order_list(cursor, len(types))
        regions: list[Region] = []
        is_isolated = False
        if mask & Has.REGIONS:
            count, is_isolated = cursor.flagged()
            if count > cursor.left:
                cursor.fail(f"{count} regions are claimed in {cursor.left} bytes")
            regions = [Region() for _ in range(count)]
        op = kind.op.create(
            operands=operands,
            result_types=types,
            properties=properties,
            attributes=attributes,
            location=location,
            successors=successors,
            regions=regions,
        )
        block.add_op(op)
        if types and numbers is not None:
            self._define(op.results, cursor, scope, numbers)
        for index, order in orders:
            self._orders.note(op.results[index], order)
        if regions:
            self._regions(op, cursor, scope, is_isolated)

    def _kind(self, number: int, cursor: Cursor) -> _Kind:
        if number >= len(self._names):
            cursor.fail(f"there is no op name {number}: there are {len(self._names)}")
        name = self._names[number].name
        text = f'"{name}"'
        op = MLIRParser(self._ctx, text, Positions(text, self._name)).op_named(name)
        as_attributes = inherent_as_attribute(op)
        names = inherent_names(name) - as_attributes
        if issubclass(op, IRDLOperation):
            names |= op.get_irdl_definition().properties.keys()
        elif op.create is Operation.create:
            cursor.fail(f"no op is called {text}")
        kind = self._kinds[number] = _Kind(op, names, as_attributes)
        return kind

    def _split_dictionary(
        self, kind: _Kind, key: tuple[int, int], cursor: Cursor
    ) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
        """The dictionary of an op, as its properties and its attributes."""
        found = self._entries.dictionary_at(key[1], cursor)
        properties: dict[str, Attribute] = {}
        attributes: dict[str, Attribute] = {}
        # Tools that do not know an op have no properties of it: all are attributes there.
        for name, value in found.items():
            (properties if name in kind.properties else attributes)[name] = value
        self._split[key] = properties, attributes
        return properties, attributes

    def _forward(self, number: int, cursor: Cursor, scope: _Scope) -> SSAValue:
        if number >= scope.next:
            cursor.fail(f"there is no value {number} here: there are {scope.next}")
        value = scope.values[number] = ForwardDeclaredValue(NoneType())
        return value

    # -- orders of uses ----------------------------------------------------------------

    def _use_orders(self, cursor: Cursor, values: tuple[SSAValue, ...]) -> None:
        for index, order in self._order_list(cursor, len(values)):
            self._orders.note(values[index], order)

    def _order_list(self, cursor: Cursor, values: int) -> list[tuple[int, UseOrder]]:
        found: list[tuple[int, UseOrder]] = []
        for _ in range(cursor.count() if values > 1 else 1):
            index = cursor.number() if values > 1 else 0
            if index >= values:
                cursor.fail(f"an order of the uses of value {index} of {values}")
            count, is_pairs = cursor.flagged()
            if count > cursor.left:
                cursor.fail(f"{count} uses are claimed in {cursor.left} bytes")
            numbers = tuple(cursor.number() for _ in range(count))
            found.append((index, UseOrder(is_pairs, numbers, cursor.at)))
        return found


class _Numbers:
    """The numbers of the values that a region defines: the next one, and the one behind."""

    def __init__(self, start: int, end: int) -> None:
        self.next = start
        self.end = end


def _location(found: Attribute, cursor: Cursor) -> LocationAttr:
    from qdialect.plugins.mlir.bytecode.entries import LOCATIONS

    if not isinstance(found, LOCATIONS):
        cursor.fail("an op whose location is none")
    return found
