"""Rows of reductions, of ops that tell how elements compare, and of normalizations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from qdialect.ir import ops as nn
from qdialect.plugins.torch.write.exact import Exact
from qdialect.plugins.torch.write.grid import Grid
from qdialect.plugins.torch.write.rows import Number, Properties, Results, Row


def _axes(p: Properties, rank: int) -> tuple[int, ...]:
    axes: Sequence[int] = p["axes"]
    return tuple(axis % rank for axis in axes)


def _ordered(reduce: Callable[..., Tensor]) -> Row:
    def floats(p: Properties, x: Tensor) -> Tensor:
        axes = _axes(p, x.dim())
        return reduce(x, axes, keepdim=p["keepdims"]) if axes else x.clone()

    def codes(p: Properties, grids: Sequence[Grid | None], x: Tensor) -> Tensor:
        return floats(p, x)

    return Row(floats, codes=codes, moves=True, wide=False)


def _sum(p: Properties, x: Tensor) -> Tensor:
    axes = _axes(p, x.dim())
    return x.sum(axes, keepdim=p["keepdims"]) if axes else x


def _mean(p: Properties, x: Tensor) -> Tensor:
    axes = _axes(p, x.dim())
    if not axes:
        return x
    if x.is_floating_point():
        return x.mean(axes, keepdim=p["keepdims"])
    return x.double().mean(axes, keepdim=p["keepdims"])


def _exact(mean: bool) -> Callable[[Properties, Number], Exact]:
    def numbers(p: Properties, x: Number) -> Exact:
        axes = _axes(p, x.rank)
        if not axes:
            return x.exact
        x = x.scaled_along(axes)
        result = Exact.of(x.steps.sum(axes, keepdim=True)) * Exact.of(x.scale)
        if mean:
            result = result / Exact.of(float(prod(x.steps.shape[axis] for axis in axes)))
        return result if p["keepdims"] else result.map(lambda part: part.squeeze(axes))

    return numbers


# -- order --------------------------------------------------------------------------

_RELATIONS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}


def _compare(p: Properties, a: Tensor, b: Tensor) -> Tensor:
    return _RELATIONS[p["mode"]](a, b)


def _place(largest: bool) -> Callable[[Properties, Tensor], Tensor]:
    def floats(p: Properties, x: Tensor) -> Tensor:
        """Of equal elements the first, or the last."""
        rows = x.flip(p["axis"]) if p["last"] else x
        ends = rows.amax(p["axis"], keepdim=True) if largest else rows.amin(p["axis"], keepdim=True)
        found = (rows == ends) | (rows != rows)
        places: Tensor = found.to(torch.int8).argmax(p["axis"], keepdim=p["keepdims"])
        axis: int = p["axis"]
        return x.size(axis) - 1 - places if p["last"] else places

    return floats


def _top_k(p: Properties, x: Tensor) -> Results:
    """Of equal elements the first comes first."""
    order = x.sort(dim=p["axis"], descending=p["largest"], stable=True).indices
    places = order.narrow(p["axis"], 0, p["k"])
    return x.gather(p["axis"], places), places


def _on_codes(function: Callable[..., Results]) -> Row:
    def codes(p: Properties, grids: Sequence[Grid | None], *values: Tensor) -> Results:
        return function(p, *values)

    return Row(function, codes=codes, moves=True, wide=False)


# -- normalizations -----------------------------------------------------------------


def _batch_norm(p: Properties, x: Tensor, *statistics: Tensor) -> Tensor:
    shape = (1, -1, *(1,) * (x.dim() - 2))
    scale, bias, mean, variance = (v.reshape(shape) for v in statistics)
    return (x - mean) / (variance + p["epsilon"]).sqrt() * scale + bias


def _exact_batch_norm(p: Properties, x: Number, *statistics: Number) -> Exact:
    shape = (1, -1, *(1,) * (x.rank - 2))
    scale, bias, mean, variance = (v.exact.map(lambda t: t.reshape(shape)) for v in statistics)
    slope = scale / (variance + Exact.of(p["epsilon"])).sqrt()
    return (x.exact - mean) * slope + bias


def _layer_norm(p: Properties, x: Tensor, scale: Tensor, *bias: Tensor) -> Tensor:
    axes = tuple(range(p["axis"] % x.dim(), x.dim()))
    centered = x - x.mean(axes, keepdim=True)
    variance = (centered * centered).mean(axes, keepdim=True)
    y = centered / (variance + p["epsilon"]).sqrt() * scale
    return y + bias[0] if bias else y


def _rms_norm(p: Properties, x: Tensor, scale: Tensor) -> Tensor:
    axes = tuple(range(p["axis"] % x.dim(), x.dim()))
    return x / ((x * x).mean(axes, keepdim=True) + p["epsilon"]).sqrt() * scale


def _softmax(p: Properties, x: Tensor) -> Tensor:
    e = (x - x.amax(p["axis"], keepdim=True)).exp()
    return e / e.sum(p["axis"], keepdim=True)


def _lrn(p: Properties, x: Tensor) -> Tensor:
    size: int = p["size"]
    before = (size - 1) // 2
    ends: list[int] = [0, 0] * (x.dim() - 2)
    padded = F.pad(x * x, [*ends, before, size - 1 - before])
    sums = padded.unfold(1, size, 1).sum(-1)
    return x * (p["bias"] + p["alpha"] / size * sums) ** -p["beta"]


def _attention(p: Properties, query: Tensor, key: Tensor, value: Tensor, *mask: Tensor) -> Tensor:
    scores = (query @ key.transpose(2, 3)) * p["scale"]
    if mask:
        scores = scores + mask[0]
    # A row that is masked throughout has no largest score to take off.
    top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    weights = (scores - top).exp()
    return (weights / weights.sum(-1, keepdim=True)) @ value


ROWS: Mapping[str, Row] = {
    nn.ReduceMaxOp.name: _ordered(torch.amax),
    nn.ReduceMinOp.name: _ordered(torch.amin),
    nn.ReduceSumOp.name: Row(_sum, numbers=_exact(mean=False), sums=True),
    nn.ReduceMeanOp.name: Row(_mean, numbers=_exact(mean=True), sums=True),
    nn.CompareOp.name: _on_codes(_compare),
    nn.ArgMaxOp.name: _on_codes(_place(largest=True)),
    nn.ArgMinOp.name: _on_codes(_place(largest=False)),
    nn.TopKOp.name: _on_codes(_top_k),
    nn.BatchNormOp.name: Row(_batch_norm, numbers=_exact_batch_norm),
    nn.LayerNormOp.name: Row(_layer_norm, sums=True),
    nn.RmsNormOp.name: Row(_rms_norm, sums=True),
    nn.SoftmaxOp.name: Row(_softmax),
    nn.LrnOp.name: Row(_lrn, sums=True),
    nn.AttentionOp.name: Row(_attention, sums=True),
}
