"""Reading the codes of quantized values: qparams, constants, roundings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from qdialect.algebra import requantize as exact
from qdialect.algebra.float_text import FORMATS
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_array, constant_of
from qdialect.ir.ops.constants import BlobAttr, element_name
from qdialect.ir.quant import element_type, quant_element
from qdialect.ir.weights import DTYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray


def qparams_of(value: SSAValue) -> QParams | None:
    """The qparams of a quantized value, else None."""
    element = quant_element(value.type)
    return None if element is None else element.qparams


def is_integer(params: QParams) -> bool:
    """Whether codes are plain integers (neither floats nor indices of a table)."""
    return not params.storage.is_float and params.storage.quantile is None


def rounding_of(op: Operation) -> Rounding:
    """The declared rounding of a requantizing op (half even if it declares none)."""
    attribute = op.properties.get("rounding")
    return Rounding(attribute.data) if isinstance(attribute, StringAttr) else Rounding.HALF_EVEN


def constant_values(value: SSAValue, session: QContext) -> NDArray[Any] | None:
    """What a constant holds (see `constant_array`), if `value` is one and the session
    has its weights."""
    constant = constant_of(value)
    if constant is None:
        return None
    kind = constant.value.get_type()
    if isinstance(constant.value, BlobAttr):
        if constant.value.key.data not in session.blobs:
            return None
    elif element_name(element_type(kind)) not in DTYPES:
        return None
    return constant_array(constant, session.blobs)


def survives_float(params: QParams, rounding: Rounding = Rounding.HALF_EVEN) -> bool:
    """Whether quantize(dequantize(q)) = q for every code, in the expressed type.

    Two roundings move n = q - z by at most n * 2**(1-p); that stays below half a
    step while |n| < 2**(p-2), if n * scale neither overflows nor underflows. With a
    reciprocal, four do, those of the scale and of its reciprocal too: |n| < 2**(p-3).
    """
    if params.expressed not in ("f16", "bf16", "f32", "f64"):
        return False
    bits, min_exponent, largest = FORMATS[params.expressed]
    most = 2 ** (bits - (3 if rounding is Rounding.RECIPROCAL else 2))
    for a in exact.quant_grids(params):
        furthest = max(abs(a.low - a.zero), abs(a.high - a.zero))
        if furthest >= most or a.scale < 2.0**min_exponent or furthest * a.scale > largest:
            return False
    return True
