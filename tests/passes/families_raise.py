"""Families of raise-composites: the pieces against the composite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from families import GRID, ROUNDINGS, TENTH, family, rounding
from families_combine import CONTRACTIONS, RANDOM, samples
from families_integerize import Floats, f32
from families_lower import OUTS
from families_move import SHAPE, shaped
from rewrite_support import Program, quant, tensor

RAISE = "raise-composites{numerics=ties}"


@family("raise-function", pipeline=RAISE)
def biases() -> Iterator[Program]:
    """On codes: the sum on the accumulator's scale, and then the bias."""
    contractions = [c for c in CONTRACTIONS if c.channels]
    for n, (a, c) in enumerate(product(GRID, contractions)):
        scale = float(a.rpartition(" ")[2].partition(":")[0]) * TENTH
        weight, sums = quant("i8", TENTH), quant("i32", scale)
        p = Program(f"{c.text} of {a} and a bias")
        names = [p.codes(a, samples(a, c.source))]
        names.append(p.constant(RANDOM.integers(-127, 128, c.weight), weight, "i8"))
        kinds = [tensor(c.source, a), tensor(c.weight, weight)]
        y = p.nn(c.text.format(", ".join(names)), kinds, tensor(c.result, sums))
        shape = (c.channels, *(1,) * (len(c.result) - 2))
        bias = p.constant(RANDOM.integers(-300, 300, shape), sums, "i32")
        out = tensor(c.result, OUTS[n % 3])
        operands = (f"{y}, {bias}", f"{bias}, {y}")[n % 2]
        kinds = [tensor(c.result, sums), tensor(shape, sums)]
        text = f"add {operands} {rounding(ROUNDINGS[n % 3])}"
        yield p.returns(p.nn(text, kinds if n % 2 == 0 else kinds[::-1], out), out)


@family("raise-function", "matmul-to-fully-connected", pipeline=RAISE, floats="real")
def products() -> Iterator[Program]:
    for n, a in enumerate(GRID):
        p = Floats(f"matmul of {a} and a bias")
        x = p.dequantized(a, samples(a, (8, 16)))
        w = p.constant((RANDOM.integers(-99, 99, (16, 4)) / 64).astype(np.float32), "f32", "f32")
        b = p.constant((RANDOM.integers(-99, 99, 4) / 64).astype(np.float32), "f32", "f32")
        y = p.nn(f"matmul {x}, {w}", [f32((8, 16)), f32((16, 4))], f32((8, 4)))
        y = p.nn(f"add {y}, {b}", [f32((8, 4)), f32((4,))], f32((8, 4)))
        yield p.quantized(y, (8, 4), OUTS[n % 3])
        p = Floats(f"matmul of rows of {a} and a bias")
        x = p.dequantized(a, samples(a, (2, 4, 16)))
        w = p.constant((RANDOM.integers(-99, 99, (16, 4)) / 64).astype(np.float32), "f32", "f32")
        shape = ((4,), (1, 4), (1, 1, 4))[n % 3]
        b = p.constant((RANDOM.integers(-99, 99, shape) / 64).astype(np.float32), "f32", "f32")
        y = p.nn(f"matmul {x}, {w}", [f32((2, 4, 16)), f32((16, 4))], f32((2, 4, 4)))
        y = p.nn(f"add {b}, {y}", [f32(shape), f32((2, 4, 4))], f32((2, 4, 4)))
        yield p.quantized(y, (2, 4, 4), OUTS[n % 3])


@family("raise-function", pipeline=RAISE, floats="real")
def columns_of_codes() -> Iterator[Program]:
    """A float bias that is a column of codes, per tensor and per channel."""
    q = "!quant.uniform<i8:f32:0, {0.5, 0.25, 0.125, 1.0}>"
    for n, (a, element) in enumerate(product(GRID, (quant("i8", TENTH), q))):
        p = Floats(f"conv2d of {a} and a column of {element}")
        x = p.dequantized(a, samples(a, (1, 2, 3, 3)))
        w = p.constant((RANDOM.integers(-99, 99, (4, 2, 1, 1)) / 64).astype("f4"), "f32", "f32")
        b = p.constant(RANDOM.integers(-99, 99, (4, 1, 1)), element, "i8")
        b = p.op(f"quant.dcast {b}", tensor((4, 1, 1), element), f32((4, 1, 1)))
        y = p.nn(f"conv2d {x}, {w}", [f32((1, 2, 3, 3)), f32((4, 2, 1, 1))], f32((1, 4, 3, 3)))
        y = p.nn(f"add {y}, {b}", [f32((1, 4, 3, 3)), f32((4, 1, 1))], f32((1, 4, 3, 3)))
        yield p.quantized(y, (1, 4, 3, 3), OUTS[n % 3])


