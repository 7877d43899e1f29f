"""Reads ops that stand on one line without the parser, if it has read a line like it before.

Large networks repeat few kinds of lines:

    %9 = nn.relu %8 {nn.key = "n8"} : (tensor<4x!a>) -> tensor<4x!a>

What the parser makes of a line depends on the names of its results and operands, its
`nn.key`, the reference to its weight, its types and its location (the parts), and on the rest of
the text (the pattern, here `nn.relu {nn.key} : (T) -> T`). The parser reads the first line with
a pattern, and the op it makes becomes the template of that pattern, provided that the parts
are found in the op where the line has them. Later lines with the pattern are made from the
template and their own parts. In ops of other dialects, which may derive their types, the types
belong to the pattern.

Invariant: ops and errors are the parser's. `LineTemplates.read` stops in front of a line it is
not sure of, and has changed nothing then: a line with an unusual part, an undefined or doubly
defined name, or an operand of another type than the line says.

Without templates, texts of 1 000 and 10 000 ops take 5 to 10 times as long to read, and
`qopt optimize` of 1 000 ops 1.5 to 1.9 times as long in all.
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

from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.constants import BlobAttr, ConstantOp
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant.casts import CastOp
from qdialect.ir.quant.rescale import RescaleOp
from qdialect.plugins.mlir.read.types import TENSOR

_NAME = r"(?:[0-9]+|[A-Za-z_$.-][A-Za-z0-9_$.-]*)"
_USE = rf"%{_NAME}(?:#[0-9]+)?"
#: groups: result, number of results, op, operands, tail (up to a percent sign or the end of line)
_LINE = re.compile(
    rf'[ \t\n]*%({_NAME})(?::([1-9][0-9]?))? = ([a-z_][a-z0-9_]*\.[a-z0-9_.]+ ?|"[a-z0-9_.]+"\()'
    rf"((?:{_USE}(?:, {_USE})*)?)([^%\n]*)"
)
_WEIGHT = re.compile(r'#nn\.blob<"([A-Za-z0-9_.-]*)" : (tensor<[a-z0-9_?]*>)>')
_LOCATION = re.compile(r" loc\([^\n]*\)$")
_FILE_LOCATION = re.compile(r' loc\("([A-Za-z0-9_ ./:;()+*,<>-]*)":([0-9]{1,9}):([0-9]{1,9})\)')
_KEY = re.compile(r'\bnn\.key = "([A-Za-z0-9_ ./:;()+*,-]*)"')
#: the signature at the end of a line, with T for each type: a function type, or a conversion
_SIGNATURE = re.compile(r"\((?:T(?:, T)*)?\) -> (?:T|\(T(?:, T)+\))|T(?: to T)?")
#: what follows on the next line when the op ends with its line
_NEXT_LINE = re.compile(r'[ \t\n]*(?:[%}"]|(?:func\.)?return\b|[a-z_][a-z0-9_]*\.[a-z])')

#: the `parse` methods that add nothing to what a line says
_PARSE_METHODS = {kind.parse.__func__ for kind in (NNOp, ConstantOp, CastOp, RescaleOp)}

_TYPED_OPS = ("nn.", "quant.", '"')
"""How lines begin whose signature has the types of all operands and results."""

MAX_PATTERN = 4000
"""Lines with longer patterns get no template: large constants do not repeat."""

_Types = tuple[TypeAttribute, ...]


class _Pattern(NamedTuple):
    """What is left of a line without its parts."""

    op: str
    operands: int
    results: int
    text: str
    """The text between operands and types, with marks in place of the parts."""
    has_key: bool
    signature: str
    """`(T) -> T`; empty for ops of other dialects, whose types are in `text`."""


class _Line(NamedTuple):
    """A line, split into its parts and its pattern."""

    pattern: _Pattern
    result: str
    operands: list[str]
    key: str | None
    weight: BlobAttr | None
    types: _Types | None
    """The types of operands and results; None where they belong to the pattern."""
    location: int
    """The position of `loc(...)`; 0 without one."""
    position: int
    """The position of the op's name."""
    end: int


