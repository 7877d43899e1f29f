"""What ops of StableHLO say: attributes as Python values, bodies, constants that repeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, Region

from qdialect.algebra.qparams import QParams
from qdialect.ir.dialects.attributes import required
from qdialect.ir.quant import quant_element
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.stablehlo.dialect.attributes import RecordAttr

if TYPE_CHECKING:
    from numpy.typing import NDArray


def record(op: Operation, name: str) -> Mapping[str, Any]:
    """The fields of a record."""
    return cast("RecordAttr", required(op, name)).values


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
