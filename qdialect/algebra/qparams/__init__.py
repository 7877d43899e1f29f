"""Quantization parameters and their algebra; no IR in here.

The algebra needs numpy, the values do not: `ParameterField` is imported when it is
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qdialect.algebra.qparams.legality import Code, Illegal
from qdialect.algebra.qparams.parameters import Layout, QParams, Storage, full_range

if TYPE_CHECKING:
    from qdialect.algebra.qparams.parameter_array import DYNAMIC, Shape
    from qdialect.algebra.qparams.parameter_field import ParameterField

_LAZY = {
    "DYNAMIC": "qdialect.algebra.qparams.parameter_array",
    "Shape": "qdialect.algebra.qparams.parameter_array",
    "ParameterField": "qdialect.algebra.qparams.parameter_field",
}

__all__ = [
    "DYNAMIC",
    "Code",
    "Illegal",
    "Layout",
    "ParameterField",
    "QParams",
    "Shape",
    "Storage",
    "full_range",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
