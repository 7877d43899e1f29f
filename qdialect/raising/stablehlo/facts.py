"""What ops of StableHLO say: attributes as Python values, bodies, constants that repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
)
from xdsl.ir import Attribute, Data, Operation, Region

from qdialect.dialects.stablehlo.attributes import RecordAttr
from qdialect.qparams import QParams
from qdialect.quant import quant_element
from qdialect.raising.errors import Unraisable
from qdialect.raising.raised import Raised

if TYPE_CHECKING:
    from numpy.typing import NDArray


def attribute(op: Operation, name: str) -> Attribute | None:
    """A property, or an attribute of that name."""
    found = op.properties.get(name)
    return op.attributes.get(name) if found is None else found


def integers(op: Operation, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """A list of integers; Unraisable without one and without a default."""
    found = attribute(op, name)
    if isinstance(found, DenseArrayBase):
        return tuple(int(v) for v in cast("DenseArrayBase[Any]", found).get_values())
    if isinstance(found, DenseIntOrFPElementsAttr):
        return tuple(int(cast("Any", v)) for v in found.get_values())
    if isinstance(found, ArrayAttr):
        items = cast("ArrayAttr[Attribute]", found).data
        return tuple(i.value.data for i in items if isinstance(i, IntegerAttr))
    if default is None:
        raise Unraisable("attribute", f"it does not say '{name}'")
    return default


def integer(op: Operation, name: str, default: int = 0) -> int:
    """One integer."""
    found = attribute(op, name)
    return found.value.data if isinstance(found, IntegerAttr) else default


def padding(op: Operation, rank: int) -> list[tuple[int, int]]:
    """Before and after each dimension."""
    numbers = list(integers(op, "padding", (0,) * (2 * rank)))
    if len(numbers) == 1:  # a splat
        numbers *= 2 * rank
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def word(op: Operation, name: str, default: str = "") -> str:
    """The case of an enumeration."""
    found = attribute(op, name)
    return str(cast("Data[Any]", found).data) if isinstance(found, Data) else default


def record(op: Operation, name: str) -> dict[str, Any]:
    """The fields of a record."""
    found = attribute(op, name)
    if not isinstance(found, RecordAttr):
        raise Unraisable("attribute", f"it does not say '{name}'")
    return dict(found.values)


def body_name(region: Region) -> str:
    """The name of the one op of a body that combines its two arguments, without the dialect."""
    block = region.first_block
    ops = [] if block is None else list(block.ops)
    if block is None or len(ops) != 2 or ops[1].name != "stablehlo.return":
        raise Unraisable("body", "its body is no single op")
    op, last = ops
    operands = tuple(op.operands)
    arguments = tuple(block.args)
    if tuple(last.operands) != tuple(op.results) or len(arguments) != 2:
        raise Unraisable("body", "its body is no single op of its arguments")
    if operands not in (arguments, arguments[::-1]):
        raise Unraisable("body", "its body is no single op of its arguments")
    return op.name.partition(".")[2]


def scalar_of(x: Raised) -> float | int | None:
    """The number that all elements of a constant are; None if there is none."""
    if x.array is None or not x.array.size:
        return None
    flat = x.array.reshape(-1)[:1] if all(s == 0 for s in x.array.strides) else x.array
    first = flat.reshape(-1)[0]
    if not (flat == first).all():
        return None
    return first.item()


def real_scalar(x: Raised) -> float | None:
    """As `scalar_of`, the real number that a code stands for."""
    number = scalar_of(x)
    element = None if x.element is None else quant_element(_tensor(x.element))
    if number is None or element is None:
        return None if number is None else float(number)
    params = element.qparams
    return (number - params.zero_point) * params.scale if params.is_per_tensor else None


def _tensor(element: Attribute) -> TensorType[Any]:
    return TensorType(element, [])


def qparams(x: Raised) -> QParams | None:
    """The parameters of a value or a constant, along dimensions of StableHLO's."""
    if x.array is not None:
        element = None if x.element is None else quant_element(_tensor(x.element))
        return None if element is None else element.qparams
    params = x.params
    if params is not None and params.axis is not None:
        return params.with_axis(x.order.index(params.axis))
    return params


def shrunk(x: Raised) -> Raised:
    """A constant with extent 1 where its elements repeat, as broadcasting made them."""
    if x.array is None:
        return x
    array: NDArray[Any] = x.array
    params = qparams(x)
    axis = None if params is None else params.axis
    for d in range(array.ndim):
        if array.shape[d] > 1 and d != axis and array.strides[d] == 0:
            array = array[(slice(None),) * d + (slice(1),)]
    if array.size > 1 and params is None and scalar_of(x) is not None:
        array = np.full((1,) * array.ndim, array.reshape(-1)[0], array.dtype)
    return Raised(x.order, None, array, x.element)
