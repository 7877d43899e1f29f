"""Families of fold-rescale."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, ROWS, TENTH, WIDE, cast_rounding, family, pairs, rounding
from rewrite_support import Array, Program, all_codes, per_axis, quant, storage_of, tensor

FOLD = "fold-rescale{numerics=relaxed}"


def rows(q: str) -> Array:
    """All codes, twice."""
    return np.stack([all_codes(q)] * 2)


def reals(scale: float) -> Array:
    """Ties and their neighbours on a grid of `scale`, and what is not a number."""
    steps = np.arange(-600, 600) / 4 * scale
    near = np.nextafter(steps.astype(np.float32), np.float32(np.inf))
    odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-42]
    return np.concatenate([steps, near, odd]).astype(np.float32)


@family("identity-rescale", pipeline=FOLD)
def identities() -> Iterator[Program]:
    for q in [*GRID, *WIDE]:
        kind = tensor(all_codes(q).shape, q)
        for source in ("scast", "rescale", "relu"):
            p = Program(f"identity {q} of {source}")
            x = p.codes(q, all_codes(q))
            if source == "rescale":
                x = p.op(f"quant.rescale {x}", kind, kind)
            if source == "relu":
                x = p.nn(f"relu {x}", [kind], kind)
            yield p.returns(p.op(f"quant.rescale {x}", kind, kind), kind)


@family("rescale-of-rescale", pipeline=FOLD)
def chains() -> Iterator[Program]:
    parameter_triples = [*product(GRID, GRID, GRID)]
    chosen = [t for n, t in enumerate(parameter_triples) if n % 3 == 0]
    chosen += [(a, b, c) for a, b, c in product(WIDE, GRID[:3], WIDE)]
    for n, (a, b, c) in enumerate(chosen):
        first, second = ROUNDINGS[n % 3], ROUNDINGS[n // 3 % 3]
        yield _chain(a, b, c, first, second, all_codes(a))
    for a, b, c in product(ROWS[:2] + GRID[:2], ROWS + GRID[4:5], ROWS[1:] + GRID[2:3]):
        yield _chain(a, b, c, "half_even", "half_up", rows(a))


def _chain(a: str, b: str, c: str, first: str, second: str, codes: Array) -> Program:
    p = Program(f"{a} -> {b} {first} -> {c} {second}")
    ka, kb, kc = (tensor(codes.shape, q) for q in (a, b, c))
    x = p.codes(a, codes)
    y = p.op(f"quant.rescale {x} {rounding(first)}", ka, kb)
    return p.returns(p.op(f"quant.rescale {y} {rounding(second)}", kb, kc), kc)


@family("rescale-of-quantize", pipeline=FOLD)
def quantized_then_rescaled() -> Iterator[Program]:
    for n, (b, c) in enumerate(pairs(GRID)):
        for x in (reals(0.5), reals(TENTH)):
            p = Program(f"f32 -> {b} -> {c}")
            kinds = [tensor(x.shape, q) for q in ("f32", b, c)]
            y = p.argument(kinds[0], x)
            first, second = ROUNDINGS[n % 3], ROUNDINGS[n // 3 % 3]
            y = p.op(f"quant.qcast {y} {cast_rounding(first)}", kinds[0], kinds[1])
            y = p.op(f"quant.rescale {y} {rounding(second)}", kinds[1], kinds[2])
            yield p.returns(y, kinds[2])


@family("rescale-of-constant", pipeline=FOLD)
def rescaled_constants() -> Iterator[Program]:
    for n, (a, b) in enumerate([*pairs(GRID), *product(ROWS, ROWS), *product(ROWS, GRID[:2])]):
        codes = rows(a) if n >= len(GRID) ** 2 else all_codes(a)
        how = rounding(ROUNDINGS[n % 3])
        yield _rescaled(f"constant {a} -> {b}", codes, a, b, how)
        yield _rescaled(f"transposed {a} -> {b}", codes.T.copy(), _turned(a), _turned(b), how)
    for q in GRID[:2]:
        yield _rescaled("a scalar tie", np.array(5), q, quant("i8", 2.0, 0), "")
        yield _rescaled("no elements", np.zeros((0,), np.int64), q, quant("i8", 2.0, 0), "")
    many = np.arange(3 * 4096) % 256 - 128
    yield _rescaled("a large constant", many, GRID[0], quant("u8", 1.0, 7), "rounding half_up ")


def _turned(q: str) -> str:
    return q.replace("f32:0,", "f32:1,")


def _rescaled(label: str, codes: Array, a: str, b: str, how: str) -> Program:
    p = Program(label)
    width = storage_of(a).width
    half = 1 << (width - 1)
    x = p.constant((codes + half) % (1 << width) - half, a, f"i{width}")
    kind = tensor(codes.shape, b)
    return p.returns(p.op(f"quant.rescale {x} {how}", tensor(codes.shape, a), kind), kind)


@family("quantize-of-constant", pipeline=FOLD)
def quantized_constants() -> Iterator[Program]:
    for n, q in enumerate([*GRID, *WIDE]):
        for scale in (0.5, TENTH):
            yield _quantized(reals(scale), q, "f32", ROUNDINGS[n % 3])
    for q in ROWS:
        yield _quantized(np.stack([reals(0.5), reals(TENTH)]), q, "f32", "half_even")
    edge = np.array([0.49999999999999994, 0.5, 1.5, -0.5, -2.5, 2.0**52 + 1, np.nan, np.inf])
    for how in ROUNDINGS:
        yield _quantized(edge, quant("i8", 1.0, 0, "f64"), "f64", how)
        yield _quantized(edge * 3, quant("i32", 3.0, 0, "f64"), "f64", how)
    halves = reals(TENTH)[:1200].astype(np.float16)
    yield _quantized(halves, quant("i8", TENTH, 1, "f16"), "f16", "half_even")


def _quantized(x: Array, q: str, element: str, how: str) -> Program:
    p = Program(f"constant {element} -> {q} {how}")
    name = p.constant(x, element, element)
    kind = tensor(x.shape, q)
    cast = f"quant.qcast {name} {cast_rounding(how)}"
    return p.returns(p.op(cast, tensor(x.shape, element), kind), kind)


@family("quantize-of-dequantize", pipeline=FOLD, floats="real")
def requantized() -> Iterator[Program]:
    for n, (a, b) in enumerate([*pairs(GRID), *product(WIDE, GRID[:3])]):
        yield _requantized(a, b, all_codes(a), ROUNDINGS[n % 3])
    for a, b in product(ROWS, ROWS + GRID[:2]):
        yield _requantized(a, b, rows(a), "half_even")
    other = per_axis("i8", 1, [(0.5, 0)] * 256)
    yield _requantized(ROWS[0], other, rows(ROWS[0]), "half_even")


@family("quantize-of-dequantize", pipeline=FOLD, floats="ieee")
def unchanged_through_floats() -> Iterator[Program]:
    scales = [0.5, TENTH, 1e-30, 3e38, 2.0**-126, 1e-40]
    for expressed, scale in product(["f16", "bf16", "f32", "f64"], scales):
        for storage, zero in (("i8", 3), ("u8", 255), ("i16", -32768), ("i4", 7)):
            if expressed == "f16" and not 1e-3 < scale < 1e3:
                continue
            q = quant(storage, scale, zero, expressed)
            p = Program(f"{q} through floats")
            kind, floats = (tensor(all_codes(q).shape, e) for e in (q, expressed))
            x = p.codes(q, all_codes(q))
            y = p.op(f"quant.dcast {x}", kind, floats)
            yield p.returns(p.op(f"quant.qcast {y}", floats, kind), kind)


def _requantized(a: str, b: str, codes: Array, how: str) -> Program:
    p = Program(f"quantize {how} {b} of dequantize {a}")
    ka, floats, kb = (tensor(codes.shape, e) for e in (a, "f32", b))
    y = p.op(f"quant.dcast {p.codes(a, codes)}", ka, floats)
    return p.returns(p.op(f"quant.qcast {y} {cast_rounding(how)}", floats, kb), kb)


@family("dequantize-of-rescale", pipeline=FOLD)
def dequantized_after_rescale() -> Iterator[Program]:
    for a, b in [*pairs(GRID), *product(ROWS, ROWS)]:
        codes = rows(a) if a in ROWS else all_codes(a)
        p = Program(f"dequantize {b} of rescale {a}")
        ka, kb, floats = (tensor(codes.shape, e) for e in (a, b, "f32"))
        y = p.op(f"quant.rescale {p.codes(a, codes)}", ka, kb)
        yield p.returns(p.op(f"quant.dcast {y}", kb, floats), floats)


@family("dequantize-of-quantize", pipeline=FOLD)
def dequantized_after_quantize() -> Iterator[Program]:
    for q in GRID:
        p = Program(f"dequantize of quantize {q}")
        x = reals(0.5)
        floats, kind = tensor(x.shape, "f32"), tensor(x.shape, q)
        y = p.op(f"quant.qcast {p.argument(floats, x)}", floats, kind)
        yield p.returns(p.op(f"quant.dcast {y}", kind, floats), floats)
