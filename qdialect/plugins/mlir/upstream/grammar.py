"""Reads the assembly format of a row into directives.

The language is that of ODS: literals in backticks, `$name`, `type($name)`, `functional-type`,
`attr-dict`, groups `( .. $anchor^ ..)? : ( .. )?`, `custom<Name>(..)`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

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
)
from qdialect.plugins.mlir.upstream.region_directives import RegionValue
from qdialect.plugins.mlir.upstream.table import Row, find_row

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
