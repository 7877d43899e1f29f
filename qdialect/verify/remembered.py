"""Ops like one that was verified before need not be verified again.

What the verifier of an op says depends, for most ops of ours, on its class, types and
properties alone, and of scales and zero points on no more than which values have the same
ones: such an op is verified once for each of its looks, and networks repeat few of them.
The exception is a bias, whose scale is a product of two others; that it is one is part of
the look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    NoneAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.ir.core import ErasedSSAValue

from qdialect.ops.base import NNOp
from qdialect.ops.keys import KEY, PIECE_KEYS, QPARAMS
from qdialect.verify.quick_check import Quick

if TYPE_CHECKING:
    from qdialect.behaviors import BehaviorRegistry
    from qdialect.ops.constants import BlobAttr
    from qdialect.qparams.parameters import QParams

Look = tuple[object, ...]

_WIDEST = 64
"""Ops with more operands do not come again."""

_MOST = 1 << 14
"""So many looks are remembered."""

_MOST_TYPES = 1 << 16
"""So many types are remembered."""

_OURS = "qdialect."


class _Face:
    """What is seen of a type in a look."""

    __slots__ = ("field", "form", "is_plain", "is_right", "kind")

    def __init__(self, kind: Attribute, form: int, params: QParams | None) -> None:
        #: keeps it alive, as it is told from others by its identity
        self.kind = kind
        #: types that differ in scales and zero points alone have the same
        self.form = form
        self.field = None if params is None else params.scales + params.zero_points
        self.is_plain = params is None or params.is_per_tensor
        #: whether the type itself was found right
        self.is_right = False


class Verified:
    """The looks of ops that were found right, all by the same rules."""

    def __init__(self) -> None:
        #: each with the attributes that it tells by their identity, to keep them alive
        self._looks: dict[Look, list[Attribute]] = {}
        self._faces: dict[int, _Face] = {}
        self._forms: dict[object, int] = {}
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
        names: list[object] = [kind, len(operands)]
        held: list[Attribute] = []
        fields: list[bytes] = []
        plain = True
        faces = self._faces
        for value in (*operands, *op.results):
            if type(value) is ErasedSSAValue:
                return None
            kept = value.type
            face = faces.get(id(kept)) or self._face_of(kept)
            names.append(face.form)
            if face.field is not None:
                fields.append(face.field)
                plain = plain and face.is_plain
        if len(fields) > 1:
            names.append(_pattern(fields))
            if issubclass(kind, NNOp) and not _is_told_by_pattern(op, plain):
                held += [value.type for value in (*operands, *op.results)]
                names += map(id, held)
        for name, attribute in op.properties.items():
            names += (name, _named(attribute, held))
        for name, attribute in op.attributes.items():
            if name == KEY and _is_key(attribute):
                continue
            if name in (QPARAMS, PIECE_KEYS):
                return None
            names += (name, _named(attribute, held))
        return tuple(names), held

    def knows_types(self, op: Operation) -> bool:
        """Whether the types of what `op` defines were found right."""
        return all(self._face_of(result.type).is_right for result in op.results)

    def learn_types(self, op: Operation) -> None:
        """The types of what `op` defines are right."""
        for result in op.results:
            self._face_of(result.type).is_right = True

    def _is_told_by_types(self, kind: type[Operation]) -> bool:
        # A class from outside may look at more than the class of ours that it comes from,
        # and so may a declaration from outside.
        if not getattr(kind, "TOLD_BY_TYPES", False) or not kind.__module__.startswith(_OURS):
            return False
        ours = self._behaviors is None or issubclass(kind, NNOp)
        return ours or cast("Any", self._behaviors).named(kind.name) is None

    def _face_of(self, kind: Attribute) -> _Face:
        face = self._faces.get(id(kind))
        if face is None:
            if len(self._faces) >= _MOST_TYPES:
                self._faces.clear()
            form, params = _form(kind)
            number = self._forms.setdefault(form, len(self._forms))
            face = self._faces[id(kind)] = _Face(kind, number, params)
        return face

    def __contains__(self, look: Look) -> bool:
        return look in self._looks

    def add(self, look: Look, held: list[Attribute]) -> None:
        """An op that looks like this, told by `held`, is right."""
        if len(self._looks) >= _MOST:
            self._looks.clear()
        self._looks[look] = held


def _form(kind: Attribute) -> tuple[object, QParams | None]:
    """What types that differ in scales and zero points alone have in common, and those."""
    if type(kind) is TensorType:
        element: Attribute = kind.element_type
        if element.name == "quant.uniform" and type(kind.encoding) is NoneAttr:
            from qdialect.quant.types import UniformType

            if type(element) is UniformType:
                params = element.data
                form = (params.storage, params.expressed, params.layout, params.blocks, params.grid)
                return (kind.get_shape(), form), params
    return kind, None


def _pattern(fields: list[bytes]) -> object:
    """Which of them are the same."""
    if len(fields) == 2:
        return fields[0] == fields[1]
    first: dict[bytes, int] = {}
    return tuple(first.setdefault(field, index) for index, field in enumerate(fields))


def _is_told_by_pattern(op: Operation, plain: bool) -> bool:
    """Whether it depends on nothing but which fields are the same if `op` is right; `plain`
    if all are of one scale."""
    from qdialect.ops.ports import bias_fits, carries_fields

    return (plain or not carries_fields(op)) and bias_fits(op)


def _named(attribute: Attribute, held: list[Attribute]) -> object:
    """What `attribute` is told by; an identity counts as long as it is `held`."""
    kind = type(attribute)
    if kind is StringAttr:
        return kind, cast("StringAttr", attribute).data
    if kind is DenseArrayBase:
        array = cast("DenseArrayBase[Any]", attribute)
        held.append(array.elt_type)
        return kind, id(array.elt_type), array.data.data
    if kind is IntegerAttr:
        number = cast("IntegerAttr[Any]", attribute)
        held.append(number.type)
        return kind, id(number.type), number.value.data
    if kind is DenseIntOrFPElementsAttr or attribute.name == "nn.blob":
        # Of constants the type is looked at.
        attribute = cast("BlobAttr", attribute).type
    held.append(attribute)
    return kind, id(attribute)


def _is_key(attribute: Attribute) -> bool:
    """Whether a key, of which any is as good as another, is a text or a list of them."""
    kind: Any = type(attribute)
    if kind is ArrayAttr:
        return all(type(part) is StringAttr for part in cast("ArrayAttr[Any]", attribute).data)
    return kind is StringAttr
