"""Weights kept outside the IR text, and files written whole or not at all."""

from qdialect.ir.weights.files import (
    Load,
    abandoned,
    alone,
    hidden_prefix,
    remove_abandoned,
    replacing,
    save_text,
    stamp,
    within,
)
from qdialect.ir.weights.store import DTYPES, Blob, BlobStore, content_key, is_possible

__all__ = [
    "DTYPES",
    "Blob",
    "BlobStore",
    "Load",
    "abandoned",
    "alone",
    "content_key",
    "hidden_prefix",
    "is_possible",
    "remove_abandoned",
    "replacing",
    "save_text",
    "stamp",
    "within",
]
