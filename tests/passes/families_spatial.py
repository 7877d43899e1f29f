"""Families of pools over one and three dimensions: what their 2-D forms do, they do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np
from families import GRID, ROUNDINGS, family, pairs, rounding
from families_combine import COMBINE, samples
from families_integerize import INTEGERIZE, Floats, f32
from rewrite_support import Program, per_axis, quant, tensor


class Pool(NamedTuple):
    """An op on %x and the shapes of operand and result."""

    text: str
    source: tuple[int, ...]
    result: tuple[int, ...]


MAXIMA = [
    Pool("max_pool1d %x kernel [3] strides [2] pads [1, 1]", (1, 2, 128), (1, 2, 64)),
    Pool("max_pool1d %x kernel [2] pads [2, 0]", (1, 2, 128), (1, 2, 129)),
    Pool("max_pool1d %x kernel [2] dilations [3] ceil_mode true", (1, 2, 128), (1, 2, 125)),
    Pool("max_pool3d %x kernel [2, 1, 3] strides [1, 2, 1]", (1, 2, 4, 8, 8), (1, 2, 3, 4, 6)),
    Pool(
        "max_pool3d %x kernel [1, 1, 1] pads [0, 0, 1, 0, 0, 0]", (1, 2, 4, 8, 8), (1, 2, 4, 8, 9)
    ),
]
MEANS = [
    Pool("avg_pool1d %x kernel [3] pads [1, 1] count_include_pad true", (1, 2, 128), (1, 2, 128)),
    Pool("avg_pool1d %x kernel [4] strides [4]", (1, 2, 128), (1, 2, 32)),
    Pool(
        "avg_pool3d %x kernel [2, 2, 3] pads [0, 0, 1, 0, 0, 1]", (1, 2, 4, 8, 8), (1, 2, 3, 7, 8)
    ),
    Pool("global_avg_pool1d %x", (1, 2, 128), (1, 2, 1)),
    Pool("global_avg_pool3d %x", (1, 2, 4, 8, 8), (1, 2, 1, 1, 1)),
]
#: the channels' parameters: as given, rescaled
CHANNELS = (
    per_axis("i8", 1, [(0.5, 3), (0.1, -128)]),
    per_axis("i8", 1, [(0.25, 3), (0.5, 0)]),
)


@family("sink-through-tied", pipeline="sink-rescale")
def through_maxima() -> Iterator[Program]:
    for n, (a, b) in enumerate([*pairs(GRID), CHANNELS]):
        pool, how = MAXIMA[n % len(MAXIMA)], rounding(ROUNDINGS[n % 3])
        p = Program(f"{pool.text} of {a} -> {b}")
        x = p.codes(a, samples(GRID[0] if a in CHANNELS else a, pool.source))
        y = p.op(f"quant.rescale {x} {how}", tensor(pool.source, a), tensor(pool.source, b))
        kind = tensor(pool.result, b)
        yield p.returns(p.nn(pool.text.replace("%x", y), [tensor(pool.source, b)], kind), kind)


@family("hoist-through-tied", pipeline="hoist-rescale")
def above_maxima() -> Iterator[Program]:
    for n, (a, b) in enumerate([*pairs(GRID), CHANNELS]):
        pool, how = MAXIMA[n % len(MAXIMA)], rounding(ROUNDINGS[n % 3])
        p = Program(f"rescale {a} -> {b} of {pool.text}")
        x = p.codes(a, samples(GRID[0] if a in CHANNELS else a, pool.source))
        kind, result = tensor(pool.result, a), tensor(pool.result, b)
        y = p.nn(pool.text.replace("%x", x), [tensor(pool.source, a)], kind)
        yield p.returns(p.op(f"quant.rescale {y} {how}", kind, result), result)


@family("combine-down", pipeline=COMBINE)
def means_of_rescaled() -> Iterator[Program]:
    wide = [quant("i16", 0.03), *GRID]
    for n, (a, b) in enumerate([*pairs(GRID), CHANNELS]):
        pool = MEANS[n % len(MEANS)]
        p = Program(f"{pool.text} of rescale {a} -> {b}")
        x = p.codes(a, samples(GRID[0] if a in CHANNELS else a, pool.source))
        x = p.op(f"quant.rescale {x}", tensor(pool.source, a), tensor(pool.source, b))
        text = f"{pool.text.replace('%x', x)} {rounding(ROUNDINGS[n % 3])}"
        kind = tensor(pool.result, wide[n % len(wide)])
        yield p.returns(p.nn(text, [tensor(pool.source, b)], kind), kind)


@family("shuffle-to-gather", pipeline="merge-shuffles")
def shuffles() -> Iterator[Program]:
    cases = [
        ((2, 6, 4), (2, 2, 3, 4), (0, 2, 1, 3)),
        ((2, 12, 2, 2), (2, 2, 3, 2, 4), (0, 3, 1, 2, 4)),
        ((1, 4, 12), (4, 3, 2, 2), (0, 3, 2, 1)),
        ((1, 8, 3), (4, 2, 3), (1, 0, 2)),
        # Two parts of each of two dimensions: only one is moved.
        ((4, 6), (2, 2, 6), (1, 0, 2)),
        ((4, 6), (2, 2, 6), (0, 2, 1)),
        ((4, 6), (2, 2, 2, 3), (1, 0, 3, 2)),
    ]
    for n, q in enumerate([*GRID, "f32"]):
        for whole, split, perm in cases[n % 2 :: 2]:
            p = Program(f"{whole} as {split}, {perm}, {q}")
            turned = [split[d] for d in perm]
            kinds = [tensor(s, q) for s in (whole, split, turned)]
            if q == "f32":
                x = p.argument(kinds[0], np.arange(np.prod(whole), dtype="f4").reshape(whole))
            else:
                x = p.codes(q, samples(q, whole))
            y = p.nn(f"reshape {x}", [kinds[0]], kinds[1])
            y = p.nn(f"transpose {y} perm {list(perm)}", [kinds[1]], kinds[2])
            yield p.returns(p.nn(f"reshape {y}", [kinds[2]], kinds[0]), kinds[0])


class Transposed(NamedTuple):
    """Properties of a transposed convolution, and its shapes."""

    text: str
    source: tuple[int, ...]
    weight: tuple[int, ...]
    result: tuple[int, ...]


TRANSPOSED = [
    Transposed("strides [2, 2]", (1, 3, 4, 5), (3, 4, 2, 2), (1, 4, 8, 10)),
    Transposed("", (2, 3, 4, 5), (3, 2, 3, 2), (2, 2, 6, 6)),
    Transposed("strides [2, 2] pads [1, 1, 1, 1]", (1, 3, 4, 5), (3, 2, 4, 3), (1, 2, 8, 9)),
    Transposed(
        "strides [3, 3] pads [1, 0, 2, 4] output_padding [2, 1] groups 2",
        (1, 4, 4, 5),
        (4, 3, 4, 7),
        (1, 6, 12, 16),
    ),
    # A depthwise one, a kernel smaller than the stride, pads that drop whole blocks.
    Transposed("strides [2, 2] groups 3", (1, 3, 4, 4), (3, 1, 3, 3), (1, 3, 9, 9)),
    Transposed("strides [3, 3]", (1, 2, 3, 3), (2, 2, 1, 2), (1, 2, 7, 8)),
    Transposed("strides [2, 2] pads [5, 3, 3, 5]", (1, 2, 9, 9), (2, 2, 3, 5), (1, 2, 11, 13)),
]


@family("transposed-to-phases", pipeline="lower-transposed{numerics=ties}")
def transposed_convolutions() -> Iterator[Program]:
    for n, (a, b) in enumerate([*pairs(GRID)]):
        case = TRANSPOSED[n % len(TRANSPOSED)]
        channels = case.weight[1]
        scales = [(0.01, 2), (0.02, -5), (0.005, 0), (0.04, 7)][:channels]
        along = n % 3 == 1 and channels > 1
        w = per_axis("i8", 1, scales) if along else quant("i8", 0.01, 3)
        p = Program(f"conv_transpose2d {case.text} {a} {w} -> {b}")
        x = p.codes(a, samples(a, case.source))
        weight = p.constant(samples(quant("i8", 0.01, 3), case.weight), w, "i8")
        operands, kinds = [x, weight], [tensor(case.source, a), tensor(case.weight, w)]
        if n % 2:
            out = case.result[1]
            operands.append(p.constant(np.arange(out, dtype=np.float32) - 1.5, "f32", "f32"))
            kinds.append(tensor((out,), "f32"))
        text = f"conv_transpose2d {', '.join(operands)} {case.text} {rounding(ROUNDINGS[n % 3])}"
        kind = tensor(case.result, b)
        yield p.returns(p.nn(text, kinds, kind), kind)


@family("op-to-floats", pipeline="form-floats{where=all}", floats="real")
def averages_of_codes() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        pool = MEANS[n % len(MEANS)]
        p = Program(f"{pool.text}, {a} -> {b} in floats")
        x = p.codes(a, samples(a, pool.source))
        kind = tensor(pool.result, b)
        how = rounding(ROUNDINGS[n % 3]) if "global" not in pool.text else ""
        text = pool.text.replace("%x", f"%x {how}")
        yield p.returns(p.nn(text.replace("%x", x), [tensor(pool.source, a)], kind), kind)


@family("combine-up", pipeline=COMBINE)
def means_then_rescale() -> Iterator[Program]:
    for n, (b, c) in enumerate(pairs(GRID)):
        pool, a = MEANS[n % len(MEANS)], GRID[n % len(GRID)]
        p = Program(f"rescale {b} -> {c} of {pool.text}")
        x = p.codes(a, samples(a, pool.source))
        kind, result = tensor(pool.result, b), tensor(pool.result, c)
        y = p.nn(pool.text.replace("%x", x), [tensor(pool.source, a)], kind)
        how = rounding(ROUNDINGS[n % 3])
        yield p.returns(p.op(f"quant.rescale {y} {how}", kind, result), result)


@family("integerize-op", "sink-dequantize", pipeline=INTEGERIZE, floats="real")
def pools_of_codes() -> Iterator[Program]:
    for n, (a, b) in enumerate([*pairs(GRID), CHANNELS]):
        for pool in (MEANS[n % len(MEANS)], MAXIMA[n % len(MAXIMA)]):
            p = Floats(f"{pool.text}, {a} -> {b}")
            x = p.dequantized(a, samples(GRID[0] if a in CHANNELS else a, pool.source))
            y = p.nn(pool.text.replace("%x", x), [f32(pool.source)], f32(pool.result))
            yield p.quantized(y, pool.result, b, ROUNDINGS[n % 3])


@family("pad-into-window", pipeline="canonicalize")
def padded() -> Iterator[Program]:
    """Windows over what is padded, by both ends, with and without pads of their own."""
    around = "low [0, 0, 1, 0] high [0, 0, 1, 2]"
    source, wide = (1, 2, 8, 8), (1, 2, 10, 10)
    windows = [
        ("conv2d {x}, {w}", (1, 2, 8, 8)),
        ("conv2d {x}, {w} pads [1, 1, 0, 1] strides [2, 1]", (1, 2, 5, 10)),
        ("avg_pool2d {x} kernel [3, 3]", (1, 2, 8, 8)),
        ("avg_pool2d {x} kernel [3, 3] strides [2, 2] ceil_mode true", (1, 2, 5, 5)),
        ("avg_pool2d {x} kernel [3, 3] pads [1, 1, 1, 0] count_include_pad true", (1, 2, 10, 9)),
        ("avg_pool2d {x} kernel [3, 3] pads [1, 1, 1, 0]", (1, 2, 10, 9)),
        ("max_pool2d {x} kernel [3, 3]", (1, 2, 8, 8)),
        ("max_pool2d {x} kernel [4, 3] dilations [2, 1] pads [2, 0, 0, 0]", (1, 2, 6, 8)),
        ("max_pool2d {x} kernel [2, 2]", (1, 2, 9, 9)),
    ]
    for q, (text, result) in product([*GRID, *CHANNELS, "f32"], windows):
        for value in (0.0, -inf) if "max" in text and q == "f32" else (0.0,):
            if "conv" in text and q in CHANNELS:
                continue
            p = Program(f"{text} of {q} padded with {value}")
            kind = tensor(source, q)
            if q == "f32":
                x = p.argument(kind, np.arange(-64, 64, dtype="f4").reshape(source))
            else:
                x = p.codes(q, samples(GRID[0] if q in CHANNELS else q, source))
            fill = "" if value == 0 else "value 0xFFF0000000000000"
            y = p.nn(f"pad {x} {around} {fill}", [kind], tensor(wide, q))
            operands = [tensor(wide, q)]
            names = {"x": y}
            if "conv" in text:
                w = "f32" if q == "f32" else quant("i8", 0.25)
                shape = (2, 2, 3, 3)
                numbers = np.arange(36).reshape(shape) % 11 - 5
                operands.append(tensor(shape, w))
                names["w"] = (
                    p.argument(operands[1], numbers.astype("f4"))
                    if q == "f32"
                    else p.codes(w, numbers.astype(np.int8))
                )
            made = tensor(result, q)
            yield p.returns(p.nn(text.format(**names), operands, made), made)
