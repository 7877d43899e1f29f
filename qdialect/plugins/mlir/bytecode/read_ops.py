"""Reads the ops of a bytecode file: the part that takes the time.

A value is a number: within the regions of an isolated op, values of a region are numbered one
after the other as they are defined, those of a region in it from there on:

    func.func @f(%0, %1) {            the function is isolated: numbers begin at 0
      %2 = scf.if ... {
        %4 = ...                      the function's region defines four values, 0 to 3
      }
      %3 = ...
    }
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, ModuleOp, NoneType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation
from xdsl.parser.core import ForwardDeclaredValue

from qdialect.plugins.mlir.bytecode.cursor import Cursor
from qdialect.plugins.mlir.bytecode.entries import Entries
from qdialect.plugins.mlir.bytecode.layout import (
    LAZY_REGIONS,
    UNKNOWN_LOCATIONS_ELIDED,
    USE_ORDERS,
    Has,
    Section,
)
from qdialect.plugins.mlir.bytecode.properties import PropertyReader, inherent_names
from qdialect.plugins.mlir.bytecode.use_orders import UseOrder, UseOrders
from qdialect.plugins.mlir.read.parser import MLIRParser, Positions
from qdialect.plugins.mlir.upstream.states import inherent_as_attribute

if TYPE_CHECKING:
    from qdialect.ir.context import QContext


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
