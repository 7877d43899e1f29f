"""Families of lower-float-regions, judged in real arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from families import GRID, family, pairs
from families_integerize import Floats, f32
from rewrite_support import RANDOM, Program, all_codes, per_axis, quant, tensor

FIX = "lower-float-regions{numerics=relaxed}"


@family("lower-float-region", pipeline=FIX, floats="real")
def sums_of_two_scales() -> Iterator[Program]:
    """Sums and products of all pairs of codes, then a mean, a square, a clamp, a third term."""
    for n, (a, b) in enumerate(pairs(GRID)):
        rows, columns = all_codes(a), all_codes(b)
        shape = (1, 1, rows.size, columns.size)
        name, last = ("add", "sub", "mul")[n % 3], n % 5
        p = Floats(f"{name} {last} of {a} and {b}")
        x = p.dequantized(a, rows.reshape(1, 1, -1, 1))
        y = p.dequantized(b, columns.reshape(1, 1, 1, -1))
        kinds = [f32((1, 1, rows.size, 1)), f32((1, 1, 1, columns.size))]
        out, result = p.nn(f"{name} {x}, {y}", kinds, f32(shape)), shape
        if last == 1:
            result = (1, 1, 1, columns.size)
            out = p.nn(f"reduce_mean {out} axes [2]", [f32(shape)], f32(result))
        elif last == 2:
            out = p.nn(f"pow {out} exponent 2.0", [f32(shape)], f32(shape))
        elif last == 3:
            out = p.nn(f"clip {out} min -0.625 max 6.0", [f32(shape)], f32(shape))
        elif last == 4:
            out = p.nn(f"add {out}, {x}", [f32(shape), kinds[0]], f32(shape))
        yield p.quantized(out, result, GRID[n % len(GRID)])


@family("lower-float-region", pipeline=FIX, floats="real")
def functions_of_what_has_no_codes() -> Iterator[Program]:
    names = ["sigmoid", "tanh", "hard_swish", "hard_sigmoid", "erf", "gelu", "leaky_relu", "abs"]
    for n, (a, b) in enumerate(pairs(GRID[::2])):
        rows, columns = all_codes(a), all_codes(b)
        shape = (rows.size, columns.size)
        name = names[n % len(names)]
        p = Floats(f"{name} of {a} + {b}")
        x = p.dequantized(a, rows.reshape(-1, 1))
        y = p.dequantized(b, columns.reshape(1, -1))
        total = p.nn(f"add {x}, {y}", [f32((rows.size, 1)), f32((1, columns.size))], f32(shape))
        out = p.nn(f"{name} {total}", [f32(shape)], f32(shape))
        yield p.quantized(out, shape, GRID[n % len(GRID)])


@family("lower-float-region", pipeline=FIX, floats="real")
def products_of_codes_that_are_not_cast() -> Iterator[Program]:
    """A convolution that reads codes and gives floats, and a function of them."""
    weight = per_axis("i8", 0, [(0.5, 0), (0.3, 0), (1.0, 0)])
    for n, a in enumerate(GRID):
        codes = all_codes(a)
        kinds = [tensor((1, 1, 1, codes.size), a), tensor((3, 1, 1, 1), weight)]
        shape = (1, 3, 1, codes.size)
        p = Floats(f"conv2d of {a}, not cast")
        x = p.codes(a, codes.reshape(1, 1, 1, -1))
        w = p.constant(RANDOM.integers(-127, 128, (3, 1, 1, 1)), weight, "i8")
        out = p.nn(f"conv2d {x}, {w}", kinds, f32(shape))
        out = p.nn(f"{('relu', 'hard_swish', 'abs')[n % 3]} {out}", [f32(shape)], f32(shape))
        yield p.quantized(out, shape, GRID[n % len(GRID)])


@family("lower-float-region", pipeline=FIX, floats="real")
def quotients() -> Iterator[Program]:
    """Divisors above 0: a square and a constant."""
    for n, (a, b) in enumerate(pairs(GRID[::3])):
        rows, columns = all_codes(a), all_codes(b)
        shape = (rows.size, columns.size)
        p = Floats(f"{a} by {b}")
        x = p.dequantized(a, rows.reshape(-1, 1))
        y = p.dequantized(b, columns.reshape(1, -1))
        kind = f32((1, columns.size))
        square = p.nn(f"mul {y}, {y}", [kind, kind], kind)
        least = p.constant(np.array([[float(2 + n)]], np.float32), "f32", "f32")
        under = p.nn(f"add {square}, {least}", [kind, f32((1, 1))], kind)
        out = p.nn(f"div {x}, {under}", [f32((rows.size, 1)), kind], f32(shape))
        yield p.quantized(out, shape, quant("i8", 0.03125, 5))


@family("lower-float-region", pipeline=FIX, floats="real")
def products_that_are_not_quantized() -> Iterator[Program]:
    """A product per channel, with a bias or none, a normalization or none, a clamp."""
    weight = per_axis("i8", 0, [(0.5, 0), (0.3, 0), (1.0, 0)])
    for n, (a, b) in enumerate(pairs(GRID[:6])):
        p = Floats(f"product of {a}, to {b}, {n % 4}")
        x = p.dequantized(a, np.resize(all_codes(a), (64, 5)))
        w = p.constant_codes(weight, RANDOM.integers(-128, 128, (3, 5)))
        kinds, given = [f32((64, 5)), f32((3, 5))], f"{x}, {w}"
        if n % 2:
            given += ", " + p.constant(np.array([0.5, -7.25, 3], np.float32), "f32", "f32")
            kinds.append(f32((3,)))
        out = p.nn(f"fully_connected {given}", kinds, f32((64, 3)))
        if n % 4 > 1:
            stats = [np.array(v, np.float32) for v in ([1, 0.5, 2], [0, -3, 1], [0.25, 1, 0])]
            names = [p.constant(v, "f32", "f32") for v in (*stats, np.array([0.5, 4, 1], "f4"))]
            text = f"batch_norm {out}, {', '.join(names)} epsilon 0.0"
            out = p.nn(text, [f32((64, 3)), *[f32((3,))] * 4], f32((64, 3)))
        out = p.nn(f"relu {out}", [f32((64, 3))], f32((64, 3)))
        yield p.quantized(out, (64, 3), b)


@family("lower-float-region", pipeline=FIX, floats="real")
def softmaxes_of_sums() -> Iterator[Program]:
    for a, b in pairs(GRID[:4]):
        p, shape = Floats(f"softmax of {a} + {b}"), (16, 16)
        x = p.dequantized(a, np.resize(all_codes(a), shape))
        y = p.dequantized(b, RANDOM.permutation(np.resize(all_codes(b), shape)))
        total = p.nn(f"add {x}, {y}", [f32(shape)] * 2, f32(shape))
        out = p.nn(f"softmax {total} axis 1", [f32(shape)], f32(shape))
        yield p.quantized(out, shape, quant("i8", 1 / 256, -128))


@family("lower-float-region", pipeline=FIX, floats="real")
def results_that_are_floats() -> Iterator[Program]:
    for a, b in pairs(GRID[:3]):
        p = Floats(f"{a} + {b} is returned")
        x = p.dequantized(a, all_codes(a))
        y = p.dequantized(b, np.resize(all_codes(b), all_codes(a).shape))
        kind = f32(all_codes(a).shape)
        total = p.nn(f"add {x}, {y}", [kind, kind], kind)
        p.returns(p.nn(f"tanh {total}", [kind], kind), kind)
        yield p.quantized(total, all_codes(a).shape, a)
