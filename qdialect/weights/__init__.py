"""Weights kept outside the IR text."""

from qdialect.weights.store import DTYPES, Blob, BlobStore, content_key

__all__ = ["DTYPES", "Blob", "BlobStore", "content_key"]
