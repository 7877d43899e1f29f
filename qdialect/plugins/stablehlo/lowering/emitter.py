"""Building StableHLO operations on quantized values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.constants import payload
from qdialect.ir.quant import UniformType, storage_type
from qdialect.plugins.common.lowering.emitter import (
    INTEGERS,
    NamedEmitter,
    element_of,
    integer_type,
    ranked,
    storage_of,
)
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, Order, identity_order, reordered
from qdialect.plugins.common.lowering.preconditions import fill_code

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STORAGES = ("i8", "i16", "i32")


class Emitter(NamedEmitter):
    """Collects StableHLO operations. Values keep their quantized types, so there is nothing
    to state beside them."""

    DIALECT: ClassVar[str] = "stablehlo"

    def constant_op(self, array: NDArray[Any], kind: TensorType[Any]) -> Operation:
        """`stablehlo.constant`, of the stored integers of a quantized type."""
        element = kind.element_type
        if isinstance(element, UniformType):
            element = storage_type(element.qparams)
        stored = TensorType(element, list(kind.get_shape()))
        values = payload(array, stored, self.session.blobs)
        return self.create("constant", result_types=[kind], properties={"value": values})

    def mark(self, x: LaidOut) -> None:
        """Nothing: the types say what integers mean."""
        return

    # -- types ----------------------------------------------------------------------

    def element(self, params: QParams, order: Order | None = None) -> UniformType:
        """The element type of a value that is laid out in `order`."""
        return UniformType(supported_qparams(params, order))

    def value_of(self, x: LaidOut, order: Order | None = None) -> SSAValue:
        """See the base class; constants have quantized types."""
        if x.array is None:
            return super().value_of(x, order)
        target = identity_order(x.rank) if order is None else order
        params = x.params
        element = storage_of(x) if params is None else self.element(params, target)
        return self.const(x.array.transpose(target), element)

    def broadcast(self, x: LaidOut, shape: Sequence[int], order: Order) -> SSAValue:
        """`x` as it repeats to `shape`, in `order`."""
        x = ranked(self, x, len(shape))
        value, extents = self.value_of(x, order), reordered(shape, order)
        if shape_of(value) == extents:
            return value
        if x.params is not None and not x.params.is_per_tensor:
            axis = x.params.axis
            if axis is None or x.shape[axis] != shape[axis]:
                raise Unlowerable("axis", "its parameters vary along a dimension that repeats")
        where = longs(range(len(shape)))
        return self.op(
            "broadcast_in_dim", [value], extents, element_of(value), broadcast_dimensions=where
        )

    def number(self, value: float, element: Attribute) -> SSAValue:
        """One float or plain integer, of rank 0."""
        if (integer := integer_type(element)) is not None:
            return self.const(
                np.array(int(value), INTEGERS.get(integer.width.data, np.int8)), element
            )
        kind = {"f16": "f2", "f64": "f8"}.get(str(element), "f4")
        return self.const(np.array(value, kind), element)

    def splat(self, value: float, element: Attribute, extents: Sequence[int]) -> SSAValue:
        """One number everywhere."""
        scalar = self.number(value, element)
        return self.op(
            "broadcast_in_dim", [scalar], extents, element, broadcast_dimensions=longs([])
        )

    def fill(self, x: LaidOut, value: float) -> SSAValue:
        """The code of a number in the storage of `x`, or of floats the number; of rank 0."""
        code = fill_code(x, value)
        return (
            self.number(code, storage_of(x))
            if x.params is None
            else self.scalar(int(code), x.params)
        )

    def scalar(self, code: int, params: QParams) -> SSAValue:
        """One code, of rank 0."""
        kind = np.dtype(f"{'i' if params.storage.signed else 'u'}{params.storage.width // 8}")
        return self.const(np.array(code, kind), self.element(params))

    # -- movement -------------------------------------------------------------------

    def transposed(self, value: SSAValue, perms: Sequence[int]) -> SSAValue:
        """Always a transpose: a reshape would lose the dimension of the qparams."""
        return self.permuted(value, perms)

    def permuted(self, value: SSAValue, perms: Sequence[int]) -> SSAValue:
        """`stablehlo.transpose`; qparams along a dimension move with it."""
        element = element_of(value)
        if isinstance(element, UniformType) and element.qparams.axis is not None:
            axis = list(perms).index(element.qparams.axis)
            element = UniformType(element.qparams.with_axis(axis))
        shape = reordered(shape_of(value), perms)
        return self.op("transpose", [value], shape, element, permutation=longs(perms))

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`stablehlo.reshape`; Unlowerable (`axis`) for qparams along a dimension."""
        if tuple(shape) == shape_of(value):
            return value
        element = element_of(value)
        if isinstance(element, UniformType) and not element.qparams.is_per_tensor:
            raise Unlowerable("axis", "it reshapes what has parameters along a dimension")
        return self.op("reshape", [value], shape, element)

    def windows(
        self,
        value: SSAValue,
        init: SSAValue,
        shape: Sequence[int],
        combine: str,
        **properties: Attribute,
    ) -> SSAValue:
        """`stablehlo.reduce_window`: `init`, combined with each element of a window."""
        return self._combining("reduce_window", (value, init), shape, combine, properties)

    def combined(
        self, value: SSAValue, init: SSAValue, combine: str, places: Sequence[int]
    ) -> SSAValue:
        """`stablehlo.reduce` along dimensions, which go."""
        shape = [n for d, n in enumerate(shape_of(value)) if d not in places]
        along = {"dimensions": longs(places)}
        return self._combining("reduce", (value, init), shape, combine, along)

    def _combining(
        self,
        name: str,
        operands: tuple[SSAValue, SSAValue],
        shape: Sequence[int],
        combine: str,
        properties: Mapping[str, Attribute],
    ) -> SSAValue:
        element = element_of(operands[0])
        scalar = TensorType(element, [])
        block = Block(arg_types=[scalar, scalar])
        body = self.create(combine, operands=list(block.args), result_types=[scalar])
        last = self.create("return", operands=list(body.results))
        block.add_ops([body, last])
        op = self.create(
            name,
            operands=list(operands),
            result_types=[TensorType(element, list(shape))],
            properties=properties,
            regions=[Region(block)],
        )
        self.append(op)
        return op.results[0]


