"""Random float networks of images and of rows, to transform channels in.

Layers are drawn from all kinds of ops, whatever they let pass: convolutions in groups, functions,
norms, pools, joins and parts, products of values, attention. Numbers are small integers, so that
most sums are exact in f32.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from tests.generators.float_networks import Value, tensor


class _Net:
    def __init__(self, seed: int) -> None:
        self.lines: list[str] = []
        self.draw = random.Random(seed)
        self.numbers = np.random.default_rng(seed)

    def op(self, text: str, shape: Sequence[int], *operands: Value) -> Value:
        head, *rest = text.split(" ", 1)
        name = f"%v{len(self.lines)}"
        kinds = ", ".join(tensor(each) for _, each in operands)
        names = ", ".join(each for each, _ in operands)
        key = f'{{nn.key = "{name[1:]}"}}'
        kind = f"({kinds}) -> {tensor(tuple(shape))}"
        self.lines.append(f"{name} = nn.{head} {names} {' '.join(rest)} {key} : {kind}")
        return name, tuple(shape)

    def constant(self, *shape: int, low: int = -3) -> Value:
        array = self.numbers.integers(low, 4, shape).astype("<f4")
        name, kind = f"%v{len(self.lines)}", tensor(shape)
        data = array.tobytes().hex()
        text = f'{name} = nn.constant dense<"0x{data}"> : {kind} : {kind}'
        self.lines.append(text)
        return name, shape

    def bias(self, count: int) -> list[Value]:
        return [self.constant(count)] if self.draw.random() < 0.7 else []


def _convolution(net: _Net, x: Value) -> Value:
    batch, channels, height, width = x[1]
    groups = net.draw.choice([1, 1, *(g for g in (2, channels) if channels % g == 0)])
    count = groups * net.draw.choice((1, 2, 3)) if groups > 1 else net.draw.choice((2, 4, 6))
    size = net.draw.choice((1, 3)) if min(height, width) >= 3 else 1
    pad = net.draw.choice((0, size // 2))
    if net.draw.random() < 0.2:
        each = net.draw.choice((1, 2))
        weight = net.constant(channels, each, 1, 1)
        bias = net.bias(each * groups)
        shape = (batch, each * groups, height, width)
        return net.op(f"conv_transpose2d groups {groups}", shape, x, weight, *bias)
    weight = net.constant(count, channels // groups, size, size)
    shape = (batch, count, height + 2 * pad - size + 1, width + 2 * pad - size + 1)
    text = f"conv2d pads {[pad] * 4} groups {groups}"
    return net.op(text, shape, x, weight, *net.bias(count))


def _function(net: _Net, x: Value) -> Value:
    texts = ("relu", "leaky_relu alpha 0.25", "abs", "gelu", "clip min 0.0 max 6.0", "neg", "swish")
    return net.op(net.draw.choice(texts), x[1], x)


def _prelu(net: _Net, x: Value) -> Value:
    return net.op("prelu", x[1], x, net.constant(x[1][1], 1, 1))


def _norm(net: _Net, x: Value) -> Value:
    count = x[1][1]
    vectors = [net.constant(count) for _ in range(3)]
    return net.op("batch_norm", x[1], x, *vectors, net.constant(count, low=1))


def _with_constant(net: _Net, x: Value) -> Value:
    kind = net.draw.choice(("add", "mul", "sub", "maximum"))
    shape = net.draw.choice(((x[1][1], 1, 1), (1,), x[1]))
    return net.op(kind, x[1], x, net.constant(*shape))


def _residual(net: _Net, x: Value) -> Value:
    kind = net.draw.choice(("add", "add", "sub", "mul", "maximum"))
    return net.op(kind, x[1], x, net.draw.choice((_function, _mixed, _prelu))(net, x))


def _mixed(net: _Net, x: Value) -> Value:
    count = x[1][1]
    return net.op("conv2d", x[1], x, net.constant(count, count, 1, 1), *net.bias(count))


def _gate(net: _Net, x: Value) -> Value:
    shape = (*x[1][:2], 1, 1)
    small = _mixed(net, net.op("global_avg_pool2d", shape, x))
    return net.op("mul", x[1], x, net.op("sigmoid", shape, small))


def _pool(net: _Net, x: Value) -> Value:
    kind = net.draw.choice(("max_pool2d", "avg_pool2d"))
    return net.op(f"{kind} kernel [3, 3] pads [1, 1, 1, 1]", x[1], x)


def _join(net: _Net, x: Value) -> Value:
    parts = [x, _mixed(net, x), _function(net, x)]
    net.draw.shuffle(parts)
    joined = (x[1][0], 3 * x[1][1], *x[1][2:])
    y = net.op("concat axis 1", joined, *parts)
    start = net.draw.randrange(x[1][1])
    text = f"slice starts [0, {start}, 0, 0] stops {[*joined]} steps [1, 2, 1, 1]"
    return net.op(text, (x[1][0], -(-(joined[1] - start) // 2), *x[1][2:]), y)


def _pad(net: _Net, x: Value) -> Value:
    value = net.draw.choice(("0.0", "1.0"))
    text = f"pad low [0, 0, 1, 0] high [0, 0, 1, 0] mode constant value {value}"
    return net.op(text, (*x[1][:2], x[1][2] + 2, x[1][3]), x)


def _resize(net: _Net, x: Value) -> Value:
    shape = (*x[1][:2], 2 * x[1][2], 2 * x[1][3])
    kind = net.draw.choice(("resize_nearest", "resize_linear"))
    return net.op(f"{kind} sizes {[*shape]} coordinates asymmetric", shape, x)


def _shuffle(net: _Net, x: Value) -> Value:
    batch, channels, height, width = x[1]
    if channels % 2:
        return x
    y = net.op("reshape", (batch, 2, channels // 2, height, width), x)
    y = net.op("transpose perm [0, 2, 1, 3, 4]", (batch, channels // 2, 2, height, width), y)
    return net.op("reshape", x[1], y)


def _linear(net: _Net, x: Value, count: int) -> Value:
    """Rows [B, T, C], by one of the ops that multiply matrices."""
    shape = (*x[1][:2], count)
    if net.draw.random() < 0.5:
        y = net.op("matmul", shape, x, net.constant(x[1][2], count))
        return net.op("add", shape, y, *net.bias(count)[:1] or [net.constant(count)])
    flat = net.op("reshape", (x[1][0] * x[1][1], x[1][2]), x)
    rows = (x[1][0] * x[1][1], count)
    y = net.op("fully_connected", rows, flat, net.constant(count, x[1][2]), *net.bias(count))
    return net.op("reshape", shape, y)


def _attention(net: _Net, x: Value) -> Value:
    batch, tokens, width = x[1]
    heads, each = 2, 3
    inner = heads * each
    parts: list[Value] = []
    for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        y = net.op("reshape", (batch, tokens, heads, each), _linear(net, x, inner))
        shape = (batch, tokens, heads, each)
        parts.append(net.op(f"transpose perm {[*perm]}", [shape[p] for p in perm], y))
    scores = net.op("matmul", (batch, heads, tokens, tokens), *parts[:2])
    scores = net.op("mul", scores[1], scores, net.constant(1))
    y = net.op("matmul", parts[2][1], net.op("softmax axis 3", scores[1], scores), parts[2])
    y = net.op("transpose perm [0, 2, 1, 3]", (batch, tokens, heads, each), y)
    y = _linear(net, net.op("reshape", (batch, tokens, inner), y), width)
    return net.op("add", x[1], x, y) if net.draw.random() < 0.5 else y


def _layer_norm(net: _Net, x: Value) -> Value:
    vectors = [net.constant(x[1][2]), *net.bias(x[1][2])]
    return net.op("layer_norm", x[1], x, *vectors)


def _block(net: _Net, x: Value) -> Value:
    width = net.draw.choice((4, 8))
    y = _linear(net, _layer_norm(net, x), width)
    y = net.op(net.draw.choice(("relu", "gelu")), y[1], y)
    return net.op("add", x[1], x, _linear(net, y, x[1][2]))


def _rows_function(net: _Net, x: Value) -> Value:
    return net.op(net.draw.choice(("relu", "gelu", "neg")), x[1], x)


def _rows_linear(net: _Net, x: Value) -> Value:
    return _linear(net, x, net.draw.choice((4, 6)))


Layer = Callable[[_Net, Value], Value]

IMAGES: Sequence[Layer] = (
    *(_convolution,) * 5,
    *(_function, _prelu, _norm, _with_constant, _residual, _gate, _pool, _join, _pad, _resize),
    _shuffle,
    _mixed,
)
ROWS: Sequence[Layer] = (
    *(_attention, _layer_norm, _block, _rows_function),
    *(_rows_linear,) * 3,
)


def random_channels(seed: int) -> str:
    """The text of a module that begins and ends with a product."""
    net = _Net(seed)
    if images := net.draw.random() < 0.6:
        x: Value = ("%x", (1, 3, 5, 5))
        y = _mixed(net, _convolution(net, x))
    else:
        x = ("%x", (1, 4, 6))
        y = _linear(net, x, 6)
    for _ in range(net.draw.randint(2, 6)):
        y = net.draw.choice(IMAGES if images else ROWS)(net, y)
    y = _mixed(net, y) if images else _linear(net, y, 4)
    body = "\n".join(net.lines)
    return (
        f'func.func @main(%x: {tensor(x[1])} {{nn.name = "x"}}) -> {tensor(y[1])} {{\n{body}\n'
        f"return {y[0]} : {tensor(y[1])}\n}}"
    )
