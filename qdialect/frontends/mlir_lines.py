"""Ops that stand on one line and look like one read before are read without the parser.

A network repeats few kinds of lines: `%9 = nn.relu %8 {nn.key = "n8"} : (T) -> T`. What the
parser makes of such a line depends, apart from the name of the result, the operands, the
key and the types, on the rest of the text alone. So a line is split into these four and
the rest; the first line with some rest is read by the parser, and what came of it is kept
as a recipe, if the four are found in the op where the line has them; later lines with the
same rest are made from the recipe.

Whatever is unusual is left to the parser: `Lines.read` stops in front of it, having
changed nothing. So are lines that might be wrong (a name that is defined twice or not at
all, an operand of another type than the line says), so that errors are the parser's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    StringAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute

from qdialect.dialects.nn.base import KEY, NNOp
from qdialect.dialects.nn.constants import ConstantOp
from qdialect.dialects.quant.casts import CastOp
from qdialect.dialects.quant.rescale import RescaleOp
from qdialect.frontends.mlir_parser import TENSOR

_NAME = r"(?:[0-9]+|[A-Za-z_$.-][A-Za-z0-9_$.-]*)"
#: result, op, operands, the rest up to a percent sign or the end of the line
_LINE = re.compile(
    rf'[ \t\n]*%({_NAME}) = ((?:nn|quant)\.[a-z0-9_]+ ?|"[a-z0-9_.]+"\()'
    rf"((?:%{_NAME}(?:, %{_NAME})*)?)([^%\n]*)"
)
_KEY = re.compile(r'\bnn\.key = "([A-Za-z0-9_ ./:;()+*,-]*)"')
#: what stands between the types of a line: a function type, or a conversion
_BETWEEN = re.compile(r"\((?:T(?:, T)*)?\) -> T|T(?: to T)?")
#: an op cannot go on with these
_NEXT = re.compile(r'[ \t\n]*(?:[%}"]|(?:func\.)?return\b)')

#: what reads the custom form of ops of which the above is true
_READERS = {kind.parse.__func__ for kind in (NNOp, ConstantOp, CastOp, RescaleOp)}

_LONGEST = 4000
"""No recipe is kept for a rest that is longer: large constants do not come again."""

_Types = tuple[TypeAttribute, ...]


_Rest = tuple[str, int, str, bool, str]
"""Op, number of operands, text up to the types, whether there is a key, text between types."""


class _Line(NamedTuple):
    """A line, taken apart; `types` are those of operands and result."""

    result: str
    operands: list[str]
    key: str | None
    types: _Types
    rest: _Rest
    position: int
    end: int


class _Recipe(NamedTuple):
    kind: type[Operation]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]


class Lines:
    """What is known of the lines of one text; `types` are those the parser has read, by
    how they are written, and `read_type` reads one more."""

    def __init__(
        self,
        text: str,
        file: StringAttr,
        types: Mapping[str, TypeAttribute],
        line_and_column: Callable[[int], tuple[int, int]],
        read_type: Callable[[int], bool],
    ) -> None:
        self._text = text
        self._file = file
        self._types = types
        self._line_and_column = line_and_column
        self._read_type = read_type
        self._recipes: dict[_Rest, _Recipe] = {}
        self._signatures: dict[str, tuple[str, _Types]] = {}
        self._columns: dict[int, IntAttr] = {}

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
            operands: list[SSAValue] = []
            for name in line.operands:
                found = values.get(name)
                if found is None:
                    break
                operands.append(found[0])
            if len(operands) != len(line.operands):
                break
            if not all(
                value.type is kind or value.type == kind
                for value, kind in zip(operands, line.types, strict=False)
            ):
                break
            op = self._made(recipe, line, operands)
            result = op.results[0]
            values[line.result] = (result,)
            if not line.result[0].isdigit():
                result.name_hint = line.result
            ops.append(op)
            position = line.end
        return ops, position

    def learn(self, position: int, op: Operation) -> None:
        """The parser has read `op`, from `position` on."""
        if len(op.results) != 1 or op.regions or op.successors or isinstance(op, UnregisteredOp):
            return
        line = self._split(position)
        if line is None or line.rest in self._recipes or len(line.rest[2]) > _LONGEST:
            return
        kind: Any = type(op)
        if line.rest[0][0] != '"' and kind.parse.__func__ not in _READERS:
            return
        if line.key is not None:
            key = op.attributes.get(KEY)
            if not isinstance(key, StringAttr) or key.data != line.key:
                return
        if list(line.types) != [value.type for value in (*op.operands, *op.results)]:
            return
        self._recipes[line.rest] = _Recipe(kind, dict(op.properties), dict(op.attributes))

    # -- one line --------------------------------------------------------------

    def _split(self, position: int) -> _Line | None:
        text = self._text
        found = _LINE.match(text, position)
        if found is None:
            return None
        end = found.end()
        if text[end : end + 1] != "\n" or _NEXT.match(text, end) is None:
            return None
        result, op, operands, tail = found.groups()
        if "//" in tail:
            return None
        head, colon, types = tail.rpartition(" : ")
        if not colon:
            return None
        key: str | None = None
        if '"' in head:
            keys = _KEY.findall(head)
            if len(keys) > 1:
                return None
            if keys:
                key = keys[0]
                head = _KEY.sub("nn.key", head)
        names = operands[1:].split(", %") if operands else []
        signature = self._signatures.get(types) or self._signature(types, end - len(types))
        if signature is None or len(signature[1]) != len(names) + 1:
            return None
        rest = (op, len(names), head, key is not None, signature[0])
        return _Line(result, names, key, signature[1], rest, found.start(2), end)

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

    def _made(self, recipe: _Recipe, line: _Line, operands: list[SSAValue]) -> Operation:
        attributes: Mapping[str, Attribute] = recipe.attributes
        if line.key is not None:
            attributes = {**attributes, KEY: StringAttr(line.key)}
        return recipe.kind.create(
            operands=operands,
            result_types=line.types[-1:],
            properties=recipe.properties,
            attributes=attributes,
            location=self._location(line.position),
        )

    def _location(self, position: int) -> LocationAttr:
        row, column = self._line_and_column(position)
        number = self._columns.get(column)
        if number is None:
            number = self._columns[column] = IntAttr(column)
        return FileLineColLoc(self._file, IntAttr(row), number)
