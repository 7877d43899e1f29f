"""Families of combine-rescale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from families import GRID, ROUNDINGS, TENTH, WIDE, family, pairs, rounding
from rewrite_support import RANDOM, Array, Program, all_codes, per_axis, quant, tensor

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
    "reduce_mean",
    "reduce_sum",
    "resize_linear",
]
BINARY = ["add", "sub", "mul", "div"]


class Contraction(NamedTuple):
    """An op on {}, its operands, and their shapes and that of the result."""

    text: str
    source: tuple[int, ...]
    weight: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def channels(self) -> int:
        """Elements of a bias; 0 where the op takes none."""
        return 0 if self.text.startswith("matmul") else self.result[1]

    @property
    def axis(self) -> int | None:
        """The dimension of the weight that may have a scale per index."""
        if self.text.startswith("matmul"):
            return len(self.weight) - 1 if len(self.weight) > 1 else None
        return 1 if "transpose" in self.text and self.weight[1] > 1 else 0

    def per_channel(self, storage: str, pairs: Sequence[tuple[float, int]]) -> str:
        """A type of the weight with these scales and zero points in turn; the first one
        alone where the op takes no more."""
        if self.axis is None:
            return quant(storage, *pairs[0])
        count = self.weight[self.axis]
        return per_axis(storage, self.axis, [pairs[i % len(pairs)] for i in range(count)])

    def bias_scales(self, scales: Sequence[float]) -> list[float]:
        """Scales of the bias where those of the weight are `scales` in turn."""
        assert self.axis is not None
        count = self.weight[self.axis]
        return [scales[c % count % len(scales)] for c in range(self.channels)]


CONTRACTIONS = [
    Contraction("conv2d {} pads [1, 1, 1, 1]", (1, 3, 5, 5), (4, 3, 3, 3), (1, 4, 5, 5)),
    Contraction("conv2d {} groups 3 strides [2, 2]", (2, 3, 5, 4), (3, 1, 2, 2), (2, 3, 2, 2)),
    Contraction("fully_connected {}", (8, 32), (4, 32), (8, 4)),
    Contraction("matmul {}", (3, 8, 16), (16, 4), (3, 8, 4)),
    Contraction("matmul {}", (8, 16), (16,), (8,)),
    Contraction("matmul {}", (3, 8, 16), (3, 16, 4), (3, 8, 4)),
    Contraction("conv1d {} strides [2] dilations [2]", (2, 3, 9), (4, 3, 3), (2, 4, 3)),
    Contraction(
        "conv3d {} groups 2 pads [0, 1, 0, 0, 0, 1]",
        (1, 4, 2, 3, 4),
        (4, 2, 2, 2, 3),
        (1, 4, 1, 3, 3),
    ),
    Contraction("conv_transpose1d {} strides [3]", (2, 3, 4), (3, 4, 4), (2, 4, 13)),
    Contraction(
        "conv_transpose2d {} strides [2, 1] output_padding [1, 0] groups 2",
        (1, 4, 3, 4),
        (4, 2, 3, 2),
        (1, 4, 8, 5),
    ),
    Contraction("conv_transpose2d {} groups 3", (1, 3, 4, 4), (3, 1, 2, 2), (1, 3, 5, 5)),
    Contraction(
        "conv_transpose3d {} pads [0, 1, 0, 1, 0, 0] dilations [1, 2, 1]",
        (1, 2, 3, 3, 2),
        (2, 3, 2, 2, 2),
        (1, 3, 3, 4, 3),
    ),
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
    if name == "resize_linear":
        text, out = f"{text} sizes [1, 1, 23, 9]", (1, 1, 23, 9)
    if name.startswith("reduce"):
        text, out = f"{text} axes [-1, 0] keepdims false", (1, 16)
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
    c = CONTRACTIONS[number]
    values = RANDOM.integers(-127, 128, c.weight)
    values[values == -128] = 0
    operands = [x, p.constant(values, weight, "i8")]
    kinds = [tensor(c.source, q), tensor(c.weight, weight)]
    if bias:
        codes = RANDOM.integers(-300, 300, c.channels)
        if bias == "f32":
            operands.append(p.constant((codes * TENTH).astype(np.float32), "f32", "f32"))
        else:
            operands.append(p.constant(codes, bias, "i32"))
        kinds.append(tensor((c.channels,), bias))
    kind = tensor(c.result, out)
    return p.returns(p.nn(c.text.format(", ".join(operands)), kinds, kind), kind)


def biases(c: Contraction, x: str, weight_scale: float) -> list[str]:
    """No bias, the product scale in doubles, the same rounded to f32, a float one."""
    product_scale = float(x.rpartition(" ")[2].partition(":")[0]) * weight_scale
    rounded = float(np.float32(product_scale))
    if not c.channels:
        return [""] * 4
    return ["", quant("i32", product_scale), quant("i32", rounded), "f32"]


OUTS = [quant("i8", 4.0, 3), quant("u8", 30.0, 128), quant("i8", TENTH, 0)]


@family("combine-down", pipeline=COMBINE)
def contractions_of_rescaled() -> Iterator[Program]:
    for n, (a, b) in enumerate([*pairs(GRID)] * 2):
        number = n % len(CONTRACTIONS)
        c = CONTRACTIONS[number]
        for m, bias in enumerate(dict.fromkeys(biases(c, b, TENTH))):
            p = Program(f"{c.text} of rescale {a} -> {b}, bias {bias or 'none'}")
            x = p.codes(a, samples(a, c.source))
            x = p.op(f"quant.rescale {x}", tensor(c.source, a), tensor(c.source, b))
            yield contraction(p, number, x, b, quant("i8", TENTH), OUTS[(n + m) % 3], bias)
    for number, c in enumerate(CONTRACTIONS):
        # Bounded, with nothing clipped on the way out.
        a, b = quant("i8", 0.5), quant("i8", 0.75)
        p = Program(f"{c.text} of rescale {a} -> {b}, a wide result")
        kinds = [tensor(c.source, q) for q in (a, b)]
        x = p.op(f"quant.rescale {p.codes(a, samples(a, c.source))}", *kinds)
        yield contraction(p, number, x, b, quant("i8", TENTH), quant("i16", TENTH), "")
    scales = (0.5, TENTH, 1.0, 0.25)
    for a, (number, c) in product([GRID[2], GRID[4], GRID[5]], enumerate(CONTRACTIONS)):
        if not c.channels:
            continue
        p = Program(f"{c.text} per axis, of rescale {a}")
        x = p.codes(a, samples(a, c.source))
        x = p.op(f"quant.rescale {x}", tensor(c.source, a), tensor(c.source, GRID[0]))
        weight = c.per_channel("i8<-127:127>", [(s, 0) for s in scales])
        bias = per_axis("i32", 0, [(0.5 * s, 0) for s in c.bias_scales(scales)])
        yield contraction(p, number, x, GRID[0], weight, OUTS[0], bias)


@family("combine-down", pipeline=COMBINE)
def contractions_of_run_time_values() -> Iterator[Program]:
    """Either side is rescaled, and the other known by its storage only."""
    small = [quant("i8", 0.5), quant("u8", TENTH, 100), quant("i8<-100:90>", 0.25, 7)]
    coarse = [quant("i8", 0.75), quant("u8", 0.25, 90), quant("i8", 0.5, 3)]
    for n, (c, k, side) in enumerate(product(CONTRACTIONS, range(3), range(3))):
        p = Program(f"{c.text}, side {side} rescaled")
        names, kinds = [], []
        for number, shape in enumerate((c.source, c.weight)):
            q, b = small[(k + number) % 3], coarse[(k + number) % 3]
            x = p.codes(q, samples(q, shape))
            if side in (number, 2):
                x, q = p.op(f"quant.rescale {x}", tensor(shape, q), tensor(shape, b)), b
            names.append(x), kinds.append(tensor(shape, q))
        kind = tensor(c.result, quant("i32", 0.01 * (n + 1)))
        yield p.returns(p.nn(c.text.format(", ".join(names)), kinds, kind), kind)


@family("combine-up", pipeline=COMBINE)
def contractions_then_rescale() -> Iterator[Program]:
    for n, (b, target) in enumerate(pairs(GRID)):
        number, a = n % len(CONTRACTIONS), GRID[n % len(GRID)]
        c = CONTRACTIONS[number]
        p = Program(f"rescale {b} -> {target} of {c.text}")
        x = p.codes(a, samples(a, c.source))
        contraction(p, number, x, a, quant("i8", TENTH), b, biases(c, a, TENTH)[n % 4])
        ((y, kind),) = p.results
        p.results.clear()
        result = kind.replace(b, target)
        how = rounding(ROUNDINGS[n % 3])
        yield p.returns(p.op(f"quant.rescale {y} {how}", kind, result), result)


@family("combine-down", pipeline=COMBINE)
def arithmetic_of_all_pairs() -> Iterator[Program]:
    """All pairs of codes, one side rescaled, on a result that clips nothing."""
    sources = [quant("i8", 0.5, 3), quant("u8", TENTH, 131), quant("i8<-100:90>", 0.25, 7)]
    middles = [quant("i8", 0.75, 3), quant("i8", 0.5), quant("u8", 0.4, 128)]
    for n, (name, side, a, b) in enumerate(product(BINARY, range(2), sources, middles)):
        p = Program(f"{name}, side {side} rescaled {a} -> {b}")
        names, kinds = [], []
        for number, shape in enumerate(((256, 1), (1, 256))):
            q = a if number == side else sources[n % 3]
            x = p.codes(q, all_codes(q).reshape(shape))
            if number == side:
                x, q = p.op(f"quant.rescale {x}", tensor(shape, q), tensor(shape, b)), b
            elif name == "div":
                # Away from 0; after rounding, 1.3 is still 1.2 at least.
                bound = ("min 1.3", "max -2.0", "min 0.4 max 3.0")[n // 3 % 3]
                x = p.nn(f"clip {x} {bound}", [tensor(shape, q)], tensor(shape, q))
            names.append(x), kinds.append(tensor(shape, q))
        kind = tensor((256, 256), quant("i32", (0.5, TENTH, 0.03)[n % 3]))
        text = f"{name} {', '.join(names)} {rounding(ROUNDINGS[n % 3])}"
        yield p.returns(p.nn(text, kinds, kind), kind)


@family("join-sum", pipeline=COMBINE)
def sums_of_rescaled() -> Iterator[Program]:
    """All pairs of codes, added in i32 on one scale, as integer code does it."""
    sources = {0.5: quant("i8", 0.5, 3), 0.25: quant("i8<-100:90>", 0.25, 7)}
    sources[0.1] = quant("u8", 0.1, 131)
    targets = {1.0: quant("i8", 1.0, -5), 0.3: quant("u8", 0.3, 90), 0.75: quant("i8", 0.75)}
    wide = quant("i32", 2.0**-20)
    for n, (name, a, step) in enumerate(product(("add", "sub"), sources, targets)):
        b = [*sources][n % 3]
        p = Program(f"{name} of {sources[a]} and {sources[b]} in i32, on {targets[step]}")
        names, kinds = [], []
        for scale, shape in ((a, (256, 1)), (b, (1, 256))):
            q, how = sources[scale], f"multiplier [{round(scale * 2**31)}] shift [11]"
            codes = all_codes(q)
            shape = (len(codes), 1) if shape[1] == 1 else (1, len(codes))
            x, how = p.codes(q, codes.reshape(shape)), f"rounding half_up {how}"
            names.append(p.op(f"quant.rescale {x} {how}", tensor(shape, q), tensor(shape, wide)))
            kinds.append((shape, tensor(shape, wide)))
        shape = (kinds[0][0][0], kinds[1][0][1])
        kind, result = tensor(shape, wide), tensor(shape, targets[step])
        text = f"{name} {', '.join(names)} {rounding(ROUNDINGS[n % 3])}"
        y = p.nn(text, [kind for _, kind in kinds], kind)
        how = f"rounding half_up multiplier [{round(2**28 / step)}] shift [48]"
        yield p.returns(p.op(f"quant.rescale {y} {how}", kind, result), result)


@family("combine-down", pipeline=COMBINE)
def arithmetic_with_constants() -> Iterator[Program]:
    """The other side a constant, a splat, or scales along an axis, broadcast."""
    a, b = quant("i8", 0.5, 3), quant("i8", 0.75, 1)
    row = per_axis("i8", 2, [(0.5, 1), (TENTH, -20), (2.0, 7)])
    others = [((), quant("i8", 0.25, 2)), ((1, 3), quant("u8", TENTH, 77)), ((4, 1, 3), row)]
    for name, (shape, q), side in product(BINARY, others, range(2)):
        if name == "div" and side == 0:
            continue
        p = Program(f"{name} by a constant of {q}")
        x = p.codes(a, samples(a, (4, 8, 3)))
        x = p.op(f"quant.rescale {x}", tensor((4, 8, 3), a), tensor((4, 8, 3), b))
        codes = RANDOM.integers(30, 70, shape)
        y = p.constant(np.asarray(codes), q, "i8")
        names, kinds = [x, y], [tensor((4, 8, 3), b), tensor(shape, q)]
        if side == 0:
            names.reverse(), kinds.reverse()
        kind = tensor((4, 8, 3), quant("i32", TENTH))
        yield p.returns(p.nn(f"{name} {', '.join(names)}", kinds, kind), kind)
