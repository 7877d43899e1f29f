"""Random networks that are integers at their ends and floats in the middle.

    codes -> ops on codes -> dequantize -> ops on floats -> quantize -> ops on codes -> codes

What is computed at each border is returned too: `Mixed.borders` are the codes before the floats,
the floats that are quantized, the codes of them, and what the last ops make of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np

C, H, W = 4, 6, 5


@dataclass
class Mixed:
    """The text of a network, and how its floats are quantized."""

    text: str
    #: scale and zero point of the codes of the floats
    scale: float
    zero: int


@dataclass
class _Lines:
    random: Random
    lines: list[str] = field(default_factory=list[str])

    def emit(self, text: str, takes: str, gives: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text} : {takes} -> {gives}")
        return name

    def cast(self, name: str, value: str, source: str, result: str) -> str:
        cast = f"%v{len(self.lines)}"
        self.lines.append(f"  {cast} = quant.{name} {value} : {source} to {result}")
        return cast

    def constant(self, shape: tuple[int, ...], element: str, stored: str, reach: float) -> str:
        drawn = np.random.default_rng(self.random.randrange(1 << 30)).uniform(-1, 1, shape)
        values = (drawn * reach).astype(np.float32 if stored == "f32" else np.int32)
        extents = "x".join(map(str, shape))
        name = f"%v{len(self.lines)}"
        self.lines.append(
            f"  {name} = nn.constant dense<{values.tolist()}> : tensor<{extents}x{stored}>"
            f" : tensor<{extents}x{element}>"
        )
        return name


def _tensor(element: str) -> str:
    return f"tensor<1x{C}x{H}x{W}x{element}>"


def mixed_network(seed: int) -> Mixed:
    """One network, of a seed."""
    random = Random(seed)
    lines = _Lines(random)
    step, offset = random.choice([0.05, 0.03125, 0.0123]), random.randrange(-9, 9)
    first = f"!quant.uniform<i8:f32, {step}:{offset}>"
    scale = float(np.float32(random.choice([0.04, 0.0625, 0.0371])))
    zero = random.randrange(-20, 20)
    second = f"!quant.uniform<i8:f32, {scale!r}:{zero}>"
    codes = "%x"
    for _ in range(random.randrange(1, 4)):
        codes = _on_codes(lines, codes, first)
    floats = lines.cast("dcast", codes, _tensor(first), _tensor("f32"))
    for _ in range(random.randrange(2, 6)):
        floats = _on_floats(lines, floats)
    quantized = lines.cast("qcast", floats, _tensor("f32"), _tensor(second))
    last = quantized
    for _ in range(random.randrange(1, 4)):
        last = _on_codes(lines, last, second)
    kinds = ", ".join(_tensor(e) for e in (first, "f32", second, second))
    body = "\n".join(lines.lines)
    gives = f"return {codes}, {floats}, {quantized}, {last} : {kinds}"
    text = f"func.func @main(%x: {_tensor(first)}) -> ({kinds}) {{\n{body}\n  {gives}\n}}\n"
    return Mixed(text, scale, zero)


def _on_codes(lines: _Lines, x: str, element: str) -> str:
    kind = _tensor(element)
    match lines.random.randrange(5):
        case 0:
            return lines.emit(f"nn.relu {x}", f"({kind})", kind)
        case 1:
            window = "kernel [3, 3] strides [1, 1] dilations [1, 1] pads [1, 1, 1, 1]"
            return lines.emit(f"nn.max_pool2d {x} {window} ceil_mode false", f"({kind})", kind)
        case 2:
            return lines.emit(f"nn.add {x}, {x}", f"({kind}, {kind})", kind)
        case 3:
            weights = "!quant.uniform<i8:f32, 0.01>"
            w = lines.constant((C, C, 3, 3), weights, "i8", 90)
            text = f"nn.conv2d {x}, {w} strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1] groups 1"
            takes = f"({kind}, tensor<{C}x{C}x3x3x{weights}>)"
            return lines.emit(text, takes, kind)
        case _:
            return lines.emit(f"nn.sigmoid {x}", f"({kind})", kind)


def _on_floats(lines: _Lines, x: str) -> str:
    kind, choice = _tensor("f32"), lines.random.randrange(9)
    functions = ("swish", "gelu", "tanh", "hard_swish", "softplus")
    if choice < len(functions):
        return lines.emit(f"nn.{functions[choice]} {x}", f"({kind})", kind)
    if choice == 5:
        return lines.emit(f"nn.softmax {x} axis {lines.random.choice([1, 3])}", f"({kind})", kind)
    if choice == 6:
        slope = lines.constant((C, 1, 1), "f32", "f32", 0.5)
        return lines.emit(f"nn.prelu {x}, {slope}", f"({kind}, tensor<{C}x1x1xf32>)", kind)
    if choice == 7:
        w, b = (
            lines.constant((C, C, 3, 3), "f32", "f32", 0.4),
            lines.constant((C,), "f32", "f32", 1),
        )
        text = f"nn.conv2d {x}, {w}, {b} strides [1, 1] pads [1, 1, 1, 1] dilations [1, 1] groups 1"
        return lines.emit(text, f"({kind}, tensor<{C}x{C}x3x3xf32>, tensor<{C}xf32>)", kind)
    scale, bias = (lines.constant((W,), "f32", "f32", 1) for _ in range(2))
    takes = f"({kind}, tensor<{W}xf32>, tensor<{W}xf32>)"
    return lines.emit(f"nn.layer_norm {x}, {scale}, {bias} axis -1 epsilon 0.01", takes, kind)
