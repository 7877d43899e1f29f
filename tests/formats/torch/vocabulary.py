"""A function of PyTorch and its inputs for each row of the vocabulary.

Inputs are built by names: "f2x3" floats of that shape, "p" positive ones, "u" in (-1, 1), "i"
integers, "b" truth values, "n5" before a shape non-negative integers below 5.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Case = tuple[str, Any, str]
"""A name, the function or module, and its inputs."""


def inputs_of(text: str, seed: int = 0) -> tuple[Tensor, ...]:
    """The inputs that a text of a case names."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(_input(word, generator) for word in text.split())


def _input(word: str, generator: torch.Generator) -> Tensor:
    kind, _, rest = word.partition(":")
    shape = [int(n) for n in rest.split("x") if n]
    if kind.startswith("n"):
        return torch.randint(0, int(kind[1:]), shape, generator=generator)
    if kind == "i":
        return torch.randint(-9, 10, shape, generator=generator)
    if kind == "j":
        return torch.randint(-9, 10, shape, generator=generator, dtype=torch.int32)
    if kind == "w":
        return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    if kind == "b":
        return torch.rand(shape, generator=generator) > 0.5
    if kind == "p":
        return torch.rand(shape, generator=generator) * 3 + 0.1
    if kind == "u":
        return torch.rand(shape, generator=generator) * 1.9 - 0.95
    return torch.randn(shape, generator=generator) * 2


UNARY = (
    "sin",
    "cos",
    "tan",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "exp",
    "exp2",
    "expm1",
    "erf",
    "erfc",
    "abs",
    "neg",
    "floor",
    "ceil",
    "trunc",
    "frac",
    "sign",
    "sigmoid",
    "tanh",
    "relu",
    "square",
    "isnan",
    "isinf",
    "logical_not",
    "deg2rad",
    "rad2deg",
    "sgn",
)
POSITIVE = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"]
INSIDE = ["asin", "acos", "atanh", "logit"]
ACTIVATIONS = (
    "relu",
    "relu6",
    "hardtanh",
    "hardsigmoid",
    "hardswish",
    "mish",
    "silu",
    "gelu",
    "softplus",
    "elu",
    "celu",
    "selu",
    "leaky_relu",
    "logsigmoid",
    "softsign",
    "tanhshrink",
    "hardshrink",
    "softshrink",
    "rrelu",
)
BINARY = (
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "fmod",
    "remainder",
    "atan2",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
)


