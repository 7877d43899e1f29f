"""Scalars: constants that hold one real number everywhere, and their exact codes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from xdsl.ir import SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.context import QContext
from qdialect.dialects.nn import ConstantOp, constant_array, constant_of, make_constant, shape_of
from qdialect.dialects.quant import UniformType, element_type
from qdialect.qparams import QParams, Storage


def scalar_of(value: SSAValue, session: QContext) -> Fraction | None:
    """The one real number a constant holds everywhere, exactly; else None."""
    constant = constant_of(value)
    if constant is None or 0 in shape_of(value):
        return None
    array = constant_array(constant, session.blobs)
    if array.dtype.kind not in "fiu" or not (array == array.flat[0]).all():
        return None
    params = qparams_of(value)
    if params is None:
        number = float(array.flat[0])
        return Fraction(number) if array.dtype.kind == "f" and np.isfinite(number) else None
    if not params.is_per_tensor or params.storage.is_float or params.storage.quantile is not None:
        return None
    return (int(array.flat[0]) - params.zero_point) * Fraction(params.scale)


def exact_scalar(
    number: Fraction,
    expressed: str,
    shape: tuple[int, ...],
    session: QContext,
    *,
    signed: bool = True,
) -> ConstantOp:
    """A quantized constant that is exactly `number` everywhere: zero point or a step
    beside it on the scale |number|, which must be a number of the expressed type."""
    storage, zero = ("i8", 0) if signed else ("u8", 128)
    params = QParams.per_tensor(Storage.of(storage), abs(float(number)) or 1.0, zero, expressed)
    code = zero + (number > 0) - (number < 0)
    array = np.full(shape, code, np.int8 if signed else np.uint8)
    return make_constant(array, UniformType(params), session.blobs)


def exact_copy(value: SSAValue, session: QContext) -> ConstantOp | None:
    """A float scalar constant as an exactly quantized one, or None if it is not one."""
    number = scalar_of(value, session)
    if number is None or qparams_of(value) is not None:
        return None
    return exact_scalar(number, str(element_type(value.type)), shape_of(value), session)
