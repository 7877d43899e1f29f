"""What lowerings build with: constants, types, layouts, and what ops carry along."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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

from qdialect.behaviors.shapes import tensor_type
from qdialect.context import QContext
from qdialect.lowerings.debug_attributes import MARKED_KEY, SCALE, marks
from qdialect.lowerings.errors import Unlowerable
from qdialect.lowerings.laid_out import LaidOut, Order, between, plain, reordered
from qdialect.ops import keys_of, shape_of
from qdialect.qparams import QParams
from qdialect.quant import quant_element

if TYPE_CHECKING:
    from numpy.typing import NDArray

INTEGERS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64, 1: np.bool_}


class BaseEmitter(ABC):
    """Collects the operations of one block; constants are made once and stand first."""

    def __init__(self, session: QContext) -> None:
        self.session = session
        self.constants: list[Operation] = []
        self.operations: list[Operation] = []
        self._made: dict[object, SSAValue] = {}
        self._moved: dict[tuple[SSAValue, Order], SSAValue] = {}
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
        """Put `op` behind those there are, with the place and the key of what is lowered."""
        if self.source is not None:
            op.location = self.source.location
            keys = keys_of(self.source)
            if keys and op.operands:
                names = [StringAttr(key) for key in keys]
                op.attributes[MARKED_KEY] = names[0] if len(names) == 1 else ArrayAttr(names)
        self.operations.append(op)

    def mark(self, held: LaidOut) -> None:
        """State on the op that makes `held` what its integers mean."""
        params, value = held.params, held.value
        if params is None or value is None or not isinstance(value.owner, Operation):
            return
        if SCALE not in value.owner.attributes:
            value.owner.attributes.update(marks(params, held.order))

    # -- constants ------------------------------------------------------------------

    def const(self, array: NDArray[Any], element: Attribute) -> SSAValue:
        """A constant tensor; equal ones are one."""
        array = np.asarray(array, order="C")
        key = ("const", array.shape, str(element), array.dtype.str, array.tobytes())
        if len(key[4]) > 1 << 12:
            key = (*key[:4], self.session.blobs.add(array, _store_name(array)))
        if key not in self._made:
            kind: TensorType[Any] = TensorType(element, list(array.shape))
            made = self.constant_op(array, kind)
            self.constants.append(made)
            self._made[key] = made.results[0]
        return self._made[key]

    # -- layouts ----------------------------------------------------------------------

    def given(self, held: LaidOut, order: Order | None = None) -> SSAValue:
        """The value of `held` with its dimensions in `order` (default: those of `nn`)."""
        wanted = plain(held.rank) if order is None else order
        if held.array is not None:
            return self.const(held.array.transpose(wanted), storage_of(held))
        assert held.value is not None
        if wanted == held.order:
            return held.value
        perms = between(held.order, wanted)
        known = self._moved.get((held.value, perms))
        if known is None:
            known = self.transposed(held.value, perms)
            self._moved[held.value, perms] = known
            # The way back is the value itself.
            self._moved[known, between(wanted, held.order)] = held.value
        return known

    def typed(self, held: LaidOut, kind: Attribute) -> SSAValue:
        """The value of `held` for an op that takes it as it was, of type `kind`."""
        return self.given(held)

    def transposed(self, value: SSAValue, perms: Sequence[int]) -> SSAValue:
        """Dimension d of the result is dimension perms[d] of `value`."""
        shape = shape_of(value)
        if _only_ones_move(shape, perms):
            return self.reshaped(value, reordered(shape, perms))
        return self.permuted(value, perms)

    def held(
        self, value: SSAValue, order: Order, params: QParams | None, shape: Sequence[int]
    ) -> LaidOut:
        """`value` as what a lowering gives."""
        made = LaidOut(tuple(shape), order, params, value)
        self.mark(made)
        return made


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
        return LaidOut(shape, plain(rank), params, None, x.array.reshape(shape))
    return LaidOut(shape, plain(rank), params, e.reshaped(e.given(x), shape))


def integers(width: int) -> IntegerType:
    return IntegerType(width)


def element_of(value: SSAValue) -> Attribute:
    return tensor_type(value).element_type


def storage_of(held: LaidOut) -> Attribute:
    """The element type that holds the codes of `held` in a lowering: signless integers, of at
    least 8 bits."""
    if held.params is not None:
        return integers(max(held.params.storage.width, 8))
    assert held.array is not None
    return element_named(held.array.dtype)


def element_named(dtype: np.dtype[Any]) -> Attribute:
    """The element type of an array that is not quantized."""
    from xdsl.dialects.builtin import Float16Type, Float32Type

    if dtype == np.float32:
        return Float32Type()
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
    """Whether the dimensions of more than one element keep their order."""
    kept = [p for p in perms if shape[p] != 1]
    return kept == sorted(kept)


def type_of(kind: Attribute, where: str, index: IntegerType = i64) -> TensorType[Any]:
    """The type of a value of `nn` when lowered: storage in place of quantized elements, and
    `index` in place of i64."""
    element = quant_element(kind)
    if not isinstance(kind, TensorType):
        raise Unlowerable("type", f"{where} is no ranked tensor")
    if 0 in kind.get_shape():
        raise Unlowerable("empty", f"{where} has no elements")
    if any(extent < 0 for extent in kind.get_shape()):
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
    """One that makes ops of one dialect by name."""

    DIALECT: ClassVar[str]
    DEFINITIONS: ClassVar[Mapping[str, type[Operation]]]

    def op(
        self,
        name: str,
        operands: Sequence[SSAValue],
        shape: Sequence[int],
        element: Attribute,
        **properties: Attribute,
    ) -> SSAValue:
        """The op `name` of the dialect, with one tensor result."""
        made = self.DEFINITIONS[f"{self.DIALECT}.{name}"].create(
            operands=operands,
            result_types=[TensorType(element, list(shape))],
            properties=properties,
        )
        self.append(made)
        return made.results[0]
