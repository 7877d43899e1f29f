"""What ONNX Runtime's CPU kernels take, found by probing ONNX Runtime 1.31.1."""

from __future__ import annotations

from collections.abc import Mapping

_ANY = frozenset({"u8", "i8", "u16", "i16", "i32"})
_BYTES = frozenset({"u8", "i8"})

DIRECT: Mapping[str, frozenset[str]] = {
    "nn.reshape": _ANY,
    "nn.flatten": _ANY,
    "nn.transpose": _ANY,
    "nn.slice": _ANY,
    "nn.concat": _ANY,
    "nn.pad": _BYTES,
    "nn.max_pool2d": _BYTES,
}
"""Ops whose meaning on stored integers is the same ONNX op: storages it runs on."""
