"""The rows of upstream's ops: one text table for each dialect, read one row at a time.

A row says what ODS says of an op, in lines: its operands, properties, results, regions and
successors, how types that its text leaves out follow from others, its traits, and its assembly
format. `python -m tools.upstream_tables` makes the tables; docs/design/016-upstream-text.md has
the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "tables"


class Value(NamedTuple):
    """An operand, result, region or successor of a row."""

    name: str
    repeat: str
    """Empty for one, `?` for none or one, `*` for any number."""


class Property(NamedTuple):
    """An inherent attribute of a row."""

    name: str
    presence: str
    """`required`, `optional`, `default`, or `default-optional`: elided where it is the default."""
    kind: str
    """How the custom form writes it: see `plugins.mlir.upstream.attributes`."""
    detail: str
    default: str


class Row(NamedTuple):
    """What is known of one op."""

    name: str
    operands: tuple[Value, ...]
    properties: Mapping[str, Property]
    results: tuple[Value, ...]
    regions: tuple[Value, ...]
    successors: tuple[Value, ...]
    types: Mapping[str, tuple[str, str]]
    """Of values whose types are left out: the rule (`mlir.upstream.types`) and what it reads."""
    traits: frozenset[str]
    terminator: str
    """The op that ends a block whose text leaves it out; empty if there is none."""
    format: str
    body: str
    """What the hidden region of the op computes; empty if it has none."""


class Enum(NamedTuple):
    """The cases of an enumeration that is stored as an integer."""

    type: str
    values: Mapping[str, int]
    names: Mapping[int, str]


@cache
def _table(dialect: str) -> str:
    path = FOLDER / f"{dialect}.txt"
    return "\n" + path.read_text() + "\n" if path.exists() else ""


@cache
def dialects() -> frozenset[str]:
    """The names of all dialects that have a table."""
    return frozenset(path.stem for path in FOLDER.glob("*.txt"))


def names(dialect: str) -> list[str]:
    """The full names of the ops of a dialect."""
    return [f"{dialect}.{part.split(maxsplit=1)[0]}" for part in _table(dialect).split("\nop ")[1:]]


@cache
def find_row(name: str) -> Row | None:
    """The row of an op; None if there is none."""
    dialect, _, rest = name.partition(".")
    if dialect not in dialects():
        return None
    table = _table(dialect)
    start = table.find(f"\nop {rest}\n")
    if start < 0:
        return None
    end = table.find("\nop ", start + 1)
    lines = table[start + 1 : None if end < 0 else end].splitlines()[1:]
    return _row(name, lines)


@cache
def find_enum(dialect: str, name: str) -> Enum:
    """An enumeration of a dialect's table; KeyError if there is none."""
    table = _table(dialect)
    start = table.find(f"\nenum {name} ")
    if start < 0:
        raise KeyError(name)
    _, _, kind, _, *cases = table[start + 1 : table.index("\n", start + 1)].split(" ")
    pairs = [case.rpartition("=") for case in cases]
    values = {name: int(value) for name, _, value in pairs}
    return Enum(kind, values, {value: name for name, value in values.items()})


def _row(name: str, lines: list[str]) -> Row:
    fields: dict[str, str] = {}
    properties: dict[str, Property] = {}
    for line in lines:
        key, _, rest = line.partition(" ")
        if key == "property":
            made = _property(rest)
            properties[made.name] = made
        else:
            fields[key] = rest
    types = [entry.partition("=") for entry in fields.get("types", "").split()]
    traits = fields.get("traits", "").split()
    ends = [trait.partition(":")[2] for trait in traits if trait.startswith("implicit:")]
    return Row(
        name=name,
        operands=_values(fields.get("operands", "")),
        properties=properties,
        results=_values(fields.get("results", "")),
        regions=_values(fields.get("regions", "")),
        successors=_values(fields.get("successors", "")),
        types={value: _rule(rule) for value, _, rule in types},
        traits=frozenset(traits),
        terminator=ends[0] if ends else "",
        format=fields.get("format", ""),
        body=fields.get("body", ""),
    )


def _rule(text: str) -> tuple[str, str]:
    rule, _, argument = text.partition(":")
    return rule, argument


def _values(text: str) -> tuple[Value, ...]:
    bare = [(word.rstrip("?*"), word) for word in text.split()]
    return tuple(Value(name, word[len(name) :]) for name, word in bare)


def _property(text: str) -> Property:
    name, presence, kind, *rest = text.split(" ", 3)
    head, _, detail = kind.partition(":")
    return Property(name, presence, head, detail, rest[0] if rest else "")
