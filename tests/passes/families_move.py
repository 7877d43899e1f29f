"""Families of sink-rescale and canonicalize."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, TENTH, WIDE, family, pairs, rounding
from rewrite_support import Array, Program, all_codes, per_axis, quant, storage_of, tensor

SINK = "sink-rescale{numerics=exact}"
#: of constant borders between the codes
BORDER = "stands for the border"

CANON = "canonicalize"

SHAPE = (1, 2, 16, 16)


@dataclass(frozen=True)
class Movement:
    """An op on SHAPE: its text, result shape, and where dimension 1 goes (None: nowhere)."""

    text: str
    shape: tuple[int, ...]
    axis: int | None = 1


MOVEMENTS = [
    Movement("transpose %x perm [0, 2, 3, 1]", (1, 16, 16, 2), 3),
    Movement("reshape %x", (2, 256), 0),
    Movement("reshape %x", (512,), None),
    Movement("flatten %x axis 2", (2, 256), 0),
    Movement("flatten %x axis 1", (1, 512), None),
    Movement(
        "slice %x starts [0, 0, 2, 15] stops [1, 2, 9, -17] steps [1, 1, 3, -1]", (1, 2, 3, 16)
    ),
    Movement("pad %x low [0, 0, 1, 0] high [0, 0, 0, 2]", (1, 2, 17, 18)),
    Movement("pad %x low [0, 0, 1, 0] high [0, 0, 0, 2] value 1.0", (1, 2, 17, 18)),
    Movement("pad %x low [0, 0, 1, 3] high [0, 0, 0, 2] mode reflect", (1, 2, 17, 21)),
    Movement("max_pool2d %x kernel [3, 2] strides [2, 1] pads [1, 1, 1, 0]", (1, 2, 8, 16)),
    Movement("max_pool2d %x kernel [1, 1] pads [1, 1, 1, 1]", (1, 2, 18, 18)),
    Movement("max_pool2d %x kernel [2, 2] pads [1, 1, 1, 1] dilations [15, 3]", (1, 2, 3, 15)),
    Movement("relu %x", SHAPE),
    Movement("reduce_max %x axes [2]", (1, 2, 1, 16)),
    Movement("reduce_min %x axes [3, 0] keepdims false", (2, 16), 0),
    Movement("reduce_max %x axes [0, 1, 2, 3] keepdims false", (), None),
]
CLIPS = [
    "clip %x min 0.0 max 6.0",
    "clip %x min -2.0",
    "clip %x max 1.3",
    "clip %x min 0.7 max 0.7",
    "clip %x max -500.0",
    "clip %x min 500.0",
    "clip %x min -500.0 max 500.0",
    "clip %x min 3.0 max 1.0",
    "clip %x min 2.0 max 9.0",
]
#: the channel dimension's parameters: as given, rescaled
CHANNELS = [
    (([(0.5, 3), (TENTH, -128)]), ([(0.25, 3), (0.5, 0)])),
    (([(0.5, 3), (1.0, 0)]), ([(1.0, 3), (0.5, 5)])),
]


def shaped(q: str) -> tuple[Array, tuple[int, ...]]:
    """All codes of `q` in every channel, shuffled, on SHAPE (or two 16-bit planes)."""
    codes = all_codes(q)
    side = 16 if codes.size <= 256 else 256
    plane = np.resize(codes, side * side)
    generator = np.random.default_rng(len(q))
    planes = [generator.permutation(plane) for _ in range(2)]
    return np.stack(planes).reshape(1, 2, side, side), (1, 2, side, side)


@family("sink-through-tied", pipeline=SINK, invalid=BORDER)
def through_movements() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        how = rounding(ROUNDINGS[n % 3])
        for move in MOVEMENTS[n % 3 :: 3]:
            yield _sunk(move.text, a, b, b, move.shape, how)
        yield _concatenated([a, a], [b, b], b, how)
        yield _concatenated([a, a], [b, GRID[(n + 3) % len(GRID)]], b, how)
        yield _concatenated([a, GRID[n % 3]], [b, b], b, how)
        yield _concatenated([a, a], [b, b], b, how, rounding("half_away"))


@family("sink-through-tied", pipeline=SINK)
def through_clamps() -> Iterator[Program]:
    grid = [*GRID, quant("i8<-100:100>", 0.25, -100), quant("i8", 4.0, 127)]
    for n, (a, b) in enumerate(pairs(grid)):
        for text in ("relu %x", *CLIPS[n % 3 :: 3]):
            yield _sunk(text, a, b, b, SHAPE, rounding(ROUNDINGS[n % 3]))
    for a, b in product(WIDE, GRID[:2]):
        yield _sunk("relu %x", a, b, b, (1, 2, 256, 256), "")


@family("sink-through-tied", pipeline=SINK)
def through_movements_of_channels() -> Iterator[Program]:
    for (given, wanted), move in product(CHANNELS, MOVEMENTS):
        if move.axis is None:
            continue
        a, b, c = (per_axis("i8", k, v) for k, v in ((1, given), (1, wanted), (move.axis, wanted)))
        if "value" not in move.text:
            yield _sunk(move.text, a, b, c, move.shape, "")
            yield _sunk(move.text, quant("i8", 0.5, 7), b, c, move.shape, "")
        yield _sunk(move.text, a, GRID[0], GRID[0], move.shape, "")
    a, b = (per_axis("i8", 1, pairs) for pairs in CHANNELS[0])
    yield _sunk("reshape %x", a, GRID[0], GRID[0], (512,), "")
    for text in ("relu %x", *CLIPS):
        yield _sunk(text, a, b, b, SHAPE, "")


def _sunk(text: str, a: str, b: str, c: str, shape: tuple[int, ...], how: str) -> Program:
    p = Program(f"{text} of {a} -> {b}")
    codes, source = shaped(a)
    x = p.codes(a, codes)
    y = p.op(f"quant.rescale {x} {how}", tensor(source, a), tensor(source, b))
    kind = tensor(source if shape == SHAPE else shape, c)
    return p.returns(p.nn(text.replace("%x", y), [tensor(source, b)], kind), kind)


def _concatenated(sources: list[str], to: list[str], result: str, *ways: str) -> Program:
    p = Program(f"concat of {sources} -> {to} as {result}")
    parts: list[str] = []
    for a, b, how in zip(sources, to, [*ways, *ways][:2], strict=True):
        codes = np.stack([all_codes(a)] * 2)
        kinds = [tensor(codes.shape, q) for q in (a, b)]
        parts.append(p.op(f"quant.rescale {p.codes(a, codes)} {how}", *kinds))
    shapes = [(2, 1 << storage_of(a).width) for a in sources]
    kind = tensor((2, sum(shape[1] for shape in shapes)), result)
    operands = [tensor(shape, q) for shape, q in zip(shapes, to, strict=True)]
    return p.returns(p.nn(f"concat {', '.join(parts)} axis 1", operands, kind), kind)


@family("sink-through-tied", pipeline=SINK)
def through_inserts() -> Iterator[Program]:
    """Of a column in two rows, and of a row with parameters of its own."""
    rows = [[(0.5, 3), (TENTH, -128)], [(0.25, 3), (0.5, 0)]]
    for n, (a, b) in enumerate(pairs(GRID)):
        how = rounding(ROUNDINGS[n % 3])
        other = a if n % 5 else GRID[(n + 1) % len(GRID)]
        yield _inserted((a, b), (other, b), b, (2, 1), "starts [0, 7] steps [1, 1]", how)
        yield _inserted((a, b), (a, b), b, (1, 8), "starts [1, 1] steps [1, 2]", how)
    whole = [per_axis("i8", 0, pairs) for pairs in rows]
    for row in range(2):
        part = [quant("i8", *pairs[row]) for pairs in rows]
        ends = (whole[0], whole[1]), (part[0], part[1])
        yield _inserted(*ends, whole[1], (1, 8), f"starts [{row}, 0] steps [1, 1]", "")


def _inserted(
    into: tuple[str, str],
    of: tuple[str, str],
    result: str,
    shape: tuple[int, int],
    place: str,
    how: str,
) -> Program:
    p = Program(f"insert of {of} into {into} at {place}")
    names, kinds = list[str](), list[str]()
    codes = np.stack([all_codes(into[0])] * 2)
    for (a, b), extents in ((into, codes.shape), (of, shape)):
        values = codes if extents == codes.shape else np.resize(all_codes(a)[::-1], extents)
        ends = tensor(extents, a), tensor(extents, b)
        names.append(p.op(f"quant.rescale {p.codes(a, values)} {how}", *ends))
        kinds.append(ends[1])
    kind = tensor(codes.shape, result)
    return p.returns(p.nn(f"insert {', '.join(names)} {place}", kinds, kind), kind)


@family("redundant-clamp", pipeline=CANON)
def clamps_of_codes() -> Iterator[Program]:
    grid = [*GRID, quant("u8", 0.5, 0), quant("i8<0:127>", 0.5, 0), quant("i8", 4.0, -128)]
    for q, text in product(grid, ["relu %x", *CLIPS]):
        for inside in (False, True):
            p = Program(f"{text} of {q}")
            kind = tensor(SHAPE, q)
            x = p.codes(q, shaped(q)[0])
            if inside:
                x = p.op(f"quant.rescale {x}", kind, kind)
            yield p.returns(p.nn(text.replace("%x", x), [kind], kind), kind)


@family("repeated-clamp", pipeline=CANON)
def clamps_of_clamps() -> Iterator[Program]:
    floats = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 0.7, 1.3, 6.5, -2.5, 3], np.float32)
    for q in (None, *GRID[:7]):
        element = q or "f32"
        for first, second in [
            *[*pairs(CLIPS)][:: 1 if q is None else 3],
            ("relu %x", "relu %x"),
            *[("relu %x", text) for text in CLIPS],
            *[(text, "relu %x") for text in CLIPS],
            ("clip %x min 0.3 max 1.1", "clip %x min 0.31 max 1.12"),
        ]:
            p = Program(f"{second} of {first} on {element}")
            kind = tensor(floats.shape if q is None else SHAPE, element)
            x = p.codes(q, shaped(q)[0]) if q else p.argument(kind, floats)
            x = p.nn(first.replace("%x", x), [kind], kind)
            yield p.returns(p.nn(second.replace("%x", x), [kind], kind), kind)


IDENTITIES = [
    "transpose %x perm [0, 1, 2, 3]",
    "reshape %x",
    "slice %x starts [0, 0, 0, -16] stops [1, 2, 99, 16] steps [1, 1, 1, 1]",
    "slice %x starts [0, 0, 15, 0] stops [1, 2, -17, 16] steps [1, 1, -1, 1]",
    "pad %x low [0, 0, 0, 0] high [0, 0, 0, 0] value 0.3",
    "concat %x axis 1",
    "concat %x, %x axis 1",
]


@family("identity-movement", pipeline=CANON)
def movements_of_nothing() -> Iterator[Program]:
    for q, text in product([*GRID[:3], per_axis("i8", 1, CHANNELS[0][0])], IDENTITIES):
        if "%x, %x" in text and "32:1" in q:
            continue
        p = Program(f"{text} of {q}")
        x, source = p.codes(q, shaped(q)[0]), tensor(SHAPE, q)
        result = tensor((1, 4, 16, 16), q) if "%x, %x" in text else source
        kinds = [source] * text.count("%x")
        yield p.returns(p.nn(text.replace("%x", x), kinds, result), result)


@family("compose-transpose", pipeline=CANON)
def transposes() -> Iterator[Program]:
    perms = [(0, 2, 3, 1), (3, 1, 0, 2), (0, 1, 2, 3), (1, 0, 3, 2), (0, 3, 1, 2)]
    for q in (GRID[0], None):
        for first, second in product(perms, perms):
            p = Program(f"transposes {first}, {second}")
            shape, axis = SHAPE, 1
            element = q or per_axis("i8", axis, CHANNELS[0][0])
            x = p.codes(element, shaped(GRID[0])[0])
            for perm in (first, second):
                source = tensor(shape, q or per_axis("i8", axis, CHANNELS[0][0]))
                shape, axis = tuple(shape[k] for k in perm), perm.index(axis)
                kind = tensor(shape, q or per_axis("i8", axis, CHANNELS[0][0]))
                x = p.nn(f"transpose {x} perm {list(perm)}", [source], kind)
            yield p.returns(x, kind)


@family("compose-flip", pipeline=CANON)
def flips() -> Iterator[Program]:
    axes = [[0], [-1, 1], [2, 3], [0, 1, 2, 3]]
    for q in (GRID[0], per_axis("i8", 1, CHANNELS[0][0]), "f32"):
        for one, two in product(axes, axes):
            p = Program(f"flips {one}, {two}")
            codes, kind = shaped(GRID[0])[0], tensor(SHAPE, q)
            x = p.codes(q, codes) if q != "f32" else p.argument(kind, codes.astype("f4"))
            back = q
            for flipped in (one, two):
                if 1 in flipped and q not in (GRID[0], "f32"):
                    back = per_axis("i8", 1, CHANNELS[0][0][::-1]) if back == q else q
                after = tensor(SHAPE, back)
                x, kind = p.nn(f"flip {x} axes {flipped}", [kind], after), after
            yield p.returns(x, kind)


@family("sink-movements", pipeline=CANON)
def transposes_around() -> Iterator[Program]:
    perm, back = (0, 2, 3, 1), (0, 3, 1, 2)
    last = tuple(SHAPE[k] for k in perm)
    ends = [("relu {0}", 1), ("add {0}, {1}", 2), ("maximum {1}, {0}", 2), ("mul {0}, {c}", 1)]
    channels = [per_axis("i8", axis, CHANNELS[0][0]) for axis in (1, 3)]
    for (text, count), (first, q) in product(
        ends, [(GRID[0], GRID[0]), (GRID[2], GRID[2]), (channels[0], channels[1]), ("f32", "f32")]
    ):
        p = Program(f"{text} of {q} between transposes")
        kind, codes = tensor(last, q), shaped(GRID[0])[0]
        values: list[str] = []
        for _ in range(count):
            source = tensor(SHAPE, first)
            x = p.argument(source, codes.astype("f4")) if q == "f32" else p.codes(first, codes)
            values.append(p.nn(f"transpose {x} perm {list(perm)}", [source], kind))
        operands = [kind] * count
        named = {}
        if "{c}" in text:
            element = "f32" if q == "f32" else GRID[0]
            held = "f32" if q == "f32" else "i8"
            small = tensor((last[-1],), element)
            numbers = np.arange(last[-1], dtype="f4" if q == "f32" else "i1")
            named["c"] = p.constant(numbers, element, held)
            operands.append(small)
        y = p.nn(text.format(*values, **named), operands, kind)
        yield p.returns(
            p.nn(f"transpose {y} perm {list(back)}", [kind], tensor(SHAPE, first)),
            tensor(SHAPE, first),
        )


@family("sink-movements", pipeline=CANON)
def equal_movements() -> Iterator[Program]:
    """Two operands that are moved alike, with a constant between, on one scale and on channels."""
    channel = per_axis("i8", 1, CHANNELS[0][0])
    texts = [
        ("transpose %x perm [0, 2, 3, 1]", lambda s: (s[0], s[2], s[3], s[1]), 3),
        ("flip %x axes [2, -1]", lambda s: s, 1),
        ("reshape %x", lambda s: (*s[:2], s[2] * s[3]), 1),
        ("slice %x starts [0, 0, 0, 99] stops [9, 9, 99, -99] steps [1, 1, 1, -1]", lambda s: s, 1),
        ("tile %x repeats [1, 1, 2, 1]", lambda s: (*s[:2], 2 * s[2], s[3]), 1),
    ]
    for (text, moved, axis), op, q in product(
        texts, ("add", "mul", "maximum"), (GRID[0], GRID[2], channel, "f32")
    ):
        at = per_axis("i8", axis, CHANNELS[0][0]) if q == channel else q
        p = Program(f"{op} of {text}, {q}")
        source, result = tensor(SHAPE, q), tensor(moved(SHAPE), at)
        values: list[str] = []
        for turn in (1, -1):
            codes = shaped(GRID[2] if q == GRID[2] else GRID[0])[0][..., ::turn]
            x = p.argument(source, codes.astype("f4")) if q == "f32" else p.codes(q, codes)
            values.append(p.nn(text.replace("%x", x), [source], result))
        if op == "mul":
            held = "f32" if q == "f32" else "i8"
            one = tensor((), "f32" if q == "f32" else GRID[0])
            c = p.constant(np.array(3, "f4" if q == "f32" else "i1"), one[7:-1], held)
            values[1] = p.nn(f"mul {values[1]}, {c}", [result, one], result)
        y = p.nn(f"{op} {', '.join(values)}", [result] * 2, result)
        yield p.returns(y, result)


@family("compose-reshape", pipeline=CANON)
def reshapes() -> Iterator[Program]:
    shapes = [(2, 256), (512,), (16, 32), SHAPE, (2, -1), (-1,)]
    for q, one, two in product([GRID[0], "f32"], shapes, shapes):
        p = Program(f"reshapes {one}, {two}")
        codes = shaped(GRID[0])[0]
        x = p.codes(q, codes) if q != "f32" else p.argument(tensor(SHAPE, q), codes.astype("f4"))
        x = p.nn(f"reshape {x}", [tensor(SHAPE, q)], tensor(one, q))
        yield p.returns(p.nn(f"reshape {x}", [tensor(one, q)], tensor(two, q)), tensor(two, q))
    for result in ((0, -1), (0, 4), (-1, 4), (-1, -1)):
        p = Program(f"reshapes of nothing to {result}")
        x = p.argument(tensor((-1, 4), "f32"), np.zeros((0, 4), np.float32))
        x = p.nn(f"reshape {x}", [tensor((-1, 4), "f32")], tensor((4, -1), "f32"))
        flat = tensor((-1, -1), "f32")
        x = p.nn(f"reshape {x} shape [-1, 4]", [tensor((4, -1), "f32")], flat)
        kind = tensor(result, "f32")
        yield p.returns(p.nn(f"flatten {x} axis 1", [flat], kind), kind)


@family("storage-cast-pair", pipeline=CANON)
def storage_casts() -> Iterator[Program]:
    for a, b in [*pairs(GRID), *pairs(WIDE)]:
        if storage_of(a).width != storage_of(b).width:
            continue
        p = Program(f"storage of {a} as {b}")
        codes, width = all_codes(a), f"i{storage_of(a).width}"
        x, ka, bits = p.codes(a, codes), tensor(codes.shape, a), tensor(codes.shape, width)
        y = p.op(f"quant.scast {x}", ka, bits)
        kb = tensor(codes.shape, b)
        y = p.op(f"quant.scast {y}", bits, kb)
        z = p.op(f"quant.scast {x}", ka, bits)
        p.returns(p.op(f"quant.scast {z}", bits, ka), ka)
        yield p.returns(y, kb)
