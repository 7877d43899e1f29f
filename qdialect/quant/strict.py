"""Rules on quant types beyond the verifiers of the ops that use them.

`verify_structure` reports what mlir-opt always rejects and xDSL has no place to
check: quantized elements in vectors and memrefs, unknown names in the dialect.

`verify_strict` is ours, for whoever wants types that mean something: zero points
inside the storage bounds, finite positive scales, encodings that fit the shape
of their tensor wherever the type occurs.  Upstream accepts all of these in types.

Both look at every value and attribute of a module once and return diagnostics;
neither raises.  `QuantChecker` does the same op by op, for a verifier that walks the
module anyway; its strict rules hold for the types of values, so that a declaration may
still name any type upstream accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    ContainerType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    UnrankedMemRefType,
    UnregisteredAttr,
    UnregisteredOp,
    VectorType,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute

from qdialect.numerics.float_text import FORMATS
from qdialect.numerics.rounding import Rounding
from qdialect.qparams.parameters import QParams
from qdialect.quant.casts import ROUNDING_KEY, CastOp, cast_rounding
from qdialect.quant.elements import quant_element
from qdialect.quant.integrity import shape_error
from qdialect.quant.types import CalibratedType, QuantizedType, UniformType


@dataclass(frozen=True, eq=False)
class QuantDiagnostic:
    """A broken rule: the op on which it was found, and a sentence."""

    op: Operation
    message: str


def verify_structure(root: Operation) -> list[QuantDiagnostic]:
    """What mlir-opt rejects whatever the options, in program order."""
    found: list[QuantDiagnostic] = []
    for op in root.walk():
        if isinstance(op, UnregisteredOp) and op.op_name.data.startswith("quant."):
            found.append(QuantDiagnostic(op, _unknown_op(op)))
    return found + _check_attributes(root, _structure_errors)


def verify_strict(root: Operation) -> list[QuantDiagnostic]:
    """What upstream accepts but is certainly a mistake."""
    found = _check_attributes(root, _strict_errors)
    for op in root.walk():
        found += [QuantDiagnostic(op, message) for message in _scalar_errors(op)]
        message = _rounding_error(op)
        if message is not None:
            found.append(QuantDiagnostic(op, message))
    return found


def _unknown_op(op: UnregisteredOp) -> str:
    return (
        f"unregistered operation '{op.op_name.data}' found in dialect ('quant') "
        "that does not allow unknown operations"
    )


def _rounding_error(op: Operation) -> str | None:
    if isinstance(op, CastOp) and ROUNDING_KEY in op.attributes:
        try:
            cast_rounding(op)
        except ValueError:
            names = ", ".join(mode.value for mode in Rounding)
            return f"'{ROUNDING_KEY}' must be one of {names}"
    return None


class QuantChecker:
    """The rules of this file for one op after another; types are looked at once each."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._structure_seen: dict[int, Attribute] = {}
        self._strict_seen: dict[int, Attribute] = {}
        self._fields: dict[QParams, str | None] = {}

    def structure_error(self, op: Operation) -> str | None:
        """What mlir-opt rejects in `op`, a value it defines or an attribute of it."""
        if isinstance(op, UnregisteredOp) and op.op_name.data.startswith("quant."):
            return _unknown_op(op)
        checked = self._structure_seen
        for attribute in (*_defined(op), *op.properties.values(), *op.attributes.values()):
            if id(attribute) not in checked and not _is_leaf(type(attribute)):
                for nested in _nested(attribute, self._structure_seen):
                    if not _is_structured(type(nested)):
                        continue
                    for message in _structure_errors(nested):
                        return message
        return None

    def strict_error(self, op: Operation) -> str | None:
        """What is a mistake in a value that `op` defines, if that is to be checked."""
        if not self._strict:
            return None
        for type in _defined(op):
            if type.__class__ is UniformType:
                message = shape_error(type, cast("UniformType", type).data)
                if message is not None:
                    return message
            if id(type) in self._strict_seen or _is_leaf(type.__class__):
                continue
            for nested in _nested(type, self._strict_seen):
                message = self._type_error(nested)
                if message is not None:
                    return message
        return _rounding_error(op)

    def are_tensors_right(self, op: Operation) -> bool:
        """Whether all results of `op` are tensors, of a plain type or of a quantized one
        that breaks none of these rules."""
        for result in op.results:
            kind = result.type
            if kind.__class__ is not TensorType:
                return False
            tensor = cast("TensorType[Attribute]", kind)
            element = tensor.element_type
            if not _is_leaf(tensor.encoding.__class__):
                return False
            if element.__class__ is UniformType:
                if self._strict and self._type_error(element) is not None:
                    return False
                if self._strict and shape_error(kind, cast("UniformType", element).data):
                    return False
            elif not _is_leaf(element.__class__):
                return False
        return True

    def _type_error(self, type: Attribute) -> str | None:
        if not isinstance(type, UniformType):
            element = quant_element(type)
            if element is not None:
                return shape_error(type, element.data)
            return next(_strict_errors(type), None)
        if type.data not in self._fields:
            self._fields[type.data] = next(_field_errors(type.data), None)
        return self._fields[type.data]


