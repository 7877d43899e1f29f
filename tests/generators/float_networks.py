"""Random float networks whose weights stand behind movements and casts.

A weight is a constant behind reshapes, transposes and flips, as exporters leave them, in floats, in
codes behind a dequantize, or quantized and dequantized. A 1x1 convolution may be written as a
product of rows, a bias as an addition, one op may be there twice. Every op has a key.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Value = tuple[str, tuple[int, ...]]


def tensor(shape: tuple[int, ...], element: str = "f32") -> str:
    """The text of a tensor type."""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def _bits(array: Array, kind: str) -> str:
    return f'dense<"0x{array.astype(kind).tobytes().hex()}">'


@dataclass
class _Net:
    seed: int
    lines: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.numbers = np.random.default_rng(self.seed)

    def add(self, text: str, kinds: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f'{name} = {text} {{nn.key = "{name[1:]}"}} : {kinds}')
        return name

    def op(self, text: str, shape: tuple[int, ...], *operands: Value) -> Value:
        head, *rest = text.split(" ", 1)
        names = ", ".join(name for name, _ in operands)
        kinds = ", ".join(tensor(each) for _, each in operands)
        whole = f"nn.{head} {names} {' '.join(rest)}"
        return self.add(whole, f"({kinds}) -> {tensor(shape)}"), shape

    def constant(self, array: Array) -> Value:
        """A constant in floats, in codes, or rounded to codes."""
        kind = tensor(array.shape)
        form = self.draw.choice(("floats", "floats", "codes", "rounded"))
        scale = float(np.float32(np.abs(array).max() / 127 + 1e-6))
        element = tensor(array.shape, f"!quant.uniform<i8:f32, {scale!r}>")
        if form == "codes":
            codes = np.clip(np.rint(array / scale), -127, 127)
            held = tensor(array.shape, "i8")
            name = self.add(f"nn.constant {_bits(codes, 'i1')} : {held}", element)
        else:
            name = self.add(f"nn.constant {_bits(array, '<f4')} : {kind}", kind)
        if form == "rounded":
            name = self.add(f"quant.qcast {name}", f"{kind} to {element}")
        if form != "floats":
            name = self.add(f"quant.dcast {name}", f"{element} to {kind}")
        return name, array.shape

    def weight(self, *shape: int) -> Value:
        """A weight with other magnitudes by channel, behind up to three movements."""
        array = self.numbers.normal(size=shape)
        if len(shape) > 1:
            array *= 10 ** self.numbers.uniform(-1, 1, (shape[0], *(1,) * (len(shape) - 1)))
        steps: list[tuple[str, tuple[int, ...]]] = []
        for _ in range(self.draw.randint(0, 3)):
            before = array.shape
            match self.draw.choice(("reshape", "transpose", "flip")):
                case "reshape":
                    array = array.reshape(
                        self.draw.choice(((array.size,), (1, *before), (*before, 1)))
                    )
                    steps.append(("reshape", before))
                case "transpose":
                    perm = self.draw.sample(range(array.ndim), array.ndim)
                    array = array.transpose([perm.index(d) for d in range(array.ndim)])
                    steps.append((f"transpose perm {perm}", before))
                case _:
                    axis = self.draw.randrange(array.ndim)
                    array = np.flip(array, axis)
                    steps.append((f"flip axes [{axis}]", before))
        value = self.constant(array)
        for text, after in reversed(steps):
            value = self.op(text, after, value)
        return value

    def maybe(self, *shape: int) -> list[Value]:
        return [self.weight(*shape)] if self.draw.random() < 0.6 else []

    def step(self, x: Value) -> Value:
        """One more layer."""
        shape = x[1]
        batch, channels, height, width = shape
        one = self.draw.choice((2, 3, 5))
        match self.draw.choice(
            ("conv", "conv", "rows", "rows", "norm", "function", "bias", "scale", "sum", "twice")
        ):
            case "conv":
                size = self.draw.choice((1, 3))
                pads = [size // 2] * 4
                bias = self.maybe(one)
                weight = self.weight(one, channels, size, size)
                return self.op(f"conv2d pads {pads}", (batch, one, height, width), x, weight, *bias)
            case "rows":
                count = batch * height * width
                y = self.op("transpose perm [0, 2, 3, 1]", (batch, height, width, channels), x)
                y = self.op("reshape", (count, channels), y)
                if self.draw.random() < 0.5:
                    weight = self.weight(one, channels)
                    y = self.op("fully_connected", (count, one), y, weight, *self.maybe(one))
                else:
                    y = self.op("matmul", (count, one), y, self.weight(channels, one))
                    for bias in self.maybe(one):
                        y = self.op("add", (count, one), y, bias)
                y = self.op("reshape", (batch, height, width, one), y)
                return self.op("transpose perm [0, 3, 1, 2]", (batch, one, height, width), y)
            case "norm":
                numbers = [self.weight(channels) for _ in range(3)]
                variance = np.abs(self.numbers.normal(size=channels)) + 0.5
                kind = tensor(variance.shape)
                name = self.add(f"nn.constant {_bits(variance, '<f4')} : {kind}", kind)
                return self.op("batch_norm", shape, x, *numbers, (name, variance.shape))
            case "function":
                return self.op(self.draw.choice(("relu", "gelu", "swish")), shape, x)
            case "bias":
                return self.op("add", shape, x, self.weight(channels, 1, 1))
            case "scale":
                return self.op("mul", shape, x, self.weight(channels, 1, 1))
            case "sum":
                return self.op("add", shape, x, self.op("relu", shape, x))
            case _:
                weight = self.weight(channels, channels, 1, 1)
                return self.op(
                    "mul", shape, *(self.op("conv2d", shape, x, weight) for _ in range(2))
                )


def random_network(seed: int, batch: int = 2) -> str:
    """The text of a module; the batch size is all that `batch` changes."""
    net = _Net(seed)
    shape = (batch, net.draw.choice((2, 3, 4)), 4, 4)
    x: Value = ("%x", shape)
    for _ in range(net.draw.randint(2, 5)):
        x = net.step(x)
    y = net.op("reduce_mean axes [2, 3] keepdims false", x[1][:2], x)
    if net.draw.random() < 0.5:
        y = net.op("softmax", y[1], y)
    body = "\n".join(net.lines)
    return (
        f'func.func @main(%x: {tensor(shape)} {{nn.name = "x"}}) -> {tensor(y[1])} {{\n{body}\n'
        f"return {y[0]} : {tensor(y[1])}\n}}"
    )