@family("raise-function", pipeline=RAISE, floats="real")
def functions() -> Iterator[Program]:
    for n, a in enumerate(GRID):
        p = Floats(f"swish of {a}")
        x = p.dequantized(a, shaped(a)[0])
        y = p.nn(f"sigmoid {x}", [f32(SHAPE)], f32(SHAPE))
        y = p.nn(f"mul {x}, {y}", [f32(SHAPE)] * 2, f32(SHAPE))
        yield p.quantized(y, SHAPE, OUTS[n % 3])
        p = Floats(f"hard swish of {a}")
        x = p.dequantized(a, shaped(a)[0])
        y = p.nn(f"hard_sigmoid {x} alpha 0.1666666716337204 beta 0.5", [f32(SHAPE)], f32(SHAPE))
        y = p.nn(f"mul {x}, {y}", [f32(SHAPE)] * 2, f32(SHAPE))
        yield p.quantized(y, SHAPE, OUTS[n % 3])
        p = Floats(f"hard swish of {a} as relu6")
        x = p.dequantized(a, shaped(a)[0])
        three, six = (p.constant(np.array(v, np.float32), "f32", "f32") for v in (3, 6))
        y = p.nn(f"add {x}, {three}", [f32(SHAPE), f32(())], f32(SHAPE))
        y = p.nn(f"clip {y} min 0.0 max 6.0", [f32(SHAPE)], f32(SHAPE))
        y = p.nn(f"mul {x}, {y}", [f32(SHAPE)] * 2, f32(SHAPE))
        y = p.nn(f"div {y}, {six}", [f32(SHAPE), f32(())], f32(SHAPE))
        yield p.quantized(y, SHAPE, OUTS[n % 3])
        p = Floats(f"gelu of {a}")
        x = p.dequantized(a, shaped(a)[0])
        numbers = [p.constant(np.array(v, np.float32), "f32", "f32") for v in (2**0.5, 1, 0.5)]
        y = x
        for text in ("div {}, %s", "erf {}", "add {}, %s", "mul {}, " + x, "mul {}, %s"):
            kinds = [f32(SHAPE)]
            if "%s" in text:
                text, kinds = text % numbers.pop(0), [*kinds, f32(())]
            elif "," in text:
                kinds = kinds * 2
            y = p.nn(text.format(y), kinds, f32(SHAPE))
        yield p.quantized(y, SHAPE, OUTS[n % 3])
        p = Floats(f"softmax of {a}")
        x = p.dequantized(a, shaped(a)[0])
        small = f32((*SHAPE[:-1], 1))
        top = p.nn(f"reduce_max {x} axes [3]", [f32(SHAPE)], small)
        y = p.nn(f"sub {x}, {top}", [f32(SHAPE), small], f32(SHAPE))
        y = p.nn(f"exp {y}", [f32(SHAPE)], f32(SHAPE))
        total = p.nn(f"reduce_sum {y} axes [-1]", [f32(SHAPE)], small)
        y = p.nn(f"div {y}, {total}", [f32(SHAPE), small], f32(SHAPE))
        yield p.quantized(y, SHAPE, quant("i8", 0.01, 3))


FOLD = "fold-into-weights{numerics=ties}"


