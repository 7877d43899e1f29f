"""Families of integerize, judged in real arithmetic; how often f32 differs is counted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, TENTH, WIDE, cast_rounding, family, pairs
from families_combine import BINARY, BYTES, CONTRACTIONS, UNARY, biases, samples, square
from families_move import CHANNELS, CLIPS, MOVEMENTS, SHAPE, shaped
from rewrite_support import RANDOM, Array, Program, all_codes, per_axis, quant, tensor

INTEGERIZE = "integerize"


class Floats(Program):
    """A program of float ops between dequantize and quantize."""

    def dequantized(self, q: str, codes: Array, shape: tuple[int, ...] | None = None) -> str:
        dims = codes.shape if shape is None else shape
        return self.op(f"quant.dcast {self.codes(q, codes, dims)}", tensor(dims, q), f32(dims))

    def constant_codes(self, q: str, codes: Array, width: str = "i8") -> str:
        x = self.constant(codes, q, width)
        return self.op(f"quant.dcast {x}", tensor(codes.shape, q), f32(codes.shape))

    def quantized(self, x: str, shape: tuple[int, ...], q: str, how: str = "half_even") -> Program:
        cast = f"quant.qcast {x} {cast_rounding(how)}"
        return self.returns(self.op(cast, f32(shape), tensor(shape, q)), tensor(shape, q))


def f32(shape: tuple[int, ...]) -> str:
    return tensor(shape, "f32")


@family("integerize-op", pipeline=INTEGERIZE, floats="real")
def functions() -> Iterator[Program]:
    for n, (name, (a, b)) in enumerate(product(UNARY, pairs(GRID))):
        if n % 3:
            continue
        p = Floats(f"{name} {a} -> {b}")
        # `real` is float64: constants of few bits keep products and ties exact there.
        constants = {"leaky_relu": " alpha 0.125", "hard_sigmoid": " alpha 0.375"}
        text, out = f"{name} %x{constants.get(name, '')}", (1, 1, 16, 16)
        if name == "global_avg_pool2d":
            out = (1, 1, 1, 1)
        if name == "avg_pool2d":
            text = "avg_pool2d %x kernel [3, 3] pads [1, 1, 1, 1] strides [2, 1]"
            text, out = text + (" count_include_pad true" if n % 2 else ""), (1, 1, 8, 16)
        if name == "resize_linear":
            text = f"{text} scales [1.0, 1.0, 2.0, 0.5] coordinates align_corners"
            out = (1, 1, 32, 8)
        if name.startswith("reduce"):
            text, out = f"{text} axes [1, 2] keepdims false", (1, 16)
        x = p.dequantized(a, square(a))
        y = p.nn(text.replace("%x", x), [f32((1, 1, 16, 16))], f32(out))
        yield p.quantized(y, out, b, ROUNDINGS[n % 3])


@family("integerize-op", pipeline=INTEGERIZE, floats="real")
def normalizations() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        p = Floats(f"batch_norm {a} -> {b}")
        x = p.dequantized(a, shaped(a)[0])
        stats = [np.array(v, np.float32) for v in ([1, 0.5], [0, -3], [0.25, 1], [0.5, 4])]
        names = [p.constant(v, "f32", "f32") for v in stats]
        kinds = [f32(SHAPE), *[f32((2,))] * 4]
        y = p.nn(f"batch_norm {x}, {', '.join(names)} epsilon 0.0", kinds, f32(SHAPE))
        yield p.quantized(y, SHAPE, b, ROUNDINGS[n % 3])


@family("integerize-op", pipeline=INTEGERIZE, floats="real")
def arithmetic() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(BYTES)):
        name, out = BINARY[n % 4], BYTES[n % len(BYTES)]
        p = Floats(f"{a} {name} {b} -> {out}")
        x = p.dequantized(a, all_codes(a).reshape(-1, 1))
        if name == "div" and n % 3:
            divisors = all_codes(BYTES[0]).reshape(1, -1)
            divisors[divisors == 3] = 4
            y = p.constant_codes(BYTES[0], divisors)
        else:
            y = p.dequantized(b, all_codes(b).reshape(1, -1))
        shape = (256, 256)
        r = p.nn(f"{name} {x}, {y}", [f32((256, 1)), f32((1, 256))], f32(shape))
        yield p.quantized(r, shape, out, ROUNDINGS[n // 4 % 3])
    for name, number in product(BINARY, (0.3, -2.0, 0.0)):
        p = Floats(f"{name} a scalar constant")
        x = p.dequantized(GRID[4], all_codes(GRID[4]))
        y = p.constant(np.array(number, np.float32), "f32", "f32")
        r = p.nn(f"{name} {x}, {y}", [f32((256,)), "tensor<f32>"], f32((256,)))
        yield p.quantized(r, (256,), GRID[0])


@family("integerize-op", pipeline=INTEGERIZE, floats="real")
def contractions() -> Iterator[Program]:
    outs = [quant("i8", 4.0, 3), quant("u8", 30.0, 128), quant("i8", TENTH, 0)]
    for n, a in enumerate(GRID * 8):
        c = CONTRACTIONS[n % len(CONTRACTIONS)]
        weight = quant("i8", TENTH)
        if n // len(CONTRACTIONS) % 2:
            weight = c.per_channel("i8", [(s, 0) for s in (0.5, TENTH, 1.0, 0.25)])
        p = Floats(f"{c.text} of {a}, {weight}")
        operands = [p.dequantized(a, samples(a, c.source))]
        operands.append(p.constant_codes(weight, RANDOM.integers(-127, 128, c.weight)))
        kinds = [f32(c.source), f32(c.weight)]
        bias = biases(c, a, TENTH)[n % 4]
        if bias == "f32":
            values = RANDOM.integers(-99, 99, c.channels).astype(np.float32)
            operands.append(p.constant(values, "f32", "f32"))
        elif bias:
            codes = RANDOM.integers(-300, 300, c.channels)
            operands.append(p.constant_codes(bias, codes, "i32"))
        kinds += [f32((c.channels,))] * bool(bias)
        y = p.nn(c.text.format(", ".join(operands)), kinds, f32(c.result))
        yield p.quantized(y, c.result, outs[n % 3], ROUNDINGS[n % 3])


@family("sink-dequantize", "quantize-of-dequantize", pipeline=INTEGERIZE, floats="real")
def moved() -> Iterator[Program]:
    texts = [*MOVEMENTS, *(type(MOVEMENTS[0])(text, SHAPE) for text in CLIPS)]
    for n, (a, b) in enumerate(pairs(GRID)):
        for move in texts[n % 4 :: 4]:
            p = Floats(f"{move.text} {a} -> {b}")
            x = p.dequantized(a, shaped(a)[0])
            y = p.nn(move.text.replace("%x", x), [f32(SHAPE)], f32(move.shape))
            yield p.quantized(y, move.shape, b, ROUNDINGS[n % 3])
    for (given, wanted), move in product(CHANNELS, texts):
        p = Floats(f"{move.text} per axis")
        x = p.dequantized(per_axis("i8", 1, given), shaped(GRID[0])[0])
        y = p.nn(move.text.replace("%x", x), [f32(SHAPE)], f32(move.shape))
        q = GRID[0] if move.axis is None else per_axis("i8", move.axis, wanted)
        yield p.quantized(y, move.shape, q)


@family("hoist-quantize", pipeline=INTEGERIZE, floats="real")
def hoisted() -> Iterator[Program]:
    texts = [*MOVEMENTS, *(type(MOVEMENTS[0])(text, SHAPE) for text in CLIPS)]
    for n, (a, b) in enumerate(pairs(GRID + WIDE[:1])):
        if a in WIDE:
            continue
        for move in texts[n % 4 :: 4]:
            p = Floats(f"{move.text} of hard_swish {a} -> {b}")
            x = p.dequantized(a, shaped(a)[0])
            x = p.nn(f"hard_swish {x}", [f32(SHAPE)], f32(SHAPE))
            y = p.nn(move.text.replace("%x", x), [f32(SHAPE)], f32(move.shape))
            yield p.quantized(y, move.shape, b, ROUNDINGS[n % 3])
    for (_, wanted), move in product(CHANNELS, texts):
        p = Floats(f"{move.text} of leaky_relu, per axis")
        x = p.dequantized(GRID[0], shaped(GRID[0])[0])
        x = p.nn(f"add {x}, {x}", [f32(SHAPE)] * 2, f32(SHAPE))
        y = p.nn(move.text.replace("%x", x), [f32(SHAPE)], f32(move.shape))
        q = GRID[0] if move.axis is None else per_axis("i8", move.axis, wanted)
        yield p.quantized(y, move.shape, q)


@family("hoist-quantize", "quantize-of-constant", pipeline=INTEGERIZE, floats="real")
def joined() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        p = Floats(f"concat of {a}, arithmetic and a constant -> {b}")
        codes = np.stack([all_codes(a)] * 2)
        x = p.dequantized(a, codes)
        other = GRID[(n + 1) % len(GRID)]
        y = p.dequantized(other, np.stack([all_codes(other)] * 2))
        wide = f32((2, all_codes(other).size))
        y = p.nn(f"add {y}, {y}", [wide] * 2, wide)
        c = p.constant(np.array([[0.5, 1.5], [-2.5, 1e9]], np.float32), "f32", "f32")
        out = (2, codes.shape[1] + all_codes(other).size + 2)
        kinds = [f32(codes.shape), wide, f32((2, 2))]
        z = p.nn(f"concat {x}, {y}, {c} axis 1", kinds, f32(out))
        yield p.quantized(z, out, b, ROUNDINGS[n % 3])
