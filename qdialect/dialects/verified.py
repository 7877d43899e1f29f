"""Ops like one that was verified before need not be verified again.

What the verifier of an op says depends, for most ops of ours, on its class, types and
properties alone, and networks repeat few of them: such an op is verified once for each
of its looks. The attributes that make up a look are kept alive, as it is told from
another by their identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.ir.core import ErasedSSAValue

from qdialect.dialects.nn.base import KEY, PIECE_KEYS, QPARAMS, NNOp
from qdialect.dialects.quick_check import Quick

if TYPE_CHECKING:
    from qdialect.behaviors import BehaviorRegistry
    from qdialect.dialects.nn.constants import BlobAttr

Look = tuple[object, ...]

_WIDEST = 64
"""Ops with more operands do not come again."""

_MOST = 1 << 14
"""So many looks are remembered."""

_OURS = "qdialect.dialects."


class Verified:
    """The looks of ops that were found right, all by the same rules."""

    def __init__(self) -> None:
        self._looks: dict[Look, list[Attribute]] = {}
        self._repeat: dict[type[Operation], bool] = {}
        self._behaviors: BehaviorRegistry | None = None
        self.quick = Quick()

    def begin(self, behaviors: BehaviorRegistry | None) -> None:
        """A module is going to be verified, with these declarations."""
        self._behaviors = behaviors
        self._repeat.clear()

    def look(self, op: Operation) -> tuple[Look, list[Attribute]] | None:
        """What all ops that are right if `op` is have in common, and the attributes it is
        told by; None if that cannot be said."""
        kind = type(op)
        repeats = self._repeat.get(kind)
        if repeats is None:
            repeats = self._repeat[kind] = self._is_told_by_types(kind)
        operands = op._operands  # pyright: ignore[reportPrivateUsage]
        if not repeats or op.regions or len(operands) > _WIDEST:
            return None
        held: list[Attribute] = []
        names: list[object] = [kind, len(operands), len(op.properties)]
        for value in operands:
            if type(value) is ErasedSSAValue:
                return None
            held.append(value.type)
        for result in op.results:
            held.append(result.type)
        for name, attribute in op.properties.items():
            names.append(name)
            if type(attribute) is DenseIntOrFPElementsAttr or attribute.name == "nn.blob":
                # Of constants the type is looked at.
                names.append(type(attribute))
                attribute = cast("BlobAttr", attribute).type
            held.append(attribute)
        for name, attribute in op.attributes.items():
            if name == KEY and _is_key(attribute):
                continue
            if name in (QPARAMS, PIECE_KEYS):
                return None
            names.append(name)
            held.append(attribute)
        return (*names, *map(id, held)), held

    def _is_told_by_types(self, kind: type[Operation]) -> bool:
        # A class from outside may look at more than the class of ours that it comes from,
        # and so may a declaration from outside.
        if not getattr(kind, "TOLD_BY_TYPES", False) or not kind.__module__.startswith(_OURS):
            return False
        ours = self._behaviors is None or issubclass(kind, NNOp)
        return ours or cast("Any", self._behaviors).named(kind.name) is None

    def __contains__(self, look: Look) -> bool:
        return look in self._looks

    def add(self, look: Look, held: list[Attribute]) -> None:
        """An op that looks like this, told by `held`, is right."""
        if len(self._looks) >= _MOST:
            self._looks.clear()
        self._looks[look] = held


def _is_key(attribute: Attribute) -> bool:
    """Whether a key, of which any is as good as another, is a text or a list of them."""
    kind: Any = type(attribute)
    if kind is ArrayAttr:
        return all(type(part) is StringAttr for part in cast("ArrayAttr[Any]", attribute).data)
    return kind is StringAttr
