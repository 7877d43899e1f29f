"""Rows of ops that copy elements: shapes, slices, pads, and between channels and space."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from qdialect.errors import InputError
from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import slice_bounds
from qdialect.plugins.torch.write.exact import Exact
from qdialect.plugins.torch.write.grid import Grid
from qdialect.plugins.torch.write.products import torch_pads
from qdialect.plugins.torch.write.rows import Number, Properties, Results, Row, movement
from qdialect.plugins.torch.write.tensor_types import broadcast_to, integers


def _reshape(p: Properties, x: Tensor) -> Tensor:
    """Under `shape` (0 copies an extent), or else under the extents of the result type."""
    target = p.get("shape")
    if target is None:
        unknown = [n is None for n in p.shapes[0]]
        if sum(unknown) > 1:
            raise InputError("a reshape to several unknown extents is not said", code="bad-shape")
        return x.reshape([-1 if n is None else n for n in p.shapes[0]])
    return x.reshape([x.shape[d] if n == 0 else n for d, n in enumerate(target)])


def _reshape_to(p: Properties, x: Tensor, shape: Tensor) -> Tensor:
    extents = integers(shape)
    if not p["allowzero"]:
        extents = [x.shape[d] if n == 0 and d < x.dim() else n for d, n in enumerate(extents)]
    return x.reshape(extents)


def _flatten(p: Properties, x: Tensor) -> Tensor:
    axis: int = p["axis"]
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


def _transpose(p: Properties, x: Tensor) -> Tensor:
    return x.permute(p["perm"])


def _slice(p: Properties, x: Tensor) -> Tensor:
    bounds = zip(p["starts"], p["stops"], p["steps"], strict=True)
    for dim, (start, stop, step) in enumerate(bounds):
        extent = x.shape[dim]
        if step > 0:
            x = x[(slice(None),) * dim + (slice(start, stop, step),)]
            continue
        # Torch has no negative steps.
        places = range(*slice_bounds(extent, start, stop, step))
        x = x.index_select(dim, torch.tensor(list(places), dtype=torch.int64, device=x.device))
    return x


def _pad(p: Properties, x: Tensor) -> Tensor:
    low, high = p["low"], p["high"]
    if p["mode"] == "constant":
        value = p["value"] if x.is_floating_point() else int(p["value"])
        return F.pad(x, torch_pads([*low, *high]), value=value)
    for dim, (before, after) in enumerate(zip(low, high, strict=True)):
        extent = x.shape[dim]
        if not before and not after:
            continue
        places = torch.arange(-before, extent + after, device=x.device)
        x = x.index_select(dim, _INSIDE[p["mode"]](places, extent))
    return x


def _reflected(places: Tensor, extent: int) -> Tensor:
    if extent == 1:
        return places * 0
    places = places % (2 * (extent - 1))
    return torch.minimum(places, 2 * (extent - 1) - places)


def _edge(places: Tensor, extent: int) -> Tensor:
    return places.clamp(0, extent - 1)


def _wrapped(places: Tensor, extent: int) -> Tensor:
    return places % extent


_INSIDE: Mapping[str, Callable[[Tensor, int], Tensor]] = {
    "reflect": _reflected,
    "edge": _edge,
    "wrap": _wrapped,
}


def _pad_codes(p: Properties, grids: Sequence[Grid | None], x: Tensor) -> Tensor:
    """Constant padding is `value` in real units, quantized half even as the result is."""
    grid = grids[-1]
    if p["mode"] != "constant" or grid is None:
        return _pad(p, x)
    inside = F.pad(torch.ones_like(x, dtype=torch.bool), torch_pads([*p["low"], *p["high"]]))
    moved = F.pad(x, torch_pads([*p["low"], *p["high"]]))
    scales = grid.scales(moved.shape)
    return torch.where(inside, moved, grid.store(Exact.of(torch.full_like(scales, p["value"]))))


# -- concat -------------------------------------------------------------------------


def _concat(p: Properties, *parts: Tensor) -> Tensor:
    return torch.cat(parts, p["axis"])


def _exact_concat(p: Properties, *parts: Number) -> Exact:
    numbers = [Exact.of(part.steps) * Exact.of(part.scale) for part in parts]
    return Exact(
        torch.cat([n.high for n in numbers], p["axis"]),
        torch.cat([n.low for n in numbers], p["axis"]),
    )


def _concat_codes(p: Properties, grids: Sequence[Grid | None], *parts: Tensor) -> Tensor:
    return torch.cat(parts, p["axis"])


# -- shapes -------------------------------------------------------------------------


def _squeeze(p: Properties, x: Tensor) -> Tensor:
    return x.squeeze(tuple(axis % x.dim() for axis in p["axes"]))


def _unsqueeze(p: Properties, x: Tensor) -> Tensor:
    rank = x.dim() + len(p["axes"])
    for axis in sorted(axis % rank for axis in p["axes"]):
        x = x.unsqueeze(axis)
    return x


def _expand(p: Properties, x: Tensor) -> Tensor:
    return broadcast_to(x, p["shape"])


def _tile(p: Properties, x: Tensor) -> Tensor:
    return x.tile(p["repeats"])


def _repeat(p: Properties, x: Tensor) -> Tensor:
    for axis, count in enumerate(p["repeats"]):
        x = x.repeat_interleave(count, axis) if count != 1 else x
    return x


def _flip(p: Properties, x: Tensor) -> Tensor:
    return x.flip(tuple(axis % x.dim() for axis in p["axes"]))


def _split(p: Properties, x: Tensor) -> Results:
    return tuple(torch.split(x, list(p["sizes"]), p["axis"]))


# -- between channels and space -----------------------------------------------------


def _depth_to_space(p: Properties, x: Tensor) -> Tensor:
    """y[n, c, h * r + i, w * r + j] = x[n, channel(c, i, j), h, w]"""
    r: int = p["block"]
    n, channels, h, w = x.shape
    if p["mode"] == "DCR":
        phases = x.reshape(n, r, r, channels // (r * r), h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        phases = x.reshape(n, channels // (r * r), r, r, h, w).permute(0, 1, 4, 2, 5, 3)
    return phases.reshape(n, channels // (r * r), h * r, w * r)


def _space_to_depth(p: Properties, x: Tensor) -> Tensor:
    """y[n, channel(c, i, j), h, w] = x[n, c, h * r + i, w * r + j]"""
    r: int = p["block"]
    n, channels, h, w = x.shape
    phases = x.reshape(n, channels, h // r, r, w // r, r)
    order = (0, 3, 5, 1, 2, 4) if p["mode"] == "DCR" else (0, 1, 3, 5, 2, 4)
    return phases.permute(order).reshape(n, channels * r * r, h // r, w // r)


def _im2col(p: Properties, x: Tensor) -> Tensor:
    top, left, bottom, right = p["pads"]
    return _columns(p, F.pad(x, (left, right, top, bottom)))


def _im2col_codes(p: Properties, grids: Sequence[Grid | None], x: Tensor) -> Tensor:
    """Padding is real 0: the zero point."""
    grid = grids[0]
    top, left, bottom, right = p["pads"]
    widths = (left, right, top, bottom)
    if grid is None:
        return _im2col(p, x)
    zero = grid.zero_points(x.shape).expand(x.shape).to(torch.float64)
    around = F.pad(zero, widths, mode="replicate").to(x.dtype)
    inside = F.pad(torch.ones_like(x, dtype=torch.bool), widths)
    return _columns(p, torch.where(inside, F.pad(x, widths), around))


def _columns(p: Properties, x: Tensor) -> Tensor:
    """Windows of a padded input, [n, channels * taps, places]."""
    (kh, kw), (sh, sw), (dh, dw) = p["kernel"], p["strides"], p["dilations"]
    view = x.unfold(2, (kh - 1) * dh + 1, sh)[..., ::dh]
    view = view.unfold(3, (kw - 1) * dw + 1, sw)[..., ::dw]
    n, channels, oh, ow = view.shape[:4]
    return view.permute(0, 1, 4, 5, 2, 3).reshape(n, channels * kh * kw, oh * ow)


# -- resize -------------------------------------------------------------------------

_ROUND: Mapping[str, Callable[[float], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
}


def _target(p: Properties, axis: int, size: int) -> tuple[int, np.float32]:
    if p.get("sizes") is not None:
        out = int(p["sizes"][axis])
        return out, np.float32(out) / np.float32(max(size, 1))
    scale = np.float32(p["scales"][axis])
    return math.floor(np.float32(size) * scale), scale


def _coordinate(j: int, scale: np.float32, size: int, out: int, mode: str) -> float:
    """Where in the input result index j lies: in f32, as ONNX Runtime computes it."""
    if mode == "asymmetric":
        return float(np.float32(j) / scale)
    if mode == "align_corners" or (mode == "pytorch_half_pixel" and out == 1):
        if out == 1:
            return 0.0
        return float(np.float32(j) * np.float32(size - 1) / np.float32(out - 1))
    return float((np.float32(j) + np.float32(0.5)) / scale - np.float32(0.5))


def _resize_nearest(p: Properties, x: Tensor) -> Tensor:
    nearest = _ROUND[p["nearest"]]
    for axis, size in enumerate(x.shape):
        out, scale = _target(p, axis, size)
        found = [nearest(_coordinate(j, scale, size, out, p["coordinates"])) for j in range(out)]
        places = [min(max(i, 0), size - 1) for i in found]
        if places != list(range(size)):
            x = x.index_select(axis, torch.tensor(places, dtype=torch.int64, device=x.device))
    return x


def _along(p: Properties, x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Per result index the elements before and after it, and how far it is past the first."""
    size = x.shape[dim]
    out, scale = _target(p, dim, size)
    places = [_coordinate(j, scale, size, out, p["coordinates"]) for j in range(out)]
    inside = [min(max(at, 0.0), size - 1.0) for at in places]
    first = torch.tensor([math.floor(at) for at in inside], dtype=torch.int64, device=x.device)
    rest = torch.tensor(inside, dtype=torch.float64, device=x.device) - first
    return first, (first + 1).clamp(max=size - 1), rest


