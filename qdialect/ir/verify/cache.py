"""Lets the verifier skip ops like one it found valid before: networks repeat few kinds of ops.

Invariant: two ops with the same `CacheKey` are both valid or both invalid. The verifiers of
most ops read the class of the op, the types of its operands and results, its properties and
attributes. Of scales and zero points they read only which are equal, so these two lines have
the same key whatever the scales of `!a` and `!b` are:

    %1 = nn.relu %0 : (tensor<4x!a>) -> tensor<4x!a>
    %9 = nn.relu %8 : (tensor<4x!b>) -> tensor<4x!b>

The key names the types themselves where a verifier reads more of them: the scale of a bias is
a product of two others, and the parameters of a moved value may vary along an axis.

Without this cache a module of 1 000 ops takes 2.2 to 3 times as long to verify and
`qopt optimize` longer (-5 to +25 % in single runs), as it verifies after every pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

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

from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.keys import KEY, PIECE_KEYS, QPARAMS

if TYPE_CHECKING:
    from qdialect.algebra.qparams.parameters import QParams
    from qdialect.ir.behaviors import BehaviorRegistry
    from qdialect.ir.ops.constants import BlobAttr

MAX_VALUES = 64
"""Ops with more operands get no key: such ops do not repeat."""
MAX_KEYS = 1 << 14
"""The cache is emptied when it has so many keys."""
MAX_TYPES = 1 << 16
"""The same for types."""


class CacheKey(NamedTuple):
    """What the validity of an op depends on."""

    parts: tuple[object, ...]
    """Class, types without scales and zero points, which of these are equal, properties and
    attributes; attributes are compared by value where that is cheap, else by `id`."""
    attributes: Sequence[Attribute]
    """The attributes that `parts` has by `id`. The cache refers to them, so that no other
    attribute gets the same `id`."""


class _TypeInfo:
    """What a key has of the type of a value."""

    __slots__ = ("is_per_tensor", "is_valid", "number", "qparams", "type")

    def __init__(self, type: Attribute, number: int, params: QParams | None) -> None:
        #: `VerifiedOps` finds this entry by `id(type)`, which stays unique while it refers to it
        self.type = type
        #: the same for types that differ in scales and zero points alone
        self.number = number
        #: scales and zero points as bytes; None for a type without
        self.qparams = None if params is None else params.scales + params.zero_points
        self.is_per_tensor = params is None or params.is_per_tensor
        #: whether the type itself was verified
        self.is_valid = False


class VerifiedOps:
    """The keys of ops that were valid, all by the same rules and declarations."""

    def __init__(self) -> None:
        #: the parts of each key, with its attributes
        self._keys: dict[tuple[object, ...], Sequence[Attribute]] = {}
        self._types: dict[int, _TypeInfo] = {}
        self._numbers: dict[object, int] = {}
        self._has_keys: dict[type[Operation], bool] = {}
        self._behaviors: BehaviorRegistry | None = None

    def begin(self, behaviors: BehaviorRegistry | None) -> None:
        """Verify the next module with these declarations of ops from outside."""
        self._behaviors = behaviors
        self._has_keys.clear()

    def __contains__(self, key: CacheKey) -> bool:
        return key.parts in self._keys

    def add(self, key: CacheKey) -> None:
        """An op with this key is valid."""
        if len(self._keys) >= MAX_KEYS:
            self._keys.clear()
        self._keys[key.parts] = key.attributes

    def key(self, op: Operation) -> CacheKey | None:
        """The key of `op`; None if its validity may depend on more."""
        kind = type(op)
        has_key = self._has_keys.get(kind)
        if has_key is None:
            has_key = self._has_keys[kind] = self._class_has_keys(kind)
        operands = op._operands  # pyright: ignore[reportPrivateUsage]
        if not has_key or op.regions or len(operands) > MAX_VALUES:
            return None
        parts: list[object] = [kind, len(operands)]
        by_identity: list[Attribute] = []
        qparams: list[bytes] = []
        per_tensor = True
        types = self._types
        for value in (*operands, *op.results):
            if type(value) is ErasedSSAValue:
                return None
            info = types.get(id(value.type)) or self._type_info(value.type)
            parts.append(info.number)
            if info.qparams is not None:
                qparams.append(info.qparams)
                per_tensor = per_tensor and info.is_per_tensor
        if len(qparams) > 1:
            parts.append(_equalities(qparams))
            if issubclass(kind, NNOp) and not _depends_on_equality_only(op, per_tensor):
                by_identity += [value.type for value in (*operands, *op.results)]
                parts += map(id, by_identity)
        for name, attribute in op.properties.items():
            parts += (name, _attribute_part(attribute, by_identity))
        for name, attribute in op.attributes.items():
            if name == KEY and _is_valid_key(attribute):
                continue
            if name in (QPARAMS, PIECE_KEYS):
                return None
            parts += (name, _attribute_part(attribute, by_identity))
        return CacheKey(tuple(parts), by_identity)

    def has_valid_types(self, op: Operation) -> bool:
        """Whether the types of all results of `op` were verified."""
        return all(self._type_info(result.type).is_valid for result in op.results)

    def add_types(self, op: Operation) -> None:
        """The types of the results of `op` are valid."""
        for result in op.results:
            self._type_info(result.type).is_valid = True

    def _class_has_keys(self, kind: type[Operation]) -> bool:
        # A subclass from outside may verify more than the class it comes from, and so may a
        # declaration from outside.
        if not getattr(kind, "VERIFIES_TYPES_ONLY", False):
            return False
        if not kind.__module__.startswith("qdialect."):
            return False
        if self._behaviors is None or issubclass(kind, NNOp):
            return True
        return cast("Any", self._behaviors).named(kind.name) is None

    def _type_info(self, type: Attribute) -> _TypeInfo:
        info = self._types.get(id(type))
        if info is None:
            if len(self._types) >= MAX_TYPES:
                self._types.clear()
            form, params = _without_qparams(type)
            number = self._numbers.setdefault(form, len(self._numbers))
            info = self._types[id(type)] = _TypeInfo(type, number, params)
        return info


def _without_qparams(kind: Attribute) -> tuple[object, QParams | None]:
    """What types that differ in scales and zero points alone have in common, and the qparams."""
    if type(kind) is TensorType:
        element: Attribute = kind.element_type
        if element.name == "quant.uniform" and type(kind.encoding) is NoneAttr:
            from qdialect.ir.quant.types import UniformType

            if type(element) is UniformType:
                params = element.data
                form = (params.storage, params.expressed, params.layout, params.blocks, params.grid)
                return (kind.get_shape(), form), params
    return kind, None


def _equalities(qparams: list[bytes]) -> object:
    """Which of them are equal: for each the index of the first that is equal to it."""
    if len(qparams) == 2:
        return qparams[0] == qparams[1]
    first: dict[bytes, int] = {}
    return tuple(first.setdefault(entry, index) for index, entry in enumerate(qparams))


def _depends_on_equality_only(op: Operation, per_tensor: bool) -> bool:
    """Whether the verifier of `op` reads no more of the qparams than which are equal;
    `per_tensor`: every value has one scale and zero point."""
    from qdialect.ir.ops.ports import bias_fits, carries_fields

    return (per_tensor or not carries_fields(op)) and bias_fits(op)


def _attribute_part(attribute: Attribute, by_identity: list[Attribute]) -> object:
    """What a key has of a property or attribute; if that is an `id`, the attribute is added to
    `by_identity`."""
    kind = type(attribute)
    if kind is StringAttr:
        return kind, cast("StringAttr", attribute).data
    if kind is DenseArrayBase:
        array = cast("DenseArrayBase[Any]", attribute)
        by_identity.append(array.elt_type)
        return kind, id(array.elt_type), array.data.data
    if kind is IntegerAttr:
        number = cast("IntegerAttr[Any]", attribute)
        by_identity.append(number.type)
        return kind, id(number.type), number.value.data
    if kind is DenseIntOrFPElementsAttr or attribute.name == "nn.blob":
        # A verifier reads the type of a constant, not its elements.
        attribute = cast("BlobAttr", attribute).type
    by_identity.append(attribute)
    return kind, id(attribute)


def _is_valid_key(attribute: Attribute) -> bool:
    """Whether a key is a string or a list of strings: a verifier does not read which."""
    kind: Any = type(attribute)
    if kind is ArrayAttr:
        return all(type(part) is StringAttr for part in cast("ArrayAttr[Any]", attribute).data)
    return kind is StringAttr
