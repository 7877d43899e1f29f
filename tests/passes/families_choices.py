"""Families of rules on maxima and minima of two values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, TENTH, WIDE, cast_rounding, family, pairs, rounding
from families_move import CANON, CHANNELS, SHAPE, SINK, shaped
from rewrite_support import RANDOM, Array, Program, all_codes, per_axis, quant, storage_of, tensor

HOIST = "hoist-rescale{numerics=exact}"
OPS = ("maximum", "minimum")


def some_codes(q: str, shape: tuple[int, ...], outside: bool = False) -> Array:
    """Random codes of `q`, its ends among them, inside its bounds or not."""
    storage = storage_of(q)
    low, high = storage.full_range if outside else (storage.min, storage.max)
    codes = RANDOM.integers(low, high, shape, endpoint=True)
    flat = codes.reshape(-1)
    flat[: min(2, flat.size)] = [low, high][: flat.size]
    return codes


def constant(p: Program, codes: Array, q: str) -> str:
    storage = storage_of(q)
    width = storage.width
    wide = codes.astype(np.int64)
    if storage.signed is False:
        wide = np.where(wide >= 1 << (width - 1), wide - (1 << width), wide)
    return p.constant(wide, q, f"i{width}")


@family("sink-through-tied", pipeline=SINK)
def two_rescaled() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        how = rounding(ROUNDINGS[n % 3])
        p = Program(f"{OPS[n % 2]} of two {a} -> {b}")
        kinds = [tensor(SHAPE, a), tensor(SHAPE, b)]
        x = p.op(f"quant.rescale {p.codes(a, shaped(a)[0])} {how}", *kinds)
        y = p.op(f"quant.rescale {p.codes(a, some_codes(a, SHAPE, True))} {how}", *kinds)
        yield p.returns(p.nn(f"{OPS[n % 2]} {x}, {y}", [kinds[1]] * 2, kinds[1]), kinds[1])


@family("sink-through-tied", pipeline=SINK)
def one_is_constant() -> Iterator[Program]:
    for n, (a, b) in enumerate([*pairs(GRID), *product(WIDE, GRID[:2]), *product(GRID[:2], WIDE)]):
        for shape in ((2, 1, 1), (1,), (), (1, 2, 1, 16)):
            for codes in _constants(a, b, shape):
                yield _with_constant(OPS[n % 2], a, b, shape, codes, ROUNDINGS[n % 3], n % 4 < 2)


def _constants(a: str, b: str, shape: tuple[int, ...]) -> Iterator[Array]:
    """Codes that are hit by the rescale (often), any codes, and one end."""
    storage = storage_of(b)
    yield some_codes(b, shape)
    yield np.full(shape, storage.min)
    yield np.full(shape, (storage.min + storage.max) // 2)


def _with_constant(
    op: str, a: str, b: str, shape: tuple[int, ...], codes: Array, how: str, first: bool
) -> Program:
    p = Program(f"{op} of {a} -> {b} and {codes.reshape(-1)[:4]}")
    data, own = shaped(a)
    x = p.op(f"quant.rescale {p.codes(a, data)} {rounding(how)}", tensor(own, a), tensor(own, b))
    if shape == (1, 2, 1, 16) and own != SHAPE:
        codes, shape = codes[..., :1], (1, 2, 1, 1)
    c = constant(p, codes, b)
    kinds, names = [tensor(own, b), tensor(shape, b)], [x, c]
    if first:
        kinds, names = kinds[::-1], names[::-1]
    return p.returns(p.nn(f"{op} {', '.join(names)}", kinds, tensor(own, b)), tensor(own, b))


@family("sink-through-tied", pipeline=SINK)
def channels() -> Iterator[Program]:
    for (given, wanted), op in product(CHANNELS, OPS):
        a, b = per_axis("i8", 1, given), per_axis("i8", 1, wanted)
        p = Program(f"{op} of channels and a constant")
        kinds = [tensor(SHAPE, a), tensor(SHAPE, b)]
        x = p.op(f"quant.rescale {p.codes(a, shaped(a)[0])}", *kinds)
        q = per_axis("i8", 0, wanted)
        c = constant(p, np.array([[[3]], [[0]]]), q)
        yield p.returns(
            p.nn(f"{op} {x}, {c}", [kinds[1], tensor((2, 1, 1), q)], kinds[1]), kinds[1]
        )


@family("hoist-through-tied", pipeline=HOIST)
def rescaled_choices() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        how = rounding(ROUNDINGS[n % 3])
        for shape in (SHAPE, (2, 1, 1)):
            p = Program(f"{OPS[n % 2]} of {a}, rescaled to {b}")
            x, source = p.codes(a, shaped(a)[0]), tensor(SHAPE, a)
            codes = some_codes(a, shape, True)
            y = p.codes(a, codes) if shape == SHAPE else constant(p, codes, a)
            z = p.nn(f"{OPS[n % 2]} {x}, {y}", [source, tensor(shape, a)], source)
            kind = tensor(SHAPE, b)
            yield p.returns(p.op(f"quant.rescale {z} {how}", source, kind), kind)


@family("clamp-by-constant", pipeline=CANON)
def choices_of_one_number() -> Iterator[Program]:
    floats = np.array([np.nan, np.inf, -np.inf, 0.7, 1.3, -2.5, TENTH], np.float32)
    for op, number, first in product(OPS, (0.7, -2.5, TENTH, np.inf, np.nan), (False, True)):
        p = Program(f"{op} of floats and {number}")
        kind, scalar = tensor((7,), "f32"), tensor((1,), "f32")
        names = [p.argument(kind, floats), p.constant(np.array([number], "f4"), "f32", "f32")]
        kinds = [kind, scalar]
        if first:
            names, kinds = names[::-1], kinds[::-1]
        yield p.returns(p.nn(f"{op} {', '.join(names)}", kinds, kind), kind)
    for op, q in product(OPS, [*GRID, *WIDE]):
        data, own = shaped(q)
        for code in (storage_of(q).min, storage_of(q).max, 1):
            p = Program(f"{op} of {q} and code {code}")
            x, c = p.codes(q, data), constant(p, np.full((1, 1), code), q)
            kind = tensor(own, q)
            yield p.returns(p.nn(f"{op} {x}, {c}", [kind, tensor((1, 1), q)], kind), kind)


@family("hoist-quantize", "sink-dequantize", pipeline="integerize{numerics=exact}", floats="real")
def choices_of_dequantized() -> Iterator[Program]:
    grid = [q for q in GRID if "<" not in q.removeprefix("!quant.uniform<")]
    for n, (a, b) in enumerate(pairs(grid)):
        for other in (a, b):
            p = Program(f"{OPS[n % 2]} of {a}, {other} to {b}")
            parts: list[str] = []
            for q in (a, other):
                codes = RANDOM.permutation(np.resize(all_codes(q), 256)).reshape(2, 128)
                parts.append(p.op(f"quant.dcast {p.codes(q, codes)}", tensor((2, 128), q), FLOAT))
            z = p.nn(f"{OPS[n % 2]} {', '.join(parts)}", [FLOAT, FLOAT], FLOAT)
            how, kind = cast_rounding(ROUNDINGS[n % 3]), tensor((2, 128), b)
            yield p.returns(p.op(f"quant.qcast {z} {how}", FLOAT, kind), kind)
    a, b = quant("i8", 0.5, 3), quant("i8", 0.25, 0)
    p = Program("a quantized vector of bounds")
    x = p.op(f"quant.dcast {p.codes(a, all_codes(a)[None])}", tensor((1, 256), a), VECTOR)
    c = p.constant(np.linspace(-20, 20, 256, dtype=np.float32), "f32", "f32")
    z = p.nn(f"maximum {x}, {c}", [VECTOR, tensor((256,), "f32")], VECTOR)
    yield p.returns(p.op(f"quant.qcast {z}", VECTOR, tensor((1, 256), b)), tensor((1, 256), b))


FLOAT = tensor((2, 128), "f32")
VECTOR = tensor((1, 256), "f32")
