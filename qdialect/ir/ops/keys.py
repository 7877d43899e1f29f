"""The stable keys that ops carry: what the importer found them under, kept by every rewrite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Data, Operation
from xdsl.parser import AttrParser
from xdsl.printer import Printer

KEY = "nn.key"
"""Attribute: the stable keys of an op, a text or a list of texts."""
QPARAMS = "nn.qparams"
"""Attribute: the qparams of the pieces of a composite, by role."""
PIECE_KEYS = "nn.piece_keys"
"""Attribute: the keys of the pieces of a composite, by role."""

MODEL = "nn.model"
"""Attribute of a module: which model it was before passes, and what it is since."""


@dataclass(frozen=True, eq=False)
class JoinedKeys(Data[tuple[Attribute, Attribute]]):
    """The keys of two ops that became one. Only in a module while rules run on it."""

    name = "nn.joined_keys"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Attribute, Attribute]:
        parser.raise_error("keys are listed in a text")

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(",".join(_listed(self)))


def keys_of(op: Operation) -> tuple[str, ...]:
    """The stable keys an op carries (empty if none)."""
    keys = op.attributes.get(KEY)
    return _listed(keys) if isinstance(keys, JoinedKeys) else texts(keys)


def _listed(joined: JoinedKeys) -> tuple[str, ...]:
    """Each key once, in order. Parts may be shared: each is looked at once."""
    found: dict[str, None] = {}
    pending: list[Attribute] = [joined]
    visited: set[int] = set()
    while pending:
        part = pending.pop()
        if id(part) in visited:
            continue
        visited.add(id(part))
        if isinstance(part, JoinedKeys):
            pending += reversed(part.data)
        else:
            found.update(dict.fromkeys(texts(part)))
    return tuple(found)


def texts(attribute: Attribute | None) -> tuple[str, ...]:
    """A text or a list of texts."""
    if isinstance(attribute, StringAttr):
        return (attribute.data,)
    data: Any = getattr(attribute, "data", ())
    return tuple(entry.data for entry in data if isinstance(entry, StringAttr))
