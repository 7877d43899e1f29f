"""`move-casts{boundary=minimize-conversions}` casts the fewest elements, whatever stands where."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import NamedTuple

import pytest
from rewrite_support import apply, parse
from xdsl.dialects.builtin import ModuleOp

from qdialect.behaviors.shapes import shape_of
from qdialect.formats.mlir.write import module_text

PIPELINE = "move-casts{boundary=minimize-conversions},cse,dce"
Q = "!quant.uniform<i8:f32, 0.5:3>"
Shape = tuple[int, ...]


class Node(NamedTuple):
    """An op that moves elements of other nodes, or of the argument (-1)."""

    text: str
    inputs: tuple[int, ...]
    shape: Shape


def nodes(rng: random.Random) -> list[Node]:
    made: list[Node] = []

    def shape(n: int) -> Shape:
        return (4, 6) if n < 0 else made[n].shape

    for _ in range(rng.randint(1, 6)):
        n = rng.randint(-1, len(made) - 1)
        rows, columns = shape(n)
        kind = rng.randrange(5)
        if kind == 0:
            made.append(Node("flip {} axes [0]", (n,), (rows, columns)))
        elif kind == 1:
            stops = [rng.randint(1, rows), rng.randint(1, columns)]
            text = f"slice {{}} starts [0, 0] stops {stops} steps [1, 1]"
            made.append(Node(text, (n,), (stops[0], stops[1])))
        elif kind == 2:
            made.append(Node("tile {} repeats [2, 1]", (n,), (2 * rows, columns)))
        elif kind == 3:
            made.append(Node("transpose {} perm [1, 0]", (n,), (columns, rows)))
        else:
            other = rng.choice([m for m in range(-1, len(made)) if shape(m)[1] == columns])
            text = "concat {}, {} axis 0"
            made.append(Node(text, (n, other), (rows + shape(other)[0], columns)))
    return made


class Graph:
    """Nodes between an argument and results; `codes_first` says which end is codes."""

    def __init__(self, seed: int, codes_first: bool) -> None:
        rng = random.Random(seed)
        self.nodes, self.codes_first = nodes(rng), codes_first
        used = {n for node in self.nodes for n in node.inputs}
        self.results = [n for n in range(len(self.nodes)) if n not in used or rng.random() < 0.15]
        #: per node, whether it is on the side of the argument
        self.states = rng.choice(list(self.possible()))

    def possible(self) -> Iterator[tuple[bool, ...]]:
        for states in product((False, True), repeat=len(self.nodes)):
            if all(
                first <= all(m < 0 or states[m] for m in node.inputs)
                for first, node in zip(states, self.nodes, strict=True)
            ):
                yield states

    def size(self, n: int) -> int:
        return 24 if n < 0 else prod(self.nodes[n].shape)

    def crossing(self, states: tuple[bool, ...]) -> set[int]:
        """The tensors that are cast: made on one side and read on the other."""
        read = {m for n, node in enumerate(self.nodes) if not states[n] for m in node.inputs}
        return {n for n in (*read, *self.results) if n < 0 or states[n]}

    def least(self) -> int:
        return min(sum(map(self.size, self.crossing(states))) for states in self.possible())

    def text(self) -> str:
        kinds = (Q, "f32") if self.codes_first else ("f32", Q)
        cast = "quant.dcast" if self.codes_first else "quant.qcast"

        def tensor(n: int, first: bool) -> str:
            rows, columns = (4, 6) if n < 0 else self.nodes[n].shape
            return f"tensor<{rows}x{columns}x{kinds[not first]}>"

        crossing, lines = self.crossing(self.states), list[str]()
        for n, node in [(-1, None), *enumerate(self.nodes)]:
            first = n < 0 or self.states[n]
            if node is not None:
                names = [
                    f"%{'a' if first or not self._is_first(m) else 'b'}{m + 1}" for m in node.inputs
                ]
                types = ", ".join(tensor(m, first) for m in node.inputs)
                text = node.text.format(*names)
                lines.append(f"%a{n + 1} = nn.{text} : ({types}) -> {tensor(n, first)}")
            if n in crossing:
                a, b = tensor(n, True), tensor(n, False)
                lines.append(f"%b{n + 1} = {cast} %a{n + 1} : {a} to {b}")
        given = [f"%{'b' if self.states[n] else 'a'}{n + 1}" for n in self.results]
        types = ", ".join(tensor(n, False) for n in self.results)
        body = "\n  ".join([*lines, f"return {', '.join(given)} : {types}"])
        return f"func.func @f(%a0: {tensor(-1, True)}) -> ({types}) {{\n  {body}\n}}\n"

    def _is_first(self, n: int) -> bool:
        return n < 0 or self.states[n]


def cast_elements(module: ModuleOp) -> int:
    casts = [op for op in module.walk() if op.name in ("quant.dcast", "quant.qcast")]
    return sum(prod(shape_of(op.results[0])) for op in casts)


@pytest.mark.parametrize("codes_first", [True, False])
def test_no_placement_casts_fewer_elements(codes_first: bool) -> None:
    moved = 0
    for seed in range(60):
        graph = Graph(seed, codes_first)
        module, ctx = parse(graph.text())
        before = cast_elements(module)
        apply(module, ctx, PIPELINE)
        assert cast_elements(module) == graph.least(), f"{seed}: {before}\n{graph.text()}"
        moved += cast_elements(module) < before
        text = module_text(module, ctx)
        apply(module, ctx, PIPELINE)
        assert module_text(module, ctx) == text, seed
    assert moved > 15


def test_it_is_idempotent_with_canonicalize() -> None:
    for seed in range(100, 125):
        module, ctx = parse(Graph(seed, seed % 2 == 0).text())
        apply(module, ctx, f"{PIPELINE},canonicalize")
        text = module_text(module, ctx)
        apply(module, ctx, f"{PIPELINE},canonicalize")
        assert module_text(module, ctx) == text, seed
