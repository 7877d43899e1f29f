"""MLIR text of chains, ladders and trees of any length, for passes that move rescales and casts.

Each kind is a step that is repeated; neighbours have different parameters. Everything follows from
the arguments.

    python -m tests.generators.rescale_chains "rescale, relu" 100 > chain.mlir
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

FLOATS = "tensor<4x4xf32>"


def codes(number: int) -> str:
    """The type of a tensor of codes, one of fifteen."""
    at = number % 15
    return f"tensor<4x4x!quant.uniform<i8:f32, {0.02 + 0.003 * (at % 5):g}:{at % 3}>>"


class Text:
    """A function under construction: its lines, and the value and the type that came last."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.value, self.kind, self.grid = "%x", codes(0), 0

    def op(self, text: str, *operands: str, kind: str | None = None) -> str:
        """An op whose operands are of the last type, and its result."""
        kinds = ", ".join([self.kind] * len(operands))
        made = f"%{len(self.lines)}"
        words = text.replace("$", ", ".join(operands))
        self.lines.append(f"{made} = {words} : ({kinds}) -> {kind or self.kind}")
        self.value = made
        return made

    def cast(self, name: str, kind: str) -> str:
        """A conversion of the last value."""
        made = f"%{len(self.lines)}"
        self.lines.append(f"{made} = quant.{name} {self.value} : {self.kind} to {kind}")
        self.value, self.kind = made, kind
        return made

    def rescale(self) -> str:
        """The last value on the next parameters."""
        self.grid += 1
        return self.cast("rescale", codes(self.grid))

    def quantize(self) -> str:
        """The last value, floats, on the next parameters."""
        self.grid += 1
        return self.cast("qcast", codes(self.grid))

    def module(self) -> str:
        """The function."""
        body = "\n  ".join(self.lines)
        return (
            f"func.func @f(%x: {codes(0)}) -> {self.kind} {{\n  {body}\n"
            f"  func.return {self.value} : {self.kind}\n}}\n"
        )


def _ladder(text: Text, number: int) -> None:
    left = text.rescale()
    text.op("nn.maximum $", left, text.op(f"nn.flip $ axes [{number % 2}]", left))


def _skip(text: Text, number: int) -> None:
    before, kind = text.value, text.kind
    after = text.rescale()
    made = f"%{len(text.lines)}"
    text.lines.append(f"{made} = nn.add {after}, {before} : ({text.kind}, {kind}) -> {text.kind}")
    text.value = made


def _each(*parts: Callable[[Text, int], object]) -> Callable[[Text, int], None]:
    def step(text: Text, number: int) -> None:
        for part in parts:
            part(text, number)

    return step


def _nn(name: str) -> Callable[[Text, int], object]:
    return lambda text, number: text.op(f"nn.{name}", text.value)


def _rescale(text: Text, number: int) -> None:
    text.rescale()


def _floats(text: Text, number: int) -> None:
    text.cast("dcast", FLOATS)


def _codes(text: Text, number: int) -> None:
    text.quantize()


FLIP = _nn("flip $ axes [0]")
STEPS: dict[str, Callable[[Text, int], None]] = {
    "rescale": _each(_rescale),
    "rescale, relu": _each(_rescale, _nn("relu $")),
    "relu, rescale": _each(_nn("relu $"), _rescale),
    "rescale, flip": _each(_rescale, FLIP),
    "rescale, transpose": _each(_rescale, _nn("transpose $ perm [1, 0]")),
    "rescale, clip, flip": _each(_rescale, _nn("clip $ min -0.5 max 1.0"), FLIP),
    "ladder": _ladder,
    "skip": _skip,
    "dequantize, flip, quantize": _each(_floats, FLIP, _codes),
    "dequantize, relu, sigmoid, quantize": _each(_floats, _nn("relu $"), _nn("sigmoid $"), _codes),
}


def _repeated(*steps: Callable[[Text, int], object]) -> Callable[[int], str]:
    """All of the first, then all of the second."""

    def chain(count: int) -> str:
        text = Text()
        for step in steps:
            for number in range(count):
                step(text, number)
        return text.module()

    return chain


def _tree(count: int) -> str:
    """Maxima of maxima of rescaled values."""
    text, level = Text(), list[str]()
    for number in range(count):
        text.value, text.kind, text.grid = "%x", codes(0), 0
        text.op(f"nn.flip $ axes [{number % 2}]", "%x")
        level.append(text.rescale())
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        joined = [text.op("nn.maximum $", *pair) for pair in pairs]
        level = joined + level[len(level) & ~1 :]
    return text.module()


CHAINS: dict[str, Callable[[int], str]] = {
    **{name: _repeated(step) for name, step in STEPS.items()},
    "rescales above flips": _repeated(_rescale, FLIP),
    "flips above rescales": _repeated(FLIP, _rescale),
    "tree": _tree,
}
"""By kind: the text of a chain of so many steps."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=CHAINS)
    parser.add_argument("steps", type=int)
    options = parser.parse_args(arguments)
    print(CHAINS[options.kind](options.steps))


if __name__ == "__main__":
    main()
