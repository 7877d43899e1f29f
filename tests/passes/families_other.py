"""Families of fold-affine, type-accumulators, convert-rescale and expand-rescale."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, ROWS, WIDE, family, pairs, rounding
from families_combine import CONTRACTIONS, samples
from families_integerize import Floats, f32
from rewrite_support import RANDOM, Program, all_codes, per_axis, quant, tensor


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


def pieces(p: Program, text: str, value: str, kind: str, other: str | None = None) -> str:
    """`text` with the operand in place of %x, and a constant in place of %c."""
    constants = [re.search(r"%c(-?[0-9.]+(?:,-?[0-9.]+)*)", text)]
    kinds = [kind]
    if constants[0] is not None:
        numbers = np.array([float(v) for v in constants[0][1].split(",")], np.float32)
        held = numbers.reshape(-1, 1) if numbers.size > 1 else numbers.reshape(())
        name = p.constant(held, "f32", "f32")
        first = text.index("%c") < text.index("%x")
        text = text.replace(constants[0][0], name)
        kinds.insert(0 if first else 1, tensor(held.shape, "f32"))
    return p.nn(text.replace("%x", value), kinds, other or kind)


#: chains; each op is one of them, on %x and perhaps constants
CHAINS = [
    ("neg %x",),
    ("mul %x, %c-2.0",),
    ("sub %c3.0, %x",),
    ("neg %x", "neg %x"),
    ("mul %x, %c-2.0", "add %x, %c1.5"),
    ("mul %x, %c0.25", "add %x, %c0.5", "clip %x min 0.0 max 1.0"),
    ("add %x, %c3.0", "clip %x min 0.0 max 6.0", "mul %x, %c0.16666667"),
    ("add %x, %c0.7", "mul %x, %c3.0", "sub %x, %c1.1"),
    ("relu %x", "mul %x, %c0.3"),
    ("add %x, %c1.0,-2.5",),
    ("mul %x, %c0.5,3.0",),
    ("mul %x, %c-0.5,-3.0", "sub %x, %c1.0,0.0"),
    ("div %x, %c3.0,0.7", "add %x, %c2.0"),
    ("mul %x, %c-0.5,3.0",),
    ("mul %x, %c0.0,3.0",),
]


# What is off by a step in the middle may be off by several below: the bounds of whole
# chains are in test_fold_affine.py.
@family("affine-of-codes", pipeline="fold-affine{numerics=ties}")
def affine_chains() -> Iterator[Program]:
    yield from chains(CHAINS)


@family("affine-of-codes", pipeline="fold-affine{numerics=relaxed}")
def affine_links() -> Iterator[Program]:
    yield from chains([chain for chain in CHAINS if len(chain) == 1])


def chains(given: Sequence[tuple[str, ...]]) -> Iterator[Program]:
    rows = (*ROWS, *GRID)
    for n, (a, b) in enumerate(pairs([*rows])):
        for m, chain in enumerate(given):
            if (n + m) % 8:
                continue
            p = Program(f"{chain} of {a} -> {b}")
            codes = np.stack([all_codes(a)] * 2)
            x, kind = p.codes(a, codes), tensor(codes.shape, a)
            for k, text in enumerate(chain):
                same = text.split()[0] in ("clip", "relu")
                last = k == len(chain) - 1 or (chain[k + 1 :][0].split()[0] in ("clip", "relu"))
                other = kind if same else tensor(codes.shape, b if last else rows[(n + k) % 13])
                if ":0, {" in kind + other:
                    text = text.replace("neg %x", "sub %c0.0, %x")
                how = "" if same else rounding(ROUNDINGS[(n + k) % 3])
                x, kind = pieces(p, f"{text} {how}", x, kind, other), other
            yield p.returns(x, kind)


@family("affine-of-codes", pipeline="fold-affine{numerics=relaxed}")
def batch_norms() -> Iterator[Program]:
    statistics = [
        # scale, bias, mean, variance
        ([1.0, 2.0], [0.5, -1.0], [0.0, 3.0], [1.0, 4.0]),
        ([1.0, 0.3], [0.0, 0.0], [0.0, 0.0], [2.0, 3.0]),
        ([-1.0, -2.0], [0.5, 1.0], [1.0, 3.0], [0.25, 0.7]),
        ([0.7, 0.7], [0.1, 0.1], [0.3, 0.3], [0.9, 0.9]),
        ([1.0, -2.0], [0.5, -1.0], [0.0, 3.0], [1.0, 4.0]),
    ]
    columns = [per_axis("i8", 1, [(0.25, 3), (0.5, 0)]), per_axis("u8", 1, [(0.5, 131), (0.1, 0)])]
    for n, (a, b) in enumerate(pairs([*columns, *GRID[:6]])):
        for held in statistics:
            p = Program(f"batch_norm {held} of {a} -> {b}")
            codes = np.stack([all_codes(a)] * 2, 1)
            x, kind, result = p.codes(a, codes), *(tensor(codes.shape, q) for q in (a, b))
            names = [p.constant(np.array(v, np.float32), "f32", "f32") for v in held]
            epsilon = "epsilon 0.0" if n % 2 else ""
            text = f"batch_norm {', '.join([x, *names])} {epsilon} {rounding(ROUNDINGS[n % 3])}"
            yield p.returns(p.nn(text, [kind, *[tensor((2,), "f32")] * 4], result), result)


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
        how = rounding([*ROUNDINGS, "gemmlowp", "ruy"][n % 5])
        yield _rescaled(a, b, f"{how}multiplier [{1073741824 + 12345 * n}] shift [{30 + n % 3}] ")