@family("fold-into-weights", pipeline=FOLD, floats="real")
def into_weights() -> Iterator[Program]:
    """Numbers of few bits, of which all products are floats."""
    contractions = [c for c in CONTRACTIONS if c.channels and "transpose" not in c.text]
    for n, (a, c) in enumerate(product(GRID, contractions)):
        p = Floats(f"{c.text} of {a} and a function of its channels")
        x = p.dequantized(a, samples(a, c.source))
        numbers = [RANDOM.integers(-99, 99, shape) / 64 for shape in (c.weight, (c.channels,))]
        w, b = (p.constant(v.astype(np.float32), "f32", "f32") for v in numbers)
        kinds = [f32(c.source), f32(c.weight), f32((c.channels,))]
        names = [x, w, b][: 3 if n % 2 else 2]
        y = p.nn(c.text.format(", ".join(names)), kinds[: len(names)], f32(c.result))
        column = (c.channels, *(1,) * (len(c.result) - 2))
        for text in ("mul {y}, {v}", "sub {v}, {y}", "div {y}, {v}")[n % 3 :]:
            values = 2.0 ** RANDOM.integers(-2, 2, column if n % 5 else ())
            v = p.constant(values.astype(np.float32), "f32", "f32")
            kinds = [f32(c.result), f32(values.shape)]
            kinds = kinds if text.startswith(("mul", "div")) else kinds[::-1]
            y = p.nn(text.format(y=y, v=v), kinds, f32(c.result))
        yield p.quantized(y, c.result, OUTS[n % 3])


@family("raise-function", pipeline=RAISE, floats="real")
def numbers() -> Iterator[Program]:
    """Functions whose properties are numbers in the graph."""
    for n, a in enumerate(GRID):
        p = Floats(f"hard sigmoid of {a}")
        x = p.dequantized(a, shaped(a)[0])
        slope, offset = (p.constant(np.array(v, np.float32), "f32", "f32") for v in (0.25, 0.375))
        y = p.nn(f"mul {slope}, {x}", [f32(()), f32(SHAPE)], f32(SHAPE))
        y = p.nn(f"add {y}, {offset}", [f32(SHAPE), f32(())], f32(SHAPE))
        y = p.nn(f"clip {y} min 0.0 max 1.0", [f32(SHAPE)], f32(SHAPE))
        yield p.quantized(y, SHAPE, OUTS[n % 3])
        p = Floats(f"swish of {a} with a factor")
        x = p.dequantized(a, shaped(a)[0])
        slope = p.constant(np.array(1.5, np.float32), "f32", "f32")
        y = p.nn(f"mul {x}, {slope}", [f32(SHAPE), f32(())], f32(SHAPE))
        y = p.nn(f"sigmoid {y}", [f32(SHAPE)], f32(SHAPE))
        y = p.nn(f"mul {y}, {x}", [f32(SHAPE)] * 2, f32(SHAPE))
        yield p.quantized(y, SHAPE, OUTS[n % 3])
        p = Floats(f"attention of {a}")
        shapes = [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 2)]
        q, k, v = (p.dequantized(a, samples(a, shape)) for shape in shapes)
        eight = p.constant(np.array(8.0, np.float32), "f32", "f32")
        scores = f32((1, 2, 3, 5))
        k = p.nn(f"transpose {k} perm [0, 1, 3, 2]", [f32(shapes[1])], f32((1, 2, 4, 5)))
        y = p.nn(f"matmul {q}, {k}", [f32(shapes[0]), f32((1, 2, 4, 5))], scores)
        y = p.nn(f"div {y}, {eight}", [scores, f32(())], scores)
        if n % 2:
            mask = np.where(np.arange(15).reshape(3, 5) % 4, 0, -8).astype(np.float32)
            mask = p.constant(mask, "f32", "f32")
            y = p.nn(f"add {mask}, {y}", [f32((3, 5)), scores], scores)
        y = p.nn(f"softmax {y}", [scores], scores)
        y = p.nn(f"matmul {y}, {v}", [scores, f32(shapes[2])], f32((1, 2, 3, 2)))
        yield p.quantized(y, (1, 2, 3, 2), OUTS[n % 3])


@family("raise-function", pipeline=RAISE, floats="real")
def steps() -> Iterator[Program]:
    for n, a in enumerate(GRID):
        p = Floats(f"batch norm of {a} in steps")
        y = p.dequantized(a, shaped(a)[0])
        column = ((2, 1, 1), (1, 2, 1, 1))[n % 2]
        for op, numbers in (("sub", [0.5, -3]), ("mul", [0.25, 2]), ("add", [1, 0.75])):
            c = p.constant(np.array(numbers, np.float32).reshape(column), "f32", "f32")
            names, kinds = [y, c], [f32(SHAPE), f32(column)]
            if n % 3 == 1 and op != "sub":
                names, kinds = names[::-1], kinds[::-1]
            y = p.nn(f"{op} {', '.join(names)}", kinds, f32(SHAPE))
        yield p.quantized(y, SHAPE, OUTS[n % 3])


