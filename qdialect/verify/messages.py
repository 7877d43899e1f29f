"""xDSL's messages about ops in the words of mlir-opt, where they say the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from re import Match

from xdsl.ir import Operation

from qdialect.verify.reports import op_name

_Words = Callable[[Operation, Match[str]], str]


def _counted(op: Operation, found: Match[str]) -> str:
    expected, what, given = int(found[1]), found[2], found[3]
    if what == "region":
        return "requires one region" if expected == 1 else f"expected {expected} regions"
    if what == "successor":
        return f"requires {expected} successor{'s'[: expected != 1]} but found {given}"
    if what == "result":
        return {0: "requires zero results", 1: "requires one result"}.get(
            expected, f"expected {expected} results"
        )
    return {0: "requires zero operands", 1: "requires a single operand"}.get(
        expected, f"expected {expected} operands, but found {given}"
    )


def _parents(op: Operation, found: Match[str]) -> str:
    names = sorted(re.findall(r"'([^']+)'", found[1]))
    return f"expects parent op to be one of '{', '.join(names)}'"


def _missing(op: Operation, found: Match[str]) -> str:
    return f"requires attribute '{found[1]}'"


def _parent(op: Operation, found: Match[str]) -> str:
    return found[0]


def _blocks(op: Operation, found: Match[str]) -> str:
    return f"expects region #{found[1]} to have 0 or 1 blocks"


_TABLE: tuple[tuple[str, _Words], ...] = (
    (r"Expected (\d+) (operand|result|region|successor)s?, but got (\d+)", _counted),
    (r"(?:property|attribute) '([^']+)' expected in operation '[^']+'", _missing),
    (r"expects parent op to be one of (.*)", _parents),
    (r"expects parent op '([^']+)'", _parent),
    (r"Region '\w+' at position (\d+) expected a single block, but got \d+ blocks", _blocks),
)
"""By the pattern of xDSL's message."""


def in_upstreams_words(op: Operation, message: str) -> str:
    """The message about `op` that mlir-opt has where xDSL has `message`; else that."""
    text = message.strip().removeprefix(f"'{op_name(op)}' ").removeprefix("op ")
    for pattern, words in _TABLE:
        found = re.fullmatch(pattern, text)
        if found is not None:
            return words(op, found)
    return message
