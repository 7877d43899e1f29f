"""Families of hoist-rescale, move-casts (each boundary) and type-accumulators."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, WIDE, cast_rounding, family, pairs, rounding
from families_combine import CONTRACTIONS, biases, samples
from families_integerize import Floats, f32
from families_move import BORDER, CHANNELS, CLIPS, MOVEMENTS, SHAPE, Movement, shaped
from rewrite_support import RANDOM, Array, Program, all_codes, per_axis, quant, tensor

HOIST = "hoist-rescale"
INTEGER = "move-casts{boundary=maximize-integer}"
FEWEST = "place-rescales{boundary=minimize-conversions}"
PRESERVE = "move-casts{boundary=preserve}"

CLAMPS = [Movement(text, SHAPE) for text in CLIPS]
GROWING = [
    Movement("expand %x shape [3, 1, 1, 1]", (3, 2, 16, 16)),
    Movement("tile %x repeats [1, 2, 1, 3]", (1, 4, 16, 48), None),
    Movement("repeat %x repeats [1, 1, 2, 2]", (1, 2, 32, 32)),
    Movement("pad %x low [0, 0, 2, 0] high [0, 0, 0, 2] mode edge", (1, 2, 18, 18)),
    Movement("im2col %x kernel [3, 3]", (1, 18, 196), None),
    Movement(
        "resize_nearest %x sizes [1, 2, 20, 17] coordinates asymmetric nearest floor",
        (1, 2, 20, 17),
    ),
]
PICKING = [
    Movement(
        "slice %x starts [0, 1, 2, 0] stops [1, 2, 9, 16] steps [1, 1, 3, 2]", (1, 1, 3, 8), 1
    ),
    Movement("slice %x starts [0, 0, 0, 3] stops [1, 2, 16, 9] steps [1, 1, 1, 1]", (1, 2, 16, 6)),
    Movement("flip %x axes [2]", SHAPE),
    Movement("space_to_depth %x block 2", (1, 8, 8, 8), None),
    Movement("depth_to_space %x block 1", SHAPE),
    Movement("unsqueeze %x axes [0]", (1, *SHAPE), 2),
    Movement("squeeze %x axes [0]", (2, 16, 16), 0),
]


def floats(q: str, move: Movement | None = None) -> Array:
    """On SHAPE: everywhere near the codes of `q`, ties, far outside; NaN too where it is
    moved, not compared."""
    generator = np.random.default_rng(len(q))
    scale = 1.0 if "{" in q else float(q.split(",")[1].split(":")[0])
    some = generator.integers(-700, 700, SHAPE) * (np.float64(scale) / 2)
    special = [np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-40]
    if move is not None and not move.text.startswith(("relu", "clip", "max_pool")):
        special.append(np.nan)
    some.reshape(-1)[: len(special)] = special
    return generator.permutation(some.reshape(-1)).reshape(SHAPE).astype(np.float32)


# -- hoist-rescale ----------------------------------------------------------------


@family("hoist-through-tied", pipeline=HOIST, invalid=BORDER)
def rescaled_below() -> Iterator[Program]:
    moves = [*MOVEMENTS, *GROWING, *PICKING]
    for n, (a, b) in enumerate(pairs(GRID)):
        for move in (*moves[n % 5 :: 5], *CLAMPS[n % 3 :: 3]):
            p = Program(f"rescale {a} -> {b} of {move.text}")
            x = p.codes(a, shaped(a)[0])
            y = p.nn(move.text.replace("%x", x), [tensor(SHAPE, a)], tensor(move.shape, a))
            how = rounding(ROUNDINGS[n % 3])
            kind = tensor(move.shape, b)
            yield p.returns(p.op(f"quant.rescale {y} {how}", tensor(move.shape, a), kind), kind)


@family("hoist-through-tied", pipeline=HOIST)
def channels_rescaled_below() -> Iterator[Program]:
    for (given, wanted), move in product(CHANNELS, [*MOVEMENTS, *CLAMPS]):
        if move.axis is None or "value" in move.text:
            continue
        a, b = (per_axis("i8", move.axis, v) for v in (given, wanted))
        for to in (b, GRID[0]):
            p = Program(f"rescale {a} -> {to} of {move.text}")
            x = p.codes(per_axis("i8", 1, given), shaped(GRID[0])[0])
            source = tensor(SHAPE, per_axis("i8", 1, given))
            y = p.nn(move.text.replace("%x", x), [source], tensor(move.shape, a))
            kind = tensor(move.shape, to)
            yield p.returns(p.op(f"quant.rescale {y}", tensor(move.shape, a), kind), kind)


@family("hoist-through-tied", pipeline=HOIST)
def several_rescaled_below() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        codes = np.stack([all_codes(a)] * 2)
        size = codes.shape[1]
        p = Program(f"concat and split of {a}, rescaled -> {b}")
        x, y = p.codes(a, codes), p.codes(a, codes[:, ::-1])
        wide = tensor((2, 2 * size), a)
        other = x if n % 4 == 0 else y
        z = p.nn(f"concat {x}, {other} axis 1", [tensor(codes.shape, a)] * 2, wide)
        to = tensor((2, 2 * size), b)
        p.returns(p.op(f"quant.rescale {z}", wide, to), to)
        half, out = tensor((1, size), a), tensor((1, size), b)
        number = len(p.lines)
        p.lines.append(
            f"%{number}:2 = nn.split {x} axis 0 sizes [1, 1] : "
            f"({tensor(codes.shape, a)}) -> ({half}, {half})"
        )
        ways = ["half_even", "half_away" if n % 3 == 0 else "half_even"]
        for part, way in enumerate(ways):
            text = f"quant.rescale %{number}#{part} {rounding(way)}"
            p.returns(p.op(text, half, out), out)
        yield p


# -- move-casts: quantize --------------------------------------------------------------


def quantized_below(move: Movement, q: str, below: str, how: str) -> Program:
    """quantize(f(x)) of a float argument."""
    p = Floats(f"quantize of {move.text} -> {below}")
    y = p.nn(
        move.text.replace("%x", p.argument(f32(SHAPE), floats(q))), [f32(SHAPE)], f32(move.shape)
    )
    return p.quantized(y, move.shape, below, how)


def channel_moves() -> Iterator[tuple[str, str, Movement]]:
    for (_, wanted), move in product(CHANNELS, [*MOVEMENTS, *CLAMPS, *GROWING, *PICKING]):
        if move.axis is not None and "value" not in move.text and move.shape[move.axis] == 2:
            yield per_axis("i8", 1, wanted), per_axis("i8", move.axis, wanted), move


@family("hoist-quantize", pipeline=INTEGER)
def quantized_arguments() -> Iterator[Program]:
    moves = [*MOVEMENTS, *CLAMPS, *GROWING, *PICKING]
    for n, q in enumerate([*GRID, *GRID, *GRID, WIDE[0]]):
        for move in moves:
            yield quantized_below(move, q, q, ROUNDINGS[(n // len(GRID)) % 3])
    for q, below, move in channel_moves():
        yield quantized_below(move, q, below, "half_even")


@family("place-cast", pipeline=FEWEST)
def fewer_quantized_above() -> Iterator[Program]:
    for n, q in enumerate(GRID):
        for move in [*GROWING, *MOVEMENTS]:
            yield quantized_below(move, q, q, ROUNDINGS[n % 3])
    for q, below, move in channel_moves():
        yield quantized_below(move, q, below, "half_even")


@family("hoist-quantize", pipeline=PRESERVE)
def quantized_inside() -> Iterator[Program]:
    for n, q in enumerate(GRID):
        for move in [*MOVEMENTS, *CLAMPS, *GROWING, *PICKING][n % 3 :: 3]:
            p = Floats(f"quantize of {move.text} of arithmetic -> {q}")
            x = p.argument(f32(SHAPE), floats(q))
            x = p.nn(
                f"add {x}, {x}" if n % 5 == 0 else f"mul {x}, {x}", [f32(SHAPE)] * 2, f32(SHAPE)
            )
            y = p.nn(move.text.replace("%x", x), [f32(SHAPE)], f32(move.shape))
            yield p.quantized(y, move.shape, q, ROUNDINGS[n % 3])


@family("place-cast", pipeline=FEWEST, invalid=BORDER)
def fewer_quantized_below() -> Iterator[Program]:
    for n, q in enumerate(GRID):
        for move in [*PICKING, *MOVEMENTS, *GROWING]:
            yield quantized_above(move, q, q, ROUNDINGS[n % 3])
    for q, below, move in channel_moves():
        yield quantized_above(move, q, below, "half_even")
    q, below = per_axis("i8", 1, CHANNELS[0][1]), quant("i8", 0.5, 0)
    yield quantized_above(PICKING[0], q, below, "half_away")


def quantized_above(move: Movement, q: str, below: str, how: str) -> Program:
    """f(quantize(x)) of a float argument."""
    p = Program(f"{move.text} of quantize -> {below}")
    x = p.argument(f32(SHAPE), floats(q, move))
    x = p.op(f"quant.qcast {x} {cast_rounding(how)}", f32(SHAPE), tensor(SHAPE, q))
    kind = tensor(move.shape, below)
    return p.returns(p.nn(move.text.replace("%x", x), [tensor(SHAPE, q)], kind), kind)


@family("place-cast", pipeline=FEWEST)
def selected() -> Iterator[Program]:
    """Two operands, one result: half as many elements to quantize below."""
    for n, q in enumerate(GRID):
        p = Program(f"select of quantize -> {q}")
        condition = p.argument(tensor(SHAPE, "i1"), np.arange(512).reshape(SHAPE) % 3 == 0)
        kind = tensor(SHAPE, q)
        names: list[str] = []
        for way in ("half_even", "half_away" if n % 4 == 1 else "half_even"):
            x = p.argument(f32(SHAPE), np.negative(floats(q)) if len(names) else floats(q))
            names.append(p.op(f"quant.qcast {x} {cast_rounding(way)}", f32(SHAPE), kind))
        text = f"select {condition}, {', '.join(names)}"
        yield p.returns(p.nn(text, [tensor(SHAPE, "i1"), kind, kind], kind), kind)


# -- move-casts: dequantize ----------------------------------------------------------------


def dequantized_above(move: Movement, q: str) -> Program:
    """f(dequantize(q)) as a result."""
    p = Floats(f"{move.text} of dequantize of {q}")
    x = p.dequantized(q, shaped(GRID[0])[0] if "{" in q else shaped(q)[0])
    kind = f32(move.shape)
    return p.returns(p.nn(move.text.replace("%x", x), [f32(SHAPE)], kind), kind)


@family("sink-dequantize", pipeline=INTEGER)
def dequantized_results() -> Iterator[Program]:
    for q, move in product(GRID, [*MOVEMENTS, *CLAMPS, *GROWING, *PICKING]):
        yield dequantized_above(move, q)
    for q, _, move in channel_moves():
        yield dequantized_above(move, q)


@family("place-cast", pipeline=FEWEST)
def fewer_dequantized_below() -> Iterator[Program]:
    for q, move in product(GRID, [*PICKING, *MOVEMENTS]):
        yield dequantized_above(move, q)
    for q, _, move in channel_moves():
        yield dequantized_above(move, q)


@family("sink-dequantize", pipeline=PRESERVE)
def dequantized_inside() -> Iterator[Program]:
    for n, q in enumerate(GRID):
        for move in [*MOVEMENTS, *CLAMPS, *GROWING, *PICKING][n % 3 :: 3]:
            p = Floats(f"arithmetic on {move.text} of dequantize of {q}")
            y = p.nn(
                move.text.replace("%x", p.dequantized(q, shaped(q)[0])),
                [f32(SHAPE)],
                f32(move.shape),
            )
            kind = f32(move.shape)
            yield p.returns(p.nn(f"mul {y}, {y}", [kind] * 2, kind), kind)


@family("place-cast", pipeline=FEWEST, invalid=BORDER)
def fewer_dequantized_above() -> Iterator[Program]:
    for q, move in product(GRID, [*GROWING, *MOVEMENTS, *PICKING]):
        yield dequantized_below(move, q, q)
    for q, below, move in channel_moves():
        yield dequantized_below(move, q, below)
    for q in GRID:
        p = Program(f"gather of {q}, dequantized")
        indices = RANDOM.integers(-2, 2, (9,))
        x = p.codes(q, shaped(q)[0])
        i = p.argument("tensor<9xi64>", indices)
        kind = tensor((1, 9, 16, 16), q)
        y = p.nn(f"gather {x}, {i} axis 1", [tensor(SHAPE, q), "tensor<9xi64>"], kind)
        out = f32((1, 9, 16, 16))
        yield p.returns(p.op(f"quant.dcast {y}", kind, out), out)


def dequantized_below(move: Movement, q: str, below: str) -> Program:
    """dequantize(f(q)) as a result."""
    p = Program(f"dequantize of {move.text} of {q}")
    x = p.codes(q, shaped(GRID[0])[0] if "{" in q else shaped(q)[0])
    kind = tensor(move.shape, below)
    y = p.nn(move.text.replace("%x", x), [tensor(SHAPE, q)], kind)
    return p.returns(p.op(f"quant.dcast {y}", kind, f32(move.shape)), f32(move.shape))


# -- type-accumulators ---------------------------------------------------------------------


@family("type-accumulator", pipeline="type-accumulators", floats="real")
def accumulated() -> Iterator[Program]:
    scales = [(s, 0) for s in (0.5, 0.375, 1.0, 0.25)]
    shifted = [(0.5, 3), (0.375, -9), (1.0, 0), (0.25, 1)]
    for n, a in enumerate([*GRID, quant("i16", 0.375, 100)] * 12):
        c = CONTRACTIONS[n % len(CONTRACTIONS)]
        weight = [
            quant("i8", 0.375),
            quant("u8", 0.5, 77),
            c.per_channel("i8", scales),
            c.per_channel("i8", shifted),
        ][n // len(CONTRACTIONS) % 4]
        p = Floats(f"{c.text} of {a} by {weight}")
        operands = [p.dequantized(a, samples(a, c.source))]
        codes = RANDOM.integers(0 if "u8" in weight else -127, 128, c.weight)
        operands.append(p.constant_codes(weight, codes, "i8"))
        kinds = [f32(c.source), f32(c.weight)]
        bias = biases(c, a, 0.375)[n % 4]
        if bias == "f32":
            values = RANDOM.integers(-99, 99, c.channels).astype(np.float32)
            operands.append(p.constant(values, "f32", "f32"))
        elif bias:
            codes = RANDOM.integers(-300, 300, c.channels)
            operands.append(p.constant_codes(bias, codes, "i32"))
        kinds += [f32((c.channels,))] * bool(bias)
        y = p.nn(c.text.format(", ".join(operands)), kinds, f32(c.result))
        yield p.returns(y, f32(c.result))


@family("type-accumulator", pipeline="type-accumulators", floats="real")
def accumulated_at_the_limit() -> Iterator[Program]:
    """Largest codes everywhere: a bias, or codes outside the bounds, may leave 32 bits."""
    for storage, bias, depth in product(
        ["i16", "i16<-100:100>", "u8", "i8"], [None, 0, 2**31 - 1, -(2**31)], [1, 2, 3]
    ):
        q = quant(storage, 0.5)
        p = Floats(f"{depth} products of {storage}, bias {bias}")
        ends = np.array([all_codes(q)[0], all_codes(q)[-1]])
        x = p.dequantized(q, np.repeat(ends[:, None], depth, 1))
        w = p.dequantized(q, np.repeat(ends[:, None], depth, 1))
        operands, kinds = [x, w], [f32((2, depth))] * 2
        if bias is not None:
            held = quant("i32", 0.25)
            operands.append(p.constant_codes(held, np.array([bias, -1]), "i32"))
            kinds.append(f32((2,)))
        text = f"fully_connected {', '.join(operands)}"
        yield p.returns(p.nn(text, kinds, f32((2, 2))), f32((2, 2)))
