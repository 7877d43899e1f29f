"""Building TOSA operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.ir.ops import shape_of
from qdialect.ir.ops.constants import payload
from qdialect.plugins.common.lowering.emitter import (
    INTEGERS,
    NamedEmitter,
    element_of,
    integer_type,
    integers,
)
from qdialect.plugins.common.lowering.laid_out import reordered
from qdialect.plugins.tosa.dialect import ShapeType

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Emitter(NamedEmitter):
    """Collects TOSA operations."""

    DIALECT: ClassVar[str] = "tosa"

    def constant_op(self, array: NDArray[Any], kind: TensorType[Any]) -> Operation:
        """`tosa.const`."""
        values = payload(array, kind, self.session.blobs)
        return self.create("const", result_types=[kind], properties={"values": values})

    def scalar(self, number: int, width: int) -> SSAValue:
        """A tensor of one integer."""
        return self.const(np.array([number], INTEGERS[width]), integers(width))

    def number(self, value: float, element: Attribute, extents: Sequence[int]) -> SSAValue:
        """A tensor of one number everywhere, of an integer or float type."""
        if (integer := integer_type(element)) is not None:
            array = np.full(extents, int(value), INTEGERS.get(integer.width.data, np.int8))
        else:
            array = np.full(extents, value, {"f16": "f2", "f64": "f8"}.get(str(element), "f4"))
        return self.const(array, element)

    def shape(self, extents: Sequence[int]) -> SSAValue:
        """A constant shape."""
        key = ("shape", tuple(extents))
        if key not in self._cached:
            kind = TensorType(IndexType(), [len(extents)])
            data = np.array(extents, np.int64).tobytes()
            values = DenseIntOrFPElementsAttr(kind, BytesAttr(data))
            shape = self.create(
                "const_shape",
                result_types=[ShapeType(IntAttr(len(extents)))],
                properties={"values": values},
            )
            self.constants.append(shape)
            self._cached[key] = shape.results[0]
        return self._cached[key]

    def permuted(self, value: SSAValue, perms: Sequence[int]) -> SSAValue:
        """`tosa.transpose`."""
        return self.op(
            "transpose",
            [value],
            reordered(shape_of(value), perms),
            element_of(value),
            perms=DenseArrayBase.from_list(i32, list(perms)),
        )

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`tosa.reshape`."""
        if tuple(shape) == shape_of(value):
            return value
        return self.op("reshape", [value, self.shape(shape)], shape, element_of(value))


def flag(value: bool) -> BoolAttr:
    """A truth value as an attribute."""
    return BoolAttr.from_bool(value)


def longs(values: Sequence[int]) -> DenseArrayBase:
    """Numbers as `array<i64: ...>`."""
    return DenseArrayBase.from_list(i64, list(values))


def axis(value: int) -> IntegerAttr[IntegerType]:
    """The number of a dimension as an i32 attribute."""
    return IntegerAttr(value, i32)
