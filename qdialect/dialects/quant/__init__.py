"""The `quant` dialect: MLIR's, text for text, plus `quant.rescale`."""

from __future__ import annotations

from xdsl.ir import Dialect

from qdialect.dialects.quant.casts import (
    ROUNDING_KEY,
    CastOp,
    DCastOp,
    QCastOp,
    SCastOp,
    cast_rounding,
)
from qdialect.dialects.quant.conversion import BareVerifyException, ConversionOp
from qdialect.dialects.quant.elements import (
    FLOAT_TYPES,
    element_type,
    expressed_type,
    quant_element,
    storage_type,
    with_element,
)
from qdialect.dialects.quant.rescale import RescaleOp
from qdialect.dialects.quant.types import (
    AnyType,
    CalibratedType,
    QuantileType,
    QuantizedType,
    UniformType,
)
from qdialect.dialects.quant.values import AnyParams, CalibratedRange
from qdialect.dialects.quant.write import TextVersion, printing_for

Quant = Dialect(
    "quant",
    [QCastOp, DCastOp, SCastOp, RescaleOp],
    [UniformType, AnyType, CalibratedType, QuantileType],
)

__all__ = [
    "FLOAT_TYPES",
    "ROUNDING_KEY",
    "AnyParams",
    "AnyType",
    "BareVerifyException",
    "CalibratedRange",
    "CalibratedType",
    "CastOp",
    "ConversionOp",
    "DCastOp",
    "QCastOp",
    "Quant",
    "QuantileType",
    "QuantizedType",
    "RescaleOp",
    "SCastOp",
    "TextVersion",
    "UniformType",
    "cast_rounding",
    "element_type",
    "expressed_type",
    "printing_for",
    "quant_element",
    "storage_type",
    "with_element",
]
