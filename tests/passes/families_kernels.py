"""Families of what a runtime's kernels are fast with: other channels, axes and pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from families import GRID, ROUNDINGS, family, pairs, rounding
from families_combine import samples
from rewrite_support import Program, all_codes, per_axis, quant, tensor

SLOPES = [
    [0.25, -0.5],
    [1.0, 1.0],
    [1.5, 2.0],
    [0.0, 0.1],
]
CONVOLUTIONS = [
    # text, input, weight, result
    ("pads [1, 1, 1, 1]", (1, 3, 4, 5), (4, 3, 3, 3), (1, 4, 4, 5)),
    ("strides [2, 2]", (2, 1, 5, 5), (3, 1, 2, 2), (2, 3, 2, 2)),
    ("dilations [2, 1]", (1, 2, 5, 4), (1, 2, 2, 1), (1, 1, 3, 4)),
]


@family("prelu-to-product", pipeline="form-prelu{numerics=ties}")
def prelus() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        held = SLOPES[n % len(SLOPES)]
        p = Program(f"prelu {held} of {a} -> {b}")
        codes = np.stack([all_codes(a)] * 2)[None, :, :]
        x, kind, result = p.codes(a, codes), *(tensor(codes.shape, q) for q in (a, b))
        column = np.array(held, np.float32).reshape(2, 1)
        slopes, type_ = p.constant(column, "f32", "f32"), tensor((2, 1), "f32")
        how = rounding(ROUNDINGS[n % 3])
        yield p.returns(p.nn(f"prelu {x}, {slopes} {how}", [kind, type_], result), result)


EDGES = [0.0, -0.0, 1.5, -1.5, 3e38, -3e38, 1e-45, -1e-45, np.inf, -np.inf, np.nan, 0.1]


@family("prelu-to-product", pipeline="form-prelu{numerics=ties}")
def prelus_of_floats() -> Iterator[Program]:
    """On floats that nobody knows: infinities, numbers that are none, and both zeros."""
    for held in ([0.25, 1.0], [1.0, 3.5], [1e-30, 0.1]):
        p = Program(f"prelu {held} of floats")
        values = np.stack([np.array(EDGES, np.float32)] * 2)[None]
        kind = tensor(values.shape, "f32")
        x = p.argument(kind, values)
        slopes = p.constant(np.array(held, np.float32).reshape(2, 1), "f32", "f32")
        text = f"prelu {x}, {slopes}"
        yield p.returns(p.nn(text, [kind, tensor((2, 1), "f32")], kind), kind)


@family("softmax-along-last", pipeline="softmax-last{where=all}")
def softmaxes() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        shape = [(2, 3, 4), (5, 2), (1, 2, 3, 2)][n % 3]
        axis = [1, 0, -3][n % 3]
        p = Program(f"softmax {axis} of {a} -> {b}")
        x, kind, result = p.codes(a, samples(a, shape)), tensor(shape, a), tensor(shape, b)
        how = rounding(ROUNDINGS[n % 3])
        yield p.returns(p.nn(f"softmax {x} axis {axis} {how}", [kind], result), result)


@family("widen-convolution", pipeline="widen-channels{multiple=4}")
def convolutions() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        text, source, shape, result = CONVOLUTIONS[n % len(CONVOLUTIONS)]
        along = n % 2 == 1
        scales = [(0.01, 2), (0.02, -5), (0.005, 0), (0.04, 7)][: shape[0]]
        w = per_axis("i8", 0, scales) if along else quant("i8", 0.01, 3)
        p = Program(f"conv2d {text} {a} {w} -> {b}")
        x = p.codes(a, samples(a, source))
        weight = p.constant(samples(quant("i8", 0.01, 3), shape), w, "i8")
        operands, kinds = [x, weight], [tensor(source, a), tensor(shape, w)]
        if n % 3:
            offsets = np.arange(shape[0], dtype=np.float32) - 1.5
            operands.append(p.constant(offsets, "f32", "f32"))
            kinds.append(tensor(offsets.shape, "f32"))
        how = rounding(ROUNDINGS[n % 3])
        made = p.nn(f"conv2d {', '.join(operands)} {text} {how}", kinds, tensor(result, b))
        yield p.returns(made, tensor(result, b))


@family("finer-weights", pipeline="finer-weights")
def few_bits() -> Iterator[Program]:
    """Weights of few bits, with a scale or several, under inputs of few bits and of all."""
    for n, (a, b) in enumerate(pairs(GRID)):
        text, source, shape, result = CONVOLUTIONS[n % len(CONVOLUTIONS)]
        bound = [1, 3, 7, 15][n % 4]
        storage = f"i8<-{bound}:{bound}>"
        scales = [(0.01, 0), (0.02, 0), (0.005, 0), (0.04, 0)][: shape[0]]
        w = per_axis(storage, 0, scales) if n % 2 else quant(storage, 0.01, 0)
        p = Program(f"conv2d {text} {a} {w} -> {b}")
        x = p.codes(a, samples(a, source))
        codes = np.resize(np.arange(-bound, bound + 1, dtype=np.int8), shape)
        weight = p.constant(codes, w, "i8")
        offsets = p.constant(np.arange(shape[0], dtype=np.float32) / 7 - 0.4, "f32", "f32")
        kinds = [tensor(source, a), tensor(shape, w), tensor((shape[0],), "f32")]
        how = rounding(ROUNDINGS[n % 3])
        made = p.nn(f"conv2d {x}, {weight}, {offsets} {text} {how}", kinds, tensor(result, b))
        yield p.returns(made, tensor(result, b))


PIXELS = [
    ("depth_to_space %x block 2 mode DCR", (1, 8, 2, 3), (1, 2, 4, 6)),
    ("depth_to_space %x block 3 mode DCR", (2, 9, 1, 3), (2, 1, 3, 9)),
    ("resize_nearest %x sizes [1, 2, 6, 4]", (1, 2, 2, 4), (1, 2, 6, 4)),
    (
        "resize_nearest %x scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor",
        (2, 3, 2, 3),
        (2, 3, 4, 6),
    ),
]


@family("pixels-moved", pipeline="channels-last{where=all}")
def pixels() -> Iterator[Program]:
    for n, a in enumerate(GRID):
        text, source, result = PIXELS[n % len(PIXELS)]
        p = Program(f"{text} of {a}")
        x = p.codes(a, samples(a, source))
        kind = tensor(result, a)
        yield p.returns(p.nn(text.replace("%x", x), [tensor(source, a)], kind), kind)
