"""The resources of a session: blobs that `dense_resource` attributes name, and their text.

A blob read from bytecode is a view of the mapped file; nothing is copied until somebody asks for
its text:

    w: "0x100000000000803F"    an alignment of 16, then the bytes of 1.0 : f32
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from typing_extensions import override
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface


class ResourceBlob(NamedTuple):
    """Bytes, and the power of two at multiples of which they want to be in memory."""

    alignment: int
    data: memoryview


class ResourceTable(OpAsmDialectInterface):
    """The blobs of one dialect in one session, by key."""

    def __init__(self) -> None:
        super().__init__()
        self._blobs: dict[str, ResourceBlob] = {}

    def add(self, key: str, blob: ResourceBlob) -> str:
        """Keep a blob; its key, which is another if this one is taken."""
        key = self.declare_resource(key)
        self._blobs[key] = blob
        return key

    def blob(self, key: str) -> ResourceBlob | None:
        """The blob under `key`; ValueError if its text is none."""
        known = self._blobs.get(key)
        text = self._blob_storage.get(key)
        if known is None and text:
            data = bytes.fromhex(text[2:])
            if len(data) < 4:
                raise ValueError("a blob without an alignment")
            alignment = int.from_bytes(data[:4], "little")
            known = self._blobs[key] = ResourceBlob(alignment, memoryview(data)[4:])
        return known

    @override
    def lookup(self, key: str) -> str | None:
        blob = self._blobs.get(key)
        return super().lookup(key) if blob is None else blob_text(blob)

    @override
    def build_resources(self, keys: Iterable[str]) -> dict[str, str]:
        return {key: text for key in keys if (text := self.lookup(key))}


def blob_text(blob: ResourceBlob) -> str:
    """`0x` and hexadecimal digits: the alignment in 4 bytes, then the data."""
    return f"0x{blob.alignment.to_bytes(4, 'little').hex().upper()}{blob.data.hex().upper()}"
