"""Families of what makes layouts of Q/DQ one: dequantize-at-load and part-biases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from families import GRID, family
from families_combine import CONTRACTIONS, samples
from families_integerize import Floats, f32
from rewrite_support import RANDOM, Program, per_axis, quant, tensor

POWERS = [(s, 0) for s in (0.5, 2.0, 1.0, 0.25)]
SHIFTED = [(0.5, 3), (0.375, -9), (1.0, 0), (0.25, 1)]


@family("weight-at-load", pipeline="dequantize-at-load{where=all}")
def weights_at_load() -> Iterator[Program]:
    for n, (a, c) in enumerate((a, c) for c in CONTRACTIONS for a in GRID[:4]):
        weight = [quant("i8", 0.375, 7), c.per_channel("i8", SHIFTED), quant("i16", 0.01)][n % 3]
        p = Floats(f"{c.text} of {a} by {weight}")
        x = p.dequantized(a, samples(a, c.source))
        codes = RANDOM.integers(-127, 128, c.weight)
        w = p.constant_codes(weight, codes, "i16" if "i16" in weight else "i8")
        kinds = [f32(c.source), f32(c.weight)]
        y = p.nn(c.text.format(f"{x}, {w}"), kinds, f32(c.result))
        yield p.returns(y, f32(c.result))


#: of scales that are powers of two sums are exact in floats
CODES = [quant("i8", 0.5, 3), quant("u8", 0.25, 255), quant("i8<-100:100>", 1.0, 5)]


@family("part-bias", pipeline="part-biases{where=all}", floats="real")
def parted_biases() -> Iterator[Program]:
    rows, depth, columns = 16, 6, 4
    for n, a in enumerate(CODES * 4):
        turned = n % 2 == 1
        shape = (columns, depth) if turned else (depth, columns)
        weight = [quant("i8", 0.5, 2), per_axis("i8", 0 if turned else 1, POWERS)][n // 2 % 2]
        source = (2, rows, depth) if n % 4 == 2 else (rows, depth)
        result = (*source[:-1], columns)
        p = Floats(f"{source} of {a} by {weight}, {'a Gemm' if turned else 'a product'}")
        x = p.dequantized(a, samples(a, source))
        w = p.constant_codes(weight, RANDOM.integers(-127, 128, shape), "i8")
        values = RANDOM.integers(-99, 99, columns).astype(np.float32)
        b = p.constant(values, "f32", "f32")
        kinds, bias, out = [f32(source), f32(shape)], f32((columns,)), f32(result)
        if turned:
            y = p.nn(f"fully_connected {x}, {w}, {b}", [*kinds, bias], out)
        else:
            y = p.nn(f"matmul {x}, {w}", kinds, out)
            pair = (b, y) if n % 3 == 0 else (y, b)
            types = [bias, out] if n % 3 == 0 else [out, bias]
            y = p.nn(f"add {pair[0]}, {pair[1]}", types, tensor(result, "f32"))
        yield p.returns(y, out)


@family("product-of-blocks", pipeline="dequantize-at-load{where=all numerics=ties}", floats="real")
def products_of_blocks() -> Iterator[Program]:
    for n, kind in enumerate(("i4", "u4", "i8", "i8")):
        p = Floats(f"codes by {kind} in blocks of two rows")
        x = p.dequantized(CODES[n % 3], samples(CODES[n % 3], (3, 4)))
        zero = ":1" if kind == "u4" else ""
        weight = f"{kind}:f32:{{0:2, 1:1}}, {{{{0.5{zero}, 0.25}}, {{0.125, 1.0}}}}"
        codes = RANDOM.integers(0, 7, (4, 2))
        w = p.constant_codes(f"!quant.uniform<{weight}>", codes, kind.replace("u", "i"))
        y = p.nn(f"matmul {x}, {w}", [f32((3, 4)), f32((4, 2))], f32((3, 2)))
        yield p.returns(y, f32((3, 2)))
