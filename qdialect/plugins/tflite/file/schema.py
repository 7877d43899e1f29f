"""The schemas of TFLite and Circle: tables, their fields, enums, and which options an op has.

They are read from one text each, which `python -m tools.tflite_schema` makes:

    enum Padding: SAME 0, VALID 1
    table TransposeConvOptions: 0 padding Padding:int8, 1 stride_w int32, ...
    options TRANSPOSE_CONV: TransposeConvOptions

A field has the number of its slot, its name, its type and its default where that is not zero.
Types are those of numpy, an enum with the type of its number, `string`, a table, a union with its
tag in the slot before, and vectors of those in brackets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from qdialect.plugins.tflite.file.model import Kind

FOLDER = Path(__file__).parent / "tables"

CALLED = {"adjoint_lhs": "adj_x", "adjoint_rhs": "adj_y"}
"""Fields of Circle that TFLite has under other names, which options have."""

_FORMATS = {
    "bool": "<B",
    "int8": "<b",
    "uint8": "<B",
    "int16": "<h",
    "uint16": "<H",
    "int32": "<i",
    "uint32": "<I",
    "int64": "<q",
    "uint64": "<Q",
    "float32": "<f",
    "float64": "<d",
}

Role = Literal["number", "tag", "union", "string", "table"]


@dataclass(frozen=True)
class Field:
    """One field of a table."""

    slot: int
    name: str
    role: Role
    #: whether it is a vector of these
    many: bool
    #: the type of numbers, the name of a table or of the enum that tags a union
    type: str
    #: the enum whose numbers these are; empty for plain numbers
    enum: str
    default: Any

    @cached_property
    def packing(self) -> struct.Struct:
        """How a number, or else the distance to what the field has, is written."""
        plain = self.role in ("number", "tag") and not self.many
        return struct.Struct(_FORMATS[self.type] if plain else "<I")

    @cached_property
    def width(self) -> int:
        """Bytes that one element of a vector takes."""
        return struct.calcsize(_FORMATS[self.type]) if self.role == "number" else 4


@dataclass(frozen=True)
class Enum:
    """The members of an enum, both ways."""

    numbers: Mapping[str, int]
    names: Mapping[int, str]


class Schema:
    """The schema of a kind of file."""

    def __init__(self, text: str) -> None:
        self.tables: dict[str, tuple[Field, ...]] = {}
        self.enums: dict[str, Enum] = {}
        #: the table of the options of each op that has one
        self.options: dict[str, str] = {}
        rows = [line.partition(": ") for line in text.replace(":\n", ": \n").splitlines()]
        for head, _, body in rows:
            what, _, name = head.partition(" ")
            members = body.split(", ") if body else []
            if what == "enum":
                pairs = [member.rsplit(" ", 1) for member in members]
                numbers = {key: int(number) for key, number in pairs}
                self.enums[name] = Enum(numbers, {n: key for key, n in numbers.items()})
            elif what == "table":
                self.tables[name] = tuple(self._fields(members))
            else:
                self.options[name] = body

    def _fields(self, members: list[str]) -> Iterator[Field]:
        for member in members:
            declared, _, default = member.partition(" = ")
            slot, name, type = declared.split(" ", 2)
            many = type.startswith("[")
            type = type.strip("[]")
            role: Role = "number"
            enum = ""
            if type == "string":
                role = "string"
            elif type.startswith(("tag ", "union ")):
                role = "tag" if type.startswith("tag") else "union"
                enum = type.split(" ")[1]
                type = "uint8"
            elif ":" in type:
                enum, _, type = type.partition(":")
            elif type not in _FORMATS:
                role = "table"
            value: Any = None
            if role == "number" and not many:
                number = float(default or 0)
                value = number if type.startswith("float") else int(number)
                value = bool(value) if type == "bool" else value
                value = self.enums[enum].names[value] if enum else value
            yield Field(int(slot), name, role, many, type, enum, value)

    @cache  # noqa: B019  (there are two schemas)
    def defaults(self, table: str) -> Mapping[str, Any]:
        """The values of the fields of a table that has none; tags are no fields."""
        return {f.name: f.default for f in self.tables[table] if f.role != "tag"}


@cache
def schema_of(kind: Kind) -> Schema:
    """The schema of TFLite or of Circle."""
    return Schema((FOLDER / f"{kind}.txt").read_text())
