"""The tables of attributes and types of a bytecode file, decoded when somebody asks.

An entry is text, as MLIR writes it, or in an encoding of its dialect, which refers to other
entries by number. The tables know how builtin and quant encode theirs; an entry that another
dialect encodes is an error that says so.

Each entry may name the one before twice, so that forty entries stand for more attributes than any
machine can print: an entry may stand for `aliases.MOST` attributes and be nested `aliases.DEEPEST`
deep, as in text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from xdsl.dialects.builtin import (
    CallSiteLoc,
    DictionaryAttr,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.utils.exceptions import ParseError

from qdialect.errors import QError
from qdialect.plugins.mlir.bytecode.cursor import Cursor, Data, Malformed
from qdialect.plugins.mlir.bytecode.layout import Attr
from qdialect.plugins.mlir.read.aliases import DEEPEST, LARGE, MOST
from qdialect.plugins.mlir.read.parser import MLIRParser, Positions

if TYPE_CHECKING:
    from qdialect.algebra.qparams.parameters import QParams
    from qdialect.ir.context import QContext

LOCATIONS = UnknownLoc, FileLineColLoc, CallSiteLoc, NameLoc, FusedLoc

T = TypeVar("T")
Decoder = Callable[["Entries", Cursor], Attribute]
Decoders = Mapping[str, Mapping[int, Decoder]]
"""By dialect and kind of entry."""


class _Table:
    """Where the entries of one kind are, and what they were decoded to."""

    def __init__(self, decoders: Decoders) -> None:
        self.decoders = decoders
        self.places: list[tuple[str, bool, int, int]] = []
        """Dialect, whether it encodes the entry itself, first byte and the one behind."""
        self.found: list[Attribute | None] = []
        self.sizes: list[int] = []
        """For how many attributes each entry stands."""


class Entries:
    """The attributes and types of one file."""

    def __init__(
        self,
        data: Data,
        ctx: QContext,
        name: str,
        strings: Sequence[str | bytes],
        resources: Sequence[str],
        attributes: Decoders,
        types: Decoders,
    ) -> None:
        """`attributes` and `types` have what decodes the entries of dialects."""
        self._data = data
        self._ctx = ctx
        self._name = name
        self.strings = strings
        #: the names of the resources of dialects, in the order in which entries count them
        self.resources = resources
        self._attributes = _Table(attributes)
        self._types = _Table(types)
        self._depth = 0
        self._size = 0
        #: a quantized type by all that is not its scale and zero point
        self.uniform_like: dict[tuple[int, ...], QParams] = {}
        self.distinct = 0
        """How many distinct attributes there were."""
        self.large: list[Attribute] = []
        """Those that stand for so many attributes that uses of them have to be counted."""

    def locate(self, offsets: Cursor, contents: Cursor, dialects: Sequence[str]) -> None:
        """Note where each entry is; the sections are those of the offsets and the contents."""
        counts = offsets.count(), offsets.count()
        for table, count in zip((self._attributes, self._types), counts, strict=True):
            while len(table.places) < count:
                self._group(table, count, offsets, contents, dialects)
            table.found = [None] * count
            table.sizes = [0] * count
        offsets.finish("the offsets of attributes and types")

    def _group(
        self, table: _Table, most: int, offsets: Cursor, contents: Cursor, dialects: Sequence[str]
    ) -> None:
        dialect = entry_of(offsets, dialects, "dialect")
        count = offsets.count()
        if not 0 < count <= most - len(table.places):
            offsets.fail(f"a group of {count} entries where {most - len(table.places)} are left")
        for _ in range(count):
            size, is_encoded = offsets.flagged()
            at = contents.skip(size)
            table.places.append((dialect, is_encoded, at, contents.at))

    # -- by number -----------------------------------------------------------------

    def attribute(self, cursor: Cursor) -> Attribute:
        """The attribute whose number is next in `cursor`."""
        return self.attribute_at(cursor.number(), cursor)

    def type(self, cursor: Cursor) -> TypeAttribute:
        """The type whose number is next in `cursor`."""
        return self.type_at(cursor.number(), cursor)

    def attribute_at(self, number: int, cursor: Cursor) -> Attribute:
        """An attribute by number, which stood in `cursor`."""
        return self._at(self._attributes, number, cursor, "attribute")

    def type_at(self, number: int, cursor: Cursor) -> TypeAttribute:
        """A type by number, which stood in `cursor`."""
        found = self._at(self._types, number, cursor, "type")
        if not isinstance(found, TypeAttribute):
            cursor.fail(f"type {number} is no type")
        return found

    def location(self, cursor: Cursor) -> LocationAttr:
        """The location whose number is next in `cursor`."""
        found = self.attribute(cursor)
        if not isinstance(found, LOCATIONS):
            cursor.fail("an attribute that is no location")
        return found

    def dictionary_at(self, number: int, cursor: Cursor) -> Mapping[str, Attribute]:
        """The dictionary with this number, which stood in `cursor`."""
        table = self._attributes
        if number < len(table.found) and table.found[number] is None:
            dialect, is_encoded, start, end = table.places[number]
            if is_encoded and dialect == "builtin":
                # Nearly every op has one of its own: an attribute would only be taken apart.
                part = Cursor(self._data, start, end)
                if part.number() == Attr.DICTIONARY:
                    self._size = 1
                    found = self.dictionary(part)
                    part.finish("an entry")
                    if self._size <= LARGE:
                        return found
        attribute = self.attribute_at(number, cursor)
        if not isinstance(attribute, DictionaryAttr):
            cursor.fail("the attributes of an op are no dictionary")
        return attribute.data

    def dictionary(self, cursor: Cursor) -> dict[str, Attribute]:
        """The contents of a dictionary."""
        found: dict[str, Attribute] = {}
        for _ in range(cursor.count()):
            key = self.attribute(cursor)
            if not isinstance(key, StringAttr) or key.data in found:
                cursor.fail("a dictionary whose names are no strings, or not different")
            found[key.data] = self.attribute(cursor)
        return found

    def string(self, cursor: Cursor) -> str:
        """The string whose number is next in `cursor`."""
        found = self.any_string(cursor)
        if isinstance(found, bytes):
            cursor.fail("a string that is not UTF-8")
        return found

    def any_string(self, cursor: Cursor) -> str | bytes:
        """The string whose number is next in `cursor`; bytes if it is not UTF-8."""
        return entry_of(cursor, self.strings, "string")

    def _at(self, table: _Table, number: int, cursor: Cursor, kind: str) -> Attribute:
        if number >= len(table.found):
            cursor.fail(f"there is no {kind} {number}: there are {len(table.found)}")
        found = table.found[number]
        if found is None:
            found = self._decoded(table, number)
        self._size += table.sizes[number]
        return found

    def _decoded(self, table: _Table, number: int) -> Attribute:
        dialect, is_encoded, start, end = table.places[number]
        cursor = Cursor(self._data, start, end)
        if self._depth >= DEEPEST:
            cursor.fail(f"the entry stands for more than {DEEPEST} nested attributes")
        before, self._size = self._size, 1
        self._depth += 1
        try:
            if is_encoded:
                found = self._decoder(table, dialect, cursor)(self, cursor)
            else:
                found = self._text(cursor)
        except (Malformed, QError):
            raise
        except ParseError as error:
            raise Malformed(start, error.msg.strip().partition("\n")[0]) from None
        except Exception as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise Malformed(start, reason) from None
        if cursor.at != end:
            cursor.finish("an entry")
        size = self._size
        if size > LARGE:
            if size > MOST:
                cursor.fail(f"the entry stands for more than {MOST} attributes")
            self.large.append(found)
        table.found[number] = found
        table.sizes[number] = size
        self._depth -= 1
        self._size = before
        return found

    def _decoder(self, table: _Table, dialect: str, cursor: Cursor) -> Decoder:
        kind = cursor.number()
        decoder = table.decoders.get(dialect, {}).get(kind)
        if decoder is None:
            what = "attribute" if table is self._attributes else "type"
            cursor.fail(
                f"{what} {kind} of dialect '{dialect}' is in an encoding of its own that is not "
                "known here: write it as text, or with an older --emit-bytecode-version"
            )
        return decoder

    def _text(self, cursor: Cursor) -> Attribute:
        text = cursor.take(cursor.left)
        if not text.endswith(b"\0"):
            cursor.fail("a text without a zero behind it")
        return self.parsed(text[:-1].decode())

    def parsed(self, text: str) -> Attribute:
        """The attribute or type that `text` is."""
        parser = MLIRParser(self._ctx, text, Positions(text, self._name))
        found = parser.parse_attribute()
        if text[parser.pos :].strip():
            raise ValueError(f"more than one attribute: {text[:80]!r}")
        return found

    def printed(self, attribute: Attribute) -> str:
        """The text of an attribute or type, for `parsed`."""
        from io import StringIO

        from qdialect.plugins.mlir.write.printer import MLIRPrinter

        stream = StringIO()
        MLIRPrinter(stream=stream, ctx=self._ctx).print_attribute(attribute)
        return stream.getvalue()


def entry_of(cursor: Cursor, entries: Sequence[T], what: str) -> T:
    """The entry whose number is next in `cursor`."""
    number = cursor.number()
    if number >= len(entries):
        cursor.fail(f"there is no {what} {number}: there are {len(entries)}")
    return entries[number]
