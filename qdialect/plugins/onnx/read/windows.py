"""The windows of convolutions and pools, as nodes state them and as ONNX Runtime counts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qdialect.errors import InputError
from qdialect.ir.ops.shapes import DYNAMIC, ShapeError, window_shape, windows_along
from qdialect.plugins.onnx.read.node import Node

Extents = tuple[int, ...]
Window = dict[str, Extents]

_RANKS = range(3, 6)
"""Ranks of tensors with one to three spatial dimensions."""

_SAME = ("SAME_UPPER", "SAME_LOWER")


def window_properties(node: Node, spatial: Sequence[int], kernel: Sequence[int]) -> Window | None:
    """Strides, dilations and explicit pads of a window op; None if `auto_pad` cannot
    be resolved because an extent is dynamic."""
    window, mode = _window(node, spatial, kernel)
    if mode not in _SAME:
        return window
    if DYNAMIC in spatial:
        return None
    totals = _same_pads(spatial, kernel, window["strides"], window["dilations"])
    return window | {"pads": _halves([max(total, 0) for total in totals], mode)}


def transposed_properties(
    node: Node, spatial: Sequence[int], kernel: Sequence[int]
) -> Window | None:
    """The same of a transposed convolution, whose `auto_pad` and `output_shape` say what
    its result is; None if that cannot be resolved, or needs pads below 0."""
    window, mode = _window(node, spatial, kernel)
    rank = len(spatial)
    added = node.get("output_padding", (0,) * rank)
    output_shape = node.get("output_shape", ())
    window = window | {"output_padding": added}
    if not output_shape and mode not in _SAME:
        return window
    if DYNAMIC in spatial:
        return None
    strides, dilations = window["strides"], window["dilations"]
    if len(output_shape) == rank + 2:  # ONNX Runtime also takes batch and channels
        return None
    if {len(added), len(strides), len(dilations)} != {rank} or len(output_shape) not in (0, rank):
        raise _no_fit(node, rank, output_shape=output_shape, output_padding=added)
    sizes = output_shape or tuple(n * s for n, s in zip(spatial, strides, strict=True))
    steps = zip(spatial, kernel, strides, dilations, added, sizes, strict=True)
    totals = [(n - 1) * s + (k - 1) * d + 1 + more - size for n, k, s, d, more, size in steps]
    return None if min(totals) < 0 else window | {"pads": _halves(totals, mode)}


def _window(node: Node, spatial: Sequence[int], kernel: Sequence[int]) -> tuple[Window, str]:
    """Strides, dilations and pads as written, and `auto_pad`."""
    rank = len(spatial)
    strides = node.get("strides", (1,) * rank)
    dilations = node.get("dilations", (1,) * rank)
    pads = node.get("pads", (0,) * (2 * rank))
    mode = node.get("auto_pad", "NOTSET")
    if mode == "VALID":
        pads = (0,) * (2 * rank)
    elif mode not in ("NOTSET", *_SAME):
        raise InputError(f"auto_pad is '{mode}'", where=node.where, code="invalid-node")
    elif mode in _SAME and (
        {len(strides), len(dilations), len(kernel)} != {rank} or min(strides) < 1
    ):
        raise _no_fit(node, rank, strides=strides, dilations=dilations)
    return {"strides": strides, "dilations": dilations, "pads": pads}, mode


def _no_fit(node: Node, rank: int, **lists: Sequence[int]) -> InputError:
    shown = " and ".join(f"{name} {list(values)}" for name, values in lists.items())
    return InputError(f"{shown} fit no {rank} dimensions", where=node.where, code="invalid-node")


def _same_pads(
    spatial: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """The elements by which SAME pads each dimension, both ends together; they may be negative."""
    steps = zip(spatial, kernel, strides, dilations, strict=True)
    return [(-(-n // s) - 1) * s + (k - 1) * d + 1 - n for n, k, s, d in steps]


def _halves(totals: Sequence[int], mode: str) -> tuple[int, ...]:
    """Pads of these sums, the larger half at the end with `SAME_UPPER`."""
    small = [total // 2 for total in totals]
    large = [total - half for total, half in zip(totals, small, strict=True)]
    return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)


def pool_window(node: Node, shape: Sequence[int]) -> dict[str, Any] | None:
    """The properties of a pool over a tensor of `shape`; None if we have no such op."""
    kernel = node.get("kernel_shape", ())
    if len(shape) not in _RANKS or len(kernel) != len(shape) - 2:
        return None
    window = window_properties(node, shape[2:], kernel)
    ceil = node.flag("ceil_mode", False)
    if window is None:
        return None
    if node.get("auto_pad", "NOTSET") in _SAME:
        totals = _same_pads(shape[2:], kernel, window["strides"], (1,) * len(kernel))
        if max(window["dilations"]) > 1 or min(totals) < 0:
            return None  # the runtime pads as for no dilations, and by less than nothing
    try:
        window_shape(
            tuple(shape[2:]), kernel, window["strides"], window["pads"], window["dilations"], ceil
        )
    except ShapeError:  # the runtime takes windows that are wider than their input
        return None
    return {"kernel": kernel, "ceil_mode": ceil, **window}


def pooled_shape(node: Node, shape: Sequence[int]) -> Extents | None:
    """The shape of the result of a pool, as ONNX Runtime counts; None where it does not run."""
    kernel, rank = node.get("kernel_shape", ()), len(shape) - 2
    window, mode = _window(node, shape[2:], kernel)
    strides, pads, dilations = window["strides"], window["pads"], window["dilations"]
    if (len(strides), len(pads), len(dilations), len(kernel)) != (rank, 2 * rank, rank, rank):
        return None
    if mode in _SAME:  # for no dilations
        pads = _halves(_same_pads(shape[2:], kernel, strides, (1,) * rank), mode)
    ceil = node.get("ceil_mode", 0) == 1  # other numbers are no to it
    steps = zip(shape[2:], kernel, strides, pads, pads[rank:], dilations, strict=False)
    counts = [windows_along(n, k, s, a, b, d, ceil) for n, k, s, a, b, d in steps]
    fits = min(counts, default=-1) >= 0 and max(counts) < 1 << 63
    return None if not fits else (*shape[:2], *counts)
