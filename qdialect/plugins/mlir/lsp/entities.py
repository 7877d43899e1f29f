"""What an index is made of: names with their scopes and uses, ops, and the outline of a text.

Everything is an offset from the start of the chunk, and none of it knows types.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Kind = Literal["value", "block", "symbol", "alias"]


class Stopped(Exception):
    """Nobody wants the index any more."""


class Span(NamedTuple):
    """Offsets of the first character and behind the last one."""

    start: int
    end: int


@dataclass(eq=False)
class Entity:
    """Something with a name: where it is defined (None: nowhere) and used."""

    kind: Kind
    name: str
    definition: Span | None
    uses: list[Span] = field(default_factory=list[Span])
    #: the op whose results a value is one of, or that defines a symbol
    op: str = ""
    #: of a symbol whose op has a region: the number of its scope
    body: int = -1

    def spans(self) -> list[Span]:
        """The definition, if there is one, and the uses, in the order of the text."""
        return sorted([*([self.definition] if self.definition else []), *self.uses])


@dataclass(eq=False)
class Scope:
    """A region; the whole chunk is the first scope."""

    parent: int
    span: Span
    names: dict[str, list[Entity]] = field(default_factory=dict[str, "list[Entity]"])


class Op(NamedTuple):
    """The name of an op in the text, where it stands, and what is known of it."""

    name: str
    span: Span
    scope: int


@dataclass
class Outline:
    """A symbol or an op with a key, for the list of symbols of a file."""

    name: str
    detail: str
    kind: Literal["symbol", "key"]
    span: Span
    whole: Span
    children: list[Outline] = field(default_factory=list["Outline"])


@dataclass
class Found:
    """All that was found in a chunk."""

    text: str
    scopes: list[Scope]
    entities: list[Entity] = field(default_factory=list[Entity])
    #: in the order of the text
    ops: list[Op] = field(default_factory=list[Op])
    outline: list[Outline] = field(default_factory=list[Outline])
    comments: list[Span] = field(default_factory=list[Span])
