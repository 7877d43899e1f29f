"""One-op files whose operands and results have other parameters than each other, one at a time.

    maker = drawn("CONCATENATION", "u8")            the op, with the parameters that a case has
    changes(maker)                                  x and v and y: another scale, zero point, both
    changed("CONCATENATION", "u8", Change("v", "scale"))

What LiteRT does with such a file is held against what `litert_requirements` states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tests.support.tflite_cases import DRAWN, Maker

STORAGES = ("u8", "i8", "i16")
_TYPES = {"u8": "UINT8", "i8": "INT8", "i16": "INT16"}
_OTHER = {"u8": "i8", "i8": "u8", "i16": "i8"}
_NO_ACTIVATIONS = ("w", "b")


@dataclass(frozen=True)
class Change:
    """Which tensor ("*": all) has what else: `storage` makes it a tensor of another type, `axis`
    one with a scale for each index of its last dimension."""

    tensor: str
    what: Literal["scale", "zero", "both", "storage", "axis"]


def drawn(name: str, kind: str, seed: int = 0) -> Maker:
    """The tensors and the op, without a fused activation: that reads the parameters of results."""
    maker = Maker(np.random.default_rng(seed), kind)
    DRAWN[name](maker)
    for options in (op["options"] for op in maker.ops):
        if "fused_activation_function" in options:
            options["fused_activation_function"] = "NONE"
    return maker


def activations(maker: Maker) -> list[dict[str, Any]]:
    """The tensors of codes that are no weights and no bias."""
    tensors = (*maker.inputs, *maker.others, *maker.outputs)
    return [t for t in tensors if t["scales"] is not None and t["name"] not in _NO_ACTIVATIONS]


def changes(maker: Maker, *, every: bool) -> Iterator[Change]:
    """What is changed: scale and zero point of each tensor, and with `every` one of them alone,
    and the type."""
    for tensor in activations(maker):
        yield Change(tensor["name"], "both" if maker.kind != "i16" else "scale")
        if every or maker.kind == "i16":
            yield Change(tensor["name"], "zero")
        if every:
            yield Change(tensor["name"], "scale" if maker.kind != "i16" else "both")
            yield Change(tensor["name"], "storage")
            if tensor["shape"] and tensor["shape"][-1] > 1:
                yield Change(tensor["name"], "axis")
    if maker.kind == "i16" and activations(maker):
        yield Change("*", "zero")
    if every and len(activations(maker)) > 1:
        yield Change("*", "axis")


def changed(name: str, kind: str, change: Change | None, seed: int = 0) -> Maker:
    """A maker of the same file, but for the change."""
    maker = drawn(name, kind, seed)
    for tensor in activations(maker) if change is not None else ():
        assert change is not None
        if change.tensor not in ("*", tensor["name"]):
            continue
        if change.what in ("scale", "both"):
            tensor["scales"] = (tensor["scales"] * np.float32(1.7)).astype(np.float32)
        if change.what in ("zero", "both"):
            zero = int(np.ravel(tensor["zero_points"])[0])
            tensor["zero_points"] = np.array([zero + 3 if zero < 100 else zero - 3])
        if change.what == "storage":
            _store(maker, tensor, _OTHER[kind])
        if change.what == "axis" and tensor["shape"]:
            count = tensor["shape"][-1]
            tensor["scales"] = (tensor["scales"] * np.linspace(1, 1.5, count)).astype(np.float32)
            tensor["zero_points"] = np.broadcast_to(tensor["zero_points"], count)
            tensor["axis"] = len(tensor["shape"]) - 1
    return maker


def _store(maker: Maker, tensor: dict[str, Any], kind: str) -> None:
    """Make a tensor one of another type, of the same bits as far as they fit."""
    tensor["type"] = _TYPES[kind]
    dtype = np.dtype({"u8": "u1", "i8": "i1", "i16": "i2"}[kind])
    tensor["zero_points"] = np.array([7])
    for number, other in enumerate(maker.inputs):
        if other is tensor:
            maker.values[number] = maker.values[number].astype(dtype)
    if tensor["data"] is not None:
        tensor["data"] = np.asarray(tensor["data"]).astype(dtype)
