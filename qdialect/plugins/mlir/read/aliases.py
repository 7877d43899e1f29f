"""Rejects texts whose aliases stand for too many attributes.

Each alias may name the one before twice, so that forty lines stand for more attributes than
any machine can print. `AliasExtents` counts them when an alias is read and, if one is large, for
the whole module:

    #a0 = [1, 1]
    #a1 = [#a0, #a0]
    ...
    #a39 = [#a38, #a38]  -> error: the alias stands for more than 1000000 attributes
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, Operation, ParametrizedAttribute

MOST = 1_000_000
"""Attributes an alias may stand for, and those of a module above what its length allows."""
DEEPEST = 100
"""Attributes that may be nested in each other."""
LARGE = 100
"""A use of an alias for fewer attributes is no amplification worth counting."""


class _Extent(NamedTuple):
    attributes: int
    depth: int


class AliasExtents:
    """How many attributes the aliases of one text stand for, and how deep they are nested."""

    def __init__(self) -> None:
        #: by `id` of the attribute, which the entry refers to so that the `id` stays unique
        self._known: dict[int, tuple[Attribute, _Extent]] = {}
        self._any_large = False

    def fault(self, attribute: Attribute) -> str | None:
        """The error of an alias for `attribute`, if there is one."""
        count, depth = self._of(attribute)
        self._any_large = self._any_large or count > LARGE
        if depth > DEEPEST:
            return f"the alias stands for more than {DEEPEST} nested attributes"
        return f"the alias stands for more than {MOST} attributes" if count > MOST else None

    def fault_of_module(self, module: ModuleOp, length: int) -> str | None:
        """The error of all uses of aliases in a text of this length, if there is one."""
        if not self._any_large:
            return None
        most = MOST + LARGE * length
        count = 0
        for op in module.walk():
            count += sum(self._of(attribute).attributes for attribute in _attributes(op))
            if count > most:
                return f"the aliases stand for more than {most} attributes"
        return None

    def _of(self, attribute: Attribute) -> _Extent:
        known = self._known.get(id(attribute))
        if known is None:
            parts = [self._of(part) for part in _parts(attribute)]
            depth = 1 + max((part.depth for part in parts), default=0)
            extent = _Extent(1 + sum(part.attributes for part in parts), depth)
            known = self._known[id(attribute)] = attribute, extent
        return known[1]


def _parts(attribute: Attribute) -> tuple[Attribute, ...]:
    if isinstance(attribute, ArrayAttr):
        return cast("ArrayAttr[Attribute]", attribute).data
    if isinstance(attribute, DictionaryAttr):
        return tuple(attribute.data.values())
    if isinstance(attribute, ParametrizedAttribute):
        return attribute.parameters
    return ()


def _attributes(op: Operation) -> Iterator[Attribute]:
    yield op.location
    yield from op.attributes.values()
    yield from op.properties.values()
    yield from op.result_types
    for region in op.regions:
        for block in region.blocks:
            for argument in block.args:
                yield argument.location
                yield argument.type
