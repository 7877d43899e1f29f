"""Configurations of every op that has a TOSA, as lines of one function per group."""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np


def uniform(shape: Sequence[int], params: str) -> str:
    """A tensor of quantized elements; `params` is "i8:f32, 0.5:3" (or more)."""
    return f"tensor<{'x'.join(map(str, shape))}x!quant.uniform<{params}>>"


def plain(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


X = "i8:f32, 0.05:3"
U = "u8:f32, 0.05:131"
Y = "i8:f32, 0.11:-7"


@dataclass
class Program:
    """A function in the making: what it takes, its lines, what it gives."""

    arguments: dict[str, str] = field(default_factory=dict[str, str])
    lines: list[str] = field(default_factory=list[str])
    results: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    _numbers: Iterator[int] = field(default_factory=count)
    _drawn: np.random.Generator = field(default_factory=lambda: np.random.default_rng(8))

    def argument(self, kind: str) -> str:
        """The argument of this type (one for all that ask)."""
        return self.arguments.setdefault(kind, f"%a{len(self.arguments)}")

    def name(self) -> str:
        return f"%v{next(self._numbers)}"

    def constant(self, shape: Sequence[int], params: str, spread: float = 1.0) -> str:
        """Random codes of the whole storage; the value's name."""
        from qdialect.algebra.qparams import Storage

        spelling = params.partition(":")[0].partition("<")[0]
        storage = Storage.of(spelling)
        low, high = storage.full_range
        reach = int(min(high, 1 << 14) * spread)
        codes = self._drawn.integers(max(low, -reach - 1), min(high, reach) + 1, tuple(shape))
        name, dense = self.name(), plain(shape, f"i{storage.width}")
        self.lines.append(
            f"{name} = nn.constant dense<{codes.tolist()}> : {dense} : {uniform(shape, params)}"
        )
        return name

    def numbers(self, values: object, element: str) -> tuple[str, str]:
        """A constant that is not quantized; its name and type."""
        array = np.array(values)
        kind = plain(array.shape, element)
        name = self.name()
        listed = str(array.tolist()).lower()
        self.lines.append(f"{name} = nn.constant dense<{listed}> : {kind} : {kind}")
        return name, kind

    def op(
        self, text: str, operands: Sequence[tuple[str, str]], *results: str, keep: bool = True
    ) -> str:
        """`text` has {} for operands; the (first) result's name. Kept ones are returned."""
        names = [self.name() for _ in results]
        given = ", ".join(k for _, k in operands)
        kinds = results[0] if len(results) == 1 else f"({', '.join(results)})"
        body = text.format(*(n for n, _ in operands))
        self.lines.append(f"{', '.join(names)} = {body} : ({given}) -> {kinds}")
        if keep:
            self.results += zip(names, results, strict=True)
        return names[0]

    def cast(self, text: str, operand: tuple[str, str], result: str, keep: bool = True) -> str:
        """A cast of `quant`; the result's name."""
        name, (source, kind) = self.name(), operand
        self.lines.append(f"{name} = {text} {source} : {kind} to {result}")
        if keep:
            self.results.append((name, result))
        return name

    @property
    def text(self) -> str:
        given = ", ".join(f"{name}: {kind}" for kind, name in self.arguments.items())
        kinds = ", ".join(kind for _, kind in self.results)
        names = ", ".join(name for name, _ in self.results)
        body = "\n".join(f"  {line}" for line in self.lines)
        return (
            f"func.func @main({given}) -> ({kinds}) {{\n{body}\n"
            f"  func.return {names} : {kinds}\n}}\n"
        )


#: rank, shape of x, of the weight, attributes, shape of y, params of x, w, y
_CONVOLUTIONS = [
    (1, (2, 3, 9), (4, 3, 3), "strides [2] pads [1, 0]", (2, 4, 4), X, "i8:f32, 0.02", Y),
    (1, (1, 4, 11), (4, 1, 4), "groups 4 dilations [2] pads [3, 2]", (1, 4, 10), U, "i8:f32, 0.02", Y),
    (2, (2, 3, 7, 8), (4, 3, 3, 3), "strides [2, 3] pads [1, 0, 0, 2]", (2, 4, 3, 3), X, "i8:f32, 0.02", Y),
    (2, (1, 3, 9, 6), (2, 3, 3, 2), "dilations [2, 3] pads [0, 1, 3, 1]", (1, 2, 8, 5), X, "i8:f32, 0.02:9", Y),
    (2, (1, 6, 5, 5), (6, 2, 3, 3), "groups 3", (1, 6, 3, 3), X, "i8:f32:0, {0.01, 0.02, 0.03, 0.05, 0.007, 0.011}", Y),
    (2, (1, 3, 6, 7), (3, 1, 3, 3), "groups 3 strides [2, 2] pads [1, 1, 1, 1]", (1, 3, 3, 4), U, "i8:f32:0, {0.01, 0.02, 0.03}", U),
    (2, (1, 3, 5, 5), (6, 1, 2, 3), "groups 3", (1, 6, 4, 3), X, "u8:f32, 0.01:120", Y),
    (2, (1, 4, 4, 4), (3, 4, 1, 1), "", (1, 3, 4, 4), "i4:f32, 0.3:-2", "i4:f32, 0.1:1", "i4:f32, 2.0:1"),
    (2, (1, 4, 4, 4), (3, 4, 1, 1), "", (1, 3, 4, 4), X, "u4:f32, 0.1:7", "i16:f32, 0.001"),
    (2, (1, 4, 4, 4), (3, 4, 2, 2), "", (1, 3, 3, 3), "u4:f32, 0.3:9", "i2:f32, 0.1", "u4:f32, 2.0:9"),
    (2, (1, 4, 4, 4), (3, 4, 2, 2), "rounding half_away", (1, 3, 3, 3), X, "u2:f32, 0.1:1", Y),
    (3, (1, 2, 4, 5, 3), (3, 2, 2, 3, 2), "strides [1, 2, 1] pads [1, 0, 1, 0, 1, 0]", (1, 3, 4, 2, 3), X, "i8:f32, 0.02:-4", Y),
    (3, (1, 4, 3, 3, 3), (4, 2, 2, 2, 2), "groups 2 dilations [1, 2, 1]", (1, 4, 2, 1, 2), X, "i8:f32:0, {0.01, 0.02, 0.03, 0.05}", Y),
]  # fmt: skip


def convolutions(p: Program) -> None:
    """1, 2 and 3 dimensions; groups, depthwise, strides, dilations and pads that fit
    unevenly; zero points of weights; per channel; storages of 2 to 8 bits."""
    for n, (rank, x, w, given, y, px, pw, py) in enumerate(_CONVOLUTIONS):
        operands = [
            (p.argument(uniform(x, px)), uniform(x, px)),
            (p.constant(w, pw, 0.3 if "8" in pw else 1.0), uniform(w, pw)),
        ]
        text = f"nn.conv{rank}d {{}}, {{}}"
        if n % 2 and "{" not in pw:
            scale = float(px.split(", ")[1].partition(":")[0]) * float(
                pw.split(", ")[1].partition(":")[0]
            )
            bias = f"i32:f32, {scale!r}"
            operands.append((p.constant((w[0],), bias, 0.2), uniform((w[0],), bias)))
            text = f"nn.conv{rank}d {{}}, {{}}, {{}}"
        p.op(f"{text} {given}", operands, uniform(y, py))


#: rank, x, weight, attributes, y, params of the weight
_TRANSPOSED = [
    (1, (1, 3, 5), (3, 2, 4), "strides [2] pads [1, 2]", (1, 2, 9), "i8:f32, 0.02"),
    (1, (1, 4, 5), (4, 2, 3), "groups 2 dilations [2]", (1, 4, 9), "i8:f32, 0.02:5"),
    (2, (2, 3, 4, 3), (3, 2, 3, 3), "strides [2, 2] pads [1, 1, 1, 1] output_padding [1, 0]", (2, 2, 8, 5), "i8:f32:1, {0.02, 0.03}"),
    (2, (1, 4, 3, 3), (4, 1, 2, 2), "groups 4 strides [3, 2]", (1, 4, 8, 6), "i8:f32, 0.03"),
    (2, (1, 2, 4, 4), (2, 3, 2, 2), "dilations [2, 1] strides [1, 2] pads [3, 0, 0, 3]", (1, 3, 3, 5), "u8:f32, 0.02:99"),
]  # fmt: skip


def transposed(p: Program) -> None:
    for rank, x, w, given, y, pw in _TRANSPOSED:
        operands = [
            (p.argument(uniform(x, X)), uniform(x, X)),
            (p.constant(w, pw, 0.3), uniform(w, pw)),
        ]
        p.op(f"nn.conv_transpose{rank}d {{}}, {{}} {given}", operands, uniform(y, Y))


def products(p: Program) -> None:
    """fully_connected and matmul, with batches that are there, broadcast or are vectors."""
    x = uniform((5, 7), X)
    for params in ("i8:f32, 0.02:-3", "i8:f32:0, {0.01, 0.02, 0.03, 0.04}", "u4:f32, 0.1:8"):
        w = p.constant((4, 7), params, 0.5)
        p.op("nn.fully_connected {}, {}", [(p.argument(x), x), (w, uniform((4, 7), params))],
             uniform((5, 4), Y))  # fmt: skip
    shapes = [
        ((5, 7), (7, 3), (5, 3)),
        ((2, 3, 5, 7), (2, 3, 7, 2), (2, 3, 5, 2)),
        ((2, 5, 7), (7, 3), (2, 5, 3)),
        ((2, 1, 5, 7), (1, 3, 7, 2), (2, 3, 5, 2)),
        ((5, 7), (2, 7, 3), (2, 5, 3)),
        ((7,), (7, 3), (3,)),
        ((5, 7), (7,), (5,)),
    ]
    for a, b, y in shapes:
        ka, kb = uniform(a, X), uniform(b, U)
        p.op("nn.matmul {}, {}", [(p.argument(ka), ka), (p.argument(kb), kb)], uniform(y, Y))


def pools(p: Program) -> None:
    """Windows that hang over the ends, count padding or not; reductions, kept or not."""
    x1, x2, x3 = (uniform(s, X) for s in ((2, 3, 11), (1, 3, 9, 7), (1, 2, 4, 5, 6)))
    u2 = uniform((1, 3, 9, 7), U)
    p.op("nn.max_pool1d {} kernel [3] strides [2] ceil_mode true", [(p.argument(x1), x1)],
         uniform((2, 3, 5), X))  # fmt: skip
    p.op("nn.max_pool2d {} kernel [2, 3] strides [2, 2] pads [1, 1, 0, 1] ceil_mode true",
         [(p.argument(u2), u2)], uniform((1, 3, 5, 4), U))  # fmt: skip
    p.op("nn.max_pool3d {} kernel [2, 3, 2] strides [1, 2, 2] pads [1, 0, 1, 0, 1, 0]",
         [(p.argument(x3), x3)], uniform((1, 2, 4, 2, 3), X))  # fmt: skip
    p.op("nn.avg_pool1d {} kernel [3] strides [2] pads [1, 1]", [(p.argument(x1), x1)],
         uniform((2, 3, 6), Y))  # fmt: skip
    for given in ("", "count_include_pad true", "rounding half_up"):
        p.op(f"nn.avg_pool2d {{}} kernel [3, 2] strides [2, 2] pads [1, 0, 1, 1] {given}",
             [(p.argument(x2), x2)], uniform((1, 3, 5, 4), Y))  # fmt: skip
    p.op("nn.avg_pool2d {} kernel [2, 2] strides [2, 2] ceil_mode true",
         [(p.argument(u2), u2)], uniform((1, 3, 5, 4), U))  # fmt: skip
    p.op("nn.avg_pool3d {} kernel [2, 3, 2] strides [1, 2, 2] pads [1, 0, 1, 0, 1, 0]",
         [(p.argument(x3), x3)], uniform((1, 2, 4, 2, 3), Y))  # fmt: skip
    p.op("nn.avg_pool3d {} kernel [4, 1, 2] count_include_pad true pads [0, 0, 1, 0, 0, 1]",
         [(p.argument(x3), x3)], uniform((1, 2, 1, 5, 7), Y))  # fmt: skip
    p.op("nn.global_avg_pool1d {}", [(p.argument(x1), x1)], uniform((2, 3, 1), Y))
    p.op("nn.global_avg_pool2d {}", [(p.argument(u2), u2)], uniform((1, 3, 1, 1), Y))
    p.op("nn.global_avg_pool3d {}", [(p.argument(x3), x3)], uniform((1, 2, 1, 1, 1), Y))
    p.op("nn.reduce_sum {} axes [1, 3]", [(p.argument(x2), x2)], uniform((1, 1, 9, 1), Y))
    p.op("nn.reduce_mean {} axes [-1] keepdims false", [(p.argument(x2), x2)],
         uniform((1, 3, 9), Y))  # fmt: skip
    p.op("nn.reduce_max {} axes [2] keepdims false", [(p.argument(u2), u2)],
         uniform((1, 3, 7), U))  # fmt: skip
    p.op("nn.reduce_min {} axes [1, 2]", [(p.argument(x2), x2)], uniform((1, 1, 1, 7), X))


def elementwise(p: Program) -> None:
    """Sums and products of several scales with broadcasting; clamps; tables; quotients."""
    shape = (2, 3, 4, 5)
    x, u = uniform(shape, X), uniform(shape, U)
    row, wide = uniform((3, 1, 1), "i8:f32, 0.021:4"), uniform(shape, "i16:f32, 0.001")
    scalar = uniform((1,), "i8:f32, 0.3:4")
    for name in ("add", "sub", "mul"):
        p.op(f"nn.{name} {{}}, {{}}", [(p.argument(x), x), (p.argument(u), u)], uniform(shape, Y))
        p.op(f"nn.{name} {{}}, {{}}", [(p.argument(row), row), (p.argument(x), x)],
             uniform(shape, U))  # fmt: skip
    p.op("nn.add {}, {}", [(p.argument(wide), wide), (p.argument(x), x)],
         uniform(shape, "i16:f32, 0.002"))  # fmt: skip
    p.op("nn.mul {}, {}", [(p.argument(x), x), (p.constant((1,), "i8:f32, 0.3:4"), scalar)],
         uniform(shape, Y))  # fmt: skip
    same = uniform((4, 5), X)
    for name in ("maximum", "minimum"):
        p.op(f"nn.{name} {{}}, {{}}", [(p.argument(x), x), (p.argument(same), same)], x)
    p.op("nn.relu {}", [(p.argument(x), x)], x)
    p.op("nn.relu {}", [(p.argument(u), u)], u)
    even = uniform(shape, "i8:f32, 0.0625:3")
    p.op("nn.clip {} min -1.0 max 1.0", [(p.argument(even), even)], even)
    p.op("nn.relu {}", [(p.argument(wide), wide)], wide)
    for params in ("i8:f32, 0.1", "u8:f32, 0.1:7", "i16:f32, 0.1", "i32:f32, 0.1"):
        kind = uniform((256,), params)
        for given in (x, u):
            table = p.constant((256,), params)
            p.op("nn.table {}, {}", [(p.argument(given), given), (table, kind)],
                 uniform(shape, params))  # fmt: skip


def readings(p: Program) -> None:
    """Codes read as integers, and integers as codes of another meaning."""
    for source, result in ((X, "i8:f32, 0.07:9"), (U, X), ("i16:f32, 0.1", "u16:f32, 0.3:5")):
        kind, other = uniform((3, 5), source), uniform((3, 5), result)
        bits = plain((3, 5), f"i{source[1:].partition(':')[0]}")
        for value in (p.argument(kind), p.constant((3, 5), source)):
            stored, read = p.name(), p.name()
            p.lines.append(f"{stored} = quant.scast {value} : {kind} to {bits}")
            p.lines.append(f"{read} = quant.scast {stored} : {bits} to {other}")
            p.op("nn.flip {} axes [0]", [(read, other)], other)


def regions(p: Program) -> None:
    """Floats between codes and codes, which `fix-regions` gives grids of 32 bits."""
    shape, floats = (1, 3, 6, 7), plain((1, 3, 6, 7), "f32")

    def real(kind: str) -> tuple[str, str]:
        return p.cast("quant.dcast", (p.argument(kind), kind), floats, keep=False), floats

    def made(text: str, *given: tuple[str, str], dims: Sequence[int] = shape) -> tuple[str, str]:
        kind = plain(dims, "f32")
        return p.op(text, given, kind, keep=False), kind

    def closed(x: tuple[str, str], dims: Sequence[int], params: str) -> None:
        p.cast("quant.qcast", x, uniform(dims, params))

    a, b = real(uniform(shape, X)), real(uniform(shape, "u8:f32, 0.11:77"))
    total = made("nn.add {}, {}", a, b)
    closed(total, shape, Y)
    for pool, dims in (
        ("kernel [6, 7]", (1, 3, 1, 1)),
        ("kernel [2, 3] strides [2, 1] pads [1, 1, 1, 0]", (1, 3, 4, 6)),
        ("kernel [3, 2] strides [2, 3] pads [1, 0, 0, 1] count_include_pad true", (1, 3, 3, 3)),
    ):
        closed(made(f"nn.avg_pool2d {{}} {pool}", total, dims=dims), dims, Y)
    closed(made("nn.clip {} min -0.7 max 6.0", total), shape, "u8:f32, 0.03")
    for name in ("hard_swish", "tanh", "gelu", "abs"):
        closed(made(f"nn.{name} {{}}", total), shape, Y)
    # A layer norm in its parts.
    row = (1, 3, 6, 1)
    mean = made("nn.reduce_mean {} axes [3]", a, dims=row)
    off = made("nn.sub {}, {}", a, mean)
    spread = made("nn.reduce_mean {} axes [3]", made("nn.pow {} exponent 2.0", off), dims=row)
    least = made("nn.add {}, {}", spread, p.numbers([[[[0.015625]]]], "f32"), dims=row)
    closed(made("nn.div {}, {}", off, made("nn.sqrt {}", least, dims=row)), shape, "i8:f32, 0.03:9")
    # A divisor and an argument of 0.
    under = made("nn.sqrt {}", made("nn.relu {}", b))
    closed(made("nn.div {}, {}", a, under), shape, Y)
    closed(made("nn.reciprocal {}", under), shape, "u8:f32, 0.01")
    both = (1, 6, 6, 7)
    joined = made("nn.concat {}, {} axis 1", a, total, dims=both)
    flat = made("nn.reshape {} shape [1, 252]", joined, dims=(1, 252))
    closed(made("nn.mul {}, {}", flat, flat, dims=(1, 252)), (1, 252), "i8:f32, 1.7:-100")


def softmaxes(p: Program) -> None:
    for axis, out in ((1, "i8:f32, 0.00390625:-128"), (3, "u8:f32, 0.00390625")):
        x = uniform((2, 3, 4, 5), X)
        p.op(f"nn.softmax {{}} axis {axis}", [(p.argument(x), x)], uniform((2, 3, 4, 5), out))


def movements(p: Program) -> None:
    """Every op that moves elements, after an op that holds channels last and on arguments."""
    x, u = uniform((2, 4, 6, 5), X), uniform((2, 4, 6, 5), U)
    pooled = p.op("nn.max_pool2d {} kernel [1, 1]", [(p.argument(x), x)], x, keep=False)
    sources = [(pooled, x), (p.argument(u), u)]
    ops = [
        ("nn.reshape {}", (8, 30)),
        ("nn.flatten {} axis 2", (8, 30)),
        ("nn.transpose {} perm [2, 0, 3, 1]", (6, 2, 5, 4)),
        ("nn.slice {} starts [0, 1, 0, 4] stops [2, 4, 6, -6] steps [1, 2, 3, -2]", (2, 2, 2, 3)),
        ("nn.slice {} starts [0, 1, 2, 1] stops [2, 3, 6, 4] steps [1, 1, 1, 1]", (2, 2, 4, 3)),
        ("nn.pad {} low [0, 1, 0, 2] high [0, 0, 1, 1]", (2, 5, 7, 8)),
        ("nn.pad {} low [0, 1, 2, 2] high [0, 0, 1, 1] mode reflect", (2, 5, 9, 8)),
        ("nn.pad {} low [0, 0, 2, 2] high [0, 0, 1, 1] mode edge", (2, 4, 9, 8)),
        ("nn.pad {} low [0, 0, 2, 2] high [0, 0, 1, 1] mode wrap", (2, 4, 9, 8)),
        ("nn.tile {} repeats [1, 2, 1, 3]", (2, 8, 6, 15)),
        ("nn.repeat {} repeats [1, 2, 1, 3]", (2, 8, 6, 15)),
        ("nn.flip {} axes [1, 3]", (2, 4, 6, 5)),
        ("nn.depth_to_space {} block 2", (2, 1, 12, 10)),
        ("nn.depth_to_space {} block 2 mode CRD", (2, 1, 12, 10)),
        ("nn.im2col {} kernel [2, 3] strides [2, 1] pads [0, 1, 1, 0]", (2, 24, 12)),
        ("nn.resize_nearest {} scales [1.0, 1.0, 2.0, 1.5] coordinates asymmetric nearest floor",
         (2, 4, 12, 7)),
        ("nn.resize_nearest {} sizes [2, 4, 3, 9]", (2, 4, 3, 9)),
    ]  # fmt: skip
    for text, shape in ops:
        for name, kind in sources:
            p.op(text, [(name, kind)], uniform(shape, X if kind == x else U))
    even = uniform((1, 3, 4, 6), X)
    p.op("nn.space_to_depth {} block 2", [(p.argument(even), even)], uniform((1, 12, 2, 3), X))
    p.op("nn.squeeze {} axes [0]", [(p.argument(even), even)], uniform((3, 4, 6), X))
    p.op("nn.unsqueeze {} axes [1]", [(p.argument(even), even)], uniform((1, 1, 3, 4, 6), X))
    small = uniform((3, 1, 5), X)
    p.op("nn.expand {} shape [2, 3, 4, 5]", [(p.argument(small), small)], uniform((2, 3, 4, 5), X))
    p.op("nn.split {} axis 1 sizes [1, 3]", [(pooled, x)], uniform((2, 1, 6, 5), X),
         uniform((2, 3, 6, 5), X))  # fmt: skip
    for axis, shape in ((1, (2, 8, 6, 5)), (-1, (2, 4, 6, 10))):
        p.op(f"nn.concat {{}}, {{}} axis {axis}", [(pooled, x), (p.argument(x), x)],
             uniform(shape, X))  # fmt: skip
    indices = p.numbers([[3, 0], [-1, 2]], "i64")
    p.op("nn.gather {}, {} axis 1", [(pooled, x), indices], uniform((2, 2, 2, 6, 5), X))
    condition = p.numbers([[True], [False], [True], [True], [False], [True]], "i1")
    p.op("nn.select {}, {}, {}", [condition, (pooled, x), (p.argument(x), x)], x)
    update = uniform((2, 2, 2, 5), X)
    p.op("nn.insert {}, {} starts [0, 1, 0, 0] steps [1, 2, 3, 1]",
         [(pooled, x), (p.argument(update), update)], x)  # fmt: skip


def resizes(p: Program) -> None:
    """Weights that are ratios, in all coordinates."""
    x, u = uniform((2, 3, 4, 5), X), uniform((2, 3, 4, 5), U)
    for text, shape in (
        ("scales [1.0, 1.0, 2.0, 4.0] coordinates asymmetric", (2, 3, 8, 20)),
        ("sizes [2, 3, 7, 9] coordinates align_corners", (2, 3, 7, 9)),
        ("sizes [2, 3, 2, 1] coordinates pytorch_half_pixel", (2, 3, 2, 1)),
        ("scales [1.0, 1.0, 0.5, 1.0]", (2, 3, 2, 5)),
    ):
        p.op(f"nn.resize_linear {{}} {text}", [(p.argument(x), x)], uniform(shape, Y))
        p.op(f"nn.resize_linear {{}} {text}", [(p.argument(u), u)], uniform(shape, U))


def resizes_from_before(p: Program) -> None:
    """The first result lies before the first element."""
    x, u = uniform((2, 3, 4, 5), X), uniform((2, 3, 4, 5), U)
    for kind in (x, u):
        given = [(p.argument(kind), kind)]
        p.op("nn.resize_linear {} scales [1.0, 1.0, 2.0, 2.0]", given, uniform((2, 3, 8, 10), Y))


def places(p: Program) -> None:
    """Where extremes are, the first or the last."""
    x, u = uniform((2, 3, 4, 5), X), uniform((2, 3, 4, 5), U)
    pooled = p.op("nn.max_pool2d {} kernel [1, 1]", [(p.argument(x), x)], x, keep=False)
    for name in ("arg_max", "arg_min"):
        for axis, shape in ((1, (2, 1, 4, 5)), (3, (2, 3, 4, 1))):
            p.op(f"nn.{name} {{}} axis {axis}", [(pooled, x)], plain(shape, "i64"))
        p.op(f"nn.{name} {{}} axis 2 keepdims false last true", [(p.argument(u), u)],
             plain((2, 3, 5), "i64"))  # fmt: skip


def runtime_indices(p: Program) -> None:
    """A gather by what an arg_max found."""
    x = uniform((2, 3, 4, 5), X)
    found = p.op("nn.arg_max {} axis 1 keepdims false", [(p.argument(x), x)],
                 plain((2, 4, 5), "i64"), keep=False)  # fmt: skip
    for axis, rows in ((0, (6, 2)), (1, (2, 3))):
        kind = uniform(rows, U)
        shape = (*rows[:axis], 2, 4, 5, *rows[axis + 1 :])
        p.op(f"nn.gather {{}}, {{}} axis {axis}",
             [(p.argument(kind), kind), (found, plain((2, 4, 5), "i64"))],
             uniform(shape, U))  # fmt: skip


def comparisons(p: Program) -> None:
    """What a comparison picks."""
    x, row = uniform((2, 3, 4), X), uniform((3, 1), X)
    for mode in ("eq", "ne", "lt", "le", "gt", "ge"):
        told = p.op(f"nn.compare {{}}, {{}} mode {mode}",
                    [(p.argument(x), x), (p.argument(row), row)], plain((2, 3, 4), "i1"),
                    keep=False)  # fmt: skip
        p.op("nn.select {}, {}, {}",
             [(told, plain((2, 3, 4), "i1")), (p.argument(row), row), (p.argument(x), x)],
             x)  # fmt: skip


GROUPS = (
    convolutions,
    transposed,
    products,
    pools,
    elementwise,
    readings,
    regions,
    softmaxes,
    movements,
    resizes,
    resizes_from_before,
    places,
    runtime_indices,
    comparisons,
)
