"""Random functions of integer TOSA, from the specification's rules for each op.

It knows nothing of the kernels: what an op means is asked of Arm's reference model, which runs the
same text. A function takes tensors of several types and returns the result of every op in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

_LOW = {8: -128, 16: -(1 << 15), 32: -(1 << 31)}


@dataclass
class Program:
    """A function in the making."""

    rng: np.random.Generator
    arguments: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    results: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pick(self, *choices: object) -> object:
        return choices[int(self.rng.integers(len(choices)))]

    def shape(self, rank: int, low: int = 1, high: int = 6) -> list[int]:
        return [int(n) for n in self.rng.integers(low, high, rank)]

    def argument(self, shape: Sequence[int], element: str) -> tuple[str, str]:
        kind = tensor(shape, element)
        name = f"%a{len(self.arguments)}"
        self.arguments.append(f"{name}: {kind}")
        return name, kind

    def constant(self, values: object, element: str) -> tuple[str, str]:
        array = np.array(values)
        kind, name = tensor(array.shape, element), self.name()
        listed = str(array.tolist()).lower()
        self.lines.append(
            f'{name} = "tosa.const"() <{{values = dense<{listed}> : {kind}}}> : () -> {kind}'
        )
        return name, kind

    def extents(self, values: Sequence[int]) -> tuple[str, str]:
        name, kind = self.name(), f"!tosa.shape<{len(values)}>"
        self.lines.append(
            f'{name} = "tosa.const_shape"() <{{values = dense<{list(values)}> : '
            f"tensor<{len(values)}xindex>}}> : () -> {kind}"
        )
        return name, kind

    def op(
        self,
        name: str,
        operands: Sequence[tuple[str, str]],
        shape: Sequence[int],
        element: str,
        properties: str = "",
    ) -> tuple[str, str]:
        made, kind = self.name(), tensor(shape, element)
        given = f" <{{{properties}}}>" if properties else ""
        self.lines.append(
            f'{made} = "tosa.{name}"({", ".join(n for n, _ in operands)}){given} : '
            f"({', '.join(k for _, k in operands)}) -> {kind}"
        )
        self.results.append((made, kind))
        return made, kind

    def zero(self, width: int, used: bool = True) -> tuple[str, str]:
        value = int(self.rng.integers(-128, 128)) if used else 0
        return self.constant([value], f"i{width}")

    @property
    def text(self) -> str:
        names = ", ".join(name for name, _ in self.results)
        kinds = ", ".join(kind for _, kind in self.results)
        body = "\n".join(f"  {line}" for line in self.lines)
        return (
            f"func.func @main({', '.join(self.arguments)}) -> ({kinds}) {{\n{body}\n"
            f"  func.return {names} : {kinds}\n}}\n"
        )


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


def _rescale(p: Program) -> None:
    source, result = (int(str(p.pick(8, 16, 32))) for _ in range(2))
    shape = p.shape(3)
    per_channel = bool(p.rng.integers(2))
    count = shape[-1] if per_channel else 1
    wide = source == 32
    shifts = [int(n) for n in p.rng.integers(33 if wide else 20, 46, count)]
    multipliers = [int(n) for n in p.rng.integers(1 << 28, 1 << 31, count)]
    x = p.argument(shape, f"i{source}")
    double = bool(p.rng.integers(2))
    flags = [p.zero(source, source == 8), p.zero(result, result == 8)]
    p.op(
        "rescale",
        [x, p.constant(multipliers, "i32"), p.constant(shifts, "i8"), *flags],
        shape,
        f"i{result}",
        "scale32 = true, input_unsigned = false, output_unsigned = false, "
        f"rounding_mode = #tosa.rounding_mode<{'DOUBLE' if double else 'SINGLE'}_ROUND>, "
        f"per_channel = {str(per_channel).lower()}",
    )


def _window(p: Program) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Kernel, stride, dilation, pads, and the input with windows that fit evenly."""
    kernel, stride, dilation = p.shape(2, 1, 4), p.shape(2, 1, 3), p.shape(2, 1, 3)
    count = p.shape(2, 1, 4)
    pads = [int(n) for n in p.rng.integers(0, 2, 4)]
    reach = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(count, stride, kernel, dilation, strict=True)
    ]
    size = [r - pads[2 * i] - pads[2 * i + 1] for i, r in enumerate(reach)]
    if min(size) < 1:
        pads, size = [0] * 4, reach
    return kernel, stride, dilation, pads, [*size, *count]


