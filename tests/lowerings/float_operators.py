"""Float ops in many configurations, each with the bound that its results keep.

A bound is a number of units u = 2**-24 (half of what is between 1 and the next float) times a
magnitude, for each element: of the result itself (`ulps`), of the same op on absolute values
(`sums`: what is added up), or of a number given (`of`). Why is in
docs/design/019-floats-in-exports.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
U = 2.0**-24
"""The unit roundoff of f32."""


@dataclass(frozen=True)
class Bound:
    """`ulps` units of |y|, `sums` units of the op on absolute values, `of` units of 1."""

    ulps: float = 0.0
    sums: float = 0.0
    of: float = 0.0

    def on(self, exact: Array, sizes: Array) -> Array:
        """The largest difference from `exact`, by element."""
        return U * (self.ulps * np.abs(exact) + self.sums * np.abs(sizes) + self.of)


EXACT = Bound()
ROUNDED = Bound(ulps=1)
"""One rounding to nearest."""
FUNCTION = Bound(ulps=16, of=2)
"""An elementary function, as libraries compute it."""


@dataclass
class FloatProgram:
    """A function in the making: what it takes, its lines, what it gives and within which bounds."""

    arguments: dict[tuple[str, tuple[int, ...]], str] = field(
        default_factory=dict[tuple[str, tuple[int, ...]], str]
    )
    lines: list[str] = field(default_factory=list[str])
    results: list[tuple[str, str, Bound]] = field(default_factory=list[tuple[str, str, Bound]])
    _numbers: Iterator[int] = field(default_factory=count)

    def argument(self, kind: str, *shape: int) -> tuple[str, str]:
        """`x`: from -4 to 4; `p`: from 1/16 to 4; `w`: from -1 to 1. Its name and type."""
        name = self.arguments.setdefault((kind, shape), f"%{kind}{len(self.arguments)}")
        return name, tensor(shape)

    def op(
        self,
        text: str,
        operands: Sequence[tuple[str, str]],
        shape: Sequence[int],
        bound: Bound = EXACT,
        *,
        element: str = "F",
        keep: bool = True,
    ) -> tuple[str, str]:
        """`text` has {} for operands; the result's name and type. Kept ones are returned."""
        name, kind = f"%v{next(self._numbers)}", tensor(shape, element)
        given = ", ".join(k for _, k in operands)
        body = text.format(*(n for n, _ in operands))
        self.lines.append(f"{name} = {body} : ({given}) -> {kind}")
        if keep:
            self.results.append((name, kind, bound))
        return name, kind

    def constant(self, values: Any, element: str = "F") -> tuple[str, str]:
        """A constant; its name and type."""
        array = np.asarray(values)
        name, kind = f"%c{next(self._numbers)}", tensor(array.shape, element)
        listed = str(array.tolist()).lower()
        self.lines.append(f"{name} = nn.constant dense<{listed}> : {kind} : {kind}")
        return name, kind

    def text(self, element: str) -> str:
        """The function, in f32 or f64."""
        takes = ", ".join(f"{n}: {tensor(s)}" for (_, s), n in self.arguments.items())
        gives = ", ".join(kind for _, kind, _ in self.results)
        names = ", ".join(name for name, _, _ in self.results)
        lines = "\n  ".join([*self.lines, f"return {names} : {gives}"])
        return f"func.func @main({takes}) -> ({gives}) {{\n  {lines}\n}}\n".replace(
            "F>", f"{element}>"
        )

    def inputs(self, seed: int) -> list[Array]:
        """Numbers for the arguments, in f32."""
        random = np.random.default_rng(seed)
        ends = {"x": (-4.0, 4.0), "p": (1 / 16, 4.0), "w": (-1.0, 1.0)}
        return [
            random.uniform(*ends[kind], shape).astype(np.float32) for kind, shape in self.arguments
        ]


def tensor(shape: Sequence[int], element: str = "F") -> str:
    """A type; F stands for the float type of the program."""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


FUNCTIONS: Mapping[str, Bound] = {
    "abs": EXACT,
    "ceil": EXACT,
    "clip min -1.5 max 2.25": EXACT,
    "elu alpha 0.75": FUNCTION,
    "erf": FUNCTION,
    "exp": FUNCTION,
    "floor": EXACT,
    "gelu": Bound(ulps=16, of=16),
    "gelu approximate tanh": Bound(ulps=16, of=32),
    "hard_sigmoid alpha 0.2 beta 0.5": Bound(of=4),
    "hard_swish": Bound(of=16),
    "leaky_relu alpha 0.125": ROUNDED,
    "neg": EXACT,
    "relu": EXACT,
    "round": EXACT,
    "sigmoid": FUNCTION,
    "softplus": Bound(ulps=8, of=4),
    "swish": Bound(ulps=16, of=8),
    "swish alpha 1.7": Bound(ulps=24, of=8),
    "tanh": FUNCTION,
}
POSITIVE: Mapping[str, Bound] = {
    "log": Bound(ulps=8, of=8),
    "pow exponent -0.5": Bound(ulps=12),
    "pow exponent 0.3": Bound(ulps=16),
    "pow exponent 3.0": Bound(ulps=4),
    "reciprocal": Bound(ulps=4),
    "sqrt": Bound(ulps=8),
}


