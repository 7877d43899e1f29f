"""Reading `.qmod` files (see `dialects.module_format`); what is wrong in one is an error."""

from __future__ import annotations

import json
import math
import struct
import sys
from array import array
from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    UNKNOWN_LOC,
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation

from qdialect.context import QContext
from qdialect.dialects.module_format import HEADER, MAGIC, VERSION, checksum, is_element
from qdialect.errors import InputError, QError, Where
from qdialect.formats.mlir.read.parser import MLIRParser, Positions
from qdialect.qparams.parameters import QParams

_START = struct.calcsize(HEADER)


def module_of(data: bytes, ctx: QContext, name: str) -> ModuleOp:
    """The module in `data`; it is not verified. InputError (`bad-module-file`) for anything
    that is not what we write; `name` is what the file is called in it."""
    try:
        reader = _Reader(ctx, name, *_parts(data))
        module = reader.module()
    except QError as error:
        error.where = error.where or Where(name)
        raise
    except RecursionError:
        raise _bad(name, "nested too deeply") from None
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise _bad(name, f"not a module file ({reason})") from None
    return module


def _bad(name: str | None, message: str) -> InputError:
    return InputError(message, where=Where(name) if name else None, code="bad-module-file")


def _parts(data: bytes) -> tuple[Any, array[int], memoryview]:
    """The three parts of a file, after all checks of the file as a whole."""
    if data[: len(MAGIC)] != MAGIC:
        raise _bad(None, "not a module file: it does not begin like one")
    if len(data) < _START:
        raise _bad(None, "truncated: the file ends in its header")
    _, version, digest, *lengths = struct.unpack_from(HEADER, data)
    if version != VERSION:
        raise _bad(None, f"is of version {version} of the format; this is for version {VERSION}")
    missing = _START + sum(lengths) - len(data)
    if missing > 0:
        raise _bad(None, f"truncated: {missing} bytes are missing")
    view = memoryview(data)
    if missing < 0 or checksum(view[_START - 24 :]) != digest:
        raise _bad(None, "damaged: the checksum does not fit")
    first, second = _START + lengths[0], _START + lengths[0] + lengths[1]
    numbers = array("I")
    numbers.frombytes(view[first:second])
    if sys.byteorder == "big":
        numbers.byteswap()
    return json.loads(bytes(view[_START:first])), numbers, view[second:]


