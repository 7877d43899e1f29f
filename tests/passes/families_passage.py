"""Families of rescales that pass ops with tied ports that compute."""

from __future__ import annotations

from collections.abc import Iterator

from families import GRID, ROUNDINGS, family, pairs, rounding
from families_move import SHAPE, shaped
from rewrite_support import Program, quant, tensor

#: the last two may make numbers larger, or have no bound
RESPONSES = [
    "lrn %x size 1 alpha 0.5 beta 0.5",
    "lrn %x size 2 alpha 0.125 bias 2.0",
    "lrn %x size 3 alpha 0.03125 beta 0.75",
    "lrn %x size 5 alpha 0.0001",
    "lrn %x size 2 alpha 0.5 beta 1.0 bias 0.25",
    "lrn %x size 2 alpha -0.5",
]
RENUMBERED = [
    (quant("i8", 0.5, 3), quant("u8", 0.5, 131)),
    (quant("u8", 0.5, 0), quant("i8", 0.5, -128)),
    (quant("u8", 0.5, 0), quant("i16", 0.5, 7)),
    (quant("i8", 0.5, 3), quant("i8", 0.5, 0)),
]


def _sunk(text: str, a: str, b: str, how: str) -> Program:
    p = Program(f"{text} of {a} -> {b}")
    kinds = tensor(SHAPE, a), tensor(SHAPE, b)
    x = p.op(f"quant.rescale {p.codes(a, shaped(a)[0])} {how}", *kinds)
    return p.returns(p.nn(text.replace("%x", x), [kinds[1]], kinds[1]), kinds[1])


def _hoisted(text: str, a: str, b: str, how: str) -> Program:
    p = Program(f"{text} of {a}, rescaled to {b}")
    kinds = tensor(SHAPE, a), tensor(SHAPE, b)
    y = p.nn(text.replace("%x", p.codes(a, shaped(a)[0])), [kinds[0]], kinds[0])
    return p.returns(p.op(f"quant.rescale {y} {how}", *kinds), kinds[1])


@family("sink-through-bounded", pipeline="sink-rescale{numerics=bounded}")
def below_responses() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        for text in RESPONSES[n % 2 :: 2]:
            yield _sunk(text, a, b, rounding(ROUNDINGS[n % 3]))


@family("hoist-through-bounded", pipeline="hoist-rescale{numerics=bounded}")
def above_responses() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        for text in RESPONSES[n % 2 :: 2]:
            yield _hoisted(text, a, b, rounding(ROUNDINGS[n % 3]))


@family("sink-through-bounded", pipeline="sink-rescale{numerics=exact}")
def renumbered_below() -> Iterator[Program]:
    for a, b in RENUMBERED:
        for text in RESPONSES:
            yield _sunk(text, a, b, "")


@family("hoist-through-bounded", pipeline="hoist-rescale{numerics=exact}")
def renumbered_above() -> Iterator[Program]:
    for a, b in RENUMBERED:
        for text in RESPONSES:
            yield _hoisted(text, a, b, "")


@family("integerize-op", pipeline="integerize{numerics=exact}", floats="real")
def responses_in_islands() -> Iterator[Program]:
    real = tensor(SHAPE, "f32")
    for n, (a, b) in enumerate(pairs(GRID[:6])):
        text = RESPONSES[n % len(RESPONSES)]
        p = Program(f"{text} of {a}, quantized to {b}")
        x = p.op(f"quant.dcast {p.codes(a, shaped(a)[0])}", tensor(SHAPE, a), real)
        y = p.nn(text.replace("%x", x), [real], real)
        yield p.returns(p.op(f"quant.qcast {y}", real, tensor(SHAPE, b)), tensor(SHAPE, b))
