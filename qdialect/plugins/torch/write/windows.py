"""Rows of pools: windows that slide over the spatial dimensions of [N, C, spatial...]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import window_shape
from qdialect.plugins.torch.write.exact import Exact
from qdialect.plugins.torch.write.grid import Grid
from qdialect.plugins.torch.write.products import torch_pads
from qdialect.plugins.torch.write.rows import Number, Properties, Row


def windows(p: Properties, x: Tensor, fill: float) -> Tensor:
    """The windows, [N, C, out..., taps]; `fill` around the input."""
    kernel, strides, dilations = p["kernel"], p["strides"], p["dilations"]
    x, out = _padded(p, x, fill)
    for d, taps in enumerate(kernel):
        # Windows of dimension d become a last dimension; its extent becomes `out`.
        reach = (taps - 1) * dilations[d] + 1
        x = x.unfold(2 + d, reach, strides[d])[..., :: dilations[d]]
        x = x.narrow(2 + d, 0, out[d])
    rank = len(kernel)
    return x.flatten(2 + rank)


def _padded(p: Properties, x: Tensor, fill: float) -> tuple[Tensor, Sequence[int]]:
    """The input with all that windows read, and the extents of the result."""
    kernel, strides, dilations = p["kernel"], p["strides"], p["dilations"]
    rank, pads = len(kernel), list(p["pads"])
    ceil = bool(p.get("ceil_mode"))
    out = window_shape(tuple(x.shape[2:]), kernel, strides, p["pads"], dilations, ceil)
    for d in range(rank):
        reach = (out[d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1
        pads[d + rank] = max(pads[d + rank], reach - x.shape[d + 2] - pads[d])
    return (F.pad(x, torch_pads(pads), value=fill) if any(pads) else x), out


def _max_pool(p: Properties, x: Tensor) -> Tensor:
    lowest = -torch.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    return windows(p, x, lowest).amax(-1)


def _max_pool_codes(p: Properties, grids: Sequence[Grid | None], x: Tensor) -> Tensor:
    """Padding is below every code; of nothing but padding, the lowest code."""
    grid = grids[0]
    assert grid is not None
    return windows(p, x.to(torch.int64), grid.low).amax(-1).to(x.dtype)


def _avg_pool(p: Properties, x: Tensor) -> Tensor:
    view = windows(p, x, 0)
    return view.sum(-1) / _counts(p, x, view.shape[2:-1]).to(x.dtype)


def _exact_avg_pool(p: Properties, x: Number) -> Exact:
    x = x.scaled_along(range(2, x.rank))
    view = windows(p, x.steps, 0)
    counts = _counts(p, x.steps, view.shape[2:-1])
    return Exact.of(view.sum(-1)) * Exact.of(x.scale) / Exact.of(counts)


def _counts(p: Properties, x: Tensor, out: Sequence[int]) -> Tensor:
    """Number of elements that each window averages over, [out...]; at least 1."""
    kernel, strides, dilations, pads = (p[n] for n in ("kernel", "strides", "dilations", "pads"))
    rank = len(kernel)
    counts = torch.ones((), dtype=torch.int64, device=x.device)
    for d in range(rank):
        first = torch.arange(out[d], device=x.device) * strides[d]
        places = first[:, None] + torch.arange(kernel[d], device=x.device) * dilations[d]
        low, high = pads[d], pads[d] + x.shape[2 + d]
        if p["count_include_pad"]:
            low, high = 0, high + pads[d + rank]
        counts = counts.unsqueeze(-1) * ((places >= low) & (places < high)).sum(1)
    return counts.clamp(min=1)


def _global_avg_pool(p: Properties, x: Tensor) -> Tensor:
    return x.mean(tuple(range(2, x.dim())), keepdim=True)


def _exact_global_avg_pool(p: Properties, x: Number) -> Exact:
    spatial = tuple(range(2, x.rank))
    x = x.scaled_along(spatial)
    sums = Exact.of(x.steps.sum(spatial, keepdim=True))
    return sums * Exact.of(x.scale) / Exact.of(float(prod(x.steps.shape[2:])))


_AVERAGE = Row(_avg_pool, numbers=_exact_avg_pool, sums=True)
_GLOBAL = Row(_global_avg_pool, numbers=_exact_global_avg_pool, sums=True)

ROWS: Mapping[str, Row] = {
    **{
        kind.name: Row(_max_pool, codes=_max_pool_codes, wide=False, moves=True)
        for kind in nn.MAX_POOLS
    },
    **{kind.name: _AVERAGE for kind in nn.AVERAGE_POOLS},
    **{kind.name: _GLOBAL for kind in nn.GLOBAL_AVERAGE_POOLS},
}
