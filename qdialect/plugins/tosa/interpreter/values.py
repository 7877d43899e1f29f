"""What the kernels of TOSA share: attributes by name, numbers of any type, and results.

Integers are computed in 64 bits and floats in doubles, and brought to the type of the result once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation

from qdialect.interpreter.small_floats import decoded, encoded, is_small_float
from qdialect.interpreter.values import Array, Evaluation
from qdialect.ir.dialects.attributes import keyword_of, required
from qdialect.ir.ops.tensor_attributes import tensor_attribute_array, tensor_attribute_type
from qdialect.ir.quant import element_type, quant_element

Doubles = NDArray[np.float64]
Longs = NDArray[np.int64]


# -- attributes ---------------------------------------------------------------------


def elements(op: Operation, name: str, evaluation: Evaluation) -> Array:
    """The elements of a tensor attribute as a runtime value of its type; InputError."""
    found = required(op, name)
    kind = tensor_attribute_type(found)
    data = tensor_attribute_array(found, evaluation.ctx.blobs, cast("Context", evaluation.ctx))
    if str(element_type(kind)) == "bf16":
        data = (data.astype(np.uint32) << 16).view(np.float32)
    return data.astype(evaluation.dtype(kind))


def ignores_nan(op: Operation) -> bool:
    """Whether `nan_mode` is IGNORE."""
    return keyword_of(op, "nan_mode", "PROPAGATE") == "IGNORE"


# -- numbers --------------------------------------------------------------------------


def is_float(type: Attribute) -> bool:
    """Whether a tensor type has float elements."""
    name = str(element_type(type))
    return name.startswith(("f", "bf")) and quant_element(type) is None


def width_of(type: Attribute) -> int:
    """The bits of an element of an integer or quantized type; 64 of an index."""
    quantized = quant_element(type)
    if quantized is not None:
        return quantized.qparams.storage.width
    element = element_type(type)
    return cast("Any", element).width.data if isinstance(element, IntegerType) else 64


def reals(array: Array, type: Attribute) -> Doubles:
    """Numbers of a float type as doubles, exactly; of an integer type up to 53 bits."""
    name = str(element_type(type))
    if is_small_float(name) and array.dtype == np.uint8:
        return decoded(array, name).astype(np.float64)
    return array.astype(np.float64)


def longs(array: Array) -> Longs:
    """Integers in 64 bits."""
    return array.astype(np.int64)


def result(op: Operation, values: Array, evaluation: Evaluation, number: int = 0) -> list[Array]:
    """The one result of `op` (or its result `number`): `stored` in its type."""
    return [stored(values, op.results[number].type, evaluation)]


def stored(values: Array, type: Attribute, evaluation: Evaluation) -> Array:
    """Numbers in a type: floats rounded to nearest even, integers by their lowest bits."""
    if is_float(type):
        if is_small_float(name := str(element_type(type))):
            return encoded(values, name)
        return evaluation.as_float(values, type)
    return wrapped(values, type, evaluation)


def wrapped(values: Array, type: Attribute, evaluation: Evaluation) -> Array:
    """The lowest bits of integers, as many as a type has."""
    width, dtype = width_of(type), evaluation.dtype(type)
    if width == 1 or dtype.itemsize * 8 == width:
        return values.astype(dtype, copy=False)
    kept = values.astype(np.int64) & ((1 << width) - 1)
    if dtype.kind == "i":
        kept = (kept ^ (1 << (width - 1))) - (1 << (width - 1))
    return kept.astype(dtype)


def bounds(type: Attribute, unsigned: bool = False) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    width = width_of(type)
    return (0, (1 << width) - 1) if unsigned else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def zero_point(array: Array, unsigned: bool = False) -> int:
    """A zero point in a tensor of one element, read without sign if `unsigned`."""
    value = int(array.reshape(-1)[0])
    return value + (1 << (8 * array.dtype.itemsize)) if unsigned and value < 0 else value


def broadcast_ranks(arrays: Sequence[Array]) -> list[Array]:
    """Arrays with as many dimensions as the one that has most (1 in front), as MLIR's text
    of TOSA may leave it to a reader."""
    rank = max(array.ndim for array in arrays)
    return [array.reshape((1,) * (rank - array.ndim) + array.shape) for array in arrays]