def elementwise(p: FloatProgram) -> None:
    """Functions, and ops of two operands that broadcast."""
    x, positive = p.argument("x", 2, 3, 5, 4), p.argument("p", 2, 3, 5, 4)
    for text, bound in FUNCTIONS.items():
        p.op(f"nn.{text} {{}}" if " " not in text else _with_values(text), [x], (2, 3, 5, 4), bound)
    for text, bound in POSITIVE.items():
        p.op(_with_values(text), [positive], (2, 3, 5, 4), bound)
    column, scalar = p.argument("x", 3, 1, 1), p.argument("x", 1)
    for name in ("add", "sub", "mul", "maximum", "minimum"):
        bound = EXACT if name[:2] in ("ma", "mi") else ROUNDED
        p.op(f"nn.{name} {{}}, {{}}", [x, column], (2, 3, 5, 4), bound)
        p.op(f"nn.{name} {{}}, {{}}", [scalar, x], (2, 3, 5, 4), bound)
    p.op("nn.div {}, {}", [x, positive], (2, 3, 5, 4), Bound(ulps=4))
    p.op("nn.prelu {}, {}", [x, column], (2, 3, 5, 4), ROUNDED)
    less = p.op("nn.compare {}, {} mode lt", [x, column], (2, 3, 5, 4), element="i1", keep=False)
    p.op("nn.select {}, {}, {}", [less, x, column], (2, 3, 5, 4))


def _with_values(text: str) -> str:
    name, _, values = text.partition(" ")
    return f"nn.{name} {{}} {values}"


def movements(p: FloatProgram) -> None:
    """What moves elements, also backwards, with holes, and by indices at run time."""
    x = p.argument("x", 2, 3, 6, 4)
    p.op("nn.slice {} starts [0, 0, 0, 1] stops [2, 3, 6, 4] steps [1, 1, 2, 2]", [x], (2, 3, 3, 2))
    p.op(
        "nn.slice {} starts [0, 2, 5, 0] stops [2, -4, -7, 4] steps [1, -1, -2, 1]",
        [x],
        (2, 3, 3, 4),
    )
    p.op("nn.transpose {} perm [0, 2, 3, 1]", [x], (2, 6, 4, 3))
    p.op("nn.pad {} low [0, 0, 1, 2] high [0, 1, 0, 1] value -0.5", [x], (2, 4, 7, 7))
    p.op("nn.concat {}, {} axis 1", [x, x], (2, 6, 6, 4))
    p.op("nn.reshape {} shape [4, 36]", [x], (4, 36))
    p.op("nn.tile {} repeats [1, 2, 1, 3]", [x], (2, 6, 6, 12))
    indices = p.constant([[2, 0], [-1, 1]], "i64")
    p.op("nn.gather {}, {} axis 1", [x, indices], (2, 2, 2, 6, 4))
    places = p.op("nn.arg_max {} axis 2 keepdims false last false", [x], (2, 3, 4), element="i64")
    p.op("nn.arg_min {} axis 3 keepdims true last true", [x], (2, 3, 6, 1), element="i64")
    rows = p.argument("x", 7, 3)
    p.op("nn.gather {}, {} axis 0", [rows, places], (2, 3, 4, 3))
    p.op("nn.depth_to_space {} block 2", [p.argument("x", 1, 8, 2, 3)], (1, 2, 4, 6))


