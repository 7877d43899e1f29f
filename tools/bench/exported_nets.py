"""Transformers as PyTorch exports them, with seeded or given weights.

A program of its own, run in an environment that has `torch` (`tools/bench/others.py` makes it):
`python exported_nets.py NAME OUT.onnx [WEIGHTS.safetensors]`.  A name is a kind, a size and, for
free extents, `dynamic`: `encoder-small`, `decoder-large-dynamic`.

- `encoder`: blocks of attention and GELU with a layer norm behind each, as BERT has them; the mean
  of the last states is its result.
- `decoder`: norms in front, causal attention, one fused projection, tanh-GELU, as GPT-2 has them.
- `llama`: root-mean-square norms, rotated positions, gated SiLU, two heads a key.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn
from torch.nn import functional as F

SIZES = {
    "small": {"width": 128, "blocks": 2, "heads": 4, "words": 2000},
    "medium": {"width": 256, "blocks": 4, "heads": 4, "words": 4000},
    "large": {"width": 256, "blocks": 6, "heads": 8, "words": 8192},
}
TOKENS = 64
MINILM = {"width": 384, "blocks": 6, "heads": 12, "words": 30522}


class Attention(nn.Module):
    """Softmax attention; `keys` heads of keys and values, each for several of the queries."""

    def __init__(self, width: int, heads: int, keys: int, *, causal: bool, fused: bool, bias: bool):
        super().__init__()
        self.heads, self.keys, self.size = heads, keys, width // heads
        self.causal, self.fused = causal, fused
        if fused:
            self.qkv = nn.Linear(width, 3 * width, bias=bias)
        else:
            self.query = nn.Linear(width, width, bias=bias)
            self.key = nn.Linear(width, keys * self.size, bias=bias)
            self.value = nn.Linear(width, keys * self.size, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x, mask=None, turn=None):
        if self.fused:
            q, k, v = self.qkv(x).chunk(3, -1)
        else:
            q, k, v = self.query(x), self.key(x), self.value(x)
        q = q.unflatten(-1, (self.heads, self.size)).transpose(1, 2)
        k, v = (y.unflatten(-1, (self.keys, self.size)).transpose(1, 2) for y in (k, v))
        if turn is not None:
            q, k = _turned(q, *turn), _turned(k, *turn)
        if self.keys < self.heads:
            k, v = (y.repeat_interleave(self.heads // self.keys, 1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


def _turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class EncoderBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention = Attention(width, heads, heads, causal=False, fused=False, bias=True)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.last_norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, mask):
        x = self.norm(x + self.attention(x, mask))
        return self.last_norm(x + self.narrow(F.gelu(self.wide(x))))


class Encoder(nn.Module):
    """From words and a mask to the mean of the states that the mask keeps, and the states."""

    def __init__(self, width: int, blocks: int, heads: int, words: int, places: int = 512):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.kinds, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.blocks = nn.ModuleList(EncoderBlock(width, heads) for _ in range(blocks))

    def forward(self, input_ids, attention_mask):
        place = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.words(input_ids) + self.places(place) + self.kinds(torch.zeros_like(input_ids))
        x = self.norm(x)
        mask = (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
        for block in self.blocks:
            x = block(x, mask)
        kept = attention_mask[:, :, None].float()
        return x, (x * kept).sum(1) / kept.sum(1).clamp(min=1e-9)


class DecoderBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, heads, causal=True, fused=True, bias=True)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        y = F.gelu(self.wide(self.last_norm(x)), approximate="tanh")
        return x + self.narrow(y)


class Decoder(nn.Module):
    """From words to what the next may be."""

    def __init__(self, width: int, blocks: int, heads: int, words: int):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        self.blocks = nn.ModuleList(DecoderBlock(width, heads) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, input_ids):
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class RootMeanSquare(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class LlamaBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm, self.last_norm = RootMeanSquare(width), RootMeanSquare(width)
        self.attention = Attention(width, heads, heads // 2, causal=True, fused=False, bias=False)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x, turn):
        x = x + self.attention(self.norm(x), turn=turn)
        y = self.last_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """From words to what the next may be."""

    def __init__(self, width: int, blocks: int, heads: int, words: int):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads) for _ in range(blocks))
        self.norm, self.head = RootMeanSquare(width), nn.Linear(width, words, bias=False)
        half = width // heads // 2
        self.rates: torch.Tensor
        self.register_buffer("rates", 10000.0 ** -(torch.arange(half) / half))

    def forward(self, input_ids):
        angles = torch.arange(input_ids.shape[1])[:, None] * self.rates
        angles = torch.cat((angles, angles), -1)
        turn = angles.cos(), angles.sin()
        x = self.words(input_ids)
        for block in self.blocks:
            x = block(x, turn)
        return self.head(self.norm(x))


def _seeded(model: nn.Module) -> nn.Module:
    """Weights of the spread that trained ones have: norms near one with a few large channels,
    products that keep the deviation of what they take."""
    random = torch.Generator().manual_seed(0)
    for name, value in model.named_parameters():
        with torch.no_grad():
            if "norm" in name and name.endswith("weight"):
                value.uniform_(0.6, 1.4, generator=random)
                value[torch.randperm(len(value), generator=random)[: max(1, len(value) // 64)]] *= 6
            elif value.ndim == 1:
                value.normal_(0, 0.1, generator=random)
            else:
                deviation = 0.5 if "words" in name else value.shape[-1] ** -0.5
                value.normal_(0, deviation, generator=random)
    return model


def minilm(content: bytes) -> nn.Module:
    """The sentence encoder all-MiniLM-L6-v2 out of its weights, a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    names = {
        "embeddings.word_embeddings": "words",
        "embeddings.position_embeddings": "places",
        "embeddings.token_type_embeddings": "kinds",
        "embeddings.LayerNorm": "norm",
        "encoder.layer": "blocks",
        "attention.self": "attention",
        "attention.output.dense": "attention.out",
        "attention.output.LayerNorm": "norm",
        "intermediate.dense": "wide",
        "output.dense": "narrow",
        "output.LayerNorm": "last_norm",
    }
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or name.startswith("pooler") or "position_ids" in name:
            continue
        start, end = entry["data_offsets"]
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        array = np.frombuffer(data[start:end], dtype=np.float32).reshape(entry["shape"])
        weights[name] = torch.tensor(array)
    model = Encoder(**MINILM)
    model.load_state_dict(weights)
    return model