def _defined(op: Operation) -> list[Attribute]:
    """The types of the values that `op` defines: results and block arguments."""
    types = [result.type for result in op.results]
    if op.regions:
        types += [a.type for region in op.regions for block in region.blocks for a in block.args]
    return types


_LEAVES = (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
"""Attributes that hold no type of ours."""


@cache
def _is_leaf(kind: type[Attribute]) -> bool:
    """`isinstance` on attributes is slow: their classes are abstract ones."""
    return issubclass(kind, _LEAVES)


@cache
def _is_structured(kind: type[Attribute]) -> bool:
    """Whether `_structure_errors` looks at such attributes."""
    return issubclass(kind, UnregisteredAttr | VectorType | MemRefType | UnrankedMemRefType)


_Rule = Callable[[Attribute], Iterable[str]]
"""The messages for one attribute, not counting those nested in it."""


def _check_attributes(root: Operation, rule: _Rule) -> list[QuantDiagnostic]:
    """Apply `rule` to every attribute of every op, once per distinct object."""
    found: list[QuantDiagnostic] = []
    seen: dict[int, Attribute] = {}
    for op in root.walk():
        attributes = [result.type for result in op.results]
        attributes += op.properties.values()
        attributes += op.attributes.values()
        for region in op.regions:
            attributes += [arg.type for block in region.blocks for arg in block.args]
        for attribute in attributes:
            for nested in _nested(attribute, seen):
                found += [QuantDiagnostic(op, message) for message in rule(nested)]
    return found


def _nested(attribute: Attribute, seen: dict[int, Attribute]) -> Iterator[Attribute]:
    """`attribute` and all attributes inside it that are not in `seen`."""
    if id(attribute) in seen:
        return
    seen[id(attribute)] = attribute  # also keeps the id from being reused
    yield attribute
    if attribute.__class__ is TensorType:
        tensor = cast("TensorType[Attribute]", attribute)
        children: Iterable[Attribute] = (tensor.element_type, tensor.encoding)
    elif isinstance(attribute, ArrayAttr):
        children = cast("ArrayAttr[Attribute]", attribute).data
    elif isinstance(attribute, DictionaryAttr):
        children = attribute.data.values()
    elif isinstance(attribute, ParametrizedAttribute):
        children = attribute.parameters
    else:
        return
    for child in children:
        if not _is_leaf(type(child)):
            yield from _nested(child, seen)


def _structure_errors(attribute: Attribute) -> Iterator[str]:
    if isinstance(attribute, UnregisteredAttr):
        name = attribute.attr_name.data
        if attribute.is_type.data and name.startswith("quant."):
            yield f"unknown quantized type {name.removeprefix('quant.')}"
    elif isinstance(attribute, VectorType | MemRefType | UnrankedMemRefType):
        container = cast("ContainerType[Attribute]", attribute)
        if isinstance(container.get_element_type(), QuantizedType):
            yield (
                "failed to verify 'elementType': VectorElementTypeInterface instance"
                if isinstance(attribute, VectorType)
                else "invalid memref element type"
            )


def _strict_errors(attribute: Attribute) -> Iterator[str]:
    element = quant_element(attribute)
    if isinstance(attribute, UniformType):
        yield from _field_errors(attribute.data)
    elif element is not None:
        message = shape_error(attribute, element.data)
        if message is not None:
            yield f"{message} in '{attribute}'"
    elif isinstance(attribute, CalibratedType):
        largest = FORMATS[attribute.data.expressed].largest
        if not -largest <= attribute.data.min < attribute.data.max <= largest:
            yield f"range of '{attribute}' exceeds its expressed type"


def _scalar_errors(op: Operation) -> Iterator[str]:
    """Scalars defined by `op` whose encoding needs a tensor."""
    types = [result.type for result in op.results]
    types += [arg.type for region in op.regions for block in region.blocks for arg in block.args]
    for type in types:
        message = shape_error(type, type.data) if isinstance(type, UniformType) else None
        if message is not None:
            yield f"{message} in '{type}'"


def _field_errors(qparams: QParams) -> Iterator[str]:
    """Rules on the parameters alone; each at most once, for the first offender."""
    storage, fmt = qparams.storage, FORMATS[qparams.expressed]
    for scale in qparams.scale_list():
        if not fmt.smallest <= scale <= fmt.largest:
            yield (
                f"scale {scale:e} out of expressed type range [{fmt.smallest:e}, {fmt.largest:e}]"
            )
            break
    for zero in qparams.zero_point_list():
        if not storage.min <= zero <= storage.max:
            yield f"zero point {zero} is outside the storage bounds {storage.min}:{storage.max}"
            break