class _Reader:
    def __init__(
        self, ctx: QContext, name: str, tables: Any, numbers: array[int], data: memoryview
    ) -> None:
        self._ctx = ctx
        self._name = name
        self._numbers = numbers.tolist()
        self._at = 0
        self._data = data
        self._strings: list[str] = tables["strings"]
        if not all(type(text) is str for text in self._strings):
            raise ValueError("strings expected")
        "".join(self._strings).encode()  # half of a surrogate pair is no text
        self._attributes: list[Attribute] = []
        for entry in tables["attributes"]:
            self._attributes.append(self._entry(entry))
        self._dictionaries = [
            {
                self._strings[_index(key)]: self._attributes[_index(value)]
                for key, value in zip(entry[::2], entry[1::2], strict=True)
            }
            for entry in tables["dictionaries"]
        ]
        self._values: list[SSAValue] = []
        #: ops with an operand that comes later
        self._open: list[tuple[Operation, list[int]]] = []
        self._kinds: dict[int, type[Operation]] = {}
        self._files: dict[int, StringAttr] = {}
        self._columns: dict[int, IntAttr] = {}

    def module(self) -> ModuleOp:
        module = self._op([])
        if not isinstance(module, ModuleOp):
            raise ValueError("it holds no module")
        if self._at != len(self._numbers):
            raise ValueError("there is more than a module")
        for op, numbers in self._open:
            op.operands = [self._values[number] for number in numbers]
        return module

    # -- tables ------------------------------------------------------------------

    def _entry(self, entry: Any) -> Attribute:
        if isinstance(entry, str):
            entry.encode()
            return StringAttr(entry)
        if entry[0] == "d":
            return self._dense(*entry[1:])
        if entry[0] == "s":
            return self._tensor(*entry[1:])
        if entry[0] == "q":
            return self._quantized(*entry[1:])
        kind, text = entry
        if type(text) is not str:
            raise ValueError("text expected")
        text.encode()
        parser = MLIRParser(self._ctx, text, Positions(text, self._name))
        found: Attribute | None
        if kind == "t":
            found = parser.parse_type()
        elif kind == "l":
            found = parser.parse_optional_location()
        elif kind == "a":
            found = parser.parse_attribute()
        else:
            raise ValueError(f"unknown kind {kind!r} of attribute")
        if found is None or text[parser.pos :].strip():
            raise ValueError(f"not one attribute: {text[:80]!r}")
        return found

    def _dense(self, number: Any, offset: Any, length: Any) -> Attribute:
        kind = self._attributes[_index(number)]
        if not isinstance(kind, TensorType):
            raise ValueError("a dense attribute that is no tensor")
        element: Attribute = cast("TensorType[Attribute]", kind).element_type
        shape = cast("TensorType[Attribute]", kind).get_shape()
        if not isinstance(element, IntegerType | AnyFloat) or min(shape, default=0) < 0:
            raise ValueError("a dense attribute of no such type")
        size: int = cast("Any", element).compile_time_size
        data = self._data[_index(offset) : _index(offset) + _index(length)]
        if not len(data) == length == math.prod(shape) * size:
            raise ValueError("a dense attribute of another length than its type")
        return DenseIntOrFPElementsAttr(cast("Any", kind), BytesAttr(bytes(data)))

    def _tensor(self, number: Any, *extents: Any) -> Attribute:
        element = self._attributes[_index(number)]
        if not is_element(element) or not all(
            type(extent) is int and -1 <= extent < 1 << 63 for extent in extents
        ):
            raise ValueError("a tensor type of no such elements or extents")
        return TensorType(element, [DYNAMIC_INDEX if n < 0 else n for n in extents])

    def _quantized(self, number: Any, scale: Any, zero: Any) -> Attribute:
        from qdialect.quant.types import UniformType

        like = self._attributes[_index(number)]
        if not isinstance(like, UniformType) or type(scale) is not float or type(zero) is not int:
            raise ValueError("a quantized type like none")
        qparams = QParams.per_tensor(like.data.storage, scale, zero, like.data.expressed)
        if not qparams.is_expressible:
            raise ValueError(f"scale {scale:e} out of expressed type range")
        return UniformType(qparams)

    # -- numbers -------------------------------------------------------------------

    def _take(self) -> int:
        number = self._numbers[self._at]
        self._at += 1
        return number

    def _list(self) -> list[int]:
        start = self._at + 1
        count = self._numbers[start - 1]
        self._at = start + count
        if self._at > len(self._numbers):
            raise ValueError("a list that goes beyond the end")
        return self._numbers[start : self._at]

    def _op(self, blocks: list[Block]) -> Operation:
        numbers, values, strings = self._numbers, self._values, self._strings
        table = self._attributes
        at = self._at
        kind = self._kinds.get(numbers[at]) or self._kind(numbers[at])
        properties = self._dictionaries[numbers[at + 1]]
        count = numbers[at + 2]
        start, at = at + 3, at + 3 + 2 * count
        attributes: dict[str, Attribute] = {}
        for index in range(start, at, 2):
            attributes[strings[numbers[index]]] = table[numbers[index + 1]]
        self._at = at
        location = self._location()
        operands = self._list()
        at = self._at
        start, at = at + 1, at + 1 + 2 * numbers[at]
        types: list[Attribute] = []
        names: list[int] = []
        for index in range(start, at, 2):
            value_type = table[numbers[index]]
            if not isinstance(value_type, TypeAttribute):
                raise ValueError("a value without a type")
            types.append(value_type)
            names.append(numbers[index + 1])
        self._at = at
        successors = [blocks[number] for number in self._list()]
        regions = [self._region() for _ in range(self._take())]
        complete = not operands or max(operands) < len(values)
        op = kind.create(
            operands=[values[number] for number in operands] if complete else (),
            result_types=types,
            properties=properties,
            attributes=attributes,
            location=location,
            successors=successors,
            regions=regions,
        )
        if not complete:
            self._open.append((op, operands))
        for result, name in zip(op.results, names, strict=True):
            if name:
                result.name_hint = strings[name - 1]
            values.append(result)
        return op

    def _kind(self, number: int) -> type[Operation]:
        kind = self._kinds.get(number)
        if kind is None:
            text = f'"{self._strings[number]}"'
            kind = MLIRParser(self._ctx, text, Positions(text, self._name)).op_named(
                self._strings[number]
            )
            if not issubclass(kind, IRDLOperation) and kind.create is Operation.create:
                raise ValueError(f"no op is called {text}")
            self._kinds[number] = kind
        return kind

    def _type(self) -> TypeAttribute:
        kind = self._attributes[self._take()]
        if not isinstance(kind, TypeAttribute):
            raise ValueError("a value without a type")
        return kind

    def _region(self) -> Region:
        blocks: list[Block] = []
        for _ in range(self._take()):
            block = Block()
            if name := self._take():
                block.name_hint = self._strings[name - 1]
            for _ in range(self._take()):
                kind, name = self._type(), self._take()
                argument = block.insert_arg(kind, len(block.args), self._location())
                if name:
                    argument.name_hint = self._strings[name - 1]
                self._values.append(argument)
            blocks.append(block)
        for block in blocks:
            for _ in range(self._take()):
                block.add_op(self._op(blocks))
        return Region(blocks)

    def _location(self) -> LocationAttr:
        kind = self._take()
        if kind == 0:
            return UNKNOWN_LOC
        if kind == 1:
            number, line, column = self._take(), self._take(), self._take()
            file = self._files.get(number)
            if file is None:
                file = self._files[number] = StringAttr(self._strings[number])
            place = self._columns.get(column)
            if place is None:
                place = self._columns[column] = IntAttr(column)
            return FileLineColLoc(file, IntAttr(line), place)
        location = self._attributes[self._take()]
        if kind != 2 or not isinstance(location, LocationAttr):
            raise ValueError("a location that is none")
        return location


def _index(number: Any) -> int:
    """A number out of a table, which JSON says nothing about."""
    if type(number) is not int or number < 0:
        raise ValueError("a number expected")
    return number
