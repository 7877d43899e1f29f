"""The `quant` dialect: MLIR's, text for text, plus `quant.rescale`.

Its modules are imported when they are first used: most files that are only looked at have
no quantized types.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.ir import Dialect

    from qdialect.ir.quant.arithmetic import ARITHMETIC_KEY, IN_FLOATS, arithmetic_at, arithmetic_of
    from qdialect.ir.quant.bare import BareVerifyException
    from qdialect.ir.quant.casts import (
        ROUNDING_KEY,
        CastOp,
        DCastOp,
        QCastOp,
        SCastOp,
        cast_rounding,
    )
    from qdialect.ir.quant.conversion import ConversionOp
    from qdialect.ir.quant.elements import (
        FLOAT_TYPES,
        difference,
        element_type,
        expressed_type,
        quant_element,
        same_type,
        storage_type,
        with_element,
    )
    from qdialect.ir.quant.rescale import RescaleOp
    from qdialect.ir.quant.text_version import TextVersion, printing_for
    from qdialect.ir.quant.types import (
        AnyType,
        CalibratedType,
        QuantileType,
        QuantizedType,
        UniformType,
    )
    from qdialect.ir.quant.values import AnyParams, CalibratedRange

    Quant: Dialect

#: what is found where
_WHERE: Mapping[str, str] = {
    "arithmetic": "ARITHMETIC_KEY IN_FLOATS arithmetic_at arithmetic_of",
    "bare": "BareVerifyException",
    "casts": "ROUNDING_KEY CastOp DCastOp QCastOp SCastOp cast_rounding",
    "conversion": "ConversionOp",
    "elements": "FLOAT_TYPES difference element_type expressed_type quant_element same_type "
    "storage_type with_element",
    "rescale": "RescaleOp",
    "text_version": "TextVersion printing_for",
    "types": "AnyType CalibratedType QuantileType QuantizedType UniformType",
    "values": "AnyParams CalibratedRange",
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names.split()}


def _dialect() -> Dialect:
    from xdsl.ir import Dialect

    from qdialect.ir.quant.casts import DCastOp, QCastOp, SCastOp
    from qdialect.ir.quant.rescale import RescaleOp
    from qdialect.ir.quant.types import AnyType, CalibratedType, QuantileType, UniformType

    return Dialect(
        "quant",
        [QCastOp, DCastOp, SCastOp, RescaleOp],
        [UniformType, AnyType, CalibratedType, QuantileType],
    )


def __getattr__(name: str) -> Any:
    if name == "Quant":
        value: Any = _dialect()
    elif name in _MODULES:
        value = getattr(import_module(f"qdialect.ir.quant.{_MODULES[name]}"), name)
    else:
        raise AttributeError(f"module 'qdialect.ir.quant' has no attribute '{name}'")
    globals()[name] = value
    return value


__all__ = [
    "ARITHMETIC_KEY",
    "FLOAT_TYPES",
    "IN_FLOATS",
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
    "arithmetic_at",
    "arithmetic_of",
    "cast_rounding",
    "difference",
    "element_type",
    "expressed_type",
    "printing_for",
    "quant_element",
    "same_type",
    "storage_type",
    "with_element",
]
