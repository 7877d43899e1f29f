"""Sizes in exported programs: sympy's text of an expression as an `Extent`.

    Mul(Integer(4), Symbol('s77', positive=True, integer=True))   ->   4*@s77

The text is parsed by a grammar of names, numbers and brackets; nothing of it is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from qdialect.plugins.common.extents import Extent

_TOKEN = re.compile(r"\s*(?:([A-Za-z_][\w.]*)|(-?\d+)|('[^']*')|([(),=]))")
_DEEPEST = 64


class Call(NamedTuple):
    """A function of the expression, and its arguments without those that have names."""

    function: str
    arguments: tuple[Term, ...]


Term = Call | int | str
"""A function applied, a number, or a text in quotes."""


def parse(text: str) -> Term:
    """The expression as a tree; ValueError for a text that is none."""
    tokens = _tokens(text)
    term, rest = _term(tokens, 0, 0)
    if rest != len(tokens):
        raise ValueError(f"'{tokens[rest]}' is left over in the size '{text}'")
    return term


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"the size '{text}' is no expression")
        found.append(match.group(match.lastindex or 0))
        position = match.end()
    return found


def _term(tokens: list[str], place: int, depth: int) -> tuple[Term, int]:
    """The term that begins at a place, and the place behind it."""
    if place >= len(tokens) or depth > _DEEPEST:
        raise ValueError("a size ends early, or is nested too deep")
    token = tokens[place]
    if token[0] == "'":
        return token[1:-1], place + 1
    if token.lstrip("-").isdigit():
        return int(token), place + 1
    if token in ("(", ")", ",", "="):
        raise ValueError(f"a size has '{token}' where a term is expected")
    if tokens[place + 1 : place + 2] != ["("]:
        return Call(token, ()), place + 1
    arguments: list[Term] = []
    place += 2
    while tokens[place : place + 1] != [")"]:
        if tokens[place + 1 : place + 2] == ["="]:
            _, place = _term(tokens, place + 2, depth + 1)
        else:
            argument, place = _term(tokens, place, depth + 1)
            arguments.append(argument)
        if tokens[place : place + 1] == [","]:
            place += 1
    return Call(token, tuple(arguments)), place + 1


def extent(text: str) -> Extent:
    """The size that a text says; ValueError where it is no expression of integers."""
    return _extent(parse(text))


def _extent(term: Term) -> Extent:
    if isinstance(term, int):
        return Extent.of(term)
    if isinstance(term, str):
        raise ValueError(f"a size has the text '{term}' in it")
    function, arguments = term
    if function == "Symbol" and arguments and isinstance(arguments[0], str):
        return Extent.named(arguments[0])
    if function in _NUMBERS:
        return Extent.of(_NUMBERS[function])
    values = [_extent(argument) for argument in arguments]
    if function == "Integer" and len(values) == 1:
        return values[0]
    if function in _FOLDED and values:
        total = values[0]
        for value in values[1:]:
            total = _FOLDED[function](total, value)
        return total
    if len(values) == 2 and function in _PAIRS:
        return _PAIRS[function](*values)
    # Equal arguments, equal results: what the function is does not matter for that.
    total = Extent.of(len(values))
    for value in values:
        total = total.made(function, value)
    return total


def _power(base: Extent, exponent: Extent) -> Extent:
    times = exponent.number
    if times is None or not 0 <= times <= 8:
        return base.made("Pow", exponent)
    total = Extent.of(1)
    for _ in range(times):
        total = total * base
    return total


def floor_quotient(a: Extent, b: Extent) -> Extent:
    """a // b: a polynomial where b divides every term, else a function of both."""
    if a.number is not None and b.number:
        return Extent.of(a.number // b.number)
    return a.over(b) or a.made("FloorDiv", b) if b.terms else a.made("FloorDiv", b)


_NUMBERS = {"One": 1, "Zero": 0, "NegativeOne": -1}
_FOLDED: dict[str, Callable[[Extent, Extent], Extent]] = {
    "Add": lambda a, b: a + b,
    "Mul": lambda a, b: a * b,
}
_PAIRS: dict[str, Callable[[Extent, Extent], Extent]] = {
    "Pow": _power,
    "FloorDiv": floor_quotient,
    "CleanDiv": floor_quotient,
}
