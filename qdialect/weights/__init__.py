"""Weights kept outside the IR text, and files written whole or not at all."""

from qdialect.weights.files import remove_abandoned, replacing, stamp
from qdialect.weights.store import DTYPES, Blob, BlobStore, content_key, is_possible

__all__ = [
    "DTYPES",
    "Blob",
    "BlobStore",
    "content_key",
    "is_possible",
    "remove_abandoned",
    "replacing",
    "stamp",
]
