"""Rows of LSTM and GRU, step by step; and of ops that quantize their input as they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from qdialect.ir import ops as nn
from qdialect.plugins.torch.write.products import convolution
from qdialect.plugins.torch.write.rows import Number, Properties, Results, Row

Direction = Callable[
    [Properties, Tensor, Sequence[Tensor], Sequence[Tensor], Sequence[Tensor | None]],
    list[tuple[Tensor, ...]],
]
"""The states after each step of one direction."""


def _both(direction: Direction, states: int) -> Callable[..., Results]:
    """All results: hidden states of all steps, then the last states."""

    def floats(p: Properties, *operands: Tensor) -> Results:
        lengths = operands[-1] if p["lengths"] else None
        x, weight, recurrence, bias, *more = operands[:-1] if p["lengths"] else operands
        steps, batch, hidden = x.shape[0], x.shape[1], recurrence.shape[2]
        masks: list[Tensor | None] = [None] * steps
        if lengths is not None:
            masks = [(lengths > t)[:, None] for t in range(steps)]
        shown: list[Tensor] = []
        last: list[Sequence[Tensor]] = []
        for index in range(weight.shape[0]):
            turn = -1 if p["direction"] == "reverse" or index == 1 else 1
            zeros = torch.zeros((batch, hidden), dtype=x.dtype, device=x.device)
            before = [zeros + state[index] for state in more[:states]] or [zeros] * states
            parts = [array[index] for array in (weight, recurrence, bias, *more[states:])]
            rows = x.flip(0) if turn < 0 else x
            found = direction(p, rows, parts, before, masks[::turn])
            outputs = [
                now[0] if mask is None else torch.where(mask, now[0], 0)
                for now, mask in zip(found, masks[::turn], strict=True)
            ]
            stacked = torch.stack(outputs) if outputs else x.new_zeros((0, batch, hidden))
            shown.append(stacked.flip(0) if turn < 0 else stacked)
            last.append(found[-1] if found else before)
        ends = [torch.stack(arrays) for arrays in zip(*last, strict=True)]
        return (torch.stack(shown, 1), *ends[: len(p.kinds) - 1])

    return floats


def _kept(mask: Tensor | None, new: Sequence[Tensor], old: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The states after a step that only some sequences of the batch have."""
    if mask is None:
        return tuple(new)
    return tuple(torch.where(mask, a, b) for a, b in zip(new, old, strict=True))


def _lstm(
    p: Properties,
    x: Tensor,
    operands: Sequence[Tensor],
    states: Sequence[Tensor],
    masks: Sequence[Tensor | None],
) -> list[tuple[Tensor, ...]]:
    weight, recurrence, bias, *more = operands
    size = recurrence.shape[1]
    hidden, cell = states
    zeros = torch.zeros(3 * size, dtype=x.dtype, device=x.device)
    peep_i, peep_o, peep_f = (more[0] if more else zeros).reshape(3, size)
    found: list[tuple[Tensor, ...]] = []
    for now, mask in zip(x, masks, strict=True):
        total = now @ weight.T + hidden @ recurrence.T + (bias[: 4 * size] + bias[4 * size :])
        into, out, forget, new = torch.split(total, size, 1)
        remembered = torch.sigmoid(forget + peep_f * cell) * cell
        cell_now = remembered + torch.sigmoid(into + peep_i * cell) * new.tanh()
        hidden_now = torch.sigmoid(out + peep_o * cell_now) * cell_now.tanh()
        hidden, cell = _kept(mask, (hidden_now, cell_now), (hidden, cell))
        found.append((hidden, cell))
    return found


def _gru(
    p: Properties,
    x: Tensor,
    operands: Sequence[Tensor],
    states: Sequence[Tensor],
    masks: Sequence[Tensor | None],
) -> list[tuple[Tensor, ...]]:
    weight, recurrence, bias = operands
    size = recurrence.shape[1]
    (hidden,) = states
    w_z, w_r, w_n = weight.reshape(3, size, weight.shape[1])
    r_z, r_r, r_n = recurrence.reshape(3, size, size)
    b = bias.reshape(6, size)
    found: list[tuple[Tensor, ...]] = []
    for now, mask in zip(x, masks, strict=True):
        update = torch.sigmoid(now @ w_z.T + hidden @ r_z.T + b[0] + b[3])
        reset = torch.sigmoid(now @ w_r.T + hidden @ r_r.T + b[1] + b[4])
        if p["linear_before_reset"]:
            past = reset * (hidden @ r_n.T + b[5])
        else:
            past = (reset * hidden) @ r_n.T + b[5]
        new = (now @ w_n.T + b[2] + past).tanh()
        (hidden,) = _kept(mask, [(1 - update) * new + update * hidden], [hidden])
        found.append((hidden,))
    return found


# -- quantized as they run ------------------------------------------------------------


def _grid(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Codes, scale and zero point as ONNX defines DynamicQuantizeLinear, in f32."""
    x = x.float()
    zero_of = x.new_zeros(())
    low = torch.minimum(x.amin() if x.numel() else zero_of, zero_of)
    high = torch.maximum(x.amax() if x.numel() else zero_of, zero_of)
    scale = torch.where(low == high, torch.ones_like(low), (high - low) / 255.0)
    zero = (0.0 - low / scale).round().clamp(0, 255)
    steps = (x / scale).round().double() + zero
    codes = torch.where(steps.isnan(), 0.0, steps.clamp(0, 255))
    return codes, scale, zero


def _dynamic_quantize(p: Properties, x: Tensor) -> Results:
    return _grid(x)


def _dynamic_matmul(p: Properties, x: Number, weight: Number) -> Tensor:
    codes, scale, zero = _grid(x.steps)
    sums = (codes - zero) @ weight.steps
    row = weight.scale.float().reshape(-1 if weight.scale.numel() > 1 else ())
    return sums.float() * (scale * row)


def _dynamically_rounded(x: Tensor) -> Tensor:
    """The numbers of the codes of `x`; the gradient passes."""
    codes, scale, zero = _grid(x.detach())
    return (codes - zero).to(x.dtype) * scale.to(x.dtype) + (x - x.detach())


def _float_matmul(p: Properties, x: Tensor, weight: Tensor) -> Tensor:
    return _dynamically_rounded(x) @ weight


def _float_convolution(p: Properties, x: Tensor, weight: Tensor) -> Tensor:
    return convolution(p, _dynamically_rounded(x), weight)


def _dynamic_convolution(p: Properties, x: Number, weight: Number) -> Tensor:
    codes, scale, zero = _grid(x.steps)
    sums = convolution(p, codes - zero, weight.steps)
    shape = (-1, *(1,) * (sums.dim() - 2)) if weight.scale.numel() > 1 else ()
    return sums.float() * (scale * weight.scale.float().reshape(shape))


ROWS: Mapping[str, Row] = {
    nn.LstmOp.name: Row(_both(_lstm, 2), sums=True),
    nn.GruOp.name: Row(_both(_gru, 1), sums=True),
    nn.DynamicQuantizeOp.name: Row(_dynamic_quantize),
    nn.DynamicMatMulOp.name: Row(_float_matmul, numbers=_dynamic_matmul),
    **{
        kind.name: Row(_float_convolution, numbers=_dynamic_convolution)
        for kind in nn.DYNAMIC_CONVOLUTIONS
    },
}
