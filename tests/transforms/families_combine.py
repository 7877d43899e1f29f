"""Families of combine-rescale."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, TENTH, WIDE, family, pairs, rounding
from rewrite_support import Array, Program, all_codes, per_axis, quant, tensor

COMBINE = "combine-rescale{numerics=relaxed}"

UNARY = [
    "sigmoid",
    "tanh",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "softmax",
    "global_avg_pool2d",
    "avg_pool2d",
]
BINARY = ["add", "sub", "mul", "div"]
RANDOM = np.random.default_rng(7)

#: (op, x shape, weight shape, result shape) with bias, or without
CONTRACTIONS = [
    ("conv2d {} pads [1, 1, 1, 1]", (1, 3, 5, 5), (4, 3, 3, 3), (1, 4, 5, 5)),
    ("conv2d {} groups 3 strides [2, 2]", (2, 3, 5, 4), (3, 1, 2, 2), (2, 3, 2, 2)),
    ("fully_connected {}", (8, 32), (4, 32), (8, 4)),
    ("matmul {}", (3, 8, 16), (16, 4), (3, 8, 4)),
    ("matmul {}", (8, 16), (16,), (8,)),
]


def samples(q: str, shape: tuple[int, ...]) -> Array:
    """Random codes, the ends of the storage among them."""
    codes = all_codes(q)
    some = RANDOM.choice(codes, shape)
    flat = some.reshape(-1)
    ends = [codes[0], codes[-1]] * (flat.size // 4)
    flat[: len(ends)] = ends
    return RANDOM.permutation(flat).reshape(shape)


def unary(p: Program, name: str, x: str, source: str, target: str) -> tuple[str, str]:
    """A function of 256 codes of type `source`; its name and type."""
    shape = out = (1, 1, 16, 16)
    text = f"{name} {x}"
    if name == "global_avg_pool2d":
        out = (1, 1, 1, 1)
    if name == "avg_pool2d":
        text, out = f"{text} kernel [3, 3] strides [2, 1] pads [1, 1, 1, 1]", (1, 1, 8, 16)
    kind = tensor(out, target)
    return p.nn(text, [tensor(shape, source)], kind), kind


def square(q: str) -> Array:
    codes = all_codes(q)
    return np.resize(RANDOM.permutation(codes), 256).reshape(1, 1, 16, 16)


@family("combine-up", pipeline=COMBINE)
def functions_then_rescale() -> Iterator[Program]:
    for n, (name, (b, c)) in enumerate(product(UNARY, pairs(GRID))):
        if n % 3:
            continue
        p = Program(f"rescale {b} -> {c} of {name}")
        a = GRID[n % len(GRID)]
        inner = f"{name} {rounding(ROUNDINGS[n % 2])}"
        x, kind = unary(p, inner.split()[0], p.codes(a, square(a)), a, b)
        result = kind.replace(b, c)
        yield p.returns(
            p.op(f"quant.rescale {x} {rounding(ROUNDINGS[n % 3])}", kind, result), result
        )


def _binary(
    p: Program, name: str, x: str, y: str, kinds: tuple[str, str], q: str, how: str
) -> tuple[str, str]:
    kind = tensor((256, 256), q)
    return p.nn(f"{name} {x}, {y} {rounding(how)}", kinds, kind), kind


def _sides(p: Program, a: str, b: str) -> tuple[str, str]:
    return p.codes(a, all_codes(a).reshape(-1, 1)), p.codes(b, all_codes(b).reshape(1, -1))


BYTES = [q for q in GRID if "i4" not in q]


@family("combine-up", pipeline=COMBINE)
def arithmetic_then_rescale() -> Iterator[Program]:
    for n, (b, c) in enumerate(pairs(BYTES)):
        name, a = BINARY[n % 4], BYTES[n % len(BYTES)]
        p = Program(f"rescale {b} -> {c} of {name}")
        x, y = _sides(p, a, BYTES[1])
        kinds = tensor((256, 1), a), tensor((1, 256), BYTES[1])
        r, kind = _binary(p, name, x, y, kinds, b, ROUNDINGS[n // 4 % 3])
        result = kind.replace(b, c)
        how = rounding(ROUNDINGS[n // 2 % 3])
        yield p.returns(p.op(f"quant.rescale {r} {how}", kind, result), result)


@family("combine-down", pipeline=COMBINE)
def arithmetic_on_rescaled() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(BYTES)):
        name, out = BINARY[n % 4], BYTES[n % len(BYTES)]
        p = Program(f"{name} of rescale {a} -> {b}")
        x, y = _sides(p, a, BYTES[1])
        y_type = tensor((1, 256), BYTES[1])
        if n % 3 == 0:
            wide = tensor((1, 256), WIDE[1])
            y, y_type = p.op(f"quant.rescale {y}", y_type, wide), wide
        x = p.op(f"quant.rescale {x}", tensor((256, 1), a), tensor((256, 1), b))
        kinds = tensor((256, 1), b), y_type
        yield p.returns(*_binary(p, name, x, y, kinds, out, ROUNDINGS[n % 3]))


@family("combine-down", pipeline=COMBINE)
def functions_of_rescaled() -> Iterator[Program]:
    for n, (name, (a, b)) in enumerate(product(UNARY, pairs(GRID))):
        if n % 3:
            continue
        p = Program(f"{name} of rescale {a} -> {b}")
        shape = (1, 1, 16, 16)
        x = p.op(f"quant.rescale {p.codes(a, square(a))}", tensor(shape, a), tensor(shape, b))
        yield p.returns(*unary(p, name, x, b, GRID[n % len(GRID)]))


def contraction(
    p: Program, number: int, x: str, q: str, weight: str, out: str, bias: str
) -> Program:
    """A contraction of `x` (type `q`) with constant weights, and a bias of type `bias`."""
    text, source, shape, result = CONTRACTIONS[number]
    values = RANDOM.integers(-127, 128, shape)
    values[values == -128] = 0
    operands = [x, p.constant(values, weight, "i8")]
    kinds = [tensor(source, q), tensor(shape, weight)]
    if bias:
        codes = RANDOM.integers(-300, 300, shape[0])
        if bias == "f32":
            operands.append(p.constant((codes * TENTH).astype(np.float32), "f32", "f32"))
        else:
            operands.append(p.constant(codes, bias, "i32"))
        kinds.append(tensor((shape[0],), bias))
    kind = tensor(result, out)
    return p.returns(p.nn(text.format(", ".join(operands)), kinds, kind), kind)


def biases(x: str, weight_scale: float) -> list[str]:
    """No bias, the product scale in doubles, the same rounded to f32, a float one."""
    product_scale = float(x.rpartition(" ")[2].partition(":")[0]) * weight_scale
    rounded = float(np.float32(product_scale))
    return ["", quant("i32", product_scale), quant("i32", rounded), "f32"]


@family("combine-down", pipeline=COMBINE)
def contractions_of_rescaled() -> Iterator[Program]:
    outs = [quant("i8", 4.0, 3), quant("u8", 30.0, 128), quant("i8", TENTH, 0)]
    for n, (a, b) in enumerate(pairs(GRID)):
        number = n % len(CONTRACTIONS)
        given = biases(b, TENTH) if number < 3 else [""]
        for m, bias in enumerate(given):
            p = Program(f"{CONTRACTIONS[number][0]} of rescale {a} -> {b}, bias {bias or 'none'}")
            shape = CONTRACTIONS[number][1]
            x = p.codes(a, samples(a, shape))
            x = p.op(f"quant.rescale {x}", tensor(shape, a), tensor(shape, b))
            yield contraction(p, number, x, b, quant("i8", TENTH), outs[(n + m) % 3], bias)
    for number, (source, shape) in enumerate((c[1], c[0]) for c in CONTRACTIONS):
        # Bounded, with nothing clipped on the way out.
        a, b = quant("i8", 0.5), quant("i8", 0.75)
        p = Program(f"{shape} of rescale {a} -> {b}, a wide result")
        x = p.op(
            f"quant.rescale {p.codes(a, samples(a, source))}", *(tensor(source, q) for q in (a, b))
        )
        yield contraction(p, number, x, b, quant("i8", TENTH), quant("i16", TENTH), "")
    weight = per_axis("i8<-127:127>", 0, [(0.5, 0), (TENTH, 0), (1.0, 0), (0.25, 0)])
    listed = [(0.5 * s, 0) for s in (0.5, TENTH, 1.0, 0.25)]
    for a, number in product([GRID[2], GRID[4], GRID[5]], (0, 2)):
        p = Program(f"per axis, of rescale {a}")
        shape = CONTRACTIONS[number][1]
        x = p.codes(a, samples(a, shape))
        x = p.op(f"quant.rescale {x}", tensor(shape, a), tensor(shape, GRID[0]))
        bias = per_axis("i32", 0, listed)
        yield contraction(p, number, x, GRID[0], weight, outs[0], bias)


@family("combine-up", pipeline=COMBINE)
def contractions_then_rescale() -> Iterator[Program]:
    for n, (b, c) in enumerate(pairs(GRID)):
        number, a = n % len(CONTRACTIONS), GRID[n % len(GRID)]
        p = Program(f"rescale {b} -> {c} of {CONTRACTIONS[number][0]}")
        x = p.codes(a, samples(a, CONTRACTIONS[number][1]))
        bias = biases(a, TENTH)[n % 4] if number < 3 else ""
        contraction(p, number, x, a, quant("i8", TENTH), b, bias)
        ((y, kind),) = p.results
        p.results.clear()
        result = kind.replace(b, c)
        how = rounding(ROUNDINGS[n % 3])
        yield p.returns(p.op(f"quant.rescale {y} {how}", kind, result), result)
