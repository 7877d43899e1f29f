"""Rules on quant types beyond the verifiers of the ops that use them.

`QuantChecker` checks them op by op, for a verifier that walks the module anyway, and looks at
each type once. Its structure rules are what mlir-opt always rejects and xDSL has no place to
check: quantized elements in vectors and memrefs, unknown names in the dialect.

Its strict rules are ours, for whoever wants types that mean something: zero points inside the
storage bounds, finite positive scales, qparams that fit the shape of their tensor. Upstream
accepts all of these in types. They hold for the types of values, so that a declaration may
still name any type upstream accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

from qdialect.algebra.float_text import FORMATS
from qdialect.algebra.qparams.parameters import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.ir.quant.casts import ROUNDING_KEY, CastOp, QCastOp, cast_rounding
from qdialect.ir.quant.elements import quant_element
from qdialect.ir.quant.integrity import shape_error
from qdialect.ir.quant.types import CalibratedType, QuantizedType, UniformType


def _unknown_op(op: UnregisteredOp) -> str:
    return (
        f"unregistered operation '{op.op_name.data}' found in dialect ('quant') "
        "that does not allow unknown operations"
    )


def _reciprocal_error(op: CastOp) -> str | None:
    """Why a cast cannot multiply by a reciprocal."""
    element = quant_element(op.result.type)
    if not isinstance(op, QCastOp) or element is None:
        return f"'{ROUNDING_KEY}' may be reciprocal where floats are quantized only"
    if element.qparams.storage.is_float or element.qparams.storage.quantile is not None:
        return f"'{ROUNDING_KEY}' may be reciprocal of integer storage without a look-up table only"
    return None


def _rounding_error(op: Operation) -> str | None:
    if isinstance(op, CastOp) and ROUNDING_KEY in op.attributes:
        try:
            rounding = cast_rounding(op)
        except ValueError:
            names = ", ".join(mode.value for mode in Rounding)
            return f"'{ROUNDING_KEY}' must be one of {names}"
        if rounding is Rounding.RECIPROCAL:
            return _reciprocal_error(op)
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
                    message = _structure_error(nested)
                    if message is not None:
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
        if isinstance(type, UniformType):
            if type.data not in self._fields:
                self._fields[type.data] = _field_error(type.data)
            return self._fields[type.data]
        if isinstance(type, CalibratedType):
            return _range_error(type)
        element = quant_element(type)
        return None if element is None else shape_error(type, element.data)


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
    """Whether `_structure_error` looks at such attributes."""
    return issubclass(kind, UnregisteredAttr | VectorType | MemRefType | UnrankedMemRefType)


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


def _structure_error(attribute: Attribute) -> str | None:
    if isinstance(attribute, UnregisteredAttr):
        name = attribute.attr_name.data
        if attribute.is_type.data and name.startswith("quant."):
            return f"unknown quantized type {name.removeprefix('quant.')}"
    elif isinstance(attribute, VectorType | MemRefType | UnrankedMemRefType):
        container = cast("ContainerType[Attribute]", attribute)
        if isinstance(container.get_element_type(), QuantizedType):
            return (
                "failed to verify 'elementType': VectorElementTypeInterface instance"
                if isinstance(attribute, VectorType)
                else "invalid memref element type"
            )
    return None


def _range_error(calibrated: CalibratedType) -> str | None:
    largest = FORMATS[calibrated.data.expressed].largest
    if -largest <= calibrated.data.min < calibrated.data.max <= largest:
        return None
    return f"range of '{calibrated}' exceeds its expressed type"


def _field_error(qparams: QParams) -> str | None:
    """What is wrong with the parameters alone, said of the first offender."""
    storage, fmt = qparams.storage, FORMATS[qparams.expressed]
    for scale in qparams.scale_list():
        if not fmt.smallest <= scale <= fmt.largest:
            return (
                f"scale {scale:e} out of expressed type range [{fmt.smallest:e}, {fmt.largest:e}]"
            )
    for zero in qparams.zero_point_list():
        if not storage.min <= zero <= storage.max:
            return f"zero point {zero} is outside the storage bounds {storage.min}:{storage.max}"
    return None
