"""Writes a module as MLIR bytecode.

Properties and attributes of an op are one dictionary (versions up to 4), so that nothing about the
op needs to be known; the reader, who knows it, tells them apart. Weights are resources: blobs at
aligned places of the file, which readers map into memory. They stand last, and go from the
session's store to the file without being copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, UnknownLoc, UnregisteredOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove

from qdialect.errors import QError, UnsupportedError
from qdialect.ir.ops.locations import op_where
from qdialect.plugins.mlir.bytecode.emitter import number, padding, put, section
from qdialect.plugins.mlir.bytecode.layout import (
    DIALECT_VERSIONS,
    LAZY_REGIONS,
    MAGIC,
    NATIVE_PROPERTIES,
    NEWEST,
    UNKNOWN_LOCATIONS_ELIDED,
    USE_ORDERS,
    WRITTEN,
    Has,
    ResourceKind,
    Section,
)
from qdialect.plugins.mlir.bytecode.properties import PropertyWriter, has_row, inherent_names
from qdialect.plugins.mlir.bytecode.use_orders import numbered_ops, stated_order
from qdialect.plugins.mlir.bytecode.write_entries import ALIGNMENT, EntryWriter
from qdialect.plugins.mlir.resources import ResourceBlob
from qdialect.plugins.mlir.upstream import OTHER_DIALECTS

if TYPE_CHECKING:
    from qdialect.ir.context import QContext
    from qdialect.plugins.mlir.write.resources import Resources

Piece = bytes | memoryview

_SCOPE = 1 << 40
"""More than the values of an isolated op."""


def module_bytes(
    module: ModuleOp, ctx: QContext, *, version: int | None = None, inline_weights: bool = False
) -> Iterator[Piece]:
    """The file of `module`, in pieces: weights are views of the session's store, or with
    `inline_weights` elements of attributes.

    Without a version it is 4, or 6 where that keeps properties that 4 would make attributes.
    QError, placed at the op, for what has no form in bytecode.
    """
    if version is None:
        version = NEWEST if any(map(_has_kept_properties, module.walk())) else WRITTEN
    writer = EntryWriter(ctx, inline_weights)
    ops = _OpWriter(writer, version)
    code = ops.module(module)
    offsets, entries = writer.sections()
    resource_offsets, resources = _resources(writer, ctx.external_resources)
    head = bytearray(MAGIC)
    put(head, version)
    head += b"qdialect\0"
    head += section(Section.DIALECTS, _dialects(writer, ops, version))
    head += section(Section.ATTRIBUTE_OFFSETS, offsets)
    head += section(Section.ATTRIBUTES, entries)
    head += section(Section.IR, code)
    if resource_offsets:
        head += section(Section.RESOURCE_OFFSETS, resource_offsets)
    head += section(Section.STRINGS, writer.string_section())
    if version >= NATIVE_PROPERTIES:
        head += section(Section.PROPERTIES, ops.properties.section())
    yield bytes(head)
    if resource_offsets:
        length = sum(len(piece) for piece in resources)
        start = bytes((Section.RESOURCES | 0x80,)) + number(length) + number(ALIGNMENT)
        yield start + padding(len(head) + len(start), ALIGNMENT)
        yield from resources


def _has_kept_properties(op: Operation) -> bool:
    """Whether an op has properties that a reader of version 4 could not tell from attributes."""
    return bool(op.properties) and isinstance(op, UnregisteredOp) and not _is_upstream(op)


def _is_upstream(op: UnregisteredOp) -> bool:
    return op.op_name.data.partition(".")[0] in OTHER_DIALECTS


def _dialects(writer: EntryWriter, ops: _OpWriter, version: int) -> bytes:
    # Naming the ops may name dialects and strings that nothing else does.
    groups = bytearray()
    for dialect, names in ops.groups():
        groups += number(writer.dialect(dialect)) + number(len(names))
        for name, is_registered in names:
            text = writer.string(name)
            groups += number(text << 1 | is_registered if version >= NATIVE_PROPERTIES else text)
    found = bytearray(number(len(writer.dialects)))
    for dialect in writer.dialects:
        text = writer.string(dialect)
        found += number(text << 1 if version >= DIALECT_VERSIONS else text)
    if version >= UNKNOWN_LOCATIONS_ELIDED:
        found += number(len(ops.names))
    return bytes(found + groups)


def _resources(writer: EntryWriter, external: Resources) -> tuple[bytes, list[Piece]]:
    """The section of offsets, and that of resources in pieces; both empty without resources."""
    offsets = bytearray()
    pieces: list[Piece] = []
    at = 0

    def add(key: str, value: str | bool | ResourceBlob | None) -> None:
        nonlocal at, offsets
        kind, found = _resource(writer, at, value)
        size = sum(len(piece) for piece in found)
        offsets += number(writer.string(key)) + number(size) + bytes((kind,))
        pieces.extend(found)
        at += size

    groups = {name: entries for name, entries in external.items() if entries}
    offsets += number(len(groups))
    for name, entries in groups.items():
        offsets += number(writer.string(name)) + number(len(entries))
        for key, value in entries.items():
            add(key, value)
    if writer.resources:
        offsets += number(writer.dialect("builtin")) + number(len(writer.resources))
        for key, blob in writer.resources.items():
            add(key, blob)
    return bytes(offsets) if groups or writer.resources else b"", pieces


def _resource(
    writer: EntryWriter, at: int, value: str | bool | ResourceBlob | None
) -> tuple[ResourceKind, list[Piece]]:
    """The kind and the bytes of a resource, `at` bytes behind the begin of the section."""
    if value is None:
        return ResourceKind.BLOB, []
    if isinstance(value, bool):
        return ResourceKind.BOOL, [bytes((value,))]
    if isinstance(value, str):
        return ResourceKind.STRING, [number(writer.string(value))]
    alignment = min(max(value.alignment, 1), ALIGNMENT)
    head = number(value.alignment if value.alignment <= ALIGNMENT else ALIGNMENT)
    head += number(value.data.nbytes)
    return ResourceKind.BLOB, [head + padding(at + len(head), alignment), value.data.cast("B")]


def is_isolated(name: str, op: Operation) -> bool:
    """Whether regions of an op see no values from outside; as upstream says, where it has a row."""
    from qdialect.plugins.mlir.upstream.table import find_row

    row = find_row(name)
    if row is not None:
        return "isolated" in row.traits
    return op.has_trait(IsolatedFromAbove, value_if_unregistered=False)


class _Kind:
    """What is the same for all ops of a name."""

    def __init__(self, op: Operation, name: str, at: int) -> None:
        self.name = name
        self.number = number(at)
        self.is_isolated = is_isolated(name, op)
        self.is_unregistered = isinstance(op, UnregisteredOp) and not _is_upstream(op)
        self.inherent = inherent_names(name)
        #: whether other tools may have the op, and then know how to read its properties
        self.is_elsewhere = has_row(name) or not (
            self.is_unregistered or type(op).__module__.startswith("qdialect.")
        )


class _OpWriter:
    """Writes ops; the tables they refer to fill as it does."""

    def __init__(self, writer: EntryWriter, version: int) -> None:
        self._writer = writer
        self._version = version
        self.names: dict[str, _Kind] = {}
        self.properties = PropertyWriter(writer, version)
        #: by identity, as their own hash is slow; numbers of another isolated op begin elsewhere
        self._values: dict[int, int] = {}
        self._scope = 0
        self._scopes = 0
        self._order: dict[Operation, int] = {}

    def module(self, module: ModuleOp) -> bytes:
        """The contents of the section of ops."""
        self._order = numbered_ops(module)
        out = bytearray(number(1 << 1))
        self._op(out, module, {}, 0)
        return bytes(out)

    def groups(self) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
        """The names of ops in the order of their numbers, those of a dialect that follow each
        other together: the dialect; names without it, and whether such ops are registered."""
        group: list[tuple[str, bool]] = []
        before = ""
        for name in self.names:
            dialect, _, rest = name.partition(".")
            if group and dialect != before:
                yield before, group
                group = []
            before = dialect
            group.append((rest, self.names[name].is_elsewhere))
        if group:
            yield before, group

    def _kind(self, op: Operation) -> _Kind:
        name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
        kind = self.names.get(name)
        if kind is None:
            kind = self.names[name] = _Kind(op, name, len(self.names))
        return kind

    def _op(self, out: bytearray, op: Operation, blocks: dict[Block, int], base: int) -> None:
        try:
            self._op_unplaced(out, op, blocks, base)
        except QError as error:
            error.where = error.where or op_where(op)
            raise

    def _op_unplaced(
        self, out: bytearray, op: Operation, blocks: dict[Block, int], base: int
    ) -> None:
        writer = self._writer
        kind = self._kind(op)
        out += kind.number
        place = len(out)
        out.append(0)
        mask = 0
        put(out, writer.attribute(op.location))
        mask = self._attributes(out, op, kind)
        results = op.results
        if results:
            mask |= Has.RESULTS
            put(out, len(results))
            for result in results:
                put(out, writer.type(result.type))
        operands = op._operands  # pyright: ignore[reportPrivateUsage]
        if operands:
            mask |= Has.OPERANDS
            put(out, len(operands))
            values = self._values
            scope = self._scope
            for operand in operands:
                at = values.get(id(operand), -1) - scope
                if not 0 <= at < _SCOPE:
                    raise UnsupportedError(
                        f"'{kind.name}' op uses a value that is not defined around it",
                        where=op_where(op),
                    )
                put(out, at)
        if op.successors:
            mask |= Has.SUCCESSORS
            put(out, len(op.successors))
            for successor in op.successors:
                put(out, blocks[successor])
        if self._version >= USE_ORDERS and results and self._use_orders(out, results):
            mask |= Has.USE_ORDERS
        if op.regions:
            mask |= Has.REGIONS
            put(out, len(op.regions) << 1 | kind.is_isolated)
        out[place] = mask
        if not op.regions:
            return
        if not kind.is_isolated:
            for region in op.regions:
                self._region(out, region, base)
            return
        contents = bytearray() if self._version >= LAZY_REGIONS else out
        outer = self._scope
        self._scopes += _SCOPE
        self._scope = self._scopes
        for region in op.regions:
            self._region(contents, region, self._scope)
        self._scope = outer
        if contents is not out:
            out += bytes((Section.IR,)) + number(len(contents))
            out += contents

    def _attributes(self, out: bytearray, op: Operation, kind: _Kind) -> int:
        """Write properties and attributes; their bits of the mask."""
        properties, attributes = op.properties, op.attributes
        if isinstance(op, UnregisteredOp):
            attributes = {key: value for key, value in attributes.items() if key != "op_name__"}
        if self._version < NATIVE_PROPERTIES:
            both = {**properties, **attributes} if properties else attributes
            if both:
                put(out, self._writer.dictionary(both))
            return Has.ATTRIBUTES if both else 0
        if kind.inherent:
            properties = {**attributes, **properties}
            attributes = {}
        found, rest = self.properties.write(kind.name, kind.is_elsewhere, properties)
        attributes = {**attributes, **rest}
        if attributes:
            put(out, self._writer.dictionary(attributes))
        if found is not None:
            put(out, found)
        return (Has.ATTRIBUTES if attributes else 0) | (0 if found is None else Has.PROPERTIES)

    def _region(self, out: bytearray, region: Region, base: int) -> None:
        blocks = {block: index for index, block in enumerate(region.blocks)}
        put(out, len(blocks))
        if not blocks:
            return
        values, at = self._values, base
        counts: list[int] = []
        for block in blocks:
            for argument in block.args:
                values[id(argument)] = at
                at += 1
            count = 0
            for op in block.ops:
                count += 1
                for result in op.results:
                    values[id(result)] = at
                    at += 1
            counts.append(count)
        put(out, at - base)
        for block, count in zip(blocks, counts, strict=True):
            put(out, count << 1 | bool(block.args))
            if block.args:
                self._arguments(out, block)
            for op in block.ops:
                self._op(out, op, blocks, at)

    def _arguments(self, out: bytearray, block: Block) -> None:
        put(out, len(block.args))
        for argument in block.args:
            kind = self._writer.type(argument.type)
            if self._version < UNKNOWN_LOCATIONS_ELIDED:
                put(out, kind)
                put(out, self._writer.attribute(argument.location))
            elif isinstance(argument.location, UnknownLoc):
                put(out, kind << 1)
            else:
                put(out, kind << 1 | 1)
                put(out, self._writer.attribute(argument.location))
        if self._version >= USE_ORDERS:
            place = len(out)
            out.append(0)
            out[place] = self._use_orders(out, block.args)

    def _use_orders(self, out: bytearray, values: tuple[SSAValue, ...] | list[SSAValue]) -> bool:
        """The orders of uses that are not the usual ones; whether there are any."""
        found: list[tuple[int, list[int]]] = []
        for index, value in enumerate(values):
            if value.has_more_than_one_use():
                order = stated_order(value, self._order)
                if order is not None:
                    found.append((index, order))
        if not found:
            return False
        if len(values) > 1:
            put(out, len(found))
        for index, order in found:
            if len(values) > 1:
                put(out, index)
            put(out, len(order) << 1)
            for place in order:
                put(out, place)
        return True
