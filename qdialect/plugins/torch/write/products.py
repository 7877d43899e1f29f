"""Rows of convolutions, fully connected layers and matrix products.

In the reals the sum of products of codes less their zero points is an integer: torch takes it
in doubles, where every integer below 2^53 is exact, because it has no fast integer kernels on
every device.  Scales and the bias come after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from qdialect.ir import ops as nn
from qdialect.plugins.torch.write.exact import Exact
from qdialect.plugins.torch.write.rows import Number, Properties, Row

_CONV: Sequence[Callable[..., Tensor]] = (F.conv1d, F.conv2d, F.conv3d)
_TRANSPOSED: Sequence[Callable[..., Tensor]] = (
    F.conv_transpose1d,
    F.conv_transpose2d,
    F.conv_transpose3d,
)


def torch_pads(pads: Sequence[int]) -> list[int]:
    """Pads (all begins, then all ends) in the order of torch: last dimension first."""
    rank = len(pads) // 2
    return [n for d in reversed(range(rank)) for n in (pads[d], pads[d + rank])]


def convolution(p: Properties, x: Tensor, weight: Tensor) -> Tensor:
    """The convolution without a bias."""
    pads: Sequence[int] = p["pads"]
    if any(pads):
        x = F.pad(x, torch_pads(pads))
    function = _CONV[x.dim() - 3]
    return function(x, weight, None, p["strides"], 0, p["dilations"], p["groups"])


def _transposed(p: Properties, x: Tensor, weight: Tensor) -> Tensor:
    """All that the kernel reaches, without what `pads` cut off."""
    rank = x.dim() - 2
    y = _TRANSPOSED[rank - 1](x, weight, None, p["strides"], 0, 0, p["groups"], p["dilations"])
    pads: Sequence[int] = p["pads"]
    more: Sequence[int] = p["output_padding"]
    # Negative pads cut off.
    ends = [more[d] - pads[d + rank] for d in range(rank)]
    return F.pad(y, torch_pads([*(-n for n in pads[:rank]), *ends]))


def _matmul(p: Properties, a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def _linear(p: Properties, x: Tensor, weight: Tensor) -> Tensor:
    return x @ weight.T


def _biased(product: Callable[[Properties, Tensor, Tensor], Tensor]) -> Any:
    """On floats, with a bias along dimension 1."""

    def floats(p: Properties, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        y = product(p, x, weight)
        return y + _along_channels(bias[0], y) if bias else y

    return floats


def _along_channels(values: Tensor, y: Tensor) -> Tensor:
    return values.reshape(1, -1, *(1,) * (y.dim() - 2))


def _exact_convolution(p: Properties, x: Number, weight: Number, *bias: Number) -> Exact:
    spatial = range(2, x.rank)
    x = x.scaled_along((1, *spatial))
    weight = weight.scaled_along((1, *spatial))
    y = convolution(p, x.steps, weight.steps)
    return _scaled(y, x, _along_channels(weight.scale.expand(-1, *(1,) * (x.rank - 1)), y), bias)


def _exact_transposed(p: Properties, x: Number, weight: Number, *bias: Number) -> Exact:
    spatial = tuple(range(2, x.rank))
    depthwise = p["groups"] == weight.steps.shape[0]
    x = x.scaled_along((1, *spatial))
    weight = weight.scaled_along(spatial if depthwise else (0, *spatial))
    y = _transposed(p, x.steps, weight.steps)
    scale = weight.scale.reshape(weight.scale.shape[:2])
    scale = scale.expand(p["groups"], weight.steps.shape[1])
    return _scaled(y, x, _along_channels(scale.reshape(-1), y), bias)


def _exact_linear(p: Properties, x: Number, weight: Number, *bias: Number) -> Exact:
    x, weight = x.scaled_along((1,)), weight.scaled_along((1,))
    return _scaled(x.steps @ weight.steps.T, x, weight.scale.T, bias)


def _scaled(sums: Tensor, x: Number, scale: Tensor, bias: Sequence[Number]) -> Exact:
    y = Exact.of(sums) * (Exact.of(x.scale) * Exact.of(scale))
    if not bias:
        return y
    return y + bias[0].exact.map(lambda part: _along_channels(part, sums))


def _exact_matmul(p: Properties, a: Number, b: Number) -> Exact:
    a = a.scaled_along((a.rank - 1,))
    b = b.scaled_along((max(b.rank - 2, 0),))
    rows = _matrix(a.steps, 0), _matrix(a.scale, 0)
    columns = _matrix(b.steps, -1), _matrix(b.scale, -1)
    y = Exact.of(rows[0] @ columns[0]) * (Exact.of(rows[1]) * Exact.of(columns[1]))

    def squeezed(part: Tensor) -> Tensor:
        part = part.squeeze(-1) if b.rank == 1 else part
        return part.squeeze(-1 if b.rank == 1 else -2) if a.rank == 1 else part

    return y.map(squeezed)


def _matrix(values: Tensor, axis: int) -> Tensor:
    """A vector as a matrix with a unit dimension at `axis`; a matrix itself."""
    return values.unsqueeze(axis) if values.dim() == 1 else values


ROWS: Mapping[str, Row] = {
    **{
        kind.name: Row(_biased(convolution), numbers=_exact_convolution, sums=True)
        for kind in nn.CONVOLUTIONS
    },
    **{
        kind.name: Row(_biased(_transposed), numbers=_exact_transposed, sums=True)
        for kind in nn.TRANSPOSED
    },
    nn.FullyConnectedOp.name: Row(_biased(_linear), numbers=_exact_linear, sums=True),
    nn.MatMulOp.name: Row(_matmul, numbers=_exact_matmul, sums=True),
}