def lstm_steps(p: Floats, x: str, order: Sequence[int]) -> str:
    """The steps of an LSTM on %x [3, 2, 4], taken in this order; what puts them together."""
    row, gates, state, end = (2, 4), (2, 8), (2, 2), 2**31 - 1

    def constant(array: np.ndarray) -> str:
        return p.constant(array.astype(np.float32), "f32", "f32")

    def op(text: str, shapes: Sequence[tuple[int, ...]], result: tuple[int, ...] = state) -> str:
        return p.nn(text, [f32(shape) for shape in shapes], f32(result))

    w, r, b = (constant(RANDOM.integers(-31, 32, s) / 32) for s in ((8, 4), (8, 2), (8,)))
    hidden, cell, shown = None, constant(np.zeros((1, 2))), {}
    for t in order:
        text = f"slice {x} starts [{t}, 0, 0] stops [{t + 1}, {end}, {end}] steps [1, 1, 1]"
        now = op(f"squeeze {op(text, [(3, 2, 4)], (1, *row))} axes [0]", [(1, *row)], row)
        total = op(f"fully_connected {now}, {w}", [row, (8, 4)], gates)
        if hidden is None:
            past, before = constant(np.zeros((1, 8))), (1, 2)
            total = op(f"add {total}, {past}", [gates, (1, 8)], gates)
        else:
            past, before = op(f"fully_connected {hidden}, {r}", [state, (8, 2)], gates), state
            total = op(f"add {total}, {past}", [gates, gates], gates)
        total = op(f"add {total}, {b}", [gates, (8,)], gates)
        columns = [f"starts [0, {2 * k}] stops [{end}, {2 * k + 2}] steps [1, 1]" for k in range(4)]
        *parts, last = (op(f"slice {total} {column}", [gates]) for column in columns)
        into, out, forget = (op(f"sigmoid {value}", [state]) for value in parts)
        last = op(f"tanh {last}", [state])
        new = op(f"mul {into}, {last}", [state, state])
        kept = op(f"mul {forget}, {cell}", [state, before])
        cell = op(f"add {kept}, {new}", [state, state])
        bent = op(f"tanh {cell}", [state])
        hidden = op(f"mul {out}, {bent}", [state, state])
        shown[t] = op(f"unsqueeze {hidden} axes [0, 1]", [state], (1, 1, *state))
    names = ", ".join(shown[t] for t in range(3))
    return op(f"concat {names} axis 0", [(1, 1, *state)] * 3, (3, 1, *state))


@family("raise-recurrent", pipeline=RAISE, floats="real")
def recurrent_steps() -> Iterator[Program]:
    for n, a in enumerate(GRID):
        p = Floats(f"lstm of {a} in steps")
        x = p.dequantized(a, samples(a, (3, 2, 4)))
        y = lstm_steps(p, x, (0, 1, 2) if n % 2 else (2, 1, 0))
        yield p.quantized(y, (3, 1, 2, 2), quant("i8", 2.0**-7, 3))


@family("lower-division", pipeline="lower-division{numerics=ties}", floats="real")
def quotients() -> Iterator[Program]:
    for n, a in enumerate(GRID):
        p = Floats(f"{a} by a value")
        x = p.dequantized(a, shaped(a)[0])
        y = p.nn(f"exp {x}", [f32(SHAPE)], f32(SHAPE))
        total = p.nn(f"reduce_sum {y} axes [1]", [f32(SHAPE)], f32((SHAPE[0], 1, *SHAPE[2:])))
        kinds = [f32(SHAPE), f32((SHAPE[0], 1, *SHAPE[2:]))]
        y = p.nn(f"div {y}, {total}", kinds, f32(SHAPE))
        yield p.quantized(y, SHAPE, OUTS[n % 3])