class _Template(NamedTuple):
    """The op of the first line with a pattern, without what comes from the parts."""

    kind: type[Operation]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    weight: str | None
    """The name of the property that is the weight."""
    types: _Types | None
    """The types of operands and results where they belong to the pattern."""


class LineTemplates:
    """The templates of one text.

    `types`: the tensor types read so far, by their text. `read_type` reads the one at a position
    into `types`; False if there is none. `read_location` reads the location between two
    positions; None if it is something else.
    """

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
        self._templates: dict[_Pattern, _Template] = {}
        self._signatures: dict[str, tuple[str, _Types]] = {}
        self._columns: dict[int, IntAttr] = {}
        self._files: dict[str, StringAttr] = {}

    def read(
        self, position: int, values: dict[str, tuple[SSAValue, ...]], forward: Mapping[str, Any]
    ) -> tuple[list[Operation], int]:
        """The ops from `position` on that templates make, and the position behind them.

        `values` are the values by name, to which the results are added; `forward` has the names
        that were used before their definition.
        """
        ops: list[Operation] = []
        while (line := self._split(position)) is not None:
            template = self._templates.get(line.pattern)
            if template is None or line.result in values or line.result in forward:
                break
            types = template.types if line.types is None else line.types
            operands = _operands(line.operands, values)
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
            op = _op(template, line, operands, types[len(operands) :], location)
            values[line.result] = tuple(op.results)
            if not line.result[0].isdigit():
                for result in op.results:
                    result.name_hint = line.result
            ops.append(op)
            position = line.end
        return ops, position

    def learn(self, position: int, op: Operation) -> None:
        """Make a template of `op`, which the parser has read from `position` on."""
        if not op.results or op.regions or op.successors or isinstance(op, UnregisteredOp):
            return
        line = self._split(position)
        if line is None:
            return
        pattern = line.pattern
        if pattern in self._templates or len(pattern.text) > MAX_PATTERN:
            return
        kind: Any = type(op)
        if pattern.op.startswith(("nn.", "quant.")) and kind.parse.__func__ not in _PARSE_METHODS:
            return
        if line.key is not None:
            key = op.attributes.get(KEY)
            if not isinstance(key, StringAttr) or key.data != line.key:
                return
        weight: str | None = None
        if line.weight is not None:
            names = [name for name, value in op.properties.items() if value == line.weight]
            if len(names) != 1:
                return
            weight = names[0]
        if len(op.results) != pattern.results or len(op.operands) != pattern.operands:
            return
        types = tuple(cast("TypeAttribute", v.type) for v in (*op.operands, *op.results))
        if line.types is not None and line.types != types:
            return
        self._templates[pattern] = _Template(
            kind,
            dict(op.properties),
            dict(op.attributes),
            weight,
            types if line.types is None else None,
        )

    # -- one line --------------------------------------------------------------

    def _split(self, position: int) -> _Line | None:
        """The line at `position`; None if it is not an op on one line."""
        text = self._text
        found = _LINE.match(text, position)
        if found is None:
            return None
        end = found.end()
        if text[end : end + 1] != "\n" or _NEXT_LINE.match(text, end) is None:
            return None
        result, count, op, operands, tail = found.groups()
        if "//" in tail:
            return None
        start = found.start(5)
        location = 0
        if tail[-1:] == ")" and (place := _LOCATION.search(tail)) is not None:
            location = start + place.start() + 1
            tail = tail[: place.start()]
            if tail.count('"') % 2 or "\\" in tail:
                return None  # `loc(` may be inside of a string
        names = operands[1:].split(", %") if operands else []
        results = int(count) if count else 1
        types: _Types | None = None
        signature = ""
        if op.startswith(_TYPED_OPS):
            tail, colon, type_text = tail.rpartition(" : ")
            at = start + len(tail) + len(colon)
            entry = self._signatures.get(type_text) or self._signature(type_text, at)
            if not colon or entry is None or len(entry[1]) != len(names) + results:
                return None
            signature, types = entry
        key: str | None = None
        weight: BlobAttr | None = None
        if '"' in tail:
            if "#nn.blob<" in tail:
                weight, tail = self._weight(tail, start)
            keys = _KEY.findall(tail)
            if len(keys) > 1:
                return None
            if keys:
                key = keys[0]
                tail = _KEY.sub("nn.key", tail)
        pattern = _Pattern(op, len(names), results, tail, key is not None, signature)
        return _Line(pattern, result, names, key, weight, types, location, found.start(3), end)

    def _weight(self, tail: str, position: int) -> tuple[BlobAttr | None, str]:
        """The reference to a weight in `tail`, which is at `position`, and `tail` without it."""
        found = _WEIGHT.findall(tail)
        if len(found) != 1:
            return None, tail
        key, type_text = found[0]
        at = position + tail.index(type_text, tail.index("#nn.blob<"))
        if type_text not in self._types and not self._read_type(at):
            return None, tail
        kind = self._types.get(type_text)
        if kind is None:
            return None, tail
        weight = BlobAttr(StringAttr(key), cast("TensorType[Attribute]", kind))
        return weight, _WEIGHT.sub("#nn.blob", tail)

    def _signature(self, text: str, position: int) -> tuple[str, _Types] | None:
        """`text`, which is at `position`, with T for its types, and the types; None if it has
        other types than tensors."""
        signature = TENSOR.sub("T", text)
        if _SIGNATURE.fullmatch(signature) is None:
            return None
        types: list[TypeAttribute] = []
        for found in TENSOR.finditer(text):
            type_text = found.group()
            if type_text not in self._types and not self._read_type(position + found.start()):
                return None
            kind = self._types.get(type_text)
            if kind is None:
                return None
            types.append(kind)
        self._signatures[text] = entry = signature, tuple(types)
        return entry

    def _location(self, line: _Line) -> LocationAttr | None:
        """What `loc(...)` says, or the position of the op; None if it cannot be read."""
        if not line.location:
            row, column = self._line_and_column(line.position)
            return self._file_location(self._file, row, column)
        found = _FILE_LOCATION.match(self._text, line.location - 1, line.end)
        if found is None or found.end() != line.end:
            return self._read_location(line.location, line.end)
        file = self._files.get(found[1])
        if file is None:
            file = self._files[found[1]] = StringAttr(found[1])
        return self._file_location(file, int(found[2]), int(found[3]))

    def _file_location(self, file: StringAttr, row: int, column: int) -> LocationAttr:
        number = self._columns.get(column)
        if number is None:
            number = self._columns[column] = IntAttr(column)
        return FileLineColLoc(file, IntAttr(row), number)


def _op(
    template: _Template,
    line: _Line,
    operands: list[SSAValue],
    result_types: _Types,
    location: LocationAttr,
) -> Operation:
    attributes, properties = template.attributes, template.properties
    if line.key is not None:
        attributes = {**attributes, KEY: StringAttr(line.key)}
    if template.weight is not None and line.weight is not None:
        properties = {**properties, template.weight: line.weight}
    return template.kind.create(
        operands=operands,
        result_types=result_types,
        properties=properties,
        attributes=attributes,
        location=location,
    )


def _operands(
    names: list[str], values: Mapping[str, tuple[SSAValue, ...]]
) -> list[SSAValue] | None:
    """The values with these names; None if one is not defined yet."""
    operands: list[SSAValue] = []
    for name in names:
        base, _, index = name.partition("#")
        group = values.get(base)
        number = int(index) if index else 0
        if group is None or number >= len(group):
            return None
        operands.append(group[number])
    return operands
