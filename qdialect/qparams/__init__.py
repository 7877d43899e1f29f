"""Quantization parameters and their algebra; no IR in here."""

from qdialect.qparams.encoding import Layout, QParams, Storage, full_range
from qdialect.qparams.field import Field
from qdialect.qparams.grid import DYNAMIC, Shape
from qdialect.qparams.growth import growth, within_growth
from qdialect.qparams.legality import Code, Illegal

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
    "growth",
    "within_growth",
]
