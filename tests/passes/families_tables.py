"""Families of form-tables: chains on codes, and on floats judged in real arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, family, pairs, rounding, single
from families_integerize import Floats, f32
from rewrite_support import Program, all_codes, quant, storage_of, tensor

FUNCTIONS = [
    "sigmoid %x",
    "tanh %x",
    "hard_sigmoid %x alpha 0.375",
    "hard_swish %x",
    "leaky_relu %x alpha 0.125",
    "neg %x",
    "abs %x",
    "exp %x",
    "log %x",
    "sqrt %x",
    "reciprocal %x",
    "erf %x",
    "gelu %x",
    "gelu %x approximate tanh",
    "swish %x alpha 1.702",
    "softplus %x",
    "elu %x alpha 0.5",
    "pow %x exponent 3.0",
    "pow %x exponent 0.3",
    "floor %x",
    "ceil %x",
    "round %x",
]


@family("chain-to-table", pipeline="form-tables")
def functions_of_codes() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        text = FUNCTIONS[n % len(FUNCTIONS)]
        p = Program(f"{text} {a} -> {b}")
        kinds = [tensor(all_codes(a).shape, q) for q in (a, b)]
        x = p.codes(a, all_codes(a))
        how = rounding(ROUNDINGS[n // 2 % 3])
        y = p.nn(f"{text.replace('%x', x)} {how}", [kinds[0]], kinds[1])
        yield p.returns(y, kinds[1])


@family("chain-to-table", pipeline="form-tables")
def chains_of_codes() -> Iterator[Program]:
    step = quant("i8", 0.5)
    for n, (a, b) in enumerate(pairs(GRID)):
        middle, last = GRID[(n + 3) % len(GRID)], GRID[(n * 7 + 1) % len(GRID)]
        p = Program(f"a chain {a} -> {middle} -> {b} -> {last}")
        shape = all_codes(a).shape
        ka, km, kb, kl = (tensor(shape, q) for q in (a, middle, b, last))
        x, c = p.codes(a, all_codes(a)), p.constant(np.array(3 - n % 7), step, "i8")
        how = rounding(ROUNDINGS[n % 3])
        y = p.op(f"quant.rescale {x} {how}", ka, km)
        if n % 2:
            y = p.nn(f"relu {y}", [km], km)
        name = ("add", "sub", "mul", "maximum")[n % 4]
        if name == "maximum":
            y = p.nn(f"clip {y} min -0.7 max 3.0", [km], km)
            z = p.nn(f"tanh {y}", [km], kb)
        else:
            z = p.nn(f"{name} {y}, {c} {how}", [km, tensor((), step)], kb)
        # x is used twice, at different lengths.
        w = p.nn(f"mul {z}, {x} {how}", [kb, ka], kl)
        width = storage_of(last).width
        bits = tensor(shape, f"i{width}")
        w = p.op(f"quant.scast {w}", kl, bits)
        w = p.op(f"quant.scast {w}", bits, kl)
        yield p.returns(p.nn(f"{FUNCTIONS[n % 5].replace('%x', w)}", [kl], kb), kb)


@family("chain-to-table", pipeline="form-tables", floats="real")
def regions() -> Iterator[Program]:
    # Where a function tends to a tie of steps that are powers of two, float64 rounds it on
    # one: other steps for those.
    rational = ("hard", "leaky", "neg", "abs", "floor", "ceil", "round")
    for n, (a, b) in enumerate(pairs(GRID)):
        text = FUNCTIONS[n % len(FUNCTIONS)]
        if not text.startswith(rational):
            b = (quant("i8", single(0.07), 3), quant("u8", single(0.3), 100))[n // 3 % 2]
        p = Floats(f"x * {text} {a} -> {b}")
        shape = all_codes(a).shape
        x = p.dequantized(a, all_codes(a))
        y = p.nn(text.replace("%x", x), [f32(shape)], f32(shape))
        if n % 2:
            y = p.nn(f"mul {x}, {y}", [f32(shape)] * 2, f32(shape))
        if n % 3 == 0:
            c = p.constant(np.array([0.25], np.float32), "f32", "f32")
            y = p.nn(f"sub {y}, {c}", [f32(shape), f32((1,))], f32(shape))
            y = p.nn(f"clip {y} min -4.0 max 3.5", [f32(shape)], f32(shape))
            y = p.nn(f"maximum {y}, {c}", [f32(shape), f32((1,))], f32(shape))
        yield p.quantized(y, shape, b, ROUNDINGS[n % 3])


@family("chain-to-table", pipeline="form-tables")
def composed() -> Iterator[Program]:
    """Rescales and lookups around a lookup."""
    rng = np.random.default_rng(5)
    for a, b in product(GRID[:8], GRID[2:8:2]):
        p = Program(f"lookups {a} -> {b}")
        shape = all_codes(a).shape
        ka, kb = (tensor(shape, q) for q in (a, b))
        x = p.codes(a, all_codes(a))
        y = p.op(f"quant.rescale {x}", ka, kb)
        count, info = 1 << storage_of(b).width, storage_of(b)
        for _ in range(2):
            entries = rng.integers(info.min, info.max + 1, count)
            entries = (entries + 128) % 256 - 128
            t = p.constant(entries, b, f"i{info.width}")
            y = p.nn(f"table {y}, {t}", [kb, tensor((count,), b)], kb)
        yield p.returns(p.op(f"quant.rescale {y}", kb, ka), ka)


@family("chain-to-table", pipeline="form-tables")
def chains_that_share_links() -> Iterator[Program]:
    """A hard swish, rescaled twice."""
    for n, (a, b) in enumerate(pairs(GRID)):
        gate, middle, last = (GRID[(n * k + k) % len(GRID)] for k in (3, 5, 7))
        p = Program(f"two rescales of a swish {a} -> {middle} -> {b}, {last}")
        shape = all_codes(a).shape
        ka, kg, km, kb, kl = (tensor(shape, q) for q in (a, gate, middle, b, last))
        x = p.codes(a, all_codes(a))
        how = rounding(ROUNDINGS[n % 3])
        y = p.nn(f"hard_sigmoid {x} alpha 0.375 {how}", [ka], kg)
        z = p.nn(f"mul {x}, {y} {how}", [ka, kg], km)
        p.returns(p.op(f"quant.rescale {z} {how}", km, kb), kb)
        yield p.returns(p.op(f"quant.rescale {z} {how}", km, kl), kl)


@family("function-of-moved-table", pipeline="form-tables")
def functions_of_moved_tables() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        middle = GRID[(n * 5 + 2) % len(GRID)]
        p = Program(f"sigmoid of {a} -> {middle}, moved, then to {b}")
        count = all_codes(a).size
        square = (2, count // 2)
        ka, km = tensor(all_codes(a).shape, a), tensor(all_codes(a).shape, middle)
        moved, turned = tensor(square, middle), tensor(square[::-1], middle)
        x = p.codes(a, all_codes(a))
        y = p.nn(f"hard_sigmoid {x} alpha 0.375 {rounding(ROUNDINGS[n % 3])}", [ka], km)
        z = p.nn(f"reshape {y} shape {list(square)}", [km], moved)
        t = p.nn(f"transpose {z} perm [1, 0]", [moved], turned)
        last = tensor(square[::-1], b)
        how = rounding(ROUNDINGS[n // 3 % 3])
        yield p.returns(p.op(f"quant.rescale {t} {how}", turned, last), last)
