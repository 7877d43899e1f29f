"""Quantization parameters and their algebra; no IR in here."""

from qdialect.qparams.encoding import Layout, QParams, Storage, full_range

__all__ = ["Layout", "QParams", "Storage", "full_range"]
