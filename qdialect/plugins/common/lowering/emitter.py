"""Builds the operations of a lowered function: constants, layouts, locations and keys.

Invariant: equal constants are one, and a value is transposed to an order once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir.behaviors.shapes import tensor_type
from qdialect.ir.context import QContext
from qdialect.ir.ops import keys_of, shape_of
from qdialect.ir.quant import quant_element
from qdialect.plugins.common.lowering.debug_attributes import MARKED_KEY, SCALE, marks
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import (
    LaidOut,
    Order,
    identity_order,
    permutation,
    reordered,
)
from qdialect.plugins.mlir.upstream import op_class

if TYPE_CHECKING:
    from numpy.typing import NDArray

INTEGERS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64, 1: np.bool_}


class BaseEmitter(ABC):
    """Collects the operations of one block; equal constants are one, and constants come first."""

    def __init__(self, session: QContext) -> None:
        self.session = session
        self.constants: list[Operation] = []
        self.operations: list[Operation] = []
        self._cached: dict[object, SSAValue] = {}
        self._permuted: dict[tuple[SSAValue, Order], SSAValue] = {}
        self.source: Operation | None = None

    @abstractmethod
    def constant_op(self, array: NDArray[Any], kind: TensorType[Any]) -> Operation:
        """The op of a constant."""

    @abstractmethod
    def permuted(self, value: SSAValue, perms: Sequence[int]) -> SSAValue:
        """Dimension d of the result is dimension perms[d] of `value`."""

    @abstractmethod
    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The elements of `value`, in row-major order, with another shape."""

    # -- operations ---------------------------------------------------------------

    def append(self, op: Operation) -> None:
        """Put `op` last, with the location and the keys of the op that is lowered."""
        if self.source is not None:
            op.location = self.source.location
            keys = keys_of(self.source)
            if keys and op.operands:
                names = [StringAttr(key) for key in keys]
                op.attributes[MARKED_KEY] = names[0] if len(names) == 1 else ArrayAttr(names)
        self.operations.append(op)

    def mark(self, x: LaidOut) -> None:
        """Put debug attributes on the op that defines `x`, which say what its integers mean."""
        params, value = x.params, x.value
        if params is None or value is None or not isinstance(value.owner, Operation):
            return
        if SCALE not in value.owner.attributes:
            value.owner.attributes.update(marks(params, x.order))

    # -- constants ------------------------------------------------------------------

    def const(self, array: NDArray[Any], element: Attribute) -> SSAValue:
        """A constant tensor; equal ones are one."""
        array = np.asarray(array, order="C")
        key = ("const", array.shape, str(element), array.dtype.str, array.tobytes())
        if len(key[4]) > 1 << 12:
            key = (*key[:4], self.session.blobs.add(array, _store_name(array)))
        if key not in self._cached:
            kind: TensorType[Any] = TensorType(element, list(array.shape))
            constant = self.constant_op(array, kind)
            self.constants.append(constant)
            self._cached[key] = constant.results[0]
        return self._cached[key]

    # -- layouts ----------------------------------------------------------------------

    def value_of(self, x: LaidOut, order: Order | None = None) -> SSAValue:
        """The value of `x` with its dimensions in `order` (default: those of `nn`)."""
        target = identity_order(x.rank) if order is None else order
        if x.array is not None:
            return self.const(x.array.transpose(target), storage_of(x))
        assert x.value is not None
        if target == x.order:
            return x.value
        perms = permutation(x.order, target)
        value = self._permuted.get((x.value, perms))
        if value is None:
            value = self.transposed(x.value, perms)
            self._permuted[x.value, perms] = value
            # The way back is the value itself.
            self._permuted[value, permutation(target, x.order)] = x.value
        return value

    def typed_value(self, x: LaidOut, kind: Attribute) -> SSAValue:
        """The value of `x` for an op that is not lowered, which takes a value of type `kind`."""
        return self.value_of(x)

    def transposed(self, value: SSAValue, perms: Sequence[int]) -> SSAValue:
        """Dimension d of the result is dimension perms[d] of `value`."""
        shape = shape_of(value)
        if _only_ones_move(shape, perms):
            return self.reshaped(value, reordered(shape, perms))
        return self.permuted(value, perms)

    def result(
        self, value: SSAValue, order: Order, params: QParams | None, shape: Sequence[int]
    ) -> LaidOut:
        """`value` as the result of a lowering: with `params`, and debug attributes on its op."""
        x = LaidOut(tuple(shape), order, params, value)
        self.mark(x)
        return x


