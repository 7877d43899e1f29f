"""Families of ops that tell how elements compare: below rescales and dequantizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from families import GRID, ROUNDINGS, ROWS, WIDE, family, pairs, rounding
from rewrite_support import Array, Program, all_codes, quant, tensor

MODES = ["eq", "ne", "lt", "le", "gt", "ge"]
FOLD = "fold-rescale"
#: rescales that keep codes apart, for some of them only where they do not clip
FINER = [
    (quant("i8", 0.5, 3), quant("u8", 0.5, 131)),
    (quant("i8", 0.5, 3), quant("i16", 0.25, 7)),
    (quant("i8<-50:50>", 0.5, 0), quant("i8", 0.25, 3)),
    (quant("i4", 1.5, -8), quant("i8", 0.1, 0)),
    (quant("u8", 0.5, 10), quant("u8", 0.5, 9)),
    (quant("i16", 0.001, 100), quant("i32", 0.0009, 0)),
    (quant("i8", 0.5, 3), quant("i32", 1e-9, 3)),
    *((ROWS[k], ROWS[k].replace("i8:", "i16:").replace("u8:", "i16:")) for k in range(3)),
]


def planes(q: str) -> tuple[Array, Array]:
    """Two tensors of two rows: all codes, and others beside them, equal ones among them."""
    codes = all_codes(q)[:: max(1, all_codes(q).size // 4096)]
    order = np.random.default_rng(len(q)).permutation(codes.size)
    return np.stack([codes, codes[order]]), np.stack([np.roll(codes, 1), codes[order]])


def told(p: Program, x: str, y: str, kind: str, shape: tuple[int, ...], turn: int) -> Program:
    """Comparisons and extremes of two values."""
    for mode in MODES[turn % 2 :: 2]:
        bits = tensor(shape, "i1")
        p.returns(p.nn(f"compare {x}, {y} mode {mode}", [kind, kind], bits), bits)
    for name in ("arg_max", "arg_min"):
        for more in ("", " last true"):
            one = tensor((shape[0], 1), "i64")
            p.returns(p.nn(f"{name} {x} axis 1{more}", [kind], one), one)
    few = (shape[0], min(5, shape[1]))
    values, places = tensor(few, kind.partition("x")[2].partition("x")[2][:-1]), tensor(few, "i64")
    for more in ("", " largest false"):
        name = f"%{len(p.lines)}"
        text = f"top_k {x} k {few[1]}{more}"
        p.lines.append(f"{name}:2 = nn.{text} : ({kind}) -> ({values}, {places})")
        if "quant" in kind:
            p.returns(f"{name}#0", values)
        else:
            codes = tensor(few, quant("i8", 0.5, 3, kind.partition("x")[2].partition("x")[2][:-1]))
            p.returns(p.op(f"quant.qcast {name}#0", values, codes), codes)
        if turn % 3:
            p.returns(f"{name}#1", places)
    return p


@family("order-of-rescale", pipeline=FOLD)
def below_rescales() -> Iterator[Program]:
    for n, (a, b) in enumerate([*FINER, *pairs(GRID), *((a, GRID[0]) for a in WIDE)]):
        for how in (ROUNDINGS[n % 3], ROUNDINGS[(n + 1) % 3]):
            p = Program(f"order of {a} -> {b}")
            names: list[str] = []
            for codes in planes(a):
                ends = tensor(codes.shape, a), tensor(codes.shape, b)
                x = p.codes(a, codes)
                names.append(p.op(f"quant.rescale {x} {rounding(how)}", *ends))
            yield told(p, *names, ends[1], codes.shape, n)


@family("order-of-dequantize", pipeline="integerize")
def below_dequantizes() -> Iterator[Program]:
    wide = [*WIDE, quant("i8", 1e-44, 0), quant("i8", 0.5, 3, "f16"), quant("i16", 0.5, 0, "f16")]
    for n, a in enumerate([*GRID, *wide, *ROWS]):
        p, kind = Program(f"order of {a}, dequantized"), "f16" if ":f16" in a else "f32"
        names: list[str] = []
        for codes in planes(a):
            ends = tensor(codes.shape, a), tensor(codes.shape, kind)
            names.append(p.op(f"quant.dcast {p.codes(a, codes)}", *ends))
        yield told(p, *names, ends[1], codes.shape, n)
