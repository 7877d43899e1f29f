"""Quantization parameters and their algebra; no IR in here.

The algebra needs numpy, the values do not: `Field` is imported when it is
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qdialect.qparams.encoding import Layout, QParams, Storage, full_range
from qdialect.qparams.legality import Code, Illegal

if TYPE_CHECKING:
    from qdialect.qparams.field import Field
    from qdialect.qparams.grid import DYNAMIC, Shape

_LAZY = {
    "DYNAMIC": "qdialect.qparams.grid",
    "Shape": "qdialect.qparams.grid",
    "Field": "qdialect.qparams.field",
}

__all__ = [
    "DYNAMIC",
    "Code",
    "Field",
    "Illegal",
    "Layout",
    "QParams",
    "Shape",
    "Storage",
    "full_range",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
