"""Ops that stand on one line and look like one read before are read without the parser.

A network repeats few kinds of lines: `%9 = nn.relu %8 {nn.key = "n8"} : (T) -> T`. What the
parser makes of such a line depends, apart from the names of the results, the operands, the
key, the weight, the types and the location, on the rest of the text alone. So a line is
split into these and the rest; the first line with some rest is read by the parser, and what
came of it is kept as a recipe, if these are found in the op where the line has them; later
lines with the same rest are made from the recipe. Of ops of other dialects, which may take
their types from anywhere, the types are part of the rest.

Whatever is unusual is left to the parser: `Lines.read` stops in front of it, having
changed nothing. So are lines that might be wrong (a name that is defined twice or not at
all, an operand of another type than the line says), so that errors are the parser's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    StringAttr,
    TensorType,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute

from qdialect.formats.mlir.read.types import TENSOR
from qdialect.ops.base import NNOp
from qdialect.ops.constants import BlobAttr, ConstantOp
from qdialect.ops.keys import KEY
from qdialect.quant.casts import CastOp
from qdialect.quant.rescale import RescaleOp

_NAME = r"(?:[0-9]+|[A-Za-z_$.-][A-Za-z0-9_$.-]*)"
_USE = rf"%{_NAME}(?:#[0-9]+)?"
#: result, how many, op, operands, the rest up to a percent sign or the end of the line
_LINE = re.compile(
    rf'[ \t\n]*%({_NAME})(?::([1-9][0-9]?))? = ([a-z_][a-z0-9_]*\.[a-z0-9_.]+ ?|"[a-z0-9_.]+"\()'
    rf"((?:{_USE}(?:, {_USE})*)?)([^%\n]*)"
)
_BLOB = re.compile(r'#nn\.blob<"([A-Za-z0-9_.-]*)" : (tensor<[a-z0-9_?]*>)>')
#: what stands behind the types, and of it what needs no parser
_LOCATION = re.compile(r" loc\([^\n]*\)$")
_PLACE = re.compile(r' loc\("([A-Za-z0-9_ ./:;()+*,<>-]*)":([0-9]{1,9}):([0-9]{1,9})\)')
_KEY = re.compile(r'\bnn\.key = "([A-Za-z0-9_ ./:;()+*,-]*)"')
#: what stands between the types of a line: a function type, or a conversion
_BETWEEN = re.compile(r"\((?:T(?:, T)*)?\) -> (?:T|\(T(?:, T)+\))|T(?: to T)?")
#: an op cannot go on with these
_NEXT = re.compile(r'[ \t\n]*(?:[%}"]|(?:func\.)?return\b|[a-z_][a-z0-9_]*\.[a-z])')

#: what reads the custom form of ops of ours of which the above is true
_READERS = {kind.parse.__func__ for kind in (NNOp, ConstantOp, CastOp, RescaleOp)}

_OURS = ("nn.", "quant.", '"')
"""How ops begin that take nothing from their types but types: generic ones too."""

_LONGEST = 4000
"""No recipe is kept for a rest that is longer: large constants do not come again."""

_Types = tuple[TypeAttribute, ...]


class _Rest(NamedTuple):
    """What lines have in common that are read alike."""

    op: str
    operands: int
    results: int
    text: str
    """Up to the types, without what is read from each line."""
    keyed: bool
    between: str
    """What stands between the types; for ops of other dialects the types are in the text."""


class _Line(NamedTuple):
    """A line, taken apart."""

    result: str
    operands: list[str]
    key: str | None
    blob: tuple[str, TypeAttribute] | None
    """Key and type of a weight."""
    types: _Types | None
    """Those of operands and results; None where they are part of the rest."""
    location: int
    """Where the location is written; 0 if it is not."""
    rest: _Rest
    position: int
    end: int


class _Recipe(NamedTuple):
    kind: type[Operation]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    blob: str | None
    """The property that is a weight."""
    types: _Types | None


class Lines:
    """What is known of the lines of one text; `types` are those the parser has read, by
    how they are written; `read_type` reads one more, and `read_location` a location."""

    def __init__(
        self,
        text: str,
        file: StringAttr,
        types: Mapping[str, TypeAttribute],
        line_and_column: Callable[[int], tuple[int, int]],
        read_type: Callable[[int], bool],
        read_location: Callable[[int, int], LocationAttr | None],
    ) -> None:
        self._text = text
        self._file = file
        self._types = types
        self._line_and_column = line_and_column
        self._read_type = read_type
        self._read_location = read_location
        self._recipes: dict[_Rest, _Recipe] = {}
        self._signatures: dict[str, tuple[str, _Types]] = {}
        self._columns: dict[int, IntAttr] = {}
        self._files: dict[str, StringAttr] = {}

    def read(
        self, position: int, values: dict[str, tuple[SSAValue, ...]], pending: Mapping[str, Any]
    ) -> tuple[list[Operation], int]:
        """The ops from `position` on that recipes make, and where they end. `values` are
        the values by name, to which theirs are added; `pending` names those that are
        used already."""
        ops: list[Operation] = []
        while (line := self._split(position)) is not None:
            recipe = self._recipes.get(line.rest)
            if recipe is None or line.result in values or line.result in pending:
                break
            types = recipe.types if line.types is None else line.types
            operands = _found(line.operands, values)
            if operands is None or types is None:
                break
            if not all(
                value.type is kind or value.type == kind
                for value, kind in zip(operands, types, strict=False)
            ):
                break
            location = self._location(line)
            if location is None:
                break
            op = self._made(recipe, line, operands, types[len(operands) :], location)
            values[line.result] = tuple(op.results)
            if not line.result[0].isdigit():
                for result in op.results:
                    result.name_hint = line.result
            ops.append(op)
            position = line.end
        return ops, position

    def learn(self, position: int, op: Operation) -> None:
        """The parser has read `op`, from `position` on."""
        if not op.results or op.regions or op.successors or isinstance(op, UnregisteredOp):
            return
        line = self._split(position)
        if line is None or line.rest in self._recipes or len(line.rest.text) > _LONGEST:
            return
        kind: Any = type(op)
        if line.rest.op.startswith(("nn.", "quant.")) and kind.parse.__func__ not in _READERS:
            return
        if line.key is not None:
            key = op.attributes.get(KEY)
            if not isinstance(key, StringAttr) or key.data != line.key:
                return
        blob: str | None = None
        if line.blob is not None:
            weight = _weight(*line.blob)
            blobs = [name for name, held in op.properties.items() if held == weight]
            if len(blobs) != 1:
                return
            blob = blobs[0]
        types = tuple(cast("TypeAttribute", v.type) for v in (*op.operands, *op.results))
        if len(op.results) != line.rest.results or len(op.operands) != line.rest.operands:
            return
        if line.types is not None and line.types != types:
            return
        held = types if line.types is None else None
        properties, attributes = dict(op.properties), dict(op.attributes)
        self._recipes[line.rest] = _Recipe(kind, properties, attributes, blob, held)

    # -- one line --------------------------------------------------------------

    def _split(self, position: int) -> _Line | None:
        text = self._text
        found = _LINE.match(text, position)
        if found is None:
            return None
        end = found.end()
        if text[end : end + 1] != "\n" or _NEXT.match(text, end) is None:
            return None
        result, several, op, operands, tail = found.groups()
        if "//" in tail:
            return None
        location = 0
        if tail[-1:] == ")" and (place := _LOCATION.search(tail)) is not None:
            location = end - len(tail) + place.start() + 1
            tail = tail[: place.start()]
            if tail.count('"') % 2 or "\\" in tail:
                return None  # it may be in a text
        names = operands[1:].split(", %") if operands else []
        results = int(several) if several else 1
        types: _Types | None = None
        between = ""
        head = tail
        if op.startswith(_OURS):
            head, colon, written = tail.rpartition(" : ")
            at = end - len(found[5]) + len(tail) - len(written)
            signature = self._signatures.get(written) or self._signature(written, at)
            if not colon or signature is None or len(signature[1]) != len(names) + results:
                return None
            between, types = signature
        key: str | None = None
        blob: tuple[str, TypeAttribute] | None = None
        if '"' in head:
            if "#nn.blob<" in head:
                blob, head = self._blob(head, end - len(found[5]))
            keys = _KEY.findall(head)
            if len(keys) > 1:
                return None
            if keys:
                key = keys[0]
                head = _KEY.sub("nn.key", head)
        rest = _Rest(op, len(names), results, head, key is not None, between)
        return _Line(result, names, key, blob, types, location, rest, found.start(3), end)

    def _blob(self, head: str, position: int) -> tuple[tuple[str, TypeAttribute] | None, str]:
        """The weight in `head`, if there is one, and `head` without it."""
        found = _BLOB.findall(head)
        if len(found) != 1:
            return None, head
        key, written = found[0]
        at = position + head.index(written, head.index("#nn.blob<"))
        if written not in self._types and not self._read_type(at):
            return None, head
        kind = self._types.get(written)
        return (None, head) if kind is None else ((key, kind), _BLOB.sub("#nn.blob", head))

    def _signature(self, text: str, position: int) -> tuple[str, _Types] | None:
        """What stands between the types in `text`, and the types; None where there is
        something else than tensors, or no type."""
        between = TENSOR.sub("T", text)
        if _BETWEEN.fullmatch(between) is None:
            return None
        types: list[TypeAttribute] = []
        for found in TENSOR.finditer(text):
            written = found.group()
            if written not in self._types and not self._read_type(position + found.start()):
                return None
            kind = self._types.get(written)
            if kind is None:
                return None
            types.append(kind)
        self._signatures[text] = signature = between, tuple(types)
        return signature

    def _made(
        self,
        recipe: _Recipe,
        line: _Line,
        operands: list[SSAValue],
        types: _Types,
        location: LocationAttr,
    ) -> Operation:
        attributes: Mapping[str, Attribute] = recipe.attributes
        properties: Mapping[str, Attribute] = recipe.properties
        if line.key is not None:
            attributes = {**attributes, KEY: StringAttr(line.key)}
        if recipe.blob is not None and line.blob is not None:
            weight = _weight(*line.blob)
            properties = {**properties, recipe.blob: weight}
        return recipe.kind.create(
            operands=operands,
            result_types=types,
            properties=properties,
            attributes=attributes,
            location=location,
        )

    def _location(self, line: _Line) -> LocationAttr | None:
        """Where the op is, or what is written of that; None if it cannot be read."""
        if line.location:
            found = _PLACE.match(self._text, line.location - 1, line.end)
            if found is not None and found.end() == line.end:
                file = self._files.get(found[1])
                if file is None:
                    file = self._files[found[1]] = StringAttr(found[1])
                return self._place(file, int(found[2]), int(found[3]))
            return self._read_location(line.location, line.end)
        row, column = self._line_and_column(line.position)
        return self._place(self._file, row, column)

    def _place(self, file: StringAttr, row: int, column: int) -> LocationAttr:
        number = self._columns.get(column)
        if number is None:
            number = self._columns[column] = IntAttr(column)
        return FileLineColLoc(file, IntAttr(row), number)


def _weight(key: str, kind: TypeAttribute) -> BlobAttr:
    return BlobAttr(StringAttr(key), cast("TensorType[Attribute]", kind))


def _found(names: list[str], values: Mapping[str, tuple[SSAValue, ...]]) -> list[SSAValue] | None:
    """The values of these names, all defined before; else None."""
    operands: list[SSAValue] = []
    for name in names:
        plain, _, index = name.partition("#")
        found = values.get(plain)
        number = int(index) if index else 0
        if found is None or number >= len(found):
            return None
        operands.append(found[number])
    return operands
