"""Constants of StableHLO, and what moves and spells them, as arrays.

What else is computed of constants becomes ops of `nn`, which `fold-constants` evaluates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Operation

from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import attribute, integer_of, integers_of
from qdialect.ir.ops.constants import DTYPES, BlobAttr, dense_array, element_name
from qdialect.ir.quant import quant_element

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_NUMPY = {
    **{f"i{bits}": f"i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"f{bits // 8}" for bits in (16, 32, 64)},
    "i1": "?",
}

_MOST_ELEMENTS = 1 << 26
"""Constants with more elements are not computed while raising."""


def constant_result(
    op: Operation, operands: Sequence[Array], shape: tuple[int, ...], at: QContext
) -> Array | None:
    """What an op of constants with a static shape gives; None of ops that compute."""
    name = op.name.partition(".")[2]
    if name == "constant":
        return _elements(op, shape, at)
    if name == "broadcast_in_dim":
        # A view, however large the result is.
        placed = [1] * len(shape)
        for d, n in zip(integers_of(op, "broadcast_dimensions"), operands[0].shape, strict=True):
            placed[d] = n
        return np.broadcast_to(operands[0].reshape(placed), shape)
    if int(np.prod(shape, dtype=np.int64)) > _MOST_ELEMENTS:
        return None
    if name == "iota":
        return _iota(op, shape)
    if name == "reshape":
        return operands[0].reshape(shape)
    if name == "transpose":
        return operands[0].transpose(integers_of(op, "permutation"))
    if name == "reverse":
        return np.flip(operands[0], integers_of(op, "dimensions"))
    if name == "slice":
        bounds = (integers_of(op, n) for n in ("start_indices", "limit_indices", "strides"))
        return operands[0][tuple(slice(*part) for part in zip(*bounds, strict=True))]
    if name == "concatenate":
        return np.concatenate(operands, integer_of(op, "dimension"))
    return _converted(op, operands[0]) if name == "convert" else None


def _dtype(op: Operation) -> np.dtype[Any] | None:
    """How elements of the result are held; None of types that numpy does not have."""
    name = element_name(cast("TensorType[Any]", op.results[0].type).element_type)
    return np.dtype(_NUMPY[name]) if name in _NUMPY else None


def _elements(op: Operation, shape: tuple[int, ...], at: QContext) -> Array | None:
    value = attribute(op, "value")
    if isinstance(value, BlobAttr):
        array = np.asarray(at.blobs.get(value.key.data).array())
    elif isinstance(value, DenseIntOrFPElementsAttr):
        stored = cast("TensorType[Any]", cast("Any", value).get_type())
        if element_name(stored.element_type) not in DTYPES:
            return None
        array = dense_array(cast("DenseIntOrFPElementsAttr", value))
    else:
        return None
    element = quant_element(op.results[0].type)
    if element is None and _dtype(op) is None:
        return None
    if element is not None and not element.qparams.storage.signed:
        return None
    return np.broadcast_to(array.reshape(()), shape) if array.size == 1 else array.reshape(shape)


def _iota(op: Operation, shape: tuple[int, ...]) -> Array | None:
    dtype, dimension = _dtype(op), integer_of(op, "iota_dimension")
    if dtype is None or dtype.kind not in "iuf":
        return None
    along = [1] * len(shape)
    along[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension]).reshape(along).astype(dtype), shape)


def _converted(op: Operation, x: Array) -> Array | None:
    """Of numbers that the result's type has."""
    dtype = _dtype(op)
    if dtype is None or dtype.kind not in "iuf" or x.dtype.kind not in "iuf":
        return None
    with np.errstate(all="ignore"):
        found = x.astype(dtype)
        same = np.array_equal(found.astype(x.dtype), x)
    return found if same else None