def supported_qparams(params: QParams, order: Order | None = None) -> QParams:
    """`params` as a type of StableHLO states them; Unlowerable for what it cannot."""
    if params.storage.spelling not in _STORAGES:
        raise Unlowerable(
            "storage",
            f"numbers are exchanged as {', '.join(_STORAGES)}, not {params.storage.spelling}",
            "i8 (reencode-storage{activations=i8 weights=i8})",
        )
    if params.expressed != "f32":
        raise Unlowerable("expressed", f"it means {params.expressed} and not f32")
    if params.layout.value == "block":
        raise Unlowerable("grid", "its parameters vary in blocks", "scales along one dimension")
    low, high = params.storage.min, params.storage.max
    if not all(low <= z <= high for z in params.zero_point_list()):
        raise Unlowerable("zero-point", "a zero point is outside of the storage")
    if params.axis is None or order is None:
        return params
    return params.with_axis(order.index(params.axis))


def longs(values: Sequence[int]) -> DenseArrayBase[Any]:
    """Numbers as `array<i64: ...>`."""
    return DenseArrayBase.from_list(i64, list(values))


def long(value: int) -> IntegerAttr[Any]:
    """A number as an i64 attribute."""
    return IntegerAttr(value, i64)


def pairs(values: Sequence[tuple[int, int]]) -> DenseIntOrFPElementsAttr:
    """Padding: before and after, dimension by dimension."""
    data: NDArray[Any] = np.array(values, np.int64).reshape(-1, 2)
    return DenseIntOrFPElementsAttr(TensorType(i64, list(data.shape)), BytesAttr(data.tobytes()))
