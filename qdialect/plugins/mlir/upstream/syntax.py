"""Reads and writes the custom form of the ops that have a row."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.plugins.mlir.upstream.attributes import default_of
from qdialect.plugins.mlir.upstream.custom import custom, is_custom
from qdialect.plugins.mlir.upstream.directives import (
    AttributeDictionary,
    Custom,
    Directive,
    FunctionType,
    Group,
    Literal,
    Operands,
    PropertyValue,
    Space,
    Successor,
    Types,
    print_all,
)
from qdialect.plugins.mlir.upstream.region_directives import RegionValue
from qdialect.plugins.mlir.upstream.states import (
    OPERAND_SEGMENTS,
    RESULT_SEGMENTS,
    Reading,
    Writing,
    inherent_as_attribute,
    parts_of,
)
from qdialect.plugins.mlir.upstream.table import Row, Value, find_row


def parse_op(name: str, kind: type[Operation], parser: Parser) -> Operation | None:
    """The op whose name the parser has just read; None when its custom form is unknown.

    Raises ParseError.
    """
    found = format_of(name)
    row = find_row(name)
    if found is None or row is None:
        return None
    start = parser.pos
    state = Reading(row, parser)
    for element in found.elements:
        element.parse(state)
    state.start = start
    for value in (*row.operands, *row.results):
        state.types_of(value.name)
    return _make(state, kind, start)


def is_written(op: Operation) -> bool:
    """Whether the custom form of `op` is known, and `op` has the parts that its row says."""
    found = format_of(op.name)
    row = find_row(op.name)
    if found is None or row is None:
        return False
    present = op.properties.keys() | op.attributes.keys()
    if not all(
        kind.presence != "required" or name not in found.properties or name in present
        for name, kind in row.properties.items()
    ):
        return False
    try:
        parts_of(row, op)
    except VerifyException:
        return False
    customs = (part.syntax for part in found.elements if isinstance(part, Custom))
    return all(syntax.can_write(op) for syntax in customs)


def print_op(op: Operation, printer: Printer) -> bool:
    """Write what follows the name of `op`; False when its custom form is unknown."""
    found = format_of(op.name)
    row = find_row(op.name)
    if found is None or row is None or not is_written(op):
        return False
    state = Writing(row, op, printer)
    state.written |= found.properties
    print_all(state, found.elements)
    return True


def _make(state: Reading, kind: type[Operation], start: int) -> Operation:
    row, parser = state.row, state.parser
    sizes: list[int] = []
    operands: list[Any] = []
    for value in row.operands:
        given = state.operands.get(value.name, [])
        types = state.types[value.name]
        if len(types) != len(given):
            parser.raise_error(f"expected {len(given)} operand types but had {len(types)}", start)
        operands += [
            parser.resolve_operand(operand, kind)
            for operand, kind in zip(given, types, strict=True)
        ]
        sizes.append(len(given))
    properties = dict(state.properties)
    for name, entry in row.properties.items():
        if name not in properties:
            default = default_of(entry, parser.ctx)
            if default is not None:
                properties[name] = default
    if "operand-segments" in row.traits:
        properties[OPERAND_SEGMENTS] = DenseArrayBase.from_list(i32, sizes)
    results = [state.types[value.name] for value in row.results]
    if "result-segments" in row.traits:
        properties[RESULT_SEGMENTS] = DenseArrayBase.from_list(i32, [len(part) for part in results])
    attributes = dict(state.attributes)
    for name in inherent_as_attribute(kind) & properties.keys():
        attributes[name] = properties.pop(name)
    return kind.create(
        operands=operands,
        result_types=[type for part in results for type in part],
        properties=properties,
        attributes=attributes,
        successors=[b for value in row.successors for b in state.successors.get(value.name, ())],
        regions=[region for value in row.regions for region in _regions(state, value)],
    )


def _regions(state: Reading, value: Value) -> list[Region]:
    """The regions of this name: one without blocks where the text has none."""
    return state.regions.get(value.name) or ([] if value.repeat else [Region()])


# Reads the assembly format of a row into directives.
#
# The language is that of ODS: literals in backticks, `$name`, `type($name)`, `functional-type`,
# `attr-dict`, groups `( .. $anchor^ ..)? : ( .. )?`, `custom<Name>(..)`.

_TOKEN = re.compile(r"\s*(`[^`]*`|\"(?:[^\"\\]|\\.)*\"|\$\w+|custom<\w+>|[\w-]+|[(){}?^:,])")


_CUSTOM = re.compile(r"custom<(\w+)>")


class Format(NamedTuple):
    """The directives of one op, and the properties that they write."""

    elements: tuple[Directive, ...]
    properties: frozenset[str]


@cache
def format_of(name: str) -> Format | None:
    """The format of an op; None if it has none, or one with a directive that nobody wrote."""
    row = find_row(name)
    if row is None or not row.format:
        return None
    if not all(is_custom(word) for word in _CUSTOM.findall(row.format)):
        return None
    return _Grammar(row).read()


class _Grammar:
    def __init__(self, row: Row) -> None:
        self.row = row
        self.tokens: list[str] = _TOKEN.findall(row.format)
        self.at = 0
        self.properties: set[str] = set()
        self.operands = {value.name: value for value in row.operands}
        self.results = {value.name: value for value in row.results}
        self.regions = {value.name: value for value in row.regions}
        self.successors = {value.name: value for value in row.successors}

    def read(self) -> Format:
        elements = self._sequence(())
        _place_spaces(elements)
        return Format(elements, frozenset(self.properties))

    @property
    def _next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self, expected: str = "") -> str:
        token = self._next
        if expected and token != expected:
            raise ValueError(f"format of {self.row.name}: {expected!r} is missing at {token!r}")
        self.at += 1
        return token

    def _sequence(self, ends: tuple[str, ...]) -> tuple[Directive, ...]:
        made: list[Directive] = []
        while self._next and self._next not in ends:
            made.append(self._element())
        return tuple(made)

    def _element(self) -> Directive:
        token = self._take()
        if token[0] == "`":
            text = token[1:-1]
            return Literal(text) if text.strip() and text != "\\n" else Space(text)
        if token[0] == "$":
            made = self._variable(token[1:])
        elif token == "(":
            return self._group()
        elif token.startswith("custom<"):
            made = Custom(custom(token[7:-1]), self._arguments())
        elif token == "type":
            made = self._types()
        elif token == "functional-type":
            made = self._function_type()
        elif token in ("attr-dict", "attr-dict-with-keyword"):
            return AttributeDictionary(token.endswith("keyword"))
        elif token in ("qualified", "ref"):
            self._take("(")
            made = self._element()
            if isinstance(made, PropertyValue):
                made.qualified = token == "qualified"
            self._take(")")
        elif token in ("operands", "results"):
            made = Operands([value.name for value in self.row.operands])
        elif token == "regions":
            made = RegionValue([value.name for value in self.row.regions], self.row.terminator)
        elif token == "successors":
            made = Successor([value.name for value in self.row.successors])
        else:
            raise ValueError(f"format of {self.row.name}: {token!r} is no directive")
        if self._next == "^":
            self._take()
            made.anchor = True
        return made

    def _variable(self, name: str) -> Directive:
        if name in self.row.properties:
            self.properties.add(name)
            return PropertyValue(self.row.properties[name])
        if name in self.operands:
            return Operands([name], self.operands[name])
        if name in self.regions:
            return RegionValue([name], self.row.terminator, self.regions[name].repeat)
        if name in self.successors:
            return Successor([name], self.successors[name].repeat)
        raise ValueError(f"format of {self.row.name}: no ${name}")

    def _names(self) -> list[str]:
        token = self._take()
        if token == "operands":
            return [value.name for value in self.row.operands]
        if token == "results":
            return [value.name for value in self.row.results]
        return [token[1:]]

    def _types(self) -> Types:
        self._take("(")
        names = self._names()
        self._take(")")
        repeats = [{**self.operands, **self.results}[name].repeat for name in names]
        return Types(names, repeats)

    def _function_type(self) -> FunctionType:
        self._take("(")
        inputs = self._names()
        self._take(",")
        outputs = self._names()
        self._take(")")
        return FunctionType(inputs, outputs)

    def _group(self) -> Directive:
        first = self._sequence((")",))
        self._take(")")
        otherwise: tuple[Directive, ...] = ()
        if self._next == ":":
            self._take()
            self._take("(")
            otherwise = self._sequence((")",))
            self._take(")")
        self._take("?")
        return Group(first, otherwise)

    def _arguments(self) -> list[Directive | str]:
        """Of `custom`: variables and types as directives, other words as they are."""
        self._take("(")
        made: list[Directive | str] = []
        while self._next != ")":
            token = self._next
            if token[0] == '"':
                made.append(self._take()[1:-1])
            elif token[0] == "$" and token[1:] in self.results:
                made.append(Types([self._take()[1:]], [""]))
            elif token[0] in "$`" or token in ("type", "ref", "qualified"):
                made.append(self._element())
            else:
                made.append(self._take())
            if self._next == ",":
                self._take()
        self._take(")")
        return made


def _place_spaces(elements: tuple[Directive, ...]) -> None:
    """Decide which elements have a space before them, as mlir-tblgen does: from the elements
    that stand before them in the format, whether or not they are written."""
    _Spaces().visit(elements)


def _has_own_space(element: Directive) -> bool:
    return isinstance(element, Custom) and not element.syntax.spaced


class _Spaces:
    def __init__(self) -> None:
        self.emit = True
        self.punctuation = False

    def visit(self, elements: tuple[Directive, ...]) -> None:
        for element in elements:
            if isinstance(element, Space) and element.text == "\\n":
                continue
            if isinstance(element, Space):
                self.punctuation = not element.text
                self.emit = False
            elif isinstance(element, Literal):
                self._literal(element)
            elif isinstance(element, AttributeDictionary) or _has_own_space(element):
                self.punctuation = False
            elif isinstance(element, Group):
                self.visit(element.first)
                self.visit(element.otherwise)
            elif isinstance(element, PropertyValue) and element.kind.kind == "unit":
                continue
            else:
                element.space = self.emit or not self.punctuation
                self.punctuation = False
                self.emit = True

    def _literal(self, element: Literal) -> None:
        text = element.text
        if len(text) != 1 and text != "->":
            before = True
        elif self.punctuation:
            before = text[0] not in ">)}],"
        else:
            before = text[0] not in "<>(){}[],"
        element.space = self.emit and before
        self.emit = len(text) != 1 or text[0] not in "<({["
        self.punctuation = text[0] != "_" and not text[0].isalpha()
