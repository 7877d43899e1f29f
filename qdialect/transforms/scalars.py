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
    number: Fraction, expressed: str, shape: tuple[int, ...], session: QContext
) -> ConstantOp:
    """A quantized constant that is exactly `number` everywhere: code 0, 1 or -1 on
    the scale |number|, which must be a number of the expressed type."""
    params = QParams.per_tensor(Storage.of("i8"), abs(float(number)) or 1.0, 0, expressed)
    code = (number > 0) - (number < 0)
    return make_constant(np.full(shape, code, np.int8), UniformType(params), session.blobs)


def exact_copy(value: SSAValue, session: QContext) -> ConstantOp | None:
    """A float scalar constant as an exactly quantized one, or None if it is not one."""
    number = scalar_of(value, session)
    if number is None or qparams_of(value) is not None:
        return None
    return exact_scalar(number, str(element_type(value.type)), shape_of(value), session)
