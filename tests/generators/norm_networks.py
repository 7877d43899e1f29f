"""Random transformers without attention, to rotate their residual streams: words, rows or parts of
a picture come in, blocks are added to the stream, norms stand in front of blocks.

Norms are one op or as exporters write them in pieces, with a mean or without, and with gains of
either sign.  What keeps a stream from being rotated is put in by name (`BREAKERS`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from tests.generators.float_networks import Value, tensor

WIDTH, TOKENS, WORDS = 8, 3, 5

BREAKERS = ("returned", "relu", "norm behind", "zero gain", "tied", "gain of the sum")


class _Net:
    def __init__(self, seed: int) -> None:
        self.lines: list[str] = []
        self.draw = random.Random(seed)
        self.numbers = np.random.default_rng(seed)

    def op(self, text: str, shape: Sequence[int], *operands: Value, kinds: str = "") -> Value:
        head, *rest = text.split(" ", 1)
        name = f"%v{len(self.lines)}"
        kinds = kinds or ", ".join(tensor(each) for _, each in operands)
        names = ", ".join(each for each, _ in operands)
        kind = f"({kinds}) -> {tensor(tuple(shape))}"
        key = f'{{nn.key = "{name[1:]}"}}'
        self.lines.append(f"{name} = nn.{head} {names} {' '.join(rest)} {key} : {kind}")
        return name, tuple(shape)

    def constant(self, array: np.ndarray) -> Value:
        name, kind = f"%v{len(self.lines)}", tensor(array.shape)
        data = array.astype("<f4").tobytes().hex()
        self.lines.append(f'{name} = nn.constant dense<"0x{data}"> : {kind} : {kind}')
        return name, array.shape

    def normal(self, *shape: int) -> Value:
        return self.constant(self.numbers.normal(size=shape))

    def gain(self) -> Value:
        signs = self.numbers.choice([-1.0, 1.0], WIDTH)
        return self.constant(signs * self.numbers.uniform(0.3, 3.0, WIDTH))


def _product(net: _Net, x: Value, count: int) -> Value:
    y = net.op("matmul", (*x[1][:-1], count), x, net.normal(x[1][-1], count))
    return net.op("add", y[1], y, net.normal(count)) if net.draw.random() < 0.5 else y


def _norm(net: _Net, x: Value, gain: Value) -> Value:
    """Of layer norms and norms by root mean squares, some form; not all have a bias."""
    draw, small = net.draw, (*x[1][:-1], 1)
    form = draw.choice(("op", "layer", "root"))
    if form == "op":
        return net.op("layer_norm", x[1], x, gain, *[net.normal(WIDTH)] * draw.choice((0, 1)))
    if form == "layer":
        x = net.op("sub", x[1], x, net.op("reduce_mean axes [-1]", small, x))
    square = (
        net.op("mul", x[1], x, x) if draw.random() < 0.5 else net.op("pow exponent 2.0", x[1], x)
    )
    if draw.random() < 0.3:
        square = net.op("mul", x[1], square, net.constant(np.array([0.5])))
    kind = draw.choice(("reduce_mean", "reduce_sum"))
    size = net.op(f"{kind} axes [-1]", small, square)
    size = net.op("sqrt", small, net.op("add", small, size, net.constant(np.array([0.01]))))
    if draw.random() < 0.5:
        y = net.op("div", x[1], x, size)
    else:
        y = net.op("mul", x[1], net.op("reciprocal", small, size), x)
    y = net.op("mul", x[1], *draw.choice(((y, gain), (gain, y))))
    return net.op("add", x[1], y, net.normal(WIDTH)) if draw.random() < 0.5 else y


def _parts(net: _Net, x: Value) -> Value:
    """Of 2 x 2 places each, behind a constant as first row."""
    parts = (1, WIDTH, 1, TOKENS - 1)
    y = net.op("conv2d strides [2, 2]", parts, x, net.normal(WIDTH, 3, 2, 2), net.normal(WIDTH))
    y = net.op("reshape", (WIDTH, TOKENS - 1), y)
    y = net.op("transpose perm [1, 0]", (TOKENS - 1, WIDTH), y)
    return net.op("concat axis 0", (TOKENS, WIDTH), net.normal(1, WIDTH), y)


def random_stream(seed: int, breaker: str = "") -> tuple[str, np.ndarray]:
    """The text of a module, and an input."""
    net = _Net(seed)
    draw, shape, table = net.draw, (TOKENS, WIDTH), net.normal(WORDS, WIDTH)
    start = "words" if breaker == "tied" else draw.choice(("words", "rows", "picture"))
    if start == "words":
        kind, given = f"tensor<{TOKENS}xi64>", net.numbers.integers(0, WORDS, TOKENS)
        x = net.op("gather", shape, table, ("%x", (TOKENS,)), kinds=f"{tensor(table[1])}, {kind}")
    elif start == "rows":
        kind, given = tensor((TOKENS, 4)), net.numbers.normal(size=(TOKENS, 4)).astype("f4")
        x = _product(net, ("%x", (TOKENS, 4)), WIDTH)
    else:
        size = (1, 3, 2, 2 * (TOKENS - 1))
        kind, given = tensor(size), net.numbers.normal(size=size).astype("f4")
        x = _parts(net, ("%x", size))
    if draw.random() < 0.6:
        x = net.op("add", shape, x, net.normal(TOKENS, WIDTH))
    results: list[Value] = []
    for number in range(draw.randint(1, 3)):
        broken = breaker if number == 0 else ""
        gain = net.gain()
        if broken == "zero gain":
            gain = net.constant(np.arange(WIDTH, dtype=np.float64))
        y = _norm(net, x, gain)
        if broken == "gain of the sum":
            x = net.op("add", shape, y, _product(net, y, WIDTH))
            y = _norm(net, x, net.gain())
        if broken == "relu":
            x = net.op("relu", shape, x)
        y = net.op(draw.choice(("relu", "gelu")), (TOKENS, 6), _product(net, y, 6))
        x = net.op("add", shape, x, _product(net, y, WIDTH))
        if broken == "norm behind":
            x = _norm(net, x, net.gain())
        if broken == "returned":
            results.append(x)
    y = _norm(net, x, net.gain())
    if breaker == "tied":
        results.append(net.op("fully_connected", (TOKENS, WORDS), y, table))
    else:
        results.append(_product(net, y, 5))
    kinds = ", ".join(tensor(each) for _, each in results)
    names = ", ".join(name for name, _ in results)
    body = "\n".join(net.lines)
    text = (
        f'func.func @main(%x: {kind} {{nn.name = "x"}}) -> ({kinds}) {{\n{body}\n'
        f"return {names} : {kinds}\n}}"
    )
    return text, given
