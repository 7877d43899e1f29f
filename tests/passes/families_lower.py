"""Families of lower-composites: what is exact is compared on codes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, TENTH, family, rounding
from families_combine import CONTRACTIONS, RANDOM, biases, samples
from families_integerize import Floats, f32
from families_move import SHAPE, shaped
from rewrite_support import Program, per_axis, quant, tensor

LOWER = "lower-composites{numerics=ties}"
OUTS = [quant("i8", 4.0, 3), quant("u8", 30.0, 128), quant("i8", TENTH, 0)]


@family("lower-composite", pipeline=LOWER)
def contractions() -> Iterator[Program]:
    """Sums of integers, with a bias on their scale, beside it, in floats, and per axis."""
    contractions = [c for c in CONTRACTIONS if c.channels]
    for n, (a, c) in enumerate(product(GRID, contractions)):
        several = n % 3 == 1
        weight = quant("i8", TENTH)
        if several:
            weight = c.per_channel("i8", [(s, 0) for s in (0.5, TENTH, 1.0, 0.25)])
        p = Program(f"{c.text} of {a}, {weight}")
        names = [p.codes(a, samples(a, c.source))]
        names.append(p.constant(RANDOM.integers(-127, 128, c.weight), weight, "i8"))
        bias = biases(c, a, TENTH)[1 + n % 3]
        if several:
            scale = float(a.rpartition(" ")[2].partition(":")[0])
            scales = c.bias_scales((0.5, TENTH, 1.0, 0.25))
            bias = per_axis("i32", 0, [(scale * s, 0) for s in scales])
        codes = RANDOM.integers(-300, 300, c.channels)
        if bias == "f32":
            names.append(p.constant((codes * TENTH).astype(np.float32), "f32", "f32"))
        else:
            names.append(p.constant(codes, bias, "i32"))
        kinds = [tensor(c.source, a), tensor(c.weight, weight), tensor((c.channels,), bias)]
        out = tensor(c.result, OUTS[n % 3])
        text = f"{c.text.format(', '.join(names))} {rounding(ROUNDINGS[n % 3])}"
        yield p.returns(p.nn(text, kinds, out), out)


@family("lower-composite", pipeline=LOWER)
def means() -> Iterator[Program]:
    """Means of codes are sums of integers and one division."""
    for n, (a, axes) in enumerate(product(GRID, ([1], [0, 2], [3]))):
        p = Program(f"reduce_mean of {a}")
        x = p.codes(a, shaped(a)[0])
        shape = tuple(1 if d in axes else extent for d, extent in enumerate(SHAPE))
        out = tensor(shape, OUTS[n % 3])
        text = f"reduce_mean {x} axes {axes} {rounding(ROUNDINGS[n % 3])}"
        yield p.returns(p.nn(text, [tensor(SHAPE, a)], out), out)


@family("lower-composite", pipeline=LOWER, floats="real")
def floats() -> Iterator[Program]:
    """On floats, judged on codes: float64 is not the reals, and ties may round otherwise."""
    texts = [
        "softmax %x axis 1",
        "softmax %x",
        "gelu %x",
        "gelu %x approximate tanh",
        "swish %x",
        "swish %x alpha 1.5",
        "hard_swish %x",
        "hard_sigmoid %x alpha 0.25",
        "reduce_mean %x axes [1, 2]",
        "lrn %x size 3 alpha 0.5",
    ]
    for n, (text, a) in enumerate(product(texts, GRID[:4])):
        p = Floats(f"{text} of {a}")
        x = p.dequantized(a, shaped(a)[0])
        shape = (SHAPE[0], 1, 1, *SHAPE[3:]) if "reduce" in text else SHAPE
        y = p.nn(text.replace("%x", x), [f32(SHAPE)], f32(shape))
        yield p.quantized(y, shape, quant("i8", (TENTH, 0.01)[n % 2], 3))
    for a, bias in product(GRID, (True, False)):
        p = Floats(f"layer_norm of {a}")
        x = p.dequantized(a, shaped(a)[0])
        rows = RANDOM.normal(size=(2, SHAPE[-1])).astype(np.float32)[: 1 + bias]
        names = [p.constant(v, "f32", "f32") for v in rows]
        kinds = [f32(SHAPE), *[f32(SHAPE[-1:])] * len(names)]
        y = p.nn(f"layer_norm {x}, {', '.join(names)} epsilon 0.125", kinds, f32(SHAPE))
        yield p.quantized(y, SHAPE, quant("i8", 0.03, 3))
    for n, (a, masked) in enumerate(product(GRID, (True, False))):
        p = Floats(f"attention of {a}")
        shapes = [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 2)]
        names = [p.dequantized(a, samples(a, shape)) for shape in shapes]
        kinds = [f32(shape) for shape in shapes]
        if masked:
            mask = np.where(np.arange(15).reshape(3, 5) % 4, 0, -8).astype(np.float32)
            names.append(p.constant(mask, "f32", "f32"))
            kinds.append(f32((3, 5)))
        y = p.nn(f"attention {', '.join(names)} scale 0.125", kinds, f32((1, 2, 3, 2)))
        yield p.quantized(y, (1, 2, 3, 2), OUTS[n % 3])
    for n, (a, (kind, gates)) in enumerate(product(GRID, (("lstm", 4), ("gru", 3)))):
        p = Floats(f"{kind} of {a}")
        dirs = 1 + n % 3 // 2
        direction = ("forward", "reverse", "bidirectional")[n % 3]
        shapes = [(dirs, gates * 2, 4), (dirs, gates * 2, 2), (dirs, gates * 4)]
        x = p.dequantized(a, samples(a, (3, 2, 4)))
        arrays = [RANDOM.normal(size=shape).astype(np.float32) for shape in shapes]
        names = [x, *(p.constant(v, "f32", "f32") for v in arrays)]
        kinds = [f32((3, 2, 4)), *map(f32, shapes)]
        text = f"{kind} {', '.join(names)} direction {direction}"
        y = p.nn(text, kinds, f32((3, dirs, 2, 2)))
        yield p.quantized(y, (3, dirs, 2, 2), quant("i8", 0.01, 3))
    for n, a in enumerate(GRID):
        p = Floats(f"batch_norm of {a}")
        x = p.dequantized(a, shaped(a)[0])
        stats = [np.array(v, np.float32) for v in ([1, 0.5], [0, -3], [0.25, 1], [0.5, 4])]
        names = [p.constant(v, "f32", "f32") for v in stats]
        kinds = [f32(SHAPE), *[f32((2,))] * 4]
        y = p.nn(f"batch_norm {x}, {', '.join(names)}", kinds, f32(SHAPE))
        yield p.quantized(y, SHAPE, OUTS[n % 3])