def contractions(p: FloatProgram) -> None:
    """Convolutions, transposed ones, products; `sums` is about twice the number of terms."""
    x, w, b = p.argument("x", 1, 4, 7, 6), p.argument("w", 6, 4, 3, 3), p.argument("w", 6)
    conv = "nn.conv2d {}, {}, {} strides [2, 1] pads [1, 1, 0, 1] dilations [1, 2] groups 1"
    p.op(conv, [x, w, b], (1, 6, 3, 4), Bound(sums=80))
    grouped = "nn.conv2d {}, {} strides [1, 1] pads [0, 0, 0, 0] dilations [1, 1] groups {}"
    p.op(
        grouped.format("{}", "{}", 2),
        [x, p.argument("w", 6, 2, 2, 2)],
        (1, 6, 6, 5),
        Bound(sums=20),
    )
    p.op(
        grouped.format("{}", "{}", 4),
        [x, p.argument("w", 8, 1, 2, 2)],
        (1, 8, 6, 5),
        Bound(sums=12),
    )
    line, taps = p.argument("x", 2, 3, 9), p.argument("w", 4, 3, 3)
    p.op(
        "nn.conv1d {}, {} strides [2] pads [1, 1] dilations [1] groups 1",
        [line, taps],
        (2, 4, 5),
        Bound(sums=24),
    )
    back = (
        "nn.conv_transpose2d {}, {} strides [2, 1] pads [1, 0, 0, 1] output_padding [0, 0] "
        "dilations [1, 1] groups {}"
    )
    p.op(
        back.format("{}", "{}", 1), [x, p.argument("w", 4, 5, 3, 2)], (1, 5, 14, 6), Bound(sums=56)
    )
    p.op(
        back.format("{}", "{}", 2), [x, p.argument("w", 4, 2, 3, 2)], (1, 4, 14, 6), Bound(sums=32)
    )
    a, m = p.argument("x", 2, 3, 4, 5), p.argument("w", 2, 1, 5, 6)
    p.op("nn.matmul {}, {}", [a, m], (2, 3, 4, 6), Bound(sums=14))
    p.op("nn.matmul {}, {}", [a, p.argument("w", 5, 6)], (2, 3, 4, 6), Bound(sums=14))
    p.op("nn.matmul {}, {}", [a, p.argument("w", 5)], (2, 3, 4), Bound(sums=14))
    fc = [p.argument("x", 3, 5), p.argument("w", 4, 5), p.argument("w", 4)]
    p.op("nn.fully_connected {}, {}, {}", fc, (3, 4), Bound(sums=16))


def windows(p: FloatProgram) -> None:
    """Pools, also dilated, with pads that count and windows that end outside; reductions."""
    x = p.argument("x", 1, 3, 9, 8)
    spaced = "kernel [3, 2] strides [2, 2] dilations [{}, 1] pads [1, 0, 1, 0] ceil_mode {}"
    p.op(f"nn.max_pool2d {{}} {spaced.format(1, 'true')}", [x], (1, 3, 5, 4))
    p.op(f"nn.max_pool2d {{}} {spaced.format(2, 'false')}", [x], (1, 3, 4, 4))
    for counts in ("true", "false"):
        text = f"nn.avg_pool2d {{}} {spaced.format(1, 'true')} count_include_pad {counts}"
        p.op(text, [x], (1, 3, 5, 4), Bound(sums=16))
    p.op("nn.global_avg_pool2d {}", [x], (1, 3, 1, 1), Bound(sums=148))
    line = p.argument("x", 2, 3, 9)
    text = "kernel [3] strides [2] dilations [1] pads [0, 0] ceil_mode false"
    p.op(f"nn.max_pool1d {{}} {text}", [line], (2, 3, 4))
    p.op(f"nn.avg_pool1d {{}} {text} count_include_pad false", [line], (2, 3, 4), Bound(sums=10))
    for name, bound in (("sum", Bound(sums=54)), ("mean", Bound(sums=58)), ("max", EXACT)):
        p.op(f"nn.reduce_{name} {{}} axes [1, 2] keepdims false", [x], (1, 8), bound)
    p.op("nn.reduce_min {} axes [-1] keepdims true", [x], (1, 3, 9, 1))
    for mode in ("half_pixel", "align_corners", "asymmetric"):
        text = f"nn.resize_linear {{}} sizes [1, 3, 13, 5] coordinates {mode}"
        p.op(text, [x], (1, 3, 13, 5), Bound(sums=8))


def composites(p: FloatProgram) -> None:
    """Softmax, norms and attention."""
    x = p.argument("x", 2, 6, 8)
    p.op("nn.softmax {} axis 1", [x], (2, 6, 8), Bound(ulps=48))
    p.op("nn.softmax {} axis -1", [x], (2, 6, 8), Bound(ulps=48))
    scale, bias = p.argument("w", 8), p.argument("x", 8)
    p.op("nn.layer_norm {}, {}, {} axis -1", [x, scale, bias], (2, 6, 8), Bound(of=160))
    p.op("nn.rms_norm {}, {} axis -1", [x, scale], (2, 6, 8), Bound(of=160))
    image = p.argument("x", 2, 3, 4, 5)
    vectors = [p.argument("w", 3), p.argument("x", 3), p.argument("w", 3), p.argument("p", 3)]
    norm = "nn.batch_norm {}, {}, {}, {}, {}"
    p.op(norm, [image, *vectors], (2, 3, 4, 5), Bound(of=200))
    query, key = p.argument("w", 1, 2, 5, 4), p.argument("x", 1, 2, 6, 4)
    value = p.argument("w", 1, 2, 6, 3)
    p.op("nn.attention {}, {}, {} scale 0.5", [query, key, value], (1, 2, 5, 3), Bound(of=64))


GROUPS: Sequence[Callable[[FloatProgram], None]] = (
    elementwise,
    movements,
    contractions,
    windows,
    composites,
)
