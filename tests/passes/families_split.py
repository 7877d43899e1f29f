"""Families of split-rescale and form-softmax-tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, TENTH, family, pairs
from families_combine import CONTRACTIONS, OUTS, biases, contraction, samples
from rewrite_support import Program, all_codes, quant, tensor

SPLIT = "split-rescale{numerics=bounded}"
SOFTMAX = "form-softmax-tables{numerics=bounded}"


@family("split-contraction", pipeline=SPLIT)
def split_contractions() -> Iterator[Program]:
    for n, (a, out) in enumerate(product([*GRID, quant("i16", 0.375, 100)], OUTS)):
        number = n % len(CONTRACTIONS)
        c = CONTRACTIONS[number]
        weight = [quant("i8", TENTH), c.per_channel("i8", [(s, 0) for s in (0.5, 0.3, 1.0, 0.25)])]
        for m, bias in enumerate(dict.fromkeys(biases(c, a, TENTH))):
            held = weight[(n + m) % 2] if not bias else weight[0]
            p = Program(f"{c.text} of {a} by {held} to {out}, bias {bias or 'none'}")
            yield contraction(p, number, p.codes(a, samples(a, c.source)), a, held, out, bias)


@family("split-contraction", pipeline=SPLIT)
def split_at_the_limit() -> Iterator[Program]:
    """Sums that may leave 32 bits stay where they are."""
    for storage, depth in product(["i16", "i16<-100:100>", "u8"], [1, 2, 3]):
        q, kind = quant(storage, 0.5), tensor((2, 2), quant("i16", 64.0))
        p = Program(f"{depth} products of {storage}")
        ends = np.array([all_codes(q)[0], all_codes(q)[-1]])
        sides = [p.codes(q, np.repeat(ends[:, None], depth, 1)) for _ in range(2)]
        text = f"fully_connected {', '.join(sides)}"
        yield p.returns(p.nn(text, [tensor((2, depth), q)] * 2, kind), kind)


def _unary(text: str, shape: tuple[int, ...], result: tuple[int, ...]) -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        rounding = ROUNDINGS[n % 3]
        p = Program(f"{text} of {a} to {b}, {rounding}")
        x = p.codes(a, samples(a, shape))
        y = p.nn(
            f"{text.replace('%x', x)} rounding {rounding}", [tensor(shape, a)], tensor(result, b)
        )
        yield p.returns(y, tensor(result, b))


@family("split-exact", pipeline=SPLIT)
def split_means() -> Iterator[Program]:
    yield from _unary("global_avg_pool2d %x", (1, 2, 5, 3), (1, 2, 1, 1))
    yield from _unary("reduce_mean %x axes [1]", (4, 3, 7), (4, 1, 7))
    yield from _unary("reduce_sum %x axes [2] keepdims false", (4, 3, 7), (4, 3))
    yield from _unary(
        "avg_pool2d %x kernel [3, 3] strides [2, 1] pads [1, 1, 1, 1]", (1, 2, 6, 5), (1, 2, 3, 5)
    )
    yield from _unary(
        "avg_pool2d %x kernel [2, 3] pads [0, 1, 1, 1] count_include_pad true",
        (1, 2, 6, 5),
        (1, 2, 6, 5),
    )
    yield from _unary(
        "avg_pool2d %x kernel [3, 3] strides [2, 2] ceil_mode true", (1, 2, 6, 6), (1, 2, 3, 3)
    )


@family("split-exact", "split-aligned", pipeline=SPLIT)
def split_binary() -> Iterator[Program]:
    """All pairs of codes, of equal and unequal scales."""
    for n, (a, b) in enumerate(pairs(GRID)):
        name, out = ("add", "sub", "mul")[n % 3], OUTS[n // 3 % 3]
        rounding = ROUNDINGS[n % len(ROUNDINGS)]
        rows, columns = all_codes(a), all_codes(b)
        p = Program(f"{name} of {a} and {b} to {out}, {rounding}")
        kinds = [tensor((rows.size, 1), a), tensor((1, columns.size), b)]
        sides = p.codes(a, rows.reshape(-1, 1)), p.codes(b, columns.reshape(1, -1))
        result = tensor((rows.size, columns.size), out)
        yield p.returns(
            p.nn(f"{name} {', '.join(sides)} rounding {rounding}", kinds, result), result
        )


@family("split-aligned", pipeline=SPLIT)
def split_wide_sums() -> Iterator[Program]:
    """Not every pair can be looked at; and scales too far apart for 32 bits."""
    for n, (a, b) in enumerate(
        [
            (quant("i16", TENTH / 64, 0), quant("i8", TENTH, 3)),
            (quant("i16", 0.25, 0), quant("u16", 0.3, 7)),
            (quant("i8", 1e-6, 0), quant("i8", 0.5, 3)),
            (quant("i8", 3e4, 0), quant("i8", 0.5, 3)),
        ]
    ):
        for out in OUTS:
            p = Program(f"wide sum {n} to {out}")
            sides = [p.codes(q, samples(q, (40, 40))) for q in (a, b)]
            kinds, result = [tensor((40, 40), q) for q in (a, b)], tensor((40, 40), out)
            yield p.returns(p.nn(f"add {', '.join(sides)}", kinds, result), result)


@family("softmax-by-tables", pipeline=SOFTMAX)
def softmaxes() -> Iterator[Program]:
    results = [
        quant("u8", 1 / 256),
        quant("i8", 1 / 255, -128),
        quant("i8", 0.00390625, -128),
        quant("i16", 2.0**-15),
        quant("u8", 0.001),
        quant("i8", 1e-8),
    ]
    shapes = [((3, 5, 4), 1), ((2, 300), -1), ((64, 2), 1), ((3, 1), 1)]
    for a, out, (shape, axis) in product(GRID[:6], results, shapes):
        p = Program(f"softmax of {a} {shape} along {axis} to {out}")
        x = p.codes(a, samples(a, shape))
        kind = tensor(shape, out)
        yield p.returns(p.nn(f"softmax {x} axis {axis}", [tensor(shape, a)], kind), kind)