def _resize_linear(p: Properties, x: Tensor) -> Tensor:
    low, high, down = _along(p, x, 2)
    left, right, across = _along(p, x, 3)
    down, across = down[:, None].to(x.dtype), across.to(x.dtype)
    y = x[:, :, low] * (1 - down) + x[:, :, high] * down
    return y[..., left] * (1 - across) + y[..., right] * across


def _exact_resize_linear(p: Properties, x: Number) -> Exact:
    x = x.scaled_along((2, 3))
    low, high, down = _along(p, x.steps, 2)
    left, right, across = _along(p, x.steps, 3)
    down = down[:, None]
    total = Exact.of(0.0)
    for rows, a in ((low, 1 - down), (high, down)):
        for columns, b in ((left, 1 - across), (right, across)):
            corner = x.steps[:, :, rows][..., columns]
            total = total + Exact.of(corner) * Exact.of(a) * Exact.of(b)
    return total * Exact.of(x.scale)


ROWS: Mapping[str, Row] = {
    nn.ReshapeOp.name: movement(_reshape),
    nn.ReshapeToOp.name: movement(_reshape_to),
    nn.FlattenOp.name: movement(_flatten),
    nn.TransposeOp.name: movement(_transpose),
    nn.SliceOp.name: movement(_slice),
    nn.PadOp.name: Row(_pad, codes=_pad_codes, wide=False),
    nn.ConcatOp.name: Row(_concat, codes=_concat_codes, numbers=_exact_concat, wide=False),
    nn.SqueezeOp.name: movement(_squeeze),
    nn.UnsqueezeOp.name: movement(_unsqueeze),
    nn.ExpandOp.name: movement(_expand),
    nn.TileOp.name: movement(_tile),
    nn.RepeatOp.name: movement(_repeat),
    nn.FlipOp.name: movement(_flip),
    nn.SplitOp.name: movement(_split),
    nn.DepthToSpaceOp.name: movement(_depth_to_space),
    nn.SpaceToDepthOp.name: movement(_space_to_depth),
    nn.Im2colOp.name: Row(_im2col, codes=_im2col_codes, wide=False, moves=True),
    nn.ResizeNearestOp.name: movement(_resize_nearest),
    nn.ResizeLinearOp.name: Row(_resize_linear, numbers=_exact_resize_linear),
}