class Cumulative(nn.Module):
    """A buffer that is written, and read afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        """The total with x, which stays."""
        self.total.add_(x)
        return self.total * 2


def writes(x: Tensor) -> tuple[Tensor, ...]:
    """Views of one tensor, written one after the other."""
    h = x * 2
    a, b, c = h[:, 0], h.view(-1), h.t()
    a.add_(1)
    c[1].mul_(3)
    b.relu_()
    parts = h.split(1, 1)
    parts[1].fill_(4)
    h[1:, 2] = -1
    return a, b, c, h, parts[1]


def stepped(x: Tensor) -> Tensor:
    """Every second row written, then rows by numbers, then where a mask is."""
    h = x.clone()
    h[::2] = 1
    h[torch.tensor([1, 3])] = 5
    h[h > 4] = -2
    h.masked_fill_(h < -1.5, 7)
    return h.squeeze(0).clamp_(max=6)


def _nets() -> list[Case]:
    def made(module: nn.Module) -> nn.Module:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for value in [*module.parameters(), *module.buffers()]:
                if value.dtype.is_floating_point:
                    value.copy_(torch.rand(value.shape, generator=generator) * 0.8 + 0.1)
        return module.eval()

    return [
        ("conv1d", made(nn.Conv1d(4, 6, 3, padding="same", groups=2)), "f:2x4x9"),
        ("conv2d", made(nn.Conv2d(3, 4, 3, 2, 1, bias=False)), "f:2x3x8x7"),
        ("conv2d_unbatched", made(nn.Conv2d(3, 4, 3, dilation=2)), "f:3x8x7"),
        ("conv3d", made(nn.Conv3d(2, 3, 2)), "f:1x2x4x5x6"),
        ("conv_reflect", made(nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect")), "f:1x2x5x6"),
        ("conv_transpose2d", made(nn.ConvTranspose2d(4, 2, 3, 2, 1, 1, 2)), "f:1x4x5x4"),
        ("conv_transpose1d", made(nn.ConvTranspose1d(4, 2, 3, 2, 1)), "f:4x5"),
        ("batch_norm", made(nn.BatchNorm2d(3)), "f:2x3x4x4"),
        ("batch_norm1d", made(nn.BatchNorm1d(3)), "f:5x3"),
        ("layer_norm", made(nn.LayerNorm([3, 4])), "f:2x3x4"),
        ("group_norm", made(nn.GroupNorm(2, 4)), "f:2x4x5x3"),
        ("instance_norm", made(nn.InstanceNorm2d(3, affine=True)), "f:2x3x4x5"),
        ("instance_norm1d", made(nn.InstanceNorm1d(3)), "f:2x3x8"),
        ("instance_norm_stats", made(nn.InstanceNorm1d(3, track_running_stats=True)), "f:2x3x8"),
        ("rms_norm", made(nn.RMSNorm(6)), "f:2x6"),
        ("prelu", made(nn.PReLU(3)), "f:2x3x4"),
        ("prelu_one", made(nn.PReLU()), "f:2x3"),
        ("embedding", made(nn.Embedding(7, 3, padding_idx=1)), "n7:2x4"),
        ("bilinear_form", made(nn.Bilinear(3, 4, 2)), "f:5x3 f:5x4"),
        ("lstm", made(nn.LSTM(3, 4)), "f:5x2x3"),
        ("lstm_all", made(nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)), "f:2x5x3"),
        ("lstm_no_bias", made(nn.LSTM(3, 4, bias=False)), "f:5x3"),
        ("gru", made(nn.GRU(3, 4, 2, bidirectional=True)), "f:5x2x3"),
        ("gru_first", made(nn.GRU(3, 4, batch_first=True)), "f:2x5x3"),
        ("rnn", made(nn.RNN(3, 4, 2, batch_first=True)), "f:2x5x3"),
        ("rnn_relu", made(nn.RNN(3, 4, nonlinearity="relu", bidirectional=True)), "f:5x2x3"),
        ("lstm_cell", made(nn.LSTMCell(3, 4)), "f:2x3"),
        ("gru_cell", made(nn.GRUCell(3, 4)), "f:2x3"),
        ("weight_norm", made(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))), "f:2x4"),
        (
            "attention",
            made(nn.MultiheadAttention(8, 2, batch_first=True)),
            "f:2x5x8 f:2x5x8 f:2x5x8",
        ),
        ("encoder", made(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)), "f:2x5x8"),
        ("linear_vector", made(nn.Linear(4, 3)), "f:4"),
        ("linear_3d", made(nn.Linear(4, 3)), "f:2x5x4"),
        ("cumulative", Cumulative(), "f:3"),
    ]


def cases() -> list[Case]:
    """All cases."""
    entries: list[Case] = [(name, getattr(torch, name), "f:2x3") for name in UNARY]
    entries += [(name, getattr(torch, name), "p:2x3") for name in POSITIVE]
    entries += [(name, getattr(torch, name), "u:2x3") for name in INSIDE]
    entries += [(f"F.{name}", getattr(F, name), "f:3x4") for name in ACTIVATIONS]
    for name in BINARY:
        entries.append((f"{name}_floats", getattr(torch, name), "f:2x3 f:3"))
        if name != "atan2":
            entries.append((f"{name}_mixed", getattr(torch, name), "i:2x3 p:1"))
    for name in ("add", "sub", "mul", "maximum", "eq", "lt", "logical_and"):
        entries.append((f"{name}_integers", getattr(torch, name), "i:2x3 i:3"))
    entries += _functions() + _shapes() + _places() + _layers() + _nets()
    return entries


def _functions() -> list[Case]:
    return [
        ("round_decimals", lambda x: torch.round(x, decimals=2), "f:2x3"),
        ("logit_eps", lambda x: torch.logit(x, 0.1), "u:2x3"),
        ("softplus_beta", lambda x: F.softplus(x, 2.0, 3.0), "f:3x4"),
        ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), "f:3x4"),
        ("elu_alpha", lambda x: F.elu(x, 0.7), "f:3x4"),
        ("celu_alpha", lambda x: F.celu(x, 0.7), "f:3x4"),
        ("threshold", lambda x: F.threshold(x, 0.3, -2.0), "f:3x4"),
        ("glu", lambda x: F.glu(x, 1), "f:3x4"),
        ("add_alpha", lambda x, y: torch.add(x, y, alpha=2.5), "f:2x3 f:3"),
        ("sub_alpha", lambda x, y: torch.sub(x, y, alpha=2), "i:2x3 i:3"),
        ("rsub", lambda x: 3 - x, "f:2x3"),
        ("add_bool", lambda x: x + 1, "b:2x3"),
        ("int_times_float", lambda x: x * 1.5, "i:2x3"),
        ("bool_and", lambda x, y: (x & y) | ~x, "b:2x3 b:2x3"),
        ("bool_mul", lambda x, y: x * y, "b:2x3 b:2x3"),
        ("bitwise", lambda x, y: (x & y) ^ (x | 3), "i:2x3 i:2x3"),
        ("bitwise_not", torch.bitwise_not, "i:2x3"),
        ("div_trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), "f:2x3 p:3"),
        ("div_floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), "f:2x3 p:3"),
        (
            "div_integers",
            lambda x: (x / 4, x // 4, torch.div(x, -4, rounding_mode="trunc")),
            "i:3x7",
        ),
        ("floor_divide", lambda x: torch.floor_divide(x, -3), "i:3x7"),
        ("remainder_integers", lambda x: (x % 4, x % -3, torch.fmod(x, 4)), "i:3x7"),
        ("pow_tensor", lambda x, y: torch.pow(x, y), "p:2x3 f:3"),
        ("pow_integers", lambda x: x**2, "i:2x3"),
        ("pow_scalar_base", lambda x: 2.0**x, "f:2x3"),
        ("pow_half", lambda x: x**0.5, "p:2x3"),
        ("clamp", lambda x: x.clamp(-0.5, 1.0), "f:2x3"),
        ("clamp_integers", lambda x: x.clamp(-3, 4), "i:2x3"),
        ("clamp_tensor", lambda x, y: torch.clamp(x, min=y), "f:2x3 f:3"),
        ("clamp_min", lambda x: torch.clamp_min(x, 0.25), "f:2x3"),
        ("clamp_integers_by_float", lambda x: x.clamp(max=2.5), "i:2x3"),
        ("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), "f:2x3 f:3 f:2x1"),
        ("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), "f:2x3 f:3 p:2x1"),
        ("lerp", lambda x, y: torch.lerp(x, y, 0.3), "f:2x3 f:3"),
        ("lerp_tensor", torch.lerp, "f:2x3 f:2x3 p:3"),
        ("where", lambda x, y: torch.where(x > 0, x, y), "f:2x3 f:3"),
        ("where_scalar", lambda x: torch.where(x > 0, x, 0.5), "f:2x3"),
        ("masked_fill", lambda x, m: x.masked_fill(m, float("-inf")), "f:2x3 b:3"),
        ("nan_to_num", lambda x: torch.nan_to_num(torch.log(x), 0.5, 9.0, -9.0), "f:2x3"),
        ("isclose", lambda x: torch.isclose(x, x.round(), atol=0.2), "f:4x5"),
        ("compare_scalars", lambda x: (x > 2.5, x == 3, x != 1), "i:2x3"),
        ("bytes", lambda x: (x.float() / 255, x > 100), "w:2x3"),
        ("i32", lambda x: (x + 2, x * x, x.float() * 0.5), "j:2x3"),
        ("half", lambda x: (x.half() + 1).float(), "f:2x3"),
        ("double", lambda x: (x.double() * 0.1).sum(), "f:2x3"),
        ("to_integer", lambda x: x.to(torch.int64), "f:2x3"),
        ("complex_free_angle", lambda x: torch.atan2(x, torch.zeros_like(x)), "f:2x3"),
    ]


def _shapes() -> list[Case]:
    return [
        ("view", lambda x: x.view(3, -1), "f:2x6"),
        ("flatten", lambda x: x.flatten(1), "f:2x3x4"),
        ("unflatten", lambda x: x.unflatten(1, (2, 3)), "f:2x6"),
        ("squeeze", lambda x: (x.squeeze(1), x.squeeze(), x.unsqueeze(-1)), "f:2x1x3"),
        ("permute", lambda x: (x.permute(2, 0, 1), x.transpose(0, -1), x.mT), "f:2x3x4"),
        ("movedim", lambda x: (x.movedim(0, 2), x.movedim((0, 1), (2, 0))), "f:2x3x4"),
        ("expand", lambda x: x.expand(4, -1, 3), "f:2x1"),
        ("repeat", lambda x: (x.repeat(2, 1, 3), torch.tile(x, (2,))), "f:2x3"),
        (
            "repeat_interleave",
            lambda x: (x.repeat_interleave(2), x.repeat_interleave(3, 1)),
            "f:2x3",
        ),
        ("stack", lambda x, y: torch.stack([x, y, x], 1), "f:2x3 f:2x3"),
        ("cat_types", lambda x, y: torch.cat([x, y], -1), "f:2x3 i:2x2"),
        ("unbind", lambda x: x.unbind(1), "f:2x3x4"),
        ("chunk", lambda x: x.chunk(3, 1), "f:2x7"),
        ("split", lambda x: (*x.split(2, 1), *torch.tensor_split(x, 2, 1)), "f:2x5"),
        ("split_sizes", lambda x: x.split([1, 3, 1], 1), "f:2x5"),
        ("flip", lambda x: x.flip(0, -1), "f:2x3"),
        ("roll", lambda x: (x.roll(1), x.roll((1, -1), (0, 1))), "f:3x4"),
        ("tril", lambda x: (x.tril(), x.triu(1), x.tril(-1)), "f:2x4x4"),
        ("tril_bool", lambda x: x.tril(), "b:4x4"),
        ("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), "f:3 f:4"),
        ("meshgrid_xy", lambda x, y: torch.meshgrid(x, y, indexing="xy"), "f:3 f:4"),
        ("pad", lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=3.0)), "f:2x3"),
        ("pad_crop", lambda x: F.pad(x, (-1, 2)), "f:2x4"),
        ("pad_reflect", lambda x: F.pad(x, (1, 2), mode="reflect"), "f:1x2x5"),
        ("pad_replicate", lambda x: F.pad(x, (1, 2, 0, 1), mode="replicate"), "f:1x2x4x5"),
        ("pad_circular", lambda x: F.pad(x, (1, 2), mode="circular"), "f:1x2x5"),
        ("pad_infinity", lambda x: F.pad(x, (1, 2), value=float("-inf")), "f:2x3"),
        ("pad_integers", lambda x: F.pad(x, (1, 2), value=7), "i:2x3"),
        ("pad_bool", lambda x: F.pad(x, (1, 2), value=True), "b:2x3"),
        ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), "f:2x8x3x4"),
        ("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), "f:2x3x4x6"),
        ("channel_shuffle", lambda x: F.channel_shuffle(x, 2), "f:2x6x3x2"),
        ("zeros_like", lambda x: (torch.zeros_like(x) + x, torch.full_like(x, 2.5)), "f:2x3"),
        ("constants", lambda x: x + torch.arange(3) + torch.tensor([1.0, 2.0, 3.0]), "f:2x3"),
        ("mask", lambda x: x.masked_fill(torch.ones(4, 4).triu(1).bool(), 0.0), "f:2x4x4"),
        ("linspace", lambda x: x * torch.linspace(0, 1, 3), "f:2x3"),
        ("eye", lambda x: x @ torch.eye(3), "f:2x3"),
        ("broadcast", lambda x, y: torch.broadcast_tensors(x, y), "f:2x1 f:3"),
        ("diagonal", lambda x: (x.diagonal(), x.diagonal(1, 0, 2)), "f:3x4x5"),
        ("unfold", lambda x: x.unfold(1, 3, 2), "f:2x7"),
        ("scalar", lambda x: x.sum() * 2, "f:2x3"),
        ("writes", writes, "f:4x3"),
        ("stepped", stepped, "f:5x3"),
    ]


def _places() -> list[Case]:
    return [
        ("select", lambda x: (x[:, 1], x[-1], x[..., 0]), "f:2x3x4"),
        ("slices", lambda x: (x[:, 1:], x[..., 1:4:2], x[:-1]), "f:3x5"),
        ("index_select", lambda x, k: x.index_select(1, k), "f:2x5 n5:3"),
        ("index", lambda x, k: (x[k], x[:, k]), "f:5x5 n5:2x3"),
        ("index_two", lambda x, k, m: (x[k, m], x[:, k, m]), "f:4x4x4 n4:3 n4:2x1"),
        ("index_apart", lambda x, k: x[k, :, k], "f:4x3x4 n4:5"),
        ("index_negative", lambda x: x[torch.tensor([-1, 0])], "f:4x3"),
        ("index_put", lambda x, k, v: torch.index_put(x, (k,), v), "f:5x3 n5:2 f:3"),
        ("index_add", lambda x, k, v: x.index_put((k,), v, accumulate=True), "f:5x3 n5:4 f:4x3"),
        ("gather", lambda x, k: torch.gather(x, 1, k), "f:3x5 n5:3x2"),
        ("take_along", lambda x, k: torch.take_along_dim(x, k, 1), "f:3x5 n5:3x2"),
        ("scatter", lambda x, k, v: x.scatter(1, k, v), "f:2x9 n1:2x1 f:2x1"),
        ("scatter_value", lambda x, k: x.scatter(1, k, 2.0), "f:2x5 n5:2x3"),
        ("scatter_add", lambda x, k, v: x.scatter_add(1, k, v), "f:2x5 n5:2x3 f:2x4"),
        ("scatter_reduce", lambda x, k, v: x.scatter_reduce(1, k, v, "amax"), "f:2x5 n5:2x3 f:2x3"),
        ("select_scatter", lambda x, v: torch.select_scatter(x, v, 1, -1), "f:2x5 f:2"),
        ("slice_scatter", lambda x, v: torch.slice_scatter(x, v, 1, 1, 4, 2), "f:2x5 f:2x2"),
        ("one_hot", lambda x: F.one_hot(x, 6), "n6:2x3"),
        ("embedding", lambda k, w: F.embedding(k, w), "n5:2x3 f:5x4"),
        ("argmax", lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), "f:3x4"),
        ("max_dim", lambda x: (*x.max(1), *x.min(0, keepdim=True), x.max()), "f:3x4"),
        ("max_integers", lambda x: (x.amax(1), x.max()), "n50:3x4"),
        ("topk", lambda x: torch.topk(x, 2, 1, largest=False), "f:3x5"),
        ("sort", lambda x: (*x.sort(1), x.argsort(0, descending=True)), "f:3x5"),
        ("cumsum", lambda x: (x.cumsum(1), x.long().cumsum(0)), "f:3x5"),
        ("any", lambda x: (x.any(), x.all(1), x.any(0, keepdim=True)), "b:3x5"),
        ("reductions", lambda x: (x.mean(1), x.sum((0, 2)), x.amax(-1, True), x.mean()), "f:2x3x4"),
        ("sum_integers", lambda x: (x.sum(), x.sum(1), x.prod(1)), "i:2x3"),
        ("sum_bool", lambda x: x.sum(1), "b:2x3"),
        ("mean_dtype", lambda x: x.mean(1, dtype=torch.float32), "i:2x3"),
        (
            "var",
            lambda x: (x.var(), x.var(1), x.std(0, correction=0), x.std(1, True, True)),
            "f:3x4",
        ),
        ("var_mean", lambda x: torch.var_mean(x, 1), "f:3x4"),
        ("logsumexp", lambda x: torch.logsumexp(x, 1, True), "f:3x4"),
        ("log_softmax", lambda x: F.log_softmax(x, 1), "f:3x4"),
        ("softmax_dtype", lambda x: F.softmax(x, 1, dtype=torch.float64), "f:3x4"),
        (
            "norm",
            lambda x: (x.norm(), x.norm(dim=1), x.norm(1, 0), x.norm(float("inf"), 1)),
            "f:3x4",
        ),
        ("norm_3", lambda x: torch.linalg.vector_norm(x, 3, 1), "f:3x4"),
        ("normalize", lambda x: F.normalize(x, dim=1), "f:3x4"),
        ("cosine", lambda x, y: F.cosine_similarity(x, y), "f:3x4 f:3x4"),
        ("count_nonzero", lambda x: torch.count_nonzero(x, 1), "n2:3x9"),
    ]


def _layers() -> list[Case]:
    return [
        ("matmul", lambda x, y: x @ y, "f:2x3x4 f:4x5"),
        ("matmul_vectors", lambda x, y: (x @ y, y @ y, y @ x.mT), "f:2x3x4 f:4"),
        ("matmul_integers", lambda x, y: x @ y, "i:2x3 i:3x4"),
        ("bmm", torch.bmm, "f:2x3x4 f:2x4x5"),
        ("mv", torch.mv, "f:3x4 f:4"),
        ("dot", torch.dot, "f:4 f:4"),
        ("addmm", lambda x, y, z: torch.addmm(x, y, z, beta=0.5, alpha=2), "f:5 f:2x3 f:3x5"),
        ("baddbmm", torch.baddbmm, "f:2x3x5 f:2x3x4 f:2x4x5"),
        ("outer", torch.outer, "f:3 f:4"),
        ("einsum", lambda x, y: torch.einsum("bij,bkj->bik", x, y), "f:2x3x4 f:2x5x4"),
        ("max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), "f:2x3x8"),
        ("max_pool2d_ceil", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), "f:1x3x8x7"),
        ("max_pool2d_unbatched", lambda x: F.max_pool2d(x, 2), "f:3x8x6"),
        ("max_pool3d", lambda x: F.max_pool3d(x, 2), "f:1x2x4x4x4"),
        ("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), "f:2x3x8"),
        ("avg_pool_ceil", lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), "f:1x3x8x8"),
        ("avg_pool_ceil_pad", lambda x: F.avg_pool2d(x, 3, 2, 1, True), "f:1x3x8x8"),
        ("avg_pool_no_pad", lambda x: F.avg_pool2d(x, 3, 2, 1, False, False), "f:1x3x8x7"),
        ("avg_pool_divisor", lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=4), "f:3x8x7"),
        ("adaptive_avg", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), "f:2x3x7x8"),
        ("adaptive_avg_one", lambda x: F.adaptive_avg_pool2d(x, 1), "f:2x3x7x8"),
        ("adaptive_avg1d", lambda x: F.adaptive_avg_pool1d(x, 4), "f:2x3x8"),
        ("adaptive_none", lambda x: F.adaptive_avg_pool2d(x, (None, 3)), "f:2x3x5x7"),
        ("adaptive_max", lambda x: F.adaptive_max_pool2d(x, (3, 2)), "f:2x3x7x8"),
        ("lp_pool", lambda x: F.lp_pool2d(x, 2, 2), "p:1x2x4x6"),
        ("nearest", lambda x: F.interpolate(x, scale_factor=2), "f:1x2x3x4"),
        ("nearest_odd", lambda x: F.interpolate(x, (7, 5)), "f:1x2x3x4"),
        ("nearest_exact", lambda x: F.interpolate(x, (7, 5), mode="nearest-exact"), "f:1x2x3x4"),
        ("nearest1d", lambda x: F.interpolate(x, 9), "f:1x2x4"),
        ("bilinear", lambda x: F.interpolate(x, (7, 5), mode="bilinear"), "f:1x2x3x4"),
        (
            "bilinear_corners",
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
            "f:1x2x3x4",
        ),
        (
            "bilinear_factor",
            lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
            "f:1x2x5x6",
        ),
        ("linear1d", lambda x: F.interpolate(x, 9, mode="linear"), "f:1x2x4"),
        ("trilinear", lambda x: F.interpolate(x, (4, 5, 6), mode="trilinear"), "f:1x2x3x4x3"),
        ("bicubic", lambda x: F.interpolate(x, (7, 9), mode="bicubic"), "f:1x2x5x6"),
        (
            "grid_sample",
            lambda x, g: F.grid_sample(x, g, align_corners=False),
            "f:1x2x5x6 u:1x3x4x2",
        ),
        ("sdpa", F.scaled_dot_product_attention, "f:2x2x5x4 f:2x2x6x4 f:2x2x6x4"),
        (
            "sdpa_causal",
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            "f:1x2x5x4 f:1x2x5x4 f:1x2x5x4",
        ),
        (
            "sdpa_mask",
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.3),
            "f:2x5x4 f:2x6x4 f:2x6x4 b:5x6",
        ),
        (
            "sdpa_groups",
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            "f:1x4x5x4 f:1x2x5x4 f:1x2x5x4",
        ),
        ("cdist", torch.cdist, "f:3x4 f:5x4"),
        ("local_response", lambda x: F.local_response_norm(x, 3), "p:1x5x4x4"),
        ("unfold2d", lambda x: F.unfold(x, 3, padding=1, stride=2), "f:1x2x6x7"),
    ]