def _listed(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def _convolution(p: Program) -> None:
    kernel, stride, dilation, pads, sizes = _window(p)
    depthwise = bool(p.rng.integers(2))
    channels, many = int(p.rng.integers(1, 5)), int(p.rng.integers(1, 4))
    x = p.argument([2, *sizes[:2], channels], "i8")
    shape = [*kernel, channels, many] if depthwise else [many, *kernel, channels]
    out = channels * many if depthwise else many
    w = p.constant(p.rng.integers(-128, 128, shape), "i8")
    bias = p.constant(p.rng.integers(-9999, 9999, out if p.rng.integers(2) else 1), "i32")
    p.op(
        "depthwise_conv2d" if depthwise else "conv2d",
        [x, w, bias, p.zero(8), p.zero(8)],
        [2, *sizes[2:], out],
        "i32",
        f"pad = {_listed(pads)}, stride = {_listed(stride)}, dilation = {_listed(dilation)}, "
        "acc_type = i32",
    )


def _pool(p: Program) -> None:
    kernel, stride = p.shape(2, 2, 4), p.shape(2, 1, 3)
    count, pads = p.shape(2, 1, 4), [int(n) for n in p.rng.integers(0, 2, 4)]
    size = [
        (n - 1) * s + k - pads[2 * i] - pads[2 * i + 1]
        for i, (n, s, k) in enumerate(zip(count, stride, kernel, strict=True))
    ]
    if min(size) < 1:
        pads, size = (
            [0] * 4,
            [(n - 1) * s + k for n, s, k in zip(count, stride, kernel, strict=True)],
        )
    x = p.argument([1, *size, 3], "i8")
    window = f"kernel = {_listed(kernel)}, stride = {_listed(stride)}, pad = {_listed(pads)}"
    shape = [1, *count, 3]
    p.op("max_pool2d", [x], shape, "i8", f"{window}, nan_mode = #tosa.nan_mode<PROPAGATE>")
    p.op("avg_pool2d", [x, p.zero(8), p.zero(8)], shape, "i8", f"{window}, acc_type = i32")


def _elementwise(p: Program) -> None:
    shape = p.shape(3)
    other = [n if p.rng.integers(3) else 1 for n in shape]
    a, b = p.argument(shape, "i32"), p.argument(other, "i32")
    small = [p.op("arithmetic_right_shift", [x, p.constant(np.full((1, 1, 1), 4), "i32")], s, "i32",
                  f"round = {str(bool(p.rng.integers(2))).lower()}")
             for x, s in ((a, shape), (b, other))]  # fmt: skip
    for name in ("add", "sub", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"):
        mode = "nan_mode = #tosa.nan_mode<PROPAGATE>" if name[0] == "m" else ""
        p.op(name, small, shape, "i32", mode)
    by = p.constant(np.full((1, 1, 1), int(p.rng.integers(0, 31))), "i32")
    p.op("logical_right_shift", [a, by], shape, "i32")
    p.op("clz", [a], shape, "i32")
    p.op("mul", [*small, p.constant([int(p.rng.integers(26, 40))], "i8")], shape, "i32")
    for name in ("equal", "greater", "greater_equal"):
        p.op(name, small, shape, "i1")
    codes = p.argument(shape, "i8")
    p.op("table", [codes, p.constant(p.rng.integers(-128, 128, 256), "i8")], shape, "i8")
    wide = p.argument(shape, "i16")
    entries = np.sort(p.rng.integers(-(1 << 14), 1 << 14, 513))
    p.op("table", [wide, p.constant(entries, "i16")], shape, "i32")
    low = int(p.rng.integers(-128, 0))
    p.op("clamp", [codes], shape, "i8", f"min_val = {low} : i8, max_val = {low + 99} : i8, "
         "nan_mode = #tosa.nan_mode<PROPAGATE>")  # fmt: skip
    p.op("negate", [codes, p.zero(8), p.zero(8)], shape, "i8")
    divisor = p.constant(p.rng.integers(1, 99, (1, 1, 1)), "i32")
    p.op("intdiv", [a, divisor], shape, "i32")


def _movement(p: Program) -> None:
    shape = p.shape(3, 2)
    x = p.argument(shape, "i8")
    axis = int(p.rng.integers(3))
    perms = [int(n) for n in p.rng.permutation(3)]
    p.op("transpose", [x], [shape[n] for n in perms], "i8",
         f"perms = array<i32: {', '.join(map(str, perms))}>")  # fmt: skip
    p.op("reverse", [x], shape, "i8", f"axis = {axis} : i32")
    p.op("reshape", [x, p.extents([int(np.prod(shape))])], [int(np.prod(shape))], "i8")
    repeats = p.shape(3, 1, 3)
    p.op(
        "tile", [x, p.extents(repeats)], [n * r for n, r in zip(shape, repeats, strict=True)], "i8"
    )
    pads = [int(n) for n in p.rng.integers(0, 3, 6)]
    padded = [n + a + b for n, a, b in zip(shape, pads[::2], pads[1::2], strict=True)]
    p.op("pad", [x, p.extents(pads), p.zero(8)], padded, "i8")
    p.op("slice", [x, p.extents([1, 0, 1]), p.extents([n - 1 for n in shape])],
         [n - 1 for n in shape], "i8")  # fmt: skip
    joined = list(shape)
    joined[axis] *= 2
    p.op("concat", [x, x], joined, "i8", f"axis = {axis} : i32")
    indices = p.constant(p.rng.integers(0, shape[1], (shape[0], 4)), "i32")
    p.op("gather", [x, indices], [shape[0], 4, shape[2]], "i8")
    reduced = [1 if d == axis else n for d, n in enumerate(shape)]
    for name in ("max", "min"):
        p.op(f"reduce_{name}", [x], reduced, "i8",
             f"axis = {axis} : i32, nan_mode = #tosa.nan_mode<PROPAGATE>")  # fmt: skip
    p.op("argmax", [x], [n for d, n in enumerate(shape) if d != axis], "i32",
         f"axis = {axis} : i32, nan_mode = #tosa.nan_mode<PROPAGATE>")  # fmt: skip
    p.op("cast", [x], shape, "i16")


def _resize(p: Program) -> None:
    n, d = int(p.rng.integers(1, 5)), int(p.rng.integers(1, 4))
    size = int(p.rng.integers(2, 5))
    count = ((size - 1) * n) // d + 1
    border = (count - 1) * d - (size - 1) * n
    x = p.argument([1, size, size, 2], "i8")
    given = [x, p.extents([n, d, n, d]), p.extents([0, 0]), p.extents([border, border])]
    for mode, element in (("NEAREST_NEIGHBOR", "i8"), ("BILINEAR", "i32")):
        p.op("resize", given, [1, count, count, 2], element, f"mode = #tosa.resize_mode<{mode}>")


def program(seed: int) -> Program:
    """A function with every op in configurations drawn from `seed`."""
    p = Program(np.random.default_rng(seed))
    for build, times in (
        (_rescale, 6),
        (_convolution, 4),
        (_pool, 3),
        (_elementwise, 2),
        (_movement, 2),
        (_resize, 2),
    ):
        for _ in range(times):
            build(p)
    return p


def inputs(p: Program) -> list[np.ndarray]:
    """Integers of the whole range, but i32 within what TOSA's rescales take."""
    drawn: list[np.ndarray] = []
    for argument in p.arguments:
        *shape, element = argument.partition("tensor<")[2].rstrip(">").split("x")
        width = int(element[1:])
        low = max(_LOW[width], -(1 << 30))
        values = p.rng.integers(low, -low, [int(n) for n in shape])
        drawn.append(values.astype(f"i{width // 8}"))
    return drawn