E = TypeVar("E", bound=BaseEmitter)
Lowering = Callable[[E, Operation, Sequence[LaidOut]], "LaidOut | Sequence[LaidOut]"]
"""Writes one op with the operations of another dialect."""


def ranked(e: BaseEmitter, x: LaidOut, rank: int) -> LaidOut:
    """`x` with leading dimensions of 1, as it broadcasts."""
    if x.rank == rank:
        return x
    more = rank - x.rank
    shape, params = (*(1 for _ in range(more)), *x.shape), x.params
    if params is not None and params.axis is not None:
        params = params.with_axis(params.axis + more)
    if x.array is not None:
        return LaidOut(shape, identity_order(rank), params, None, x.array.reshape(shape))
    return LaidOut(shape, identity_order(rank), params, e.reshaped(e.value_of(x), shape))


def integers(width: int) -> IntegerType:
    """The signless integer type of this width in bits."""
    return IntegerType(width)


def integer_type(element: Attribute) -> IntegerType | None:
    """An integer type, or None for another."""
    return cast("IntegerType", element) if isinstance(element, IntegerType) else None


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tensor value."""
    return tensor_type(value).element_type


def storage_of(x: LaidOut) -> Attribute:
    """The element type that holds the elements of `x` in a lowering: of codes signless integers
    of at least 8 bits, of others their own type."""
    if x.params is not None:
        return integers(max(x.params.storage.width, 8))
    if x.array is not None:
        return element_named(x.array.dtype)
    assert x.value is not None
    return element_of(x.value)


def element_named(dtype: np.dtype[Any]) -> Attribute:
    """The element type of an array that is not quantized."""
    from xdsl.dialects.builtin import Float16Type, Float32Type, Float64Type

    if dtype == np.float32:
        return Float32Type()
    if dtype == np.float64:
        return Float64Type()
    if dtype == np.float16:
        return Float16Type()
    if dtype.kind in "iu" and dtype.itemsize * 8 in INTEGERS:
        return integers(dtype.itemsize * 8)
    if dtype == np.bool_:
        return i1
    raise Unlowerable("type", f"there are no constants of {dtype}")


def _store_name(array: NDArray[Any]) -> str:
    kind = array.dtype
    return "i1" if kind == np.bool_ else f"{'f' if kind.kind == 'f' else 'i'}{kind.itemsize * 8}"


def _only_ones_move(shape: Sequence[int], perms: Sequence[int]) -> bool:
    dimensions = [p for p in perms if shape[p] != 1]
    return dimensions == sorted(dimensions)


def type_of(
    kind: Attribute, where: str, index: IntegerType = i64, *, dynamic: bool = False
) -> TensorType[Any]:
    """The type of a value of `nn` when lowered: storage in place of quantized elements, and
    `index` in place of i64. Extents that are not known are refused unless `dynamic`."""
    element = quant_element(kind)
    if not isinstance(kind, TensorType):
        raise Unlowerable("type", f"{where} is no ranked tensor")
    if 0 in kind.get_shape():
        raise Unlowerable("empty", f"{where} has no elements")
    if not dynamic and any(extent < 0 for extent in kind.get_shape()):
        raise Unlowerable(
            "dynamic-shape",
            f"{where} has a dimension that is not known",
            "give the model static shapes",
        )
    if element is None:
        if kind.get_element_type() == i64:
            return TensorType(index, list(kind.get_shape()))
        return cast("TensorType[Any]", kind)
    storage = element.qparams.storage
    if storage.is_float or storage.quantile is not None:
        raise Unlowerable("storage", f"{where} is stored as {storage}")
    return TensorType(integers(max(storage.width, 8)), list(kind.get_shape()))


class NamedEmitter(BaseEmitter):
    """An emitter that builds ops of one dialect by name."""

    DIALECT: ClassVar[str]

    def create(self, name: str, **parts: Any) -> Operation:
        """The op `name` of the dialect, of its class, which is made from its row."""
        found = op_class(f"{self.DIALECT}.{name}", None)
        assert found is not None, name
        return found.create(**parts)

    def op(
        self,
        name: str,
        operands: Sequence[SSAValue],
        shape: Sequence[int],
        element: Attribute,
        **properties: Attribute,
    ) -> SSAValue:
        """The op `name` of the dialect, with one tensor result."""
        op = self.create(
            name,
            operands=operands,
            result_types=[TensorType(element, list(shape))],
            properties=properties,
        )
        self.append(op)
        return op.results[0]
