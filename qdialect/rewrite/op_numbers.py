"""Which op of a module an op of a clone comes from, after passes: by a number as its location.

Passes hand locations on, so what is said of an op of the clone can be said of the ops of the
module that it was made of. Op 3 of a module is, in its clone, at

    loc("op":3:0)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, FusedLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute

_MARK = "op"


def number_ops(module: ModuleOp) -> None:
    """Give every op its number in program order, in place of its location."""
    for number, op in enumerate(module.walk()):
        op.location = FileLineColLoc(StringAttr(_MARK), IntAttr(number), IntAttr(0))


def numbers_of(location: Attribute) -> Iterator[int]:
    """The numbers of the ops that an op at `location` comes from."""
    if isinstance(location, FusedLoc):
        entries: Any = location.locations
        for entry in entries:
            yield from numbers_of(entry)
    elif isinstance(location, FileLineColLoc) and location.filename.data == _MARK:
        yield location.line.data


def place_of_number(number: int) -> str:
    """The text of the location of op `number`, as remarks have it."""
    return f"{_MARK}:{number}:0"