def network(name: str, weights: Path | None = None) -> nn.Module:
    """The network called `name`."""
    kind, *rest = name.split("-")
    if kind == "minilm":
        if weights is None:
            raise SystemExit("minilm takes its weights")
        model = minilm(weights.read_bytes())
    else:
        made = {"encoder": Encoder, "decoder": Decoder, "llama": Llama}[kind]
        model = _seeded(made(**SIZES[rest[0]]))
    return model.eval()


def export(name: str, target: Path, weights: Path | None = None) -> None:
    """Write the network called `name`."""
    dynamic = name.endswith("-dynamic")
    model = network(name, weights)
    count = 2 if isinstance(model, Encoder) else 1
    random = torch.Generator().manual_seed(1)
    shape = 2 if dynamic else 1, TOKENS
    # Of its own each: what is one tensor becomes one input.
    inputs = tuple(torch.randint(0, 2, shape, generator=random) for _ in range(count))
    extents = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", min=2, max=256)}
    torch.onnx.export(
        model,
        inputs,
        str(target),
        input_names=["input_ids", "attention_mask"][:count],
        output_names=["states", "sentence"] if count == 2 else ["next"],
        dynamic_shapes=(extents,) * count if dynamic else None,
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    _check(model, target, inputs)


def _check(model: nn.Module, path: Path, inputs: tuple[torch.Tensor, ...]) -> None:
    """SystemExit where the file does not answer as the module does."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    feeds = {name: value.numpy() for name, value in zip(names, inputs, strict=True)}
    with torch.no_grad():
        expected = model(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for a, b in zip(expected, session.run(None, feeds), strict=True):
        if not np.allclose(a.numpy(), np.asarray(b), rtol=1e-3, atol=1e-3):
            raise SystemExit(f"{path}: not what PyTorch computes")


if __name__ == "__main__":
    export(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
