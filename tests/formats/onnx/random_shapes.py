"""Random models that compute their shapes: every extent is asked for in one of several ways.

Each op keeps a note of the extents as products of `b`, `s` and numbers, so that what is built is
valid for any batch and sequence; whether a shape follows from an operand's is for the importer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx
from onnx_models import ModelBuilder

Dim = tuple[int, str]
"""A number and the letters it is multiplied with: (4, "bs")."""


def times(dims: Sequence[Dim]) -> Dim:
    number = 1
    for n, _ in dims:
        number *= n
    return number, "".join(sorted("".join(letters for _, letters in dims)))


class Shapes:
    """One random model of `x`, batch x sequence x 24."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        #: as newer exporters write it; others take a computed 0 for a copy
        self.allowzero = self.rng.random() < 0.5
        self.b = ModelBuilder(17 if self.allowzero else self.rng.choice((13, 20)), "shapes")
        self.b.input("x", ["batch", "sequence", 24])
        self.dims: dict[str, list[Dim]] = {"x": [(1, "b"), (1, "s"), (24, "")]}
        self.count = 0

    def node(self, op: str, *inputs: str, **attributes: int | Sequence[int]) -> str:
        self.count += 1
        return self.b.node(op, inputs, f"{op.lower()}{self.count}", **attributes)

    def ints(self, *values: int) -> str:
        self.count += 1
        return self.b.const(f"ints{self.count}", np.array(values, np.int64))

    # -- extents -----------------------------------------------------------------------

    def letter(self, letter: str) -> str:
        """Batch or sequence as a vector, from any tensor that has it as an extent."""
        places = [
            (name, d)
            for name, dims in self.dims.items()
            for d, dim in enumerate(dims)
            if dim[1] == letter
        ]
        name, d = self.rng.choice(places)
        found = self.extent_of(name, d)
        number = self.dims[name][d][0]
        return found if number == 1 else self.node("Div", found, self.ints(number))

    def extent_of(self, name: str, d: int) -> str:
        shape = self.node("Shape", name)
        way = self.rng.randrange(3)
        if way == 0:
            return self.node("Slice", shape, self.ints(d), self.ints(d + 1), self.ints(0))
        if way == 1:
            return self.node("Gather", shape, self.ints(d - len(self.dims[name])))
        self.count += 1
        index = self.b.const(f"index{self.count}", np.array(d, np.int64))
        return self.node("Unsqueeze", self.node("Gather", shape, index), self.ints(0))

    def extent(self, dim: Dim) -> str:
        same = [(n, d) for n, dims in self.dims.items() for d, e in enumerate(dims) if e == dim]
        if same and self.rng.random() < 0.5:
            return self.extent_of(*self.rng.choice(same))
        parts = [self.letter(letter) for letter in dim[1]]
        if dim[0] != 1 or not parts:
            parts.insert(self.rng.randrange(len(parts) + 1), self.ints(dim[0]))
        found = parts[0]
        for part in parts[1:]:
            found = self.node("Mul", found, part)
        return found

    def shape(self, dims: Sequence[Dim]) -> str:
        inferred = not self.allowzero and self.rng.random() < 0.3
        left = self.rng.randrange(len(dims)) if inferred else None
        parts = [self.ints(-1) if d == left else self.extent(e) for d, e in enumerate(dims)]
        return self.node("Concat", *parts, axis=0)

    # -- ops ---------------------------------------------------------------------------

    def made(self, name: str, dims: Sequence[Dim]) -> str:
        self.dims[name] = list(dims)
        return name

    def reshape(self, x: str) -> str:
        dims = list(self.dims[x])
        for _ in range(self.rng.randrange(1, 3)):
            splits = [d for d, (n, _) in enumerate(dims) if n % 2 == 0]
            if splits and (len(dims) < 3 or self.rng.random() < 0.5):
                d = self.rng.choice(splits)
                number, letters = dims[d]
                part: list[Dim] = [(number // 2, letters), (2, "")]
                dims[d : d + 1] = part if self.rng.random() < 0.5 else part[::-1]
            elif len(dims) > 1:
                d = self.rng.randrange(len(dims) - 1)
                dims[d : d + 2] = [times(dims[d : d + 2])]
        attributes = {"allowzero": 1} if self.allowzero else {}
        return self.made(self.node("Reshape", x, self.shape(dims), **attributes), dims)

    def transpose(self, x: str) -> str:
        perm = list(range(len(self.dims[x])))
        self.rng.shuffle(perm)
        turned = self.node("Transpose", x, perm=perm)
        return self.made(turned, [self.dims[x][p] for p in perm])

    def expand(self, x: str) -> str:
        dims, d = list(self.dims[x]), self.rng.randrange(len(self.dims[x]) + 1)
        alone = self.node("Unsqueeze", x, self.ints(d))
        dims.insert(d, self.rng.choice(((3, ""), (1, ""))))
        return self.made(self.node("Expand", alone, self.shape_of_numbers(dims)), dims)

    def shape_of_numbers(self, dims: Sequence[Dim]) -> str:
        return self.node("Concat", *(self.extent(e) for e in dims), axis=0)

    def cut(self, x: str) -> str:
        d = self.rng.randrange(len(self.dims[x]))
        end = self.extent(self.dims[x][d])
        return self.made(self.node("Slice", x, self.ints(0), end, self.ints(d)), self.dims[x])

    def product(self, x: str) -> str:
        dims = self.dims[x]
        if len(dims) < 2:
            return self.activation(x)
        perm = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
        turned = self.made(self.node("Transpose", x, perm=perm), [dims[p] for p in perm])
        scores = self.node("Softmax", self.node("MatMul", x, turned), axis=-1)
        self.made(scores, [*dims[:-1], dims[-2]])
        return self.made(self.node("MatMul", scores, x), dims)

    def activation(self, x: str) -> str:
        return self.made(self.node("Relu", x), self.dims[x])

    def twice(self, x: str) -> str:
        d = self.rng.randrange(len(self.dims[x]))
        dims = list(self.dims[x])
        dims[d] = (2 * dims[d][0], dims[d][1])
        return self.made(self.node("Concat", x, self.node("Neg", x), axis=d), dims)

    def model(self) -> onnx.ModelProto:
        x = "x"
        steps = (self.reshape, self.reshape, self.reshape, self.transpose, self.transpose)
        steps = (*steps, self.expand, self.cut, self.product, self.activation, self.twice)
        for _ in range(self.rng.randrange(3, 9)):
            x = self.rng.choice(steps)(x)
        self.b.node("Neg", [x], "y")
        self.b.output("y", shape=[None] * len(self.dims[x]))
        return self.b.model()
