"""Ops that stand on one line and look like one printed before are printed from memory.

A network repeats few kinds of lines: what the printer makes of an op depends, apart from
the names of its values, its key, its types and the tensor it holds, on its properties and
attributes alone. So the first op with some properties and attributes is printed by the
printer, and what came of it is taken apart and kept, if the rest is found in it where it
belongs; later ops with the same are put together from that. (`frontends.mlir_lines` is
the way back.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    StringAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation

from qdialect.ops.base import NNOp
from qdialect.ops.constants import BlobAttr, ConstantOp
from qdialect.ops.keys import KEY
from qdialect.quant.casts import CastOp
from qdialect.quant.rescale import RescaleOp

if TYPE_CHECKING:
    from qdialect.formats.mlir.write.printer import Parts

#: what writes the custom form of ops of which the above is true
_WRITERS: set[Any] = {kind.print for kind in (NNOp, ConstantOp, CastOp, RescaleOp)}

_is_plain = re.compile(r"[A-Za-z0-9_ ./:;()+*,-]*").fullmatch
"""Whether a key is written as it is."""
_LONGEST = 4000
"""Nothing is kept of a line that is longer: large constants do not come again."""

_TENSORS = (BlobAttr, DenseIntOrFPElementsAttr)

_Look = tuple[object, ...]


class Looks(NamedTuple):
    """What ops have in common that are printed alike, and what an op has of its own."""

    look: _Look
    key: str | None
    tensor: Attribute | None


class _Recipe(NamedTuple):
    head: str
    """The name of the op."""
    first: str
    second: str
    third: str
    """What stands between operands, tensor, key and types."""
    types: Callable[[Sequence[str], Sequence[str]], str]


class Lines:
    """What is known of the lines of one text."""

    def __init__(self, generic: bool) -> None:
        self._generic = generic
        self._recipes: dict[_Look, _Recipe | None] = {}
        self._kinds: dict[type[Operation], bool] = {}
        #: by identity, which the second part keeps alive, and by what they are
        self._known: dict[int, tuple[int, Attribute]] = {}
        self._equal: dict[Attribute, int] = {}

    def look(self, op: Operation) -> Looks | None:
        """What the line of `op` depends on; None for an op that is printed in another way."""
        kind = type(op)
        usual = self._kinds.get(kind)
        if usual is None:
            written = self._generic or cast("Any", kind).print in _WRITERS
            usual = self._kinds[kind] = written and not issubclass(kind, UnregisteredOp)
        if not usual or op.regions or op.successors:
            return None
        look: list[object] = [kind, len(op.properties)]
        tensor: Attribute | None = None
        for name, attribute in op.properties.items():
            look.append(name)
            if tensor is None and type(attribute) in _TENSORS:
                tensor = attribute
            else:
                look.append(self._number(attribute))
        key: str | None = None
        for name, attribute in op.attributes.items():
            look.append(name)
            if name == KEY and type(attribute) is StringAttr and _is_plain(attribute.data):
                key = attribute.data
            else:
                look.append(self._number(attribute))
        return Looks(tuple(look), key, tensor)

    def text(self, look: _Look, parts: Parts) -> str | None:
        """The op behind `%result = `; None where it is to be printed in the usual way."""
        recipe = self._recipes.get(look)
        if recipe is None:
            return None
        head, first, second, third, types = recipe
        return "".join(
            (
                head,
                self._operands(parts.operands),
                first,
                parts.tensor,
                second,
                parts.key,
                third,
                types(parts.types, parts.results),
            )
        )

    def learn(self, look: _Look, op: Operation, parts: Parts, text: str) -> None:
        """The printer has made `text` of what is behind `%result = `."""
        if look in self._recipes:
            return
        self._recipes[look] = None
        if len(text) > _LONGEST or "\n" in text:
            return
        head = f'"{op.name}"' if self._generic else op.name
        start = head + self._operands(parts.operands)
        for types in _TYPES:
            end = types(parts.types, parts.results)
            if text.startswith(start) and text.endswith(end):
                middle = text[len(start) : len(text) - len(end)]
                first, tensor, middle = _divided(middle, parts.tensor)
                second, key, third = _divided(middle, parts.key)
                if tensor == parts.tensor and key == parts.key:
                    self._recipes[look] = _Recipe(head, first, second, third, types)
                return

    def _operands(self, names: Sequence[str]) -> str:
        if self._generic:
            return f"(%{', %'.join(names)})" if names else "()"
        return f" %{', %'.join(names)}" if names else ""

    def _number(self, attribute: Attribute) -> int:
        known = self._known.get(id(attribute))
        if known is not None:
            return known[0]
        number = len(self._known)
        if type(attribute) not in _TENSORS:  # which may be large
            number = self._equal.setdefault(attribute, number)
        self._known[id(attribute)] = number, attribute
        return number


def _divided(text: str, part: str) -> tuple[str, str, str]:
    """`text` before `part`, and after it; it is found once, or not at all."""
    if not part:
        return "", "", text
    if text.count(part) != 1:
        return "", "", ""
    return text.partition(part)


def _function_type(operands: Sequence[str], results: Sequence[str]) -> str:
    # One is without parentheses, unless it is a function type.
    if len(results) == 1 and not results[0].startswith("("):
        return f" : ({', '.join(operands)}) -> {results[0]}"
    return f" : ({', '.join(operands)}) -> ({', '.join(results)})"


def _conversion(operands: Sequence[str], results: Sequence[str]) -> str:
    return f" : {''.join(operands)} to {''.join(results)}"


def _result(operands: Sequence[str], results: Sequence[str]) -> str:
    return f" : {', '.join(results)}"


_TYPES = (_function_type, _conversion, _result)
"""The ways in which ops write their types."""
