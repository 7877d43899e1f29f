"""Families of fold-affine, type-accumulators, convert-rescale and expand-rescale."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, WIDE, family, pairs, rounding
from families_combine import CONTRACTIONS, samples
from families_integerize import Floats, f32
from rewrite_support import RANDOM, Program, all_codes, quant, tensor


@family("affine-of-codes", pipeline="fold-affine{numerics=relaxed}")
def affine_functions() -> Iterator[Program]:
    one = quant("i8", 1.0)
    for n, (a, b) in enumerate([*pairs(GRID)][1::3]):
        for name, code in product(("add", "sub", "mul", "div"), (1, 2, -3)):
            p = Program(f"{a} {name} {code} -> {b}")
            codes = all_codes(a)
            x, y = p.codes(a, codes), p.constant(np.array(code), one, "i8")
            kind, result = (tensor(codes.shape, q) for q in (a, b))
            operands, kinds = [x, y], [kind, tensor((), one)]
            if n % 4 == 3 and name != "div":
                operands.reverse(), kinds.reverse()
            text = f"{name} {', '.join(operands)} {rounding(ROUNDINGS[n % 3])}"
            yield p.returns(p.nn(text, kinds, result), result)
        p = Program(f"hard_sigmoid {a} -> {b}")
        kind, result = (tensor(all_codes(a).shape, q) for q in (a, b))
        x = p.codes(a, all_codes(a))
        yield p.returns(p.nn(f"hard_sigmoid {x} alpha 0.5 beta 2.0", [kind], result), result)


@family("type-accumulator", pipeline="type-accumulators", floats="real")
def float_results() -> Iterator[Program]:
    # `real` is float64: with scales that are powers of two its sums are exact.
    inputs = [quant("i8", 0.5, 3), quant("u8", 0.25, 255), quant("i8<-100:100>", 1.0, 5)]
    scales = [(s, 0) for s in (0.5, 2.0, 1.0, 0.25)]
    for n, (a, c) in enumerate(product(inputs, CONTRACTIONS)):
        for weight in dict.fromkeys([quant("i8", 0.5, 2), c.per_channel("i8", scales)]):
            p = Floats(f"{c.text} of {a}, {weight}")
            operands = [p.dequantized(a, samples(a, c.source))]
            operands.append(p.constant_codes(weight, RANDOM.integers(-127, 128, c.weight)))
            kinds = [f32(c.source), f32(c.weight)]
            if c.channels and n % 2:
                values = RANDOM.integers(-99, 99, c.channels).astype(np.float32)
                operands.append(p.constant(values, "f32", "f32"))
                kinds.append(f32((c.channels,)))
            y = p.nn(c.text.format(", ".join(operands)), kinds, f32(c.result))
            yield p.returns(y, f32(c.result))


def _rescaled(a: str, b: str, how: str) -> Program:
    p = Program(f"{a} -> {b} {how}")
    codes = all_codes(a)
    kinds = [tensor(codes.shape, q) for q in (a, b)]
    return p.returns(p.op(f"quant.rescale {p.codes(a, codes)} {how}", *kinds), kinds[1])


@family("fix-rescale", pipeline="convert-rescale{bits=16 numerics=relaxed}")
@family("fix-rescale", pipeline="convert-rescale{numerics=relaxed}")
@family("rescale-to-casts", pipeline="expand-rescale{to=casts numerics=relaxed}")
def real_rescales() -> Iterator[Program]:
    for n, (a, b) in enumerate([*pairs(GRID), *product(WIDE, GRID[:3])]):
        yield _rescaled(a, b, rounding(ROUNDINGS[n % 3]))


@family("unfix-rescale", pipeline="convert-rescale{form=real numerics=relaxed}")
def fixed_rescales() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        how = rounding([*ROUNDINGS, "gemmlowp"][n % 4])
        yield _rescaled(a, b, f"{how}multiplier [{1073741824 + 12345 * n}] shift [{30 + n % 3}] ")
